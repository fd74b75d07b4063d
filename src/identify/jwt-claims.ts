import { hash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import type { Consumer } from './consumer.ts';
import type { JwtRefusal } from './jwt-refusal.ts';

/**
 * The caller that verified claims name.
 * @param latestSeconds a token that was issued later than this (Unix seconds) comes from the future
 */
export function consumerOfClaims(
  claims: JWTPayload,
  { issuer, planClaim }: { readonly issuer: string; readonly planClaim: string },
  latestSeconds: number,
): { readonly consumer: Consumer; readonly expiresAtMs: number } | JwtRefusal {
  const { exp, iat, sub } = claims;
  if (typeof exp !== 'number' || !Number.isFinite(exp)) return 'no_expiry';
  if (iat !== undefined && !(typeof iat === 'number' && iat <= latestSeconds)) return 'not_yet';
  if (typeof sub !== 'string' || sub === '') return 'subject';
  const plan = Object.hasOwn(claims, planClaim) ? claims[planClaim] : undefined;
  if (typeof plan !== 'string') return 'plan';
  const consumer = { id: jwtConsumerId(issuer, sub), plan, limits: Object.freeze({}), name: null, owner: null };
  return { consumer: Object.freeze(consumer), expiresAtMs: exp * 1000 };
}

/**
 * The id that quota and bans of a token's holder belong to: `jwt_` and 32 characters of the SHA-256 of the JSON array
 * `[issuer, subject]`, base64url.
 *
 * A subject is any text that its holder may have chosen at the issuer: a line break, an address of a person, or
 * `key_…`, the id of somebody's API key. The hash can be written into fields, names and logs, tells nothing, and is no
 * API key's id.
 */
export function jwtConsumerId(issuer: string, subject: string): string {
  return `jwt_${hash('sha256', JSON.stringify([issuer, subject]), 'base64url').slice(0, 32)}`;
}

/** Whether an id is one that `jwtConsumerId` makes. */
export function isTokenHolder(consumerId: string): boolean {
  return /^jwt_[A-Za-z0-9_-]{32}$/.test(consumerId);
}
