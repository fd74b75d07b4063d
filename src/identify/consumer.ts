import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../admit/plan.ts';
import type { StoredKey } from './key-store.ts';

/** The consumer that a secret identifies, or why it identifies none. */
export type Identity =
  | { readonly kind: 'consumer'; readonly key: Consumer }
  /** Unknown, revoked and malformed secrets get the same answer, so that a stranger cannot learn which keys have existed. */
  | {
      readonly kind: 'refused';
      readonly code: 'invalid_api_key' | 'expired_api_key';
      /** For operators alone; left out if the code says it all. */
      readonly cause?: string;
    }
  /** The store does not answer and the secret is not in memory (contract section 6), or the pepper may be wrong: 503, not 401. */
  | { readonly kind: 'unavailable' };

/** The identified caller. Frozen, and the same object from request to request while its key does not change. */
export interface Consumer {
  /** The id to which quota and bans belong: that of the key, of a token's holder, or of a public route's client network. */
  readonly id: string;
  readonly plan: string;
  /** The key's own limits, which replace those of its plan. */
  readonly limits: Limits;
  readonly name: string | null;
  readonly owner: string | null;
}

/**
 * The identity that all requests with a key share.
 * @param before the consumer of the previous look-up; reused if nothing has changed
 */
export function consumerOf(
  { id, plan, limits, name, owner }: StoredKey,
  before: Consumer | null,
): { readonly kind: 'consumer'; readonly key: Consumer } {
  const current: Consumer = { id, plan, limits: Object.freeze({ ...limits }), name, owner };
  const key = before !== null && isDeepStrictEqual(before, current) ? before : Object.freeze(current);
  return Object.freeze({ kind: 'consumer', key });
}
