/** How many callers something is about, counted in one way wherever Tollgate counts them. Their keys share a customer's limits. */
export interface CallerCount {
  readonly customers: number;
  readonly keysOfCustomers: number;
  /** Keys without a customer. */
  readonly ownKeys: number;
}

export const NO_CALLERS: CallerCount = { customers: 0, keysOfCustomers: 0, ownKeys: 0 };

/** @param keys of the customer that is counted as well; null for a key without a customer */
export function withCaller({ customers, keysOfCustomers, ownKeys }: CallerCount, keys: number | null): CallerCount {
  if (keys === null) return { customers, keysOfCustomers, ownKeys: ownKeys + 1 };
  return { customers: customers + 1, keysOfCustomers: keysOfCustomers + keys, ownKeys };
}

/** `2 customers (4 keys), 2 keys of their own`, `3 keys` if there is no customer, `0` if there is no caller. */
export function callersText({ customers, keysOfCustomers, ownKeys }: CallerCount): string {
  if (customers === 0) return ownKeys === 0 ? '0' : some(ownKeys, 'key');
  const ofCustomers = `${some(customers, 'customer')} (${some(keysOfCustomers, 'key')})`;
  if (ownKeys === 0) return ofCustomers;
  return `${ofCustomers}, ${some(ownKeys, 'key')} of ${ownKeys === 1 ? 'its' : 'their'} own`;
}

function some(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
