import { hash } from 'node:crypto';

// Apart from jwt.ts, which imports jose: operations know the ids of tokens' holders also where no tokens are accepted.

/**
 * The consumer id of a token's holder: `jwt_` and 32 characters of the SHA-256 of the JSON array `[issuer, subject]`,
 * base64url.
 *
 * Attack: the holder may have chosen the subject at the issuer. It may contain a line break, a person's address, or
 * `key_…`, the id of another caller's API key. The hash is safe in fields, names and logs, reveals nothing, and never
 * equals the id of an API key.
 */
export function jwtConsumerId(issuer: string, subject: string): string {
  return `${TOKEN_HOLDER}${hash('sha256', JSON.stringify([issuer, subject]), 'base64url').slice(0, 32)}`;
}

/** How the ids of token holders begin. */
export const TOKEN_HOLDER = 'jwt_';

/** Whether an id is one that `jwtConsumerId` makes. */
export function isTokenHolder(consumerId: string): boolean {
  return /^jwt_[A-Za-z0-9_-]{32}$/.test(consumerId);
}
