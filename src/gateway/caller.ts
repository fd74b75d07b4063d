import type { Allowance } from '../admit/plan.ts';
import type { UpgradeClient } from '../forward/upgrade-client.ts';
import { authorizationOf, type Credentials, readAuthorization } from '../identify/bearer.ts';
import { networkOf } from '../identify/failed-attempts.ts';
import { type Consumer, fingerprintOf, type Identity } from '../identify/identify.ts';
import type { Head } from '../listen/head.ts';
import type { Origin, Parts } from './parts.ts';
import type { Match } from './route.ts';

/** Whom a request is counted against. */
export interface Caller {
  /** What quota and ban belong to: the API key's id, or that of an address on a route without keys. */
  readonly id: string;
  readonly allowance: Allowance;
  /** Null on a route without keys. */
  readonly consumer: Consumer | null;
}

export type Identified =
  | { readonly kind: 'caller'; readonly caller: Caller }
  | { readonly kind: 'unknown'; readonly code: 'missing_api_key' | 'invalid_api_key' | 'expired_api_key' }
  /** Authorization came more than once. */
  | { readonly kind: 'ambiguous' }
  /** The store is away, and the key was not seen before. */
  | { readonly kind: 'unavailable' };

/**
 * What the last Authorization field of a connection was read as: most clients send the same one with each request, and
 * telling a secret's form and fingerprint takes longer than telling that it is the same. It goes with its connection.
 */
export class LastAuthorization {
  #value: string | null = null;
  #read: Presented = MISSING;

  read(rawHeaders: readonly string[]): Presented {
    const value = authorizationOf(rawHeaders);
    if (value === undefined) return MISSING;
    if (value === null) return AMBIGUOUS;
    if (value !== this.#value) {
      const credentials = readAuthorization(value);
      const sha = credentials.kind === 'token' ? fingerprintOf(credentials.token) : null;
      this.#read = { credentials, sha };
      this.#value = value;
    }
    return this.#read;
  }
}

/** What is kept of a client's connection from one request to the next. */
export interface ClientConnection {
  /** The connection itself, where the request asks for another protocol on it. */
  readonly client: UpgradeClient | null;
  readonly authorization: LastAuthorization;
}

interface Presented {
  readonly credentials: Credentials;
  readonly sha: string | null;
}

const MISSING: Presented = Object.freeze({ credentials: { kind: 'missing' } as const, sha: null });
const AMBIGUOUS: Presented = Object.freeze({ credentials: { kind: 'ambiguous' } as const, sha: null });

/**
 * Who calls. On a route with `auth: none` that is the client's address, an IPv6 client by its /64; a key that comes
 * along is not looked at there. Everywhere else it is whoever the API key belongs to.
 * @throws Error where the plan of a key is gone
 */
export function callerOf(
  parts: Parts,
  head: Head,
  match: Match | null,
  origin: Origin,
  last: LastAuthorization,
): Identified | Promise<Identified> {
  const perAddress = match?.route.perAddress ?? null;
  const { credentials, sha } = last.read(head.rawHeaders);
  if (perAddress !== null && credentials.kind !== 'ambiguous') {
    const id = `${perAddress.id}:${networkOf(origin.address)}`;
    return { kind: 'caller', caller: { id, allowance: perAddress.allowance, consumer: null } };
  }
  if (credentials.kind !== 'token') return withoutToken(credentials);
  const identity = parts.identifier.identify(credentials.token, sha);
  return identity instanceof Promise ? identity.then((it) => fromIdentity(parts, it)) : fromIdentity(parts, identity);
}

function withoutToken({ kind }: Exclude<Credentials, { kind: 'token' }>): Identified {
  if (kind === 'ambiguous') return { kind: 'ambiguous' };
  return { kind: 'unknown', code: kind === 'missing' ? 'missing_api_key' : 'invalid_api_key' };
}

function fromIdentity(parts: Parts, identity: Identity): Identified {
  if (identity.kind === 'refused') return { kind: 'unknown', code: identity.code };
  if (identity.kind === 'unavailable') return { kind: 'unavailable' };
  const { key } = identity;
  const allowance = parts.allowanceFor(key);
  if (allowance === null) throw new Error(`key ${key.id}: its plan is gone or lacks a limit`);
  return { kind: 'caller', caller: { id: key.id, allowance, consumer: key } };
}
