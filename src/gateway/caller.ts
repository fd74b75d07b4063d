import { hash } from 'node:crypto';
import type { Allowance } from '../admit/plan.ts';
import { mayComeAgain } from '../forward/client.ts';
import type { UpgradeClient } from '../forward/upgrade-client.ts';
import { authorizationOf, type Credentials, isJwtForm, readAuthorization } from '../identify/bearer.ts';
import { networkOf } from '../identify/failed-attempts.ts';
import { type Consumer, fingerprintOf, type Identity } from '../identify/identify.ts';
import type { JwtIdentity, JwtVerifier } from '../identify/jwt.ts';
import type { JwtRefusal } from '../identify/jwt-refusal.ts';
import type { Head } from '../listen/head.ts';
import type { LastLines } from './last-lines.ts';
import type { Origin, Parts } from './parts.ts';
import type { Match } from './route.ts';

/** Whom a request is counted against. */
export interface Caller {
  /** What quota and ban belong to: the id of the API key or of the token's subject; on a route without keys that of an address. */
  readonly id: string;
  /** Whose share of an upstream its requests take: `id`, but an address has one share for all routes without keys. */
  readonly shareId: string;
  readonly allowance: Allowance;
  /** Null on a route without keys. */
  readonly consumer: Consumer | null;
  /** When the token expires that it came with, Unix milliseconds; null where it came with none. */
  readonly tokenExpiresAtMs: number | null;
}

export type Identified =
  | { readonly kind: 'caller'; readonly caller: Caller }
  | {
      readonly kind: 'unknown';
      readonly code: 'missing_api_key' | 'invalid_api_key' | 'expired_api_key';
      /** What is wrong with its token; null where it brought none. */
      readonly token: JwtRefusal | null;
      /** Why its key was refused, for operators alone; left out where there is nothing to say. */
      readonly cause?: string | undefined;
    }
  /** Authorization came more than once. */
  | { readonly kind: 'ambiguous' }
  /** Its key is good and plans.yaml is not: the plan is gone, or wants a number that the key does not bring. */
  | { readonly kind: 'planless'; readonly id: string; readonly plan: string }
  /** The store is away, and the key was not seen before; or the keys of the token's issuer are. */
  | {
      readonly kind: 'unavailable';
      readonly code: 'store_unavailable' | 'identity_unavailable';
      readonly retryAfterMs: number;
    };

/**
 * What the last Authorization field of a connection was read as: most clients send the same one with each request, and
 * telling a secret's form and fingerprint takes longer than telling that it is the same. It goes with its connection.
 */
export class LastAuthorization {
  #rawHeaders: readonly string[] | null = null;
  #value: string | null = null;
  #read: Presented = MISSING;

  read(rawHeaders: readonly string[]): Presented {
    // The very same array: its reader has seen that the client says the same again.
    if (rawHeaders === this.#rawHeaders) return this.#read;
    const value = authorizationOf(rawHeaders);
    if (value === undefined) return MISSING;
    if (value === null) return AMBIGUOUS;
    if (value !== this.#value) {
      const credentials = readAuthorization(value);
      this.#read = presented(credentials);
      this.#value = value;
    }
    this.#rawHeaders = mayComeAgain(rawHeaders) ? rawHeaders : null;
    return this.#read;
  }
}

/** What is kept of a client's connection from one request to the next. */
export interface ClientConnection {
  /** The connection itself, where the request asks for another protocol on it. */
  readonly client: UpgradeClient | null;
  readonly authorization: LastAuthorization;
  readonly lastLines: LastLines;
}

interface Presented {
  readonly credentials: Credentials;
  /** The SHA-256 of what has the form of an API key or a token; null where it has neither. */
  readonly sha: string | null;
  readonly isJwt: boolean;
}

const MISSING: Presented = Object.freeze({ credentials: { kind: 'missing' } as const, sha: null, isJwt: false });
const AMBIGUOUS: Presented = Object.freeze({ credentials: { kind: 'ambiguous' } as const, sha: null, isJwt: false });

function presented(credentials: Credentials): Presented {
  if (credentials.kind !== 'token') return { credentials, sha: null, isJwt: false };
  const { token } = credentials;
  if (!isJwtForm(token)) return { credentials, sha: fingerprintOf(token), isJwt: false };
  return { credentials, sha: hash('sha256', token, 'base64url'), isJwt: true };
}

/**
 * Who calls. On a route with `auth: none` that is the client's address, an IPv6 client by its /64; a key that comes
 * along is not looked at there. Everywhere else it is whoever the API key belongs to, or the JSON Web Token was issued
 * for, where the settings name an issuer.
 */
export function callerOf(
  parts: Parts,
  head: Head,
  match: Match | null,
  origin: Origin,
  last: LastAuthorization,
): Identified | Promise<Identified> {
  const perAddress = match?.route.perAddress ?? null;
  const { credentials, sha, isJwt } = last.read(head.rawHeaders);
  if (perAddress !== null && credentials.kind !== 'ambiguous') {
    const network = networkOf(origin.address);
    const id = `${perAddress.id}:${network}`;
    const { allowance } = perAddress;
    return { kind: 'caller', caller: { id, shareId: network, allowance, consumer: null, tokenExpiresAtMs: null } };
  }
  if (credentials.kind !== 'token') return withoutToken(credentials);
  if (isJwt && parts.jwt !== null) return ofToken(parts, parts.jwt, credentials.token, sha!);
  const identity = parts.identifier.identify(credentials.token, isJwt ? null : sha);
  return identity instanceof Promise ? identity.then((it) => fromIdentity(parts, it)) : fromIdentity(parts, identity);
}

function withoutToken({ kind }: Exclude<Credentials, { kind: 'token' }>): Identified {
  if (kind === 'ambiguous') return { kind: 'ambiguous' };
  return { kind: 'unknown', code: kind === 'missing' ? 'missing_api_key' : 'invalid_api_key', token: null };
}

function fromIdentity(parts: Parts, identity: Identity): Identified {
  if (identity.kind === 'refused') {
    return { kind: 'unknown', code: identity.code, token: null, cause: identity.cause };
  }
  if (identity.kind === 'unavailable') return { kind: 'unavailable', code: 'store_unavailable', retryAfterMs: 0 };
  const { key } = identity;
  const allowance = parts.allowanceFor(key);
  if (allowance === null) return { kind: 'planless', id: key.id, plan: key.plan };
  return callerWith(key, allowance, null);
}

function ofToken(parts: Parts, jwt: JwtVerifier, token: string, sha: string): Identified | Promise<Identified> {
  const identity = jwt.identify(token, sha);
  return identity instanceof Promise ? identity.then((it) => fromToken(parts, it)) : fromToken(parts, identity);
}

function fromToken(parts: Parts, identity: JwtIdentity): Identified {
  if (identity.kind === 'refused') return { kind: 'unknown', code: identity.code, token: identity.why };
  if (identity.kind === 'unavailable') return { ...identity, code: 'identity_unavailable' };
  const { key, expiresAtMs } = identity;
  const allowance = parts.allowanceFor(key);
  // The plan is what the token says: one that there is not, or whose numbers each key brings, makes it no good token.
  if (allowance === null) return { kind: 'unknown', code: 'invalid_api_key', token: 'plan' };
  return callerWith(key, allowance, expiresAtMs);
}

function callerWith(consumer: Consumer, allowance: Allowance, tokenExpiresAtMs: number | null): Identified {
  const { id } = consumer;
  return { kind: 'caller', caller: { id, shareId: id, allowance, consumer, tokenExpiresAtMs } };
}
