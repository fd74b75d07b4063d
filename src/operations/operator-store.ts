import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Durability } from '../admit/ledger.ts';
import { Failure } from '../failure.ts';
import type { KeyFormat, Random } from '../identify/api-key.ts';
import type { RecordPage, RecordStore } from '../identify/record-store.ts';
import type { RecordKind } from '../model/attributes.ts';
import type { Plans } from '../model/plan.ts';
import {
  isCustomerId,
  isKeyId,
  type Listed,
  orUnreadable,
  type StoredCustomer,
  type StoredKey,
  type StoredRecord,
} from '../model/record.ts';
import { visible } from './operation-values.ts';
import type { Stores } from './stores.ts';

/** An open store, and what operators' work on it needs besides. */
export interface OperatorStore extends Pick<Stores, 'keys' | 'customers' | 'ledger' | 'history' | 'secretUses'> {
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Returns the formats of keys that were made elsewhere. */
  readonly keyFormats: () => readonly KeyFormat[];
  /** Returns the plans in force. */
  readonly plans: () => Plans;
  /** The plans in force that later plans of another gateway lack. Never rejects with Failure. */
  readonly goneElsewhere: () => Promise<ReadonlySet<string>>;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** The store with the plans in force and the time as they are now. */
export function atPresent(store: OperatorStore) {
  return { ...store, plans: store.plans(), nowMs: store.nowMs() };
}

/** What sets the records of one kind apart. */
export interface Kind<T extends StoredRecord> {
  readonly what: RecordKind;
  readonly storeOf: (store: Pick<OperatorStore, 'keys' | 'customers'>) => RecordStore<T>;
  /** Throws that there is no such record. */
  readonly unknown: (id: string) => never;
}

export const KEYS: Kind<StoredKey> = { what: 'key', storeOf: ({ keys }) => keys, unknown: unknownKey };
export const CUSTOMERS: Kind<StoredCustomer> = {
  what: 'customer',
  storeOf: ({ customers }) => customers,
  unknown: unknownCustomer,
};

/** A record before and after a change. */
export interface ChangedRecord<T> {
  readonly before: T;
  readonly record: T;
  readonly durability: Durability;
}

/**
 * Checks the key, or the customer, inside the store's atomic update, just before the change, and throws if it must not be changed. The admin
 * API uses it for If-Match.
 */
export type Guard = (before: StoredRecord) => void;

/** @throws Failure `not_found` */
export async function recordOf<T extends StoredRecord>(
  { storeOf, unknown }: Kind<T>,
  store: Pick<OperatorStore, 'keys' | 'customers'>,
  id: string,
): Promise<T> {
  return (await storeOf(store).get(id)) ?? unknown(id);
}

/** @throws Failure `not_found`, and as `guard` and `change` do: nothing is changed then */
export async function changeRecord<T extends StoredRecord>(
  { storeOf, unknown }: Kind<T>,
  store: OperatorStore,
  id: string,
  change: (record: T) => T,
  guard?: Guard,
): Promise<ChangedRecord<T>> {
  let before: T | null = null;
  const updated = await storeOf(store).update(id, (present) => {
    before = present;
    guard?.(present);
    return change(present);
  });
  return updated === null || before === null ? unknown(id) : { before, ...updated };
}

/** Records in one read. */
const PAGE = 250;

/**
 * Yields every record of a store, also those that cannot be read. It reads page by page, so that the whole list is never in memory.
 * @param after the id of a record: only those after it
 */
export async function* everyRecord<T>(
  store: Pick<RecordStore<T>, 'list'>,
  after: string | null = null,
): AsyncGenerator<Listed<T>> {
  let cursor = after;
  do {
    const page: RecordPage<T> = await store.list({ limit: PAGE, cursor });
    yield* page.records;
    cursor = page.cursor;
    // The embedded store answers within the same turn.
    await nextTurn();
  } while (cursor !== null);
}

/** The customers of some keys, by id, without those that are deleted. */
export async function customersOf(
  keys: readonly Pick<StoredKey, 'customer'>[],
  { customers }: Pick<OperatorStore, 'customers'>,
): Promise<ReadonlyMap<string, Listed<StoredCustomer>>> {
  const ids = [...new Set(keys.flatMap(({ customer }) => customer ?? []))];
  const found = await Promise.all(ids.map((id) => orUnreadable(customers.get(id))));
  return new Map(found.flatMap((customer) => (customer === null ? [] : [[customer.id, customer]])));
}

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

/** The same of a customer. */
export function unknownCustomer(id: string): never {
  const message = isCustomerId(id)
    ? `There is no customer ${visible(id)}.`
    : 'There is no customer with this id. The id of a customer begins with cus_. `tollgate customers list` shows the ids.';
  throw new Failure('not_found', message);
}
