import { createHmac, hash } from 'node:crypto';
import { mint, newKeyId, type Random } from './api-key.ts';

/** How long a creation can be asked for again (contract section 7, `Idempotency-Key`). */
export const REPEATABLE_MS = 86_400_000;

/** A creation that may be asked for again: the caller's own name for it, and what it asks for. */
export interface Repeatable {
  readonly name: string;
  /** SHA-256 of what was asked for, base64url. */
  readonly body: string;
}

/** Where the key of a creation would stand if it was made, and under which pepper. */
export interface Candidate {
  readonly id: string;
  readonly pepper: string;
}

/**
 * A creation that is asked for again gets the same secret again, and nobody stores that secret: it is worked out anew, from
 * the pepper, a salt in the key's record, and the name that the caller gave the creation. A stolen store with its pepper
 * does not suffice where that name is one that nobody guesses. The id follows from the name too, so the store itself
 * refuses to make a second key, whichever gateways are asked at the same time.
 *
 * A name means the same for 24 h: it counts together with the day, and yesterday's is looked at too. So is tomorrow's: where
 * the clock of another gateway is ahead, its day begins before ours has ended.
 */
export function candidatesOf(name: string, peppers: readonly string[], nowMs: number): readonly Candidate[] {
  const day = Math.floor(nowMs / REPEATABLE_MS);
  return [day, day - 1, day + 1].flatMap((one) =>
    peppers.map((pepper) => ({ id: newKeyId(randomFrom(pepper, 'creation', name, String(one))), pepper })),
  );
}

/** The secret of a creation. */
export function secretOf(name: string, salt: string, pepper: string): string {
  return mint(randomFrom(pepper, 'secret', name, salt));
}

/**
 * The id of a key that is moved here: the same for the same secret, so that moving it twice makes one key. Not from the secret
 * alone: the secrets of others may be weak, and a thief of the store could try guesses on the ids.
 * @param root the store's own secret, which does not change with the pepper; the pepper itself in keys of earlier versions
 */
export function idOfMoved(sha256: Uint8Array, root: string): string {
  return newKeyId(randomFrom(root, 'moved', Buffer.from(sha256).toString('hex')));
}

/** Of what a creation asks for. The order of members does not matter. */
export function bodyDigestOf(value: unknown): string {
  return hash('sha256', canonical(value), 'base64url');
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, inner]) => `${JSON.stringify(name)}:${canonical(inner)}`).join()}}`;
}

/** Bytes that nobody can guess without the pepper, the same ones for the same parts. */
function randomFrom(pepper: string, ...parts: readonly string[]): Random {
  // As JSON no two lists of parts are one text; and it is never 32 bytes of a digest, which the pepper also goes over.
  const seed = createHmac('sha256', pepper)
    .update(`tollgate ${JSON.stringify(parts)}`)
    .digest();
  let block = 0;
  return (bytes) => {
    const blocks: Buffer[] = [];
    for (let have = 0; have < bytes; have += 32) {
      blocks.push(createHmac('sha256', seed).update(String(block++)).digest());
    }
    return Buffer.concat(blocks).subarray(0, bytes);
  };
}
