import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { accountIdOf, accountsUnder } from '../admit/account-id.ts';
import type { Durability, LedgerView } from '../admit/ledger.ts';
import { Failure } from '../failure.ts';
import type { Random } from '../identify/api-key.ts';
import type { CustomerStore, KeyStore } from '../identify/record-store.ts';
import { type FilterValues, hasValues, SEARCHED } from '../model/attributes.ts';
import {
  byReadability,
  isCustomerId,
  isReadable,
  type Listed,
  orUnreadable,
  type StoredCustomer,
  type StoredKey,
  type UnreadableRecord,
} from '../model/record.ts';
import { type CustomerAttributes, deletedCustomer, newCustomer, refuseWithKeys } from './customer-changes.ts';
import { moved, refuseMoveOf, revoked } from './key-changes.ts';
import { folded, hasPair, type MetaPair, metaAskedBy } from './key-search.ts';
import { insistOnPlan } from './plans/history.ts';
import { type Guard, RecordChanges, type RecordChangesOptions } from './record-changes.ts';
import { visible } from './values.ts';

interface CustomerOperationsOptions extends RecordChangesOptions {
  readonly customers: CustomerStore;
  readonly keys: KeyStore;
  readonly ledger: LedgerView;
  readonly random: Random;
}

/** Which customers an operator asks for. Each condition that is not null must hold. */
interface CustomerFilter extends FilterValues {
  /** A part of id, name or owner in any case; or `meta.NAME=VALUE`, a pair of metadata, whole and in its case. */
  readonly text: string | null;
  readonly plan: string | null;
  /** The customer ends within this time from now, milliseconds, and has not ended yet. */
  readonly expiringMs: number | null;
}

/** A page of a search. It may have fewer customers than its limit, even none, although another page follows. */
interface FoundCustomers {
  readonly customers: readonly StoredCustomer[];
  /** Those that were looked at and cannot be read, so that they may match. */
  readonly unreadable: readonly UnreadableRecord[];
  readonly cursor: string | null;
  /** How many customers were looked at for this page. */
  readonly searched: number;
}

/** A creation that a request may repeat within 24 h. */
interface Repeatable {
  /** The Idempotency-Key. */
  readonly name: string;
  /** The digest of the body. */
  readonly body: string;
}

type CreatedCustomer =
  | { readonly kind: 'made' | 'repeated'; readonly record: StoredCustomer; readonly durability: Durability }
  /** The Idempotency-Key was used before, with a different body. */
  | { readonly kind: 'reused' }
  /** The customer that it made is deleted. */
  | { readonly kind: 'ended'; readonly id: string };

const REPEATABLE_MS = 86_400_000;
/** Customers and keys in one read. */
const PAGE = 250;
/** Customers that a page of a search looks at. */
const MAX_LOOKED_AT = 20_000;

/**
 * The operations of operators on customers, and the moves of keys between them.
 * @throws Failure `not_found`, `refused`, `conflict`, `store_unavailable`, `store_corrupt` from every method
 */
export class CustomerOperations extends RecordChanges<StoredCustomer> {
  readonly #options: CustomerOperationsOptions;

  constructor(options: CustomerOperationsOptions) {
    super(options, { what: 'customer', store: options.customers, unknown: unknownCustomer });
    this.#options = options;
  }

  /** @param attributesAt called with the time of the creation, to which `expires` may be relative */
  async create(attributesAt: (nowMs: number) => CustomerAttributes) {
    const record = await this.#made(attributesAt);
    return { record, durability: await this.#options.customers.create(record) };
  }

  /** Makes a customer once: within 24 h, a repetition with the same Idempotency-Key returns the same one. */
  async createOnce(
    { name, body }: Repeatable,
    attributesAt: (nowMs: number) => CustomerAttributes,
  ): Promise<CreatedCustomer> {
    const { customers, keys } = this.#options;
    const made = await this.#made(attributesAt);
    const digest = hash('sha256', JSON.stringify(['customer', name]));
    const id = await keys.reserve(digest, made.id, REPEATABLE_MS);
    const before = await customers.get(id, { evenDeleted: true });
    if (before === null) {
      const record = { ...made, id, creation: { body } };
      try {
        return { kind: 'made', record, durability: await customers.create(record) };
      } catch (error) {
        // The same request has made it meanwhile, through this gateway or another one.
        if (!(error instanceof Failure) || error.code !== 'refused') throw error;
      }
    }
    // An update that changes nothing shows whether the customer is durable.
    const present = await customers.update(id, (one) => one);
    if (present === null) return { kind: 'ended', id };
    if (present.record.creation?.body !== body) return { kind: 'reused' };
    return { kind: 'repeated', ...present };
  }

  async #made(attributesAt: (nowMs: number) => CustomerAttributes): Promise<StoredCustomer> {
    const { plans, goneElsewhere, random, nowMs } = this.#options;
    const atMs = nowMs();
    const customer = newCustomer(attributesAt(atMs), { plans: plans().plans, random, nowMs: atMs });
    insistOnPlan(customer.plan, await goneElsewhere());
    return customer;
  }

  /**
   * Removes a customer for good, with its counters and bans. Its id stays as a tombstone. Deleting one twice is no error.
   * @param revokesKeys false: refused while it has keys that are not revoked, or cannot be read. True: they are revoked first. A key
   *   that is made or moved here meanwhile is revoked in both cases. Fault: it stayed behind, not revoked, after its secret was answered
   * @returns as `unreadable` the keys that may be its and cannot be revoked, because they cannot be read. Without the customer none
   *   of its keys is served
   */
  async delete(id: string, { revokesKeys, guard }: { readonly revokesKeys: boolean; readonly guard?: Guard }) {
    const { customers, ledger, plans, nowMs } = this.#options;
    if (guard !== undefined) guard(await this.show(id));
    let keysRevoked = 0;
    if (revokesKeys) keysRevoked = (await this.#revokeKeys(id)).revoked;
    else {
      const { readable, unreadable } = byReadability(await Array.fromAsync(this.#liveKeys(id)));
      refuseWithKeys(id, readable.length, unreadable);
    }
    const done = await customers.delete(id, (customer) => {
      if (customer.deletedAtMs === undefined) guard?.(customer);
      return deletedCustomer(customer, nowMs());
    });
    if (done === null) return unknownCustomer(id);
    // A key that was made or moved here meanwhile is refused already, because it has no customer. One that is made or moved here from
    // now on is taken back, because that looks at the customer after its write.
    const late = await this.#revokeKeys(id);
    keysRevoked += late.revoked;
    await ledger.forget(...accountsUnder(id, plans()));
    return { ...done, keysRevoked, unreadable: late.unreadable };
  }

  async #revokeKeys(id: string) {
    const { keys, nowMs } = this.#options;
    const { readable, unreadable } = byReadability(await Array.fromAsync(this.#liveKeys(id)));
    for (const key of readable) await keys.update(key.id, (one) => (one.customer === id ? revoked(one, nowMs()) : one));
    return { revoked: readable.length, unreadable };
  }

  /** The keys of a customer that are not revoked, and those that cannot be read. */
  async *#liveKeys(customer: string): AsyncGenerator<Listed<StoredKey>> {
    let cursor: string | null = null;
    do {
      const page = await this.#options.keys.list({ limit: PAGE, cursor, customer });
      for (const key of page.records) if (!isReadable(key) || key.revokedAtMs === null) yield key;
      cursor = page.cursor;
    } while (cursor !== null);
  }

  /** The customer of a new key, or of one that is moved. @throws Failure `refused` */
  ofNewKey(id: string): Promise<StoredCustomer> {
    return customerOfNewKey(id, this.#options.customers);
  }

  /** The customers of some keys, by id, without those that are deleted. */
  async of(keys: readonly StoredKey[]): Promise<ReadonlyMap<string, Listed<StoredCustomer>>> {
    const ids = [...new Set(keys.flatMap(({ customer }) => customer ?? []))];
    const found = await Promise.all(ids.map((id) => orUnreadable(this.#options.customers.get(id))));
    return new Map(found.flatMap((customer) => (customer === null ? [] : [[customer.id, customer]])));
  }

  /** Finds the customers that match a filter, a page at a time in the order of their creation. */
  async search(
    filter: CustomerFilter,
    { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
  ): Promise<FoundCustomers> {
    const matches = testOf(filter, this.#options.nowMs());
    const found: StoredCustomer[] = [];
    const unreadable: UnreadableRecord[] = [];
    let searched = 0;
    let after = cursor;
    for (;;) {
      const page = await this.#options.customers.list({ limit: PAGE, cursor: after });
      for (const customer of page.records) {
        searched++;
        if (!isReadable(customer)) unreadable.push(customer);
        else if (matches(customer)) found.push(customer);
        if (found.length + unreadable.length < limit) continue;
        const isLast = customer === page.records.at(-1) && page.cursor === null;
        return { customers: found, unreadable, cursor: isLast ? null : customer.id, searched };
      }
      after = page.cursor;
      if (after === null || searched >= MAX_LOOKED_AT) return { customers: found, unreadable, cursor: after, searched };
      // The embedded store answers within the same turn.
      await nextTurn();
    }
  }

  /** Yields every customer, also those that cannot be read, page by page. */
  async *every(): AsyncGenerator<Listed<StoredCustomer>> {
    let cursor: string | null = null;
    do {
      const page = await this.#options.customers.list({ limit: PAGE, cursor });
      yield* page.records;
      cursor = page.cursor;
      await nextTurn();
    } while (cursor !== null);
  }

  /**
   * Moves a key to a customer, or away from its own. A ban in force moves with it; its counts start anew.
   *
   * Attack: a banned key is moved so that its ban ends, or a request is refused between the two steps. So the ban is carried before
   * the key is changed, and again afterwards.
   * @param customerId null: it leaves its customer
   * @param plan the plan of a key that leaves its customer; null: that of the customer
   */
  async move(
    keyId: string,
    { customerId, plan }: { readonly customerId: string | null; readonly plan: string | null },
    guard?: (before: StoredKey) => void,
  ) {
    const { keys, customers, ledger, plans, goneElsewhere } = this.#options;
    const present = await keys.get(keyId);
    if (present === null) return null;
    guard?.(present);
    refuseMoveOf(present);
    const formerId = present.customer ?? null;
    if (customerId !== null && plan !== null) throw new Failure('refused', PLAN_OF_CUSTOMER);
    // With a plan a key can leave also a customer that cannot be read.
    const left = async () => (plan === null && formerId !== null ? customers.get(formerId) : null);
    const owner = customerId === null ? await left() : await this.ofNewKey(customerId);
    const to = { customer: customerId, plan: plan ?? owner?.plan ?? present.plan };
    const [from, target] = [accountIdOf(keyId, formerId), accountIdOf(keyId, customerId)];
    // What would be refused carries no ban.
    moved(present, to, plans().plans);
    insistOnPlan(to.plan, await goneElsewhere());
    if (from !== target) {
      // A ban from an earlier stay, which may have been lifted since where the key is now.
      await ledger.lift(target);
      await ledger.carryBan(from, target);
    }
    let before: StoredKey = present;
    const updated = await keys.update(keyId, (key) => {
      before = key;
      guard?.(key);
      if ((key.customer ?? null) !== formerId) {
        throw new Failure('conflict', `Key ${keyId} has been moved by another operator meanwhile. Look at it again.`);
      }
      return moved(key, to, plans().plans);
    });
    if (updated === null) return null;
    if (from !== target) await ledger.carryBan(from, target);
    if (customerId !== null && (await orUnreadable(customers.get(customerId))) === null) {
      await this.#moveBack(before, customerId);
    }
    return { before, ...updated };
  }

  /**
   * Undoes a move to a customer that was deleted meanwhile, unless the deletion has revoked the key.
   * @param before the key before the move
   * @throws Failure `conflict`
   */
  async #moveBack(before: StoredKey, customerId: string): Promise<never> {
    const { keys, ledger } = this.#options;
    const former = before.customer ?? null;
    const back = await keys.update(before.id, (key) => {
      if (key.customer !== customerId || key.revokedAtMs !== null) return key;
      return moved(key, { customer: former, plan: before.plan }, null);
    });
    await ledger.carryBan(accountIdOf(before.id, customerId), accountIdOf(before.id, former));
    const end = back?.record.revokedAtMs == null ? 'stays where it was' : 'was revoked with it';
    throw new Failure('conflict', `Customer ${customerId} was deleted meanwhile. Key ${before.id} ${end}.`);
  }
}

/** @throws Failure `refused` */
export async function customerOfNewKey(id: string, customers: Pick<CustomerStore, 'get'>): Promise<StoredCustomer> {
  const customer = isCustomerId(id) ? await customers.get(id) : null;
  if (customer !== null) return customer;
  throw new Failure('refused', 'There is no customer with this id. `tollgate customers list` shows the ids.');
}

export const PLAN_OF_CUSTOMER = 'The plan of a key of a customer is that of the customer: leave `plan` out.';

function testOf(filter: CustomerFilter, nowMs: number): (one: StoredCustomer) => boolean {
  const { text, plan, expiringMs } = filter;
  const meta: MetaPair | null = text === null ? null : metaAskedBy(text);
  const part = text === null || meta !== null ? null : folded(text);
  return (one) => {
    if (meta !== null && !hasPair(one, meta)) return false;
    if (plan !== null && one.plan !== plan) return false;
    if (!hasValues(one, filter)) return false;
    const { expiresAtMs } = one;
    if (expiringMs !== null && (expiresAtMs === null || expiresAtMs <= nowMs || expiresAtMs > nowMs + expiringMs)) {
      return false;
    }
    const words = [one.id, ...SEARCHED.map((name) => one[name])];
    return part === null || words.some((word) => typeof word === 'string' && folded(word).includes(part));
  };
}

/** Throws that there is no such customer. Text without the form of an id is not repeated: it may be a secret given by mistake. */
export function unknownCustomer(id: string): never {
  const message = isCustomerId(id)
    ? `There is no customer ${visible(id)}.`
    : 'There is no customer with this id. The id of a customer begins with cus_. `tollgate customers list` shows the ids.';
  throw new Failure('not_found', message);
}
