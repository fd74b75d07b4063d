import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../admit/plan.ts';
import type { StoredKey } from './key-store.ts';

/** Who is calling. Frozen, and the same object from request to request while the key does not change. */
export interface Consumer {
  /** The key's id: quota and bans belong to it. */
  readonly id: string;
  readonly plan: string;
  /** Limits of its own that replace its plan's. */
  readonly limits: Limits;
  readonly name: string | null;
  readonly owner: string | null;
}

/**
 * The identity of a key's holder, as every request with that key shares it.
 * @param before the consumer that was told last; used again when it would be equal
 */
export function consumerOf(
  { id, plan, limits, name, owner }: StoredKey,
  before: Consumer | null,
): { readonly kind: 'consumer'; readonly key: Consumer } {
  const told: Consumer = { id, plan, limits: Object.freeze({ ...limits }), name, owner };
  const key = before !== null && isDeepStrictEqual(before, told) ? before : Object.freeze(told);
  return Object.freeze({ kind: 'consumer', key });
}
