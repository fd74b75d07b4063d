/*
 * The ids of accounts. An account is what a store counts for one consumer. A consumer of a customer has its own account
 * beside that of the customer, and both are in one slot of a Redis Cluster, so that one decision can charge both.
 */

/** How the ids of customers begin. */
export const CUSTOMER = 'cus_';
const SEPARATOR = '/';

/**
 * The id of a consumer's account: its own id, or `CUSTOMER/ID` for a consumer of a customer. It changes when the consumer
 * is moved to another customer, so its counts start anew.
 */
export function accountIdOf(consumerId: string, customerId: string | null): string {
  return customerId === null ? consumerId : `${customerId}${SEPARATOR}${consumerId}`;
}

/** The consumer and the customer of an account; `customerId` is null for a consumer without one. */
export function partsOfAccount(accountId: string): { readonly consumerId: string; readonly customerId: string | null } {
  // Only ids of customers are tested for: the id of a public route's client network may contain a slash.
  const at = accountId.startsWith(CUSTOMER) ? accountId.indexOf(SEPARATOR) : -1;
  if (at < 0) return { consumerId: accountId, customerId: null };
  return { consumerId: accountId.slice(at + 1), customerId: accountId.slice(0, at) };
}

/** Every account of a key: the present one, then those from before it was moved. */
export function accountsOf(key: {
  readonly id: string;
  readonly customer?: string;
  readonly formerAccounts?: readonly string[];
}): readonly [string, ...string[]] {
  return [accountIdOf(key.id, key.customer ?? null), ...(key.formerAccounts ?? [])];
}
