import type { Durability } from '../../admit/ledger.ts';
import {
  type CustomerPage,
  type CustomerStore,
  type DeletedCustomer,
  readStoredCustomer,
  type StoredCustomer,
  type UpdatedCustomer,
} from '../../identify/customer-store.ts';
import { isSuspendedBy } from './key-writes.ts';
import { keyspace } from './keyspace.ts';
import { merged, type RecordKind } from './record-writes.ts';
import { Records, type RecordsOptions } from './records.ts';

const CUSTOMERS: RecordKind<StoredCustomer> = {
  noun: 'Customer',
  change: 'customer',
  nameOf: keyspace.customer,
  index: keyspace.customers,
  read: readStoredCustomer,
  leadsTo: () => [],
  leadsOfUse: () => [],
  endsAccess: (before, after) => after.deletedAtMs !== undefined || isSuspendedBy(before, after),
  madeAgain,
};

/** Customers in Redis. */
export class RedisCustomers implements CustomerStore {
  readonly #records: Records<StoredCustomer>;

  constructor(options: RecordsOptions) {
    this.#records = new Records(options, CUSTOMERS);
  }

  get(id: string, options?: { readonly evenDeleted: boolean }): Promise<StoredCustomer | null> {
    return this.#records.get(id, options);
  }

  async list(page: { readonly limit: number; readonly cursor: string | null }): Promise<CustomerPage> {
    const { records, cursor } = await this.#records.list(page);
    return { customers: records, cursor };
  }

  create(customer: StoredCustomer): Promise<Durability> {
    return this.#records.create(customer);
  }

  async update(id: string, change: (customer: StoredCustomer) => StoredCustomer): Promise<UpdatedCustomer | null> {
    const changed = await this.#records.change(id, (one) => (one.deletedAtMs === undefined ? change(one) : null));
    return changed === null ? null : { customer: changed.next, durability: await changed.settle() };
  }

  delete(id: string, bury: (customer: StoredCustomer) => StoredCustomer): Promise<DeletedCustomer | null> {
    return this.#records.delete(id, bury);
  }
}

/** As `madeAgain` of key-writes.ts. A deletion is final and always applied. */
function madeAgain(before: StoredCustomer, after: StoredCustomer, there: StoredCustomer): StoredCustomer | null {
  if (after.deletedAtMs !== undefined) return there.deletedAtMs === undefined ? after : there;
  if (there.deletedAtMs !== undefined) return null;
  const { limits: limitsBefore, ...restBefore } = before;
  const { limits: limitsAfter, ...restAfter } = after;
  const rest = merged(restBefore, restAfter, there);
  const limits = merged(limitsBefore, limitsAfter, there.limits);
  const parts = [rest, limits];
  const isSuperseded = parts.every(({ made }) => made === 0) && parts.some(({ left }) => left > 0);
  return isSuperseded ? null : { ...there, ...rest.value, limits: limits.value };
}
