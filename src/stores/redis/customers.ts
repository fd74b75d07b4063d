import type { CustomerStore } from '../../identify/record-store.ts';
import { readStoredCustomer, type StoredCustomer } from '../../model/record.ts';
import type { ChangingConnection } from './durable-writes.ts';
import { isSuspendedBy } from './key-writes.ts';
import { keyspace } from './keyspace.ts';
import { merged, type RecordKind } from './record-writes.ts';
import { Records } from './records.ts';

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
export function redisCustomers(options: ChangingConnection): CustomerStore {
  return new Records(options, CUSTOMERS);
}

/** As `madeAgain` of key-writes.ts. It always applies a deletion, which is final. */
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
