import { isLimitName, type LimitName, windowOf } from '../model/values.ts';

/*
 * Which limit's use orders decisions of the same millisecond: one that all of them count in. For keys of a customer that is a
 * window which all keys of the customer share, for any other consumer its first window.
 */

/** Whether a name is that of a window which all keys of a customer share: `customer-minute`. */
export function isSharedName(name: string): name is LimitName {
  return isLimitName(name) && name === `customer-${windowOf(name)}`;
}

/** The index of the limit that orders the decisions of a customer's keys. */
export function orderingIndex(limits: readonly { readonly name?: LimitName }[]): number {
  return Math.max(
    limits.findIndex(({ name }) => name !== undefined && isSharedName(name)),
    0,
  );
}
