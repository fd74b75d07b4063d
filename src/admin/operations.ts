import type { BanInForce, LedgerView } from '../admit/ledger.ts';
import { type Allowance, allowanceOf, isShadowId, type Plans, shadowIdOf } from '../admit/plan.ts';
import { type UsageReport, usageReport } from '../admit/usage-report.ts';
import { Failure } from '../failure.ts';
import type { Random } from '../identify/api-key.ts';
import { isTokenHolder } from '../identify/jwt-claims.ts';
import {
  deleted,
  edited,
  type KeyEdits,
  type KeyWishes,
  newKey,
  newSecret,
  revoked,
  rotated,
} from '../identify/key-changes.ts';
import type { Deleted, Durability, KeyPage, KeyStore, StoredKey } from '../identify/key-store.ts';
import { visible } from '../identify/visible.ts';
import { type Created, createOnce } from './create-once.ts';

export interface OperationsOptions {
  readonly keys: KeyStore;
  readonly ledger: LedgerView;
  /** Those in force. */
  readonly plans: () => Plans;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** What became of a key. */
export interface Changed {
  readonly before: StoredKey;
  readonly key: StoredKey;
  readonly durability: Durability;
}

/** A new key with its secret. The store keeps only a digest, so the secret cannot be shown a second time. */
export interface Made {
  readonly key: StoredKey;
  readonly secret: string;
  readonly durability: Durability;
}

/** Looks at the version of a key that is about to be changed, in the same step, and throws where it must not be. */
export type Guard = (before: StoredKey) => void;

/**
 * What operators do to keys and bans: the one place for the command line and the admin API (contract sections 1 and 7).
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
   * @param wishesAt what is wished for, asked at the moment of the creation
   */
  async create(wishesAt: (nowMs: number) => KeyWishes): Promise<Made> {
    const means = this.#means();
    const made = newKey(wishesAt(means.nowMs), { ...means, plans: this.plans.plans });
    return { ...made, durability: await this.#options.keys.create(made.key) };
  }

  /**
   * The same, but asking again under the same name within 24 h gives the same answer and makes no second key.
   */
  createOnce(
    repeatable: { readonly name: string; readonly body: string },
    wishesAt: (nowMs: number) => KeyWishes,
  ): Promise<Created> {
    const { keys, peppers, random } = this.#options;
    const { nowMs } = this.#means();
    return createOnce(repeatable, wishesAt, { keys, peppers, random, plans: this.plans.plans, nowMs });
  }

  async rotate(id: string, overlapMs: number, guard?: Guard): Promise<Changed & { readonly secret: string }> {
    const means = this.#means();
    const { secret, stored } = newSecret(means);
    const changed = await this.#change(id, (before) => rotated(before, stored, overlapMs, means.nowMs), guard);
    return { ...changed, secret };
  }

  update(id: string, edits: KeyEdits, guard?: Guard): Promise<Changed> {
    const { nowMs } = this.#means();
    return this.#change(id, (before) => edited(before, edits, { plans: this.plans.plans, nowMs }), guard);
  }

  revoke(id: string, guard?: Guard): Promise<Changed> {
    const { nowMs } = this.#means();
    return this.#change(id, (before) => revoked(before, nowMs), guard);
  }

  /**
   * Removes a key that can no longer be used for good: its record, what it has used, its strikes and its ban. Its id and the
   * digests of its secrets stay as a tombstone, so that an import does not bring it back. Deleting it twice is no mistake.
   */
  async delete(id: string, guard?: Guard): Promise<Deleted> {
    const { nowMs } = this.#means();
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

  /** A page of keys in the order of their creation, those that are revoked only where `all` asks for them. */
  async list(page: {
    readonly limit: number;
    readonly cursor: string | null;
    readonly all: boolean;
  }): Promise<KeyPage> {
    const found: StoredKey[] = [];
    let { cursor } = page;
    do {
      const next = await this.#options.keys.list({ limit: READ_AT_ONCE, cursor });
      for (const [i, key] of next.keys.entries()) {
        if (!page.all && key.revokedAtMs !== null) continue;
        found.push(key);
        const isLast = i === next.keys.length - 1 && next.cursor === null;
        if (found.length === page.limit) return { keys: found, cursor: isLast ? null : key.id };
      }
      cursor = next.cursor;
    } while (cursor !== null);
    return { keys: found, cursor };
  }

  /** Every key, without the whole list ever being in memory. */
  async *everyKey({ all }: { readonly all: boolean }): AsyncGenerator<StoredKey> {
    let cursor: string | null = null;
    do {
      const page: KeyPage = await this.list({ limit: PAGE, cursor, all });
      yield* page.keys;
      cursor = page.cursor;
    } while (cursor !== null);
  }

  /**
   * What a caller may do, and where it stands.
   * @param plan of a caller with tokens, whose plan stands in them and nowhere else; null for a key, which has its own
   */
  async usage(id: string, plan: string | null = null): Promise<UsageReport> {
    const allowance = isTokenHolder(id) ? this.#allowanceUnder(id, plan) : await this.#allowanceOfKey(id, plan);
    const outcome = await this.#options.ledger.present(id, allowance);
    if (outcome === null) throw new Failure('store_corrupt', `What the store holds for ${id} cannot be read.`);
    const { shadow } = allowance;
    const watched = shadow === undefined ? null : await this.#options.ledger.present(shadowIdOf(id), shadow);
    return usageReport(id, allowance, outcome, watched);
  }

  /** The bans in force, in no order. */
  async bans(): Promise<readonly BanInForce[]> {
    return (await this.#options.ledger.bans()).filter(({ consumerId }) => !isShadowId(consumerId));
  }

  /** Ends a ban now: strikes are cleared, and its rung is taken back. */
  async lift(id: string): Promise<Durability> {
    const durability = await this.#options.ledger.lift(id);
    if (durability !== null) return durability;
    // Not only keys can be banned: callers with a token of another issuer have no record here.
    if (id.startsWith('key_')) await this.show(id);
    if (!isTokenHolder(id) && !isKeyId(id)) unknownKey(id);
    throw new Failure('not_found', `${id.startsWith('key_') ? 'Key ' : ''}${visible(id)} is not banned.`);
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

  #means() {
    const { peppers, random, nowMs } = this.#options;
    return { pepper: peppers[0]!, random, nowMs: nowMs() };
  }
}

const PAGE = 500;
/**
 * Keys that are read at once: of a page of one, revoked ones before it would be a call each; of a page of a thousand, all in
 * one go would keep the requests of callers waiting behind them.
 */
const READ_AT_ONCE = 100;

/**
 * The text may be a secret that was taken for an id, and would stand in a terminal's history, a CI log or a response: only
 * what has the form of an id is repeated.
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

/** Whether a text has the form of a key's id; secrets and other long texts have not. */
export function isKeyId(id: string): boolean {
  return /^key_[0-9A-Za-z]{1,16}$/.test(id);
}
