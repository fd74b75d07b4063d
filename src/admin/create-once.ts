import type { Plan } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import { digestOf, type Random } from '../identify/api-key.ts';
import { type KeyWishes, keyOf, refuseWishes, storedSecret } from '../identify/key-changes.ts';
import type { Durability, KeyStore, StoredKey } from '../identify/key-store.ts';
import { type Candidate, candidatesOf, REPEATABLE_MS, type Repeatable, secretOf } from '../identify/repeatable.ts';

/** What became of a creation that may be asked for again. */
export type Created =
  | {
      readonly kind: 'made' | 'repeated';
      /** The key as it was made, whatever has become of it since. */
      readonly key: StoredKey;
      readonly secret: string;
      readonly durability: Durability;
    }
  /** The name stands for something else already. */
  | { readonly kind: 'reused' }
  /** The name stands for a key that was made, and whose secret no longer works. */
  | { readonly kind: 'ended'; readonly id: string; readonly how: SecretEnd };

/** Why the secret that was shown when a key was made no longer works. */
export type SecretEnd = 'revoked' | 'expired' | 'rotated' | 'deleted';

interface Means {
  readonly keys: KeyStore;
  readonly peppers: readonly string[];
  readonly plans: ReadonlyMap<string, Plan>;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

type WishesAt = (nowMs: number) => KeyWishes;

/**
 * Makes a key, or finds the one that was made under the same name in the last 24 h.
 * @throws Failure as the making of keys does
 */
export async function createOnce(repeatable: Repeatable, wishesAt: WishesAt, means: Means): Promise<Created> {
  const found = await find(repeatable, wishesAt, means);
  if (found !== null) return found;
  const wishes = wishesAt(means.nowMs);
  refuseWishes(wishes, means);
  const [candidate] = candidatesOf(repeatable.name, means.peppers, means.nowMs) as [Candidate];
  const salt = Buffer.from(means.random(16)).toString('base64url');
  const made = make(repeatable, wishes, { ...candidate, salt, createdAtMs: means.nowMs });
  try {
    const durability = await means.keys.create(made.key);
    return { kind: 'made', ...made, durability };
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'refused') throw error;
    // Somebody has made it at the same moment, perhaps through another gateway.
    const theirs = await find(repeatable, wishesAt, means);
    if (theirs === null) throw error;
    return theirs;
  }
}

async function find(repeatable: Repeatable, wishesAt: WishesAt, means: Means): Promise<Created | null> {
  const { keys, peppers, nowMs } = means;
  for (const candidate of candidatesOf(repeatable.name, peppers, nowMs)) {
    const key = await keys.get(candidate.id, { evenDeleted: true });
    const isRecent = key !== null && key.createdAtMs > nowMs - REPEATABLE_MS;
    if (isRecent && key.deletedAtMs !== undefined) return { kind: 'ended', id: key.id, how: 'deleted' };
    if (key?.creation === undefined || key.createdAtMs <= nowMs - REPEATABLE_MS) continue;
    const { creation, createdAtMs } = key;
    if (creation.body !== repeatable.body) return { kind: 'reused' };
    const made = make(repeatable, wishesAt(createdAtMs), { ...candidate, salt: creation.salt, createdAtMs });
    const how = endOf(key, made.secret, means);
    if (how !== null) return { kind: 'ended', id: key.id, how };
    // The first answer may have been that this is unknown; a change that changes nothing tells.
    const updated = await keys.update(candidate.id, (present) => present);
    if (updated !== null) return { kind: 'repeated', ...made, durability: updated.durability };
  }
  return null;
}

/**
 * A client that repeats its creation takes the answer for a key that works, so the present state of the key decides
 * whether the secret is shown again.
 * @returns null while the secret works
 */
function endOf(key: StoredKey, secret: string, { peppers, nowMs }: Means): SecretEnd | null {
  if (key.revokedAtMs !== null) return 'revoked';
  if (key.expiresAtMs !== null && key.expiresAtMs <= nowMs) return 'expired';
  const digests = peppers.map((pepper) => digestOf(secret, pepper));
  const stored = key.secrets.find(({ digest }) => digests.includes(digest));
  return stored === undefined || (stored.expiresAtMs !== null && stored.expiresAtMs <= nowMs) ? 'rotated' : null;
}

function make(
  { name, body }: Repeatable,
  wishes: KeyWishes,
  { id, pepper, salt, createdAtMs }: Candidate & { readonly salt: string; readonly createdAtMs: number },
): { readonly key: StoredKey; readonly secret: string } {
  const secret = secretOf(name, salt, pepper);
  const key = keyOf(wishes, { id, createdAtMs, secret: storedSecret(secret, pepper, createdAtMs) });
  return { key: { ...key, creation: { salt, body } }, secret };
}
