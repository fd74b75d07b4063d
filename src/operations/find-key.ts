import { Failure } from '../failure.ts';
import { digestOfHash, fingerprintOf, foreignFingerprintOf } from '../identify/api-key.ts';
import type { KeyStore } from '../identify/record-store.ts';
import type { StoredKey } from '../model/record.ts';
import type { OperatorStore } from './operator-store.ts';

/** The key that a secret belongs to. */
interface KeyOfSecret {
  readonly key: StoredKey;
  /** False if the secret was rotated away or has expired. The key itself may be revoked or expired all the same. */
  readonly isCurrent: boolean;
}

/**
 * Finds the key of a secret under each pepper, also by a secret that was rotated away, as long as the record has its digest.
 * A text without the form of a secret is refused without a look-up, as from a caller.
 * @throws Failure `not_found` if no key has, or had, the secret; `store_unavailable`, `store_corrupt`
 */
export async function keyOfSecret(
  secret: string,
  {
    keys,
    peppers,
    keyFormats,
    nowMs,
  }: Pick<OperatorStore, 'peppers' | 'keyFormats' | 'nowMs'> & { readonly keys: Pick<KeyStore, 'ownerOf'> },
): Promise<KeyOfSecret> {
  const fingerprint = fingerprintOf(secret) ?? foreignFingerprintOf(secret, keyFormats());
  if (fingerprint === null) return noKey();
  const sha256 = Buffer.from(fingerprint, 'base64url');
  const digests = peppers.map((pepper) => digestOfHash(sha256, pepper));
  const underEach = await Promise.all(digests.map((digest) => keys.ownerOf(digest, { evenFull: true })));
  // A gateway may have hashed the secret again between these look-ups, so that none of them found it.
  const key = underEach.find((one) => one !== null) ?? (await keys.ownerOf(digests[0]!, { evenFull: true }));
  if (key === null || key.deletedAtMs !== undefined) return noKey();
  const own = key.secrets.find(({ digest }) => digests.includes(digest));
  return { key, isCurrent: own !== undefined && (own.expiresAtMs === null || own.expiresAtMs > nowMs()) };
}

function noKey(): never {
  throw new Failure('not_found', 'No key has this secret.');
}
