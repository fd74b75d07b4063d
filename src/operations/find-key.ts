import { digestOfHash, fingerprintOf, foreignFingerprintOf, type KeyFormat } from '../identify/api-key.ts';
import type { KeyStore } from '../identify/record-store.ts';
import type { StoredKey } from '../model/record.ts';

/** The key that a secret belongs to. */
export interface KeyOfSecret {
  readonly key: StoredKey;
  /** False if the secret was rotated away or has expired. The key itself may be revoked or expired all the same. */
  readonly isCurrent: boolean;
}

/**
 * Finds the key of a secret under each pepper, also by a secret that was rotated away, as long as the record has its digest.
 * A text without the form of a secret is refused without a look-up, as from a caller.
 * @returns null if no key has, or had, the secret
 * @throws Failure `store_unavailable`, `store_corrupt`
 */
export async function keyOfSecret(
  secret: string,
  sources: {
    readonly keys: Pick<KeyStore, 'ownerOf'>;
    /** Newest first; at least one. */
    readonly peppers: readonly string[];
    readonly formats: readonly KeyFormat[];
    /** Unix milliseconds. */
    readonly nowMs: number;
  },
): Promise<KeyOfSecret | null> {
  const { keys, peppers, formats, nowMs } = sources;
  const fingerprint = fingerprintOf(secret) ?? foreignFingerprintOf(secret, formats);
  if (fingerprint === null) return null;
  const sha256 = Buffer.from(fingerprint, 'base64url');
  const digests = peppers.map((pepper) => digestOfHash(sha256, pepper));
  const underEach = await Promise.all(digests.map((digest) => keys.ownerOf(digest, { evenFull: true })));
  // A gateway may have hashed the secret again between these look-ups, so that none of them found it.
  const found = underEach.find((key) => key !== null) ?? (await keys.ownerOf(digests[0]!, { evenFull: true }));
  if (found === null || found.deletedAtMs !== undefined) return null;
  const own = found.secrets.find(({ digest }) => digests.includes(digest));
  return { key: found, isCurrent: own !== undefined && (own.expiresAtMs === null || own.expiresAtMs > nowMs) };
}
