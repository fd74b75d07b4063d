import { setImmediate as nextTurn } from 'node:timers/promises';
import { isShadowId, shadowIdOf } from '../admit/account-id.ts';
import type { HistoryReport } from '../admit/history-report.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import type { BanInForce, Durability, LedgerView } from '../admit/ledger.ts';
import { type Allowance, allowanceOf, type Plans } from '../admit/plan.ts';
import { type UsageReport, usageReport } from '../admit/usage-report.ts';
import type { WindowName } from '../admit/windows.ts';
import { Failure } from '../failure.ts';
import { isKeyId, type KeyFormat, type Random } from '../identify/api-key.ts';
import type { Deleted, KeyPage, KeyStore, StoredKey } from '../identify/key-store.ts';
import { isTokenHolder } from '../identify/token-holder.ts';
import { type Created, createKey, createOnce, type Made } from './create-once.ts';
import { type KeyOfSecret, keyOfSecret } from './find-key.ts';
import { deleted, edited, type KeyAttributes, type KeyEdits, newSecret, revoked, rotated } from './key-changes.ts';
import { type FoundKey, type FoundKeys, type KeyFilter, lastUsedOn, searchKeys } from './key-search.ts';
import { type KeyUsageReport, keyUsageReport } from './key-usage-report.ts';
import { type NearReport, nearLimits } from './live/near-limits.ts';
import type { NearCandidate } from './live/shapes.ts';
import { refusedConsumers } from './refused-now.ts';
import {
  countedWindows,
  type NewTopUp,
  type ResetReport,
  type SpentWindow,
  spentWindows,
  type TopUpReport,
  type UsageChange,
} from './usage-changes.ts';
import { type AskedSpan, recordsOf, reportOf, type UsageRecord, usageRecords, withoutKey } from './usage-history.ts';
import { visible } from './values.ts';

export interface OperationsOptions {
  readonly keys: KeyStore;
  readonly ledger: LedgerView;
  readonly history: HistoryStore;
  /** Returns the plans in force. */
  readonly plans: () => Plans;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Returns the formats of keys that were made elsewhere. */
  readonly keyFormats: () => readonly KeyFormat[];
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** A key before and after a change. */
export interface Changed {
  readonly before: StoredKey;
  readonly key: StoredKey;
  readonly durability: Durability;
}

/**
 * Checks the key inside the store's atomic update, just before the change, and throws if it must not be changed. The admin
 * API uses it for If-Match.
 */
export type Guard = (before: StoredKey) => void;

/**
 * The operations of operators on keys and bans, shared by the command line and the admin API (contract sections 1 and 7).
 * @throws Failure `not_found`, `refused`, `conflict`, `store_unavailable`, `store_corrupt` from every method
 */
export class Operations {
  readonly #options: OperationsOptions;

  constructor(options: OperationsOptions) {
    this.#options = options;
  }

  get plans(): Plans {
    return this.#options.plans();
  }

  /**
   * Makes a key.
   * @param attributesAt returns the attributes; called with the time of the creation, to which `expires` may be relative
   */
  create(attributesAt: (nowMs: number) => KeyAttributes): Promise<Made> {
    return createKey(attributesAt, this.#creation());
  }

  /** Makes a key once: within 24 h, a repetition with the same Idempotency-Key returns the same key and secret. */
  createOnce(
    repeatable: { readonly name: string; readonly body: string },
    attributesAt: (nowMs: number) => KeyAttributes,
  ): Promise<Created> {
    return createOnce(repeatable, attributesAt, this.#creation());
  }

  async rotate(id: string, overlapMs: number, guard?: Guard): Promise<Changed & { readonly secret: string }> {
    const sources = this.#sources();
    const { secret, stored } = newSecret(sources);
    const changed = await this.#change(id, (before) => rotated(before, stored, overlapMs, sources.nowMs), guard);
    return { ...changed, secret };
  }

  update(id: string, edits: KeyEdits, guard?: Guard): Promise<Changed> {
    const { nowMs } = this.#sources();
    return this.#change(id, (before) => edited(before, edits, { plans: this.plans.plans, nowMs }), guard);
  }

  revoke(id: string, guard?: Guard): Promise<Changed> {
    const { nowMs } = this.#sources();
    return this.#change(id, (before) => revoked(before, nowMs), guard);
  }

  /**
   * Permanently removes a revoked or expired key: its record, counters, strikes, ban and usage history. Its id and the digests of its
   * secrets stay as a tombstone, so that an import does not bring it back. Deleting a key twice is no error.
   */
  async delete(id: string, guard?: Guard): Promise<Deleted> {
    const { nowMs } = this.#sources();
    const done = await this.#options.keys.delete(id, (key) => {
      if (key.deletedAtMs === undefined) guard?.(key);
      return deleted(key, nowMs);
    });
    if (done === null) return unknownKey(id);
    for (const consumerId of [id, shadowIdOf(id)]) await this.#options.ledger.forget(consumerId);
    return done;
  }

  async show(id: string): Promise<StoredKey> {
    return (await this.#options.keys.get(id)) ?? unknownKey(id);
  }

  /** Finds the keys that match a filter, a page at a time. See searchKeys. */
  search(filter: KeyFilter, page: { readonly limit: number; readonly cursor: string | null }): Promise<FoundKeys> {
    const { keys, history, nowMs } = this.#options;
    return searchKeys(filter, page, { keys, history, nowMs: nowMs() });
  }

  /**
   * Yields every key that matches a filter.
   * @param onPage called after each page with the number of keys that were looked at so far
   */
  async *everyMatch(filter: KeyFilter, onPage: (searched: number) => void): AsyncGenerator<FoundKey> {
    let cursor: string | null = null;
    let searched = 0;
    do {
      const page: FoundKeys = await this.search(filter, { limit: PAGE, cursor });
      yield* page.keys;
      searched += page.searched;
      onPage(searched);
      cursor = page.cursor;
    } while (cursor !== null);
  }

  /** Yields every key. It reads page by page, so that the whole list is never in memory. */
  async *everyKey({ all }: { readonly all: boolean }): AsyncGenerator<StoredKey> {
    let cursor: string | null = null;
    do {
      const page: KeyPage = await this.#options.keys.list({ limit: PAGE, cursor });
      for (const key of page.keys) if (all || key.revokedAtMs === null) yield key;
      cursor = page.cursor;
      // The embedded store answers within the same turn.
      await nextTurn();
    } while (cursor !== null);
  }

  /** Finds the key that a secret belongs to, also by a secret that was rotated away. See keyOfSecret. */
  async find(secret: string): Promise<KeyOfSecret> {
    const { keys, peppers, keyFormats, nowMs } = this.#options;
    const found = await keyOfSecret(secret, { keys, peppers, formats: keyFormats(), nowMs: nowMs() });
    if (found !== null) return found;
    throw new Failure('not_found', 'No key has this secret.');
  }

  /** The day on which a key was used last: `2026-11-21`, UTC; null if nothing is kept. */
  async lastUsedOn(id: string): Promise<string | null> {
    try {
      const [day] = await lastUsedOn([id], this.#options.history);
      return day!;
    } catch (error) {
      // The store keeps no history. The rest of the key can be shown all the same.
      if (error instanceof Failure && error.code === 'refused') return null;
      throw error;
    }
  }

  /**
   * The limits of a consumer and what it has used of them.
   * @param plan the plan of a consumer with tokens, because only the tokens name it; null for a key, which has its own
   */
  async usage(id: string, plan: string | null = null): Promise<UsageReport> {
    return (await this.#usageOf(id, plan)).report;
  }

  /** The same with what only operators see. */
  async keyUsage(id: string, plan: string | null = null): Promise<KeyUsageReport> {
    const { report, allowance, outcome } = await this.#usageOf(id, plan);
    return keyUsageReport(report, this.plans.plans.get(allowance.plan), allowance, outcome);
  }

  async #usageOf(id: string, plan: string | null) {
    const allowance = isTokenHolder(id) ? this.#allowanceUnder(id, plan) : await this.#allowanceOfKey(id, plan);
    const outcome = await this.#options.ledger.present(id, allowance);
    if (outcome === null) throw new Failure('store_corrupt', `What the store holds for ${id} cannot be read.`);
    const { shadow } = allowance;
    const watched = shadow === undefined ? null : await this.#options.ledger.present(shadowIdOf(id), shadow);
    return { report: usageReport(id, allowance, outcome, watched), allowance, outcome };
  }

  /** What a key, or a token caller, has used by hour or by day. A key may be revoked. */
  async history(id: string, span: AskedSpan): Promise<HistoryReport> {
    if (!isTokenHolder(id)) await this.show(id);
    return reportOf(id, this.#options.history, span);
  }

  /**
   * Yields what every consumer used by hour or by day, some consumers at a time.
   * @param id only this key, which may be revoked, or token caller; null for all
   * @throws Failure `not_found` at the first step, if there is no such key
   */
  async *usageRecords(span: AskedSpan, id: string | null = null): AsyncGenerator<readonly UsageRecord[]> {
    const { history } = this.#options;
    if (id === null) yield* usageRecords(this.everyKey({ all: true }), history, span);
    else yield await recordsOf([isTokenHolder(id) ? withoutKey(id) : await this.show(id)], history, span);
  }

  /** Yields the consumers that were refused lately, with a report for each that still would be. See refusedConsumers. */
  refusedNow(page: { readonly after: string | null; readonly scan: boolean }): ReturnType<typeof refusedConsumers> {
    const { history, ledger, keys, nowMs } = this.#options;
    return refusedConsumers({ history, ledger, keys, plans: this.plans, nowMs: nowMs() }, page);
  }

  /** Which consumers that gateways have seen near a limit still are. See nearLimits. */
  nearLimits(candidates: readonly NearCandidate[], most: number): Promise<readonly NearReport[]> {
    const { history, ledger, keys, nowMs } = this.#options;
    return nearLimits({ history, ledger, keys, plans: this.plans, nowMs: nowMs() }, candidates, most);
  }

  /** The bans in force, in no order. */
  async bans(): Promise<readonly BanInForce[]> {
    return (await this.#options.ledger.bans()).filter(({ consumerId }) => !isShadowId(consumerId));
  }

  /**
   * Ends a ban now, clears the strikes, and takes back the rung.
   * @returns as `spent` the windows that still refuse; null if they cannot be read, as of a token caller
   */
  async lift(id: string): Promise<{ readonly durability: Durability; readonly spent: readonly SpentWindow[] | null }> {
    const durability = await this.#options.ledger.lift(id);
    if (durability !== null) {
      // The ban is lifted, also if plans.yaml lacks the key's plan or the store does not answer a second time.
      const spent = await this.usage(id).then(spentWindows, () => null);
      return { durability, spent };
    }
    // The consumer was not banned. A key that does not exist gets its own error; consumers with tokens have no record.
    if (id.startsWith('key_')) await this.show(id);
    if (!isTokenHolder(id) && !isKeyId(id)) unknownKey(id);
    throw new Failure('not_found', `${id.startsWith('key_') ? 'Key ' : ''}${visible(id)} is not banned.`);
  }

  /**
   * Adds to the limit of one window of a key until that window ends.
   * @param once the id under which the change is made once; null for a new one
   */
  async topUp(id: string, topUp: NewTopUp, once: string | null): Promise<UsageChange<TopUpReport>> {
    const { ledger } = this.#options;
    const allowance = await this.#allowanceToChange(id);
    const [of] = countedWindows(id, allowance, [topUp.window]);
    const made = await ledger.topUp(id, of, topUp.amount, once ?? this.#newId());
    if (made.kind === 'reused') return made;
    const { window } = of;
    if (made.kind === 'repeated') {
      const added = (await ledger.present(id, allowance))?.state.topUps?.[window];
      const report = { id, ...topUp, limit: of.limit + (added?.amount ?? 0), until: secondsOf(added?.untilMs) };
      return { ...made, report, states: UNCHANGED };
    }
    const { amount, untilMs } = made.value;
    const limit = of.limit + amount;
    const states = {
      before: { window, limit: limit - topUp.amount },
      after: { window, limit, until: new Date(untilMs).toISOString() },
    };
    return { ...made, report: { id, ...topUp, limit, until: secondsOf(untilMs) }, states };
  }

  /**
   * Sets what a key has used to nothing, and clears its strikes. A ban stays.
   * @param named the windows; null for all that its plan counts
   * @param once the id under which the change is made once; null for a new one
   */
  async resetUsage(
    id: string,
    named: readonly WindowName[] | null,
    once: string | null,
  ): Promise<UsageChange<ResetReport>> {
    const { ledger } = this.#options;
    const allowance = await this.#allowanceToChange(id);
    const windows = countedWindows(id, allowance, named).map(({ window }) => window);
    const made = await ledger.resetUsage(id, windows, once ?? this.#newId());
    if (made.kind === 'reused') return made;
    const { ban } = await this.usage(id);
    const none = Object.fromEntries(windows.map((window) => [window, 0]));
    const states = made.kind === 'made' ? { before: made.value, after: { used: none, strikes: 0 } } : UNCHANGED;
    return { ...made, report: { id, windows, ban }, states };
  }

  async #allowanceToChange(id: string): Promise<Allowance> {
    const { revokedAtMs } = await this.show(id);
    if (revokedAtMs !== null) throw new Failure('conflict', `Key ${id} is revoked; nothing of it is counted any more.`);
    return this.#allowanceOfKey(id, null);
  }

  #newId(): string {
    return Buffer.from(this.#options.random(16)).toString('hex');
  }

  #allowanceUnder(id: string, name: string | null): Allowance {
    if (name === null) {
      throw new Failure(
        'refused',
        `The plan of ${id} stands in its tokens and nowhere else. Say which it is: \`tollgate usage ${id} --plan PLAN\`, or GET /admin/keys/${id}/usage?plan=PLAN.`,
      );
    }
    const { plans } = this.plans;
    const plan = plans.get(name);
    const allowance = plan === undefined ? null : allowanceOf(plan, {});
    if (allowance !== null && !('missing' in allowance)) return allowance;
    throw new Failure(
      'refused',
      `There is no plan '${visible(name)}' that a token can have. The plans are: ${[...plans.keys()].join(', ')}.`,
    );
  }

  async #allowanceOfKey(id: string, name: string | null): Promise<Allowance> {
    const key = await this.show(id);
    if (name !== null && name !== key.plan) throw new Failure('refused', `Key ${id} is on the plan ${key.plan}.`);
    const plan = this.plans.plans.get(key.plan);
    if (plan === undefined) throw new Failure('conflict', `The plan ${key.plan} of key ${id} is not in plans.yaml.`);
    const allowance = allowanceOf(plan, key.limits);
    if (!('missing' in allowance)) return allowance;
    throw new Failure('conflict', `Key ${id} has no limit for ${allowance.missing.join(', ')}.`);
  }

  async #change(id: string, change: (key: StoredKey) => StoredKey, guard?: Guard): Promise<Changed> {
    let before: StoredKey | null = null;
    const updated = await this.#options.keys.update(id, (present) => {
      before = present;
      guard?.(present);
      return change(present);
    });
    return updated === null || before === null ? unknownKey(id) : { before, ...updated };
  }

  #creation() {
    const { keys, peppers, random, nowMs } = this.#options;
    return { keys, peppers, random, plans: this.plans.plans, nowMs: nowMs() };
  }

  #sources() {
    const { peppers, random, nowMs } = this.#options;
    return { pepper: peppers[0]!, random, nowMs: nowMs() };
  }
}

const UNCHANGED = { before: null, after: null };

function secondsOf(ms: number): number;
function secondsOf(ms: number | undefined): number | null;
function secondsOf(ms: number | undefined): number | null {
  return ms === undefined ? null : Math.ceil(ms / 1000);
}

/** Keys in one read. */
const PAGE = 100;

/**
 * Throws that there is no such key. The error repeats only text that has the form of an id: other text may be a secret given
 * by mistake, which would end up in a CI log or a response.
 */
function unknownKey(id: string): never {
  if (!isKeyId(id)) {
    throw new Failure(
      'not_found',
      'There is no key with this id. The id of a key begins with key_; its secret is no id. `tollgate keys list` shows the ids.',
    );
  }
  throw new Failure('not_found', `There is no key ${visible(id)}.`);
}

/** A ban in force as commands and the admin API show it. `until` is in Unix seconds. */
export function banReport({ consumerId, ban }: BanInForce) {
  return { id: consumerId, number: ban.number, window: ban.window, until: Math.ceil(ban.untilMs / 1000) };
}
