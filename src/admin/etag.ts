import { hash } from 'node:crypto';
import type { StoredKey } from '../identify/key-store.ts';
import { type Answer, refuse } from './answer.ts';

/**
 * The version of a key (RFC 9110 section 8.8.3): it changes when somebody changes the key, and not when the gateway puts
 * a secret under a new pepper.
 */
export function etagOf(key: StoredKey): string {
  const { id, plan, limits, name, owner, notes, createdAtMs, expiresAtMs, revokedAtMs } = key;
  const windows = Object.entries(limits).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const secrets = key.secrets.map((secret) => [secret.last4, secret.createdAtMs, secret.expiresAtMs]);
  const what = [id, plan, windows, name, owner, notes ?? null, createdAtMs, expiresAtMs, revokedAtMs, secrets];
  return `"${hash('sha256', JSON.stringify(what), 'base64url').slice(0, 22)}"`;
}

/** A key is no longer the version that was meant. */
export class PreconditionFailed extends Error {}

/**
 * Reads If-Match (RFC 9110 section 13.1.1).
 * @returns what throws PreconditionFailed for another version; undefined where any will do; an answer for what is no list of tags
 */
export function guardOf(ifMatch: string | null): ((before: StoredKey) => void) | undefined | Answer {
  if (ifMatch === null || ifMatch.trim() === '*') return undefined;
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  if (!tags.every((tag) => /^(W\/)?"[\x21\x23-\x7e]*"$/.test(tag))) {
    return refuse('invalid_request', 'If-Match must be an ETag in its quotes, several with commas between them, or *.');
  }
  return (before) => {
    // Strong comparison: a weak tag never matches.
    if (!tags.includes(etagOf(before))) throw new PreconditionFailed();
  };
}
