import type { StoredSecret } from '../model/record.ts';

/**
 * The day on which each secret of a key was used last. It is kept beside the record of the key, which a use does not change.
 * Implemented by stores/embedded and stores/redis; test/contracts/secret-use-store.ts tests both.
 */
export interface SecretUseStore {
  /** Notes the day of each use. Of a key only secrets that it still has are kept in the long run. @throws Failure `store_unavailable` */
  note(uses: readonly SecretUse[]): Promise<void>;
  /**
   * The day (`2026-11-21`, UTC) on which each of these secrets of a key was used last; null if the store keeps no day.
   * @param secrets their names, see `secretName`
   * @throws Failure `store_unavailable`
   */
  of(keyId: string, secrets: readonly string[]): Promise<readonly (string | null)[]>;
  /** Removes what is kept of a key. @throws Failure `store_unavailable` */
  forget(keyId: string): Promise<void>;
}

export interface SecretUse {
  readonly keyId: string;
  readonly secret: string;
  /** `2026-11-21`, UTC. */
  readonly day: string;
  /** The names of all secrets that the key has. */
  readonly present: readonly string[];
}

/** How long a use is kept after the last one of its key, in days. */
export const USES_KEPT_DAYS = 92;
/** A key may have eight secrets that work. Beyond twice as many names, those that it no longer has are removed. */
export const MAX_USES_OF_KEY = 16;

/** The name of a secret among those of its key. It has nothing of the secret but its last characters, and no change of the pepper changes it. */
export function secretName({ createdAtMs, last4 }: Pick<StoredSecret, 'createdAtMs' | 'last4'>): string {
  // One flat text: a template would keep a chain of five objects, for each secret in memory.
  return [createdAtMs, last4].join(' ');
}
