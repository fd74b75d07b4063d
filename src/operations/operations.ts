import { setImmediate as nextTurn } from 'node:timers/promises';
import { accountIdOf, accountsOf, accountsUnder, isShadowId, partsOfAccount } from '../admit/account-id.ts';
import { type Ban, banInForce, nameOfBan } from '../admit/decide.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import { type BanInForce, type Durability, type FoundBan, foreignAccount, type LedgerView } from '../admit/ledger.ts';
import { plainAllowance, UNBOUNDED, unitNamesIn } from '../admit/plan.ts';
import { WINDOWS, windowLimit } from '../admit/windows.ts';
import { Failure, Refused } from '../failure.ts';
import type { KeyFormat, Random } from '../identify/api-key.ts';
import type { CustomerStore, Deleted, KeyStore, RecordPage } from '../identify/record-store.ts';
import { type SecretUseStore, secretName } from '../identify/secret-use-store.ts';
import {
  isCustomerId,
  isKeyId,
  isReadable,
  type Listed,
  orUnreadable,
  type StoredKey,
  type UnreadableRecord,
} from '../model/record.ts';
import type { NearCandidate } from '../model/refusal.ts';
import { AccountUsage, isTokenCaller } from './account-usage.ts';
import { buriedUnlessMoved, type Created, createKey, createOnce, type Made, takenBack } from './create-once.ts';
import { CustomerOperations } from './customers.ts';
import { type KeyOfSecret, keyOfSecret } from './find-key.ts';
import { deleted, type KeyAttributes, newSecret, revoked, rotated, withSecretEnded } from './key-changes.ts';
import { type KeyReportWithUses, wholeKeyReport, workingSecrets } from './key-report.ts';
import { type FoundKey, type FoundKeys, type KeyFilter, lastUsedOn, searchKeys } from './key-search.ts';
import { nearLimits } from './live/near-limits.ts';
import { goneElsewhereText } from './plans/history.ts';
import { type Changed, type Guard, RecordChanges, type RecordChangesOptions } from './record-changes.ts';
import { refusedConsumers, unreadableCounts } from './refused-now.ts';
import { type SpentWindow, spentWindows } from './usage-changes.ts';
import { type AskedSpan, recordsOf, type UsageRecord, usageRecords, withoutKey } from './usage-history.ts';
import { visible } from './values.ts';

export interface OperationsOptions extends RecordChangesOptions {
  readonly keys: KeyStore;
  readonly customers: CustomerStore;
  readonly ledger: LedgerView;
  readonly history: HistoryStore;
  readonly secretUses: SecretUseStore;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Returns the formats of keys that were made elsewhere. */
  readonly keyFormats: () => readonly KeyFormat[];
  readonly random: Random;
}

/**
 * The operations of operators on keys and bans, shared by the command line and the admin API (contract sections 1 and 7).
 * @throws Failure `not_found`, `refused`, `conflict`, `store_unavailable`, `store_corrupt` from every method
 */
export class Operations extends RecordChanges<StoredKey> {
  readonly #options: OperationsOptions;
  /** Those on customers, and the moves of keys between them. */
  readonly customers: CustomerOperations;
  /** Those on what keys, token callers and customers have used. */
  readonly counts: AccountUsage;

  constructor(options: OperationsOptions) {
    super(options, { what: 'key', store: options.keys, unknown: unknownKey });
    this.#options = options;
    this.customers = new CustomerOperations(options);
    const { ledger, history, plans, random, nowMs } = options;
    const sources = { keyOf: (id: string) => this.show(id), customerOf: (id: string) => this.customers.show(id) };
    this.counts = new AccountUsage({ ledger, history, plans, random, nowMs, ...sources });
  }

  /**
   * Makes a key.
   * @param attributesAt returns the attributes; called with the time of the creation, to which `expires` may be relative
   */
  async create(attributesAt: (nowMs: number) => KeyAttributes): Promise<Made> {
    const made = await createKey(attributesAt, this.#creation());
    await this.#insistOnOwner(made.key);
    return made;
  }

  /** Makes a key once: within 24 h, a repetition with the same Idempotency-Key returns the same key and secret. */
  async createOnce(
    repeatable: { readonly name: string; readonly body: string },
    attributesAt: (nowMs: number) => KeyAttributes,
  ): Promise<Created> {
    const made = await createOnce(repeatable, attributesAt, this.#creation());
    if (made.kind === 'made') await this.#insistOnOwner(made.key);
    return made;
  }

  /** @throws Failure `conflict` if the customer or the plan of a new key has gone meanwhile. The key is taken back then */
  async #insistOnOwner(key: StoredKey): Promise<void> {
    const { keys, customers, nowMs } = this.#options;
    const why = await takenBack(key, { keys, customers, nowMs: nowMs() });
    if (why !== null) throw new Refused('conflict', why, { keyId: key.id });
    if (key.customer !== undefined) return;
    const isHere = this.plans.plans.has(key.plan);
    if (isHere && !(await this.#options.goneElsewhere()).has(key.plan)) return;
    if (!(await buriedUnlessMoved(key, { keys, nowMs: nowMs() }))) return;
    const ending = isHere ? goneElsewhereText(key.plan) : `The plan ${key.plan} was removed meanwhile`;
    throw new Refused('conflict', `${ending}, so the key was taken back.`, { keyId: key.id });
  }

  async rotate(
    id: string,
    overlapMs: number,
    guard?: Guard,
  ): Promise<Changed<StoredKey> & { readonly secret: string }> {
    const sources = this.#sources();
    const { secret, stored } = newSecret(sources);
    const changed = await this.change(id, (before) => rotated(before, stored, overlapMs, sources.nowMs), guard);
    return { ...changed, secret };
  }

  revoke(id: string, guard?: Guard): Promise<Changed<StoredKey>> {
    const { nowMs } = this.#sources();
    return this.change(id, (before) => revoked(before, nowMs), guard);
  }

  /** Ends one of several secrets of a key, by its last four characters. */
  endSecret(id: string, last4: string, guard?: Guard): Promise<Changed<StoredKey>> {
    const { nowMs } = this.#sources();
    return this.change(id, (before) => withSecretEnded(before, last4, nowMs), guard);
  }

  /**
   * Permanently removes a revoked or expired key: its record, counters, strikes, ban and usage history. Its id and the digests of its
   * secrets stay as a tombstone, so that an import does not bring it back. Deleting a key twice is no error.
   */
  async delete(id: string, guard?: Guard): Promise<Deleted<StoredKey>> {
    const { nowMs } = this.#sources();
    const done = await this.#options.keys.delete(id, (key) => {
      if (key.deletedAtMs === undefined) guard?.(key);
      return deleted(key, nowMs);
    });
    if (done === null) return unknownKey(id);
    await this.#options.ledger.forget(...accountsOf(done.before).flatMap((one) => accountsUnder(one, this.plans)));
    await this.#options.secretUses.forget(id);
    return done;
  }

  /** Moves a key to a customer, or away from its own; and the ban in force of it. */
  async move(id: string, to: Parameters<CustomerOperations['move']>[1], guard?: Guard) {
    const changed = (await this.customers.move(id, to, guard)) ?? unknownKey(id);
    const ban = await this.#banOf(accountIdOf(id, changed.record.customer ?? null));
    return { ...changed, ban };
  }

  /** The ban in force of an account, as a ledger has it whatever its limits are. */
  async #banOf(accountId: string): Promise<Ban | null> {
    const outcome = await this.#options.ledger.present(accountId, WITHOUT_LIMITS);
    return outcome === null ? null : banInForce(outcome.accounts, outcome.nowMs);
  }

  /** Finds the keys that match a filter, a page at a time. See searchKeys. */
  search(filter: KeyFilter, page: { readonly limit: number; readonly cursor: string | null }): Promise<FoundKeys> {
    const { keys, customers, history, nowMs } = this.#options;
    return searchKeys(filter, page, { keys, customers, history, nowMs: nowMs() });
  }

  /**
   * Yields every key that matches a filter, and every one that may and cannot be read.
   * @param onPage called after each page with the number of keys that were looked at so far
   */
  async *everyMatch(filter: KeyFilter, onPage: (searched: number) => void): AsyncGenerator<Listed<FoundKey>> {
    let cursor: string | null = null;
    let searched = 0;
    do {
      const page: FoundKeys = await this.search(filter, { limit: PAGE, cursor });
      yield* page.keys;
      yield* page.unreadable;
      searched += page.searched;
      onPage(searched);
      cursor = page.cursor;
    } while (cursor !== null);
  }

  /** Yields every key, also those that cannot be read. It reads page by page, so that the whole list is never in memory. */
  async *everyKey({ all }: { readonly all: boolean }): AsyncGenerator<Listed<StoredKey>> {
    let cursor: string | null = null;
    do {
      const page: RecordPage<StoredKey> = await this.#options.keys.list({ limit: PAGE, cursor });
      for (const key of page.records) if (all || !isReadable(key) || key.revokedAtMs === null) yield key;
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
  async lastUsedOn(key: StoredKey): Promise<string | null> {
    try {
      const days = await lastUsedOn(accountsOf(key), this.#options.history);
      return days.toSorted().findLast((day) => typeof day === 'string') ?? null;
    } catch (error) {
      // The store keeps no history. The rest of the key can be shown all the same.
      if (error instanceof Failure && error.code === 'refused') return null;
      throw error;
    }
  }

  /** All about a key, with the day (UTC) on which each of its secrets was used last; null if none is kept. */
  async wholeReport(key: StoredKey): Promise<KeyReportWithUses> {
    const { secretUses, nowMs } = this.#options;
    const atMs = nowMs();
    const [customers, days] = await Promise.all([
      this.customers.of([key]),
      secretUses.of(key.id, workingSecrets(key, atMs).map(secretName)),
    ]);
    const report = wholeKeyReport(key, this.plans, atMs, customers);
    return { ...report, secrets: report.secrets.map((secret, i) => ({ ...secret, lastUsedOn: days[i]! })) };
  }

  /**
   * Yields what every consumer used by hour or by day, also in each unit of the plans in force, some consumers at a time.
   * @param of only this key, which may be revoked, or token caller, and only what was used under this customer; null for all
   * @param onUnreadable called with each record or history that cannot be read: what the key used is left out, the plan of the customer's keys is null
   * @throws Failure `not_found` at the first step, if there is no such key or customer
   */
  async *usageRecords(
    span: AskedSpan,
    of: { readonly key: string | null; readonly customer: string | null },
    onUnreadable: (record: UnreadableRecord) => void,
  ): AsyncGenerator<readonly UsageRecord[]> {
    // A deleted customer still has a bill, as long as its keys are there.
    const { customers } = this.#options;
    if (of.customer !== null && (await orUnreadable(customers.get(of.customer, { evenDeleted: true }))) === null)
      await this.customers.show(of.customer);
    for await (const records of this.#usageRecords(span, of.key, onUnreadable)) {
      yield of.customer === null ? records : records.filter(({ customer }) => customer === of.customer);
    }
  }

  async *#usageRecords(
    span: AskedSpan,
    id: string | null,
    onUnreadable: (record: UnreadableRecord) => void,
  ): AsyncGenerator<readonly UsageRecord[]> {
    const { history } = this.#options;
    const units = unitNamesIn(this.plans);
    if (id === null) yield* usageRecords(this.#everyKeyWithPlan(onUnreadable), history, span, units, onUnreadable);
    else {
      const consumer = isTokenCaller(id) ? withoutKey(id) : await this.#withPlan(await this.show(id), onUnreadable);
      yield await recordsOf([consumer], history, span, units, onUnreadable);
    }
  }

  async *#everyKeyWithPlan(onUnreadable: (record: UnreadableRecord) => void) {
    const told = new Set<string>();
    const once = (record: UnreadableRecord) => {
      if (!told.has(record.id)) onUnreadable(record);
      told.add(record.id);
    };
    for await (const key of this.everyKey({ all: true })) {
      if (isReadable(key)) yield await this.#withPlan(key, once);
      else once(key);
    }
  }

  /** The key with the plan that it has: that of its customer, if it has one; null if that cannot be read. */
  async #withPlan(key: StoredKey, onUnreadable: (record: UnreadableRecord) => void) {
    if (key.customer === undefined) return key;
    const customer = await orUnreadable(this.#options.customers.get(key.customer));
    if (customer === null) return key;
    if (isReadable(customer)) return { ...key, plan: customer.plan };
    onUnreadable(customer);
    return { ...key, plan: null };
  }

  /** Yields the consumers that were refused lately, with a report for each that still would be. See refusedConsumers. */
  refusedNow(page: { readonly after: string | null; readonly scan: boolean }): ReturnType<typeof refusedConsumers> {
    const { history, ledger, keys, customers, nowMs } = this.#options;
    return refusedConsumers({ history, ledger, keys, customers, plans: this.plans, nowMs: nowMs() }, page);
  }

  /** Which consumers that gateways have seen near a limit still are. See nearLimits. */
  nearLimits(
    candidates: readonly NearCandidate[],
    wanted: { readonly share: number; readonly most: number },
  ): ReturnType<typeof nearLimits> {
    const { history, ledger, keys, customers, nowMs } = this.#options;
    return nearLimits({ history, ledger, keys, customers, plans: this.plans, nowMs: nowMs() }, candidates, wanted);
  }

  /**
   * The bans in force, in no order, and the callers whose ban cannot be read; without those that a key has left behind in a former
   * account.
   */
  async bans(): Promise<readonly Listed<BanInForce>[]> {
    const bans = (await this.#options.ledger.bans()).filter(({ consumerId }) => !isShadowId(consumerId));
    const found: FoundBan[] = [];
    for (let from = 0; from < bans.length; from += PAGE) {
      const some = bans.slice(from, from + PAGE);
      const arePresent = await Promise.all(some.map(({ consumerId }) => this.#isPresent(consumerId)));
      found.push(...some.filter((_, i) => arePresent[i]!));
    }
    return found.map(({ consumerId, ban }) =>
      ban === null ? unreadableCounts(callerIdOf(consumerId)) : { consumerId, ban },
    );
  }

  /** Whether an account is not that of a key which has another one now. One that cannot be read may have this one. */
  async #isPresent(accountId: string): Promise<boolean> {
    const { consumerId } = partsOfAccount(accountId);
    if (consumerId === null || !isKeyId(consumerId)) return true;
    const key = await orUnreadable(this.#options.keys.get(consumerId));
    return key === null || !isReadable(key) || accountsOf(key)[0] === accountId;
  }

  /**
   * Ends a ban now, clears the strikes, and takes back the rung.
   * @param id that of a key, a token caller (`jwt_…`, or `cus_…/jwt_…`), or a customer
   * @returns as `spent` the windows that still refuse; null if they cannot be read, as of a token caller
   */
  async lift(id: string): Promise<{ readonly durability: Durability; readonly spent: readonly SpentWindow[] | null }> {
    const key = isKeyId(id) ? await this.#options.keys.get(id) : null;
    const durability = await this.#options.ledger.lift(key === null ? id : accountsOf(key)[0]);
    if (durability !== null) {
      // The ban is lifted, also if plans.yaml lacks the key's plan or the store does not answer a second time.
      const spent = await this.counts.of(id).then(spentWindows, () => null);
      return { durability, spent };
    }
    // The consumer was not banned. A key that does not exist gets its own error; consumers with tokens have no record.
    if (id.startsWith('key_')) await this.show(id);
    if (isCustomerId(id)) await this.customers.show(id);
    else if (!isTokenCaller(id) && !isKeyId(id)) unknownKey(id);
    if (key?.customer !== undefined && (await this.counts.of(key.customer).catch(() => null))?.ban) {
      const message = `The ban of ${id} is that of its customer ${key.customer}, with all its keys. Give the id of the customer to lift it.`;
      throw new Failure('not_found', message);
    }
    await this.#insistOnReadable(id, key === null ? id : accountsOf(key)[0]);
    const what = id.startsWith('key_') ? 'Key ' : isCustomerId(id) ? 'Customer ' : '';
    throw new Failure('not_found', `${what}${visible(id)} is not banned.`);
  }

  /** @throws Failure `store_corrupt` if what was counted for a caller, or its ban, cannot be read */
  async #insistOnReadable(id: string, accountId: string): Promise<void> {
    const { ledger } = this.#options;
    const outcome = await ledger.present(accountId, OF_ALL_WINDOWS);
    if (outcome === null) throw foreignAccount(id, ledger.placeOf(accountId));
    // Of its customer, groups and units. The limits of a token caller, and of a key whose plan is gone, are not known.
    await this.counts.of(id).catch((error: unknown) => {
      if (error instanceof Failure && error.code === 'store_corrupt') throw error;
    });
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

/** An allowance that counts nothing: with it a ledger reports the ban alone. */
const WITHOUT_LIMITS = plainAllowance('');

/** With it a ledger reports no account of which anything cannot be read. */
const OF_ALL_WINDOWS = plainAllowance(
  '',
  WINDOWS.map((window) => windowLimit(window, UNBOUNDED)),
);

/** Keys in one read. */
const PAGE = 100;

/**
 * Throws that there is no such key. The error repeats only text that has the form of an id: other text may be a secret given
 * by mistake, which would end up in a CI log or a response.
 */
export function unknownKey(id: string): never {
  if (!isKeyId(id)) {
    throw new Failure(
      'not_found',
      'There is no key with this id. The id of a key begins with key_; its secret is no id. `tollgate keys list` shows the ids.',
    );
  }
  throw new Failure('not_found', `There is no key ${visible(id)}.`);
}

/** A ban in force as commands and the admin API show it: of a key under its own id. `until` is in Unix seconds. */
export function banReport({ consumerId, ban }: BanInForce) {
  return {
    id: callerIdOf(consumerId),
    number: ban.number,
    window: nameOfBan(ban),
    until: Math.ceil(ban.untilMs / 1000),
  };
}

/** How operators name the caller of an account: a key by its own id; a token caller of a customer, of which nothing else is kept, by both. */
function callerIdOf(accountId: string): string {
  const { consumerId } = partsOfAccount(accountId);
  return consumerId !== null && isKeyId(consumerId) ? consumerId : accountId;
}
