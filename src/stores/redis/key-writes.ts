import { isDeepStrictEqual } from 'node:util';
import { certificateDigestsOf, digestsOf, readStoredKey, type StoredKey } from '../../model/record.ts';
import { keyspace } from './keyspace.ts';
import { type Lead, merged, type RecordKind } from './record-writes.ts';

/**
 * API keys as records. The digests of their secrets and of the names of their certificates lead to them, and so does the list of
 * the keys of their customer.
 */
export const API_KEYS: RecordKind<StoredKey> = {
  noun: 'Key',
  change: 'key',
  nameOf: keyspace.apiKey,
  index: keyspace.apiKeys,
  read: readStoredKey,
  leadsTo: (key) => [...digestsOf(key).map(pointer), ...ofCertificates(key), ...ofCustomer(key)],
  leadsOfUse: (key) => [
    ...key.secrets.map(({ digest }) => pointer(digest)),
    ...ofCertificates(key),
    ...ofCustomer(key),
  ],
  endsAccess,
  madeAgain,
};

function pointer(digest: string): Lead {
  return { kind: 'pointer', name: keyspace.digest(digest) };
}

function ofCertificates(key: StoredKey): readonly Lead[] {
  return certificateDigestsOf(key).map((digest) => ({ ...pointer(digest), of: 'certificate' }));
}

/** A tombstone is in no list. */
function ofCustomer({ customer, deletedAtMs }: StoredKey): readonly Lead[] {
  return customer === undefined || deletedAtMs !== undefined
    ? []
    : [{ kind: 'list', name: keyspace.keysOfCustomer(customer) }];
}

/** True if this change ends or suspends a secret that worked, or the whole key. */
function endsAccess(before: StoredKey, after: StoredKey): boolean {
  if (after.revokedAtMs !== null || after.deletedAtMs !== undefined) return true;
  if (isSuspendedBy(before, after)) return true;
  const endOf = (key: StoredKey, digest: string) => key.secrets.find((secret) => secret.digest === digest)?.expiresAtMs;
  return before.secrets.some(({ digest }) => endOf(after, digest) !== endOf(before, digest));
}

/** True if a change suspends a key or a customer, or moves the end of its suspension. */
export function isSuspendedBy(
  before: Pick<StoredKey, 'suspended'>,
  { suspended }: Pick<StoredKey, 'suspended'>,
): boolean {
  return suspended !== undefined && !isDeepStrictEqual(before.suspended, suspended);
}

/**
 * Applies the change from `before` to `after` to a record that lacks it and has another change: a failover undid the change, and a
 * gateway that had not seen it changed the record. It changes members that still have their value from `before`, and keeps members
 * with another value. It always applies a revocation and a deletion, which are final.
 * @returns null if it can apply nothing of the change
 */
export function madeAgain(before: StoredKey, after: StoredKey, there: StoredKey): StoredKey | null {
  if (after.deletedAtMs !== undefined) {
    return there.deletedAtMs === undefined
      ? { ...after, retired: [...new Set([...digestsOf(after), ...digestsOf(there)])] }
      : there;
  }
  const { secrets: secretsBefore, limits: limitsBefore, ...restBefore } = before;
  const { secrets: secretsAfter, limits: limitsAfter, ...restAfter } = after;
  const rest = merged(restBefore, restAfter, there);
  const limits = merged(limitsBefore, limitsAfter, there.limits);
  const byDigest = (secrets: StoredKey['secrets']) =>
    Object.fromEntries(secrets.map((secret) => [secret.digest, secret]));
  const secrets = merged(byDigest(secretsBefore), byDigest(secretsAfter), byDigest(there.secrets));
  // Newest first.
  const order = Object.values(secrets.value).sort((a, b) => b.createdAtMs - a.createdAtMs);
  const isRevoked = after.revokedAtMs !== null;
  const parts = [rest, limits, secrets];
  const isSuperseded = parts.every(({ made }) => made === 0) && parts.some(({ left }) => left > 0);
  if (isSuperseded && !isRevoked) return null;
  const revokedAtMs = there.revokedAtMs ?? after.revokedAtMs;
  return { ...rest.value, limits: limits.value, secrets: order, revokedAtMs } as StoredKey;
}
