import { hash } from 'node:crypto';
import { accountIdOf } from '../admit/account-id.ts';
import type { Allowance } from '../admit/allowance.ts';
import type { ClientAddress } from '../http1/client.ts';
import type { Head } from '../http1/request-head.ts';
import { authorizationOf, type Credentials, isJwtForm, readAuthorization } from '../identify/bearer.ts';
import { claimsOf } from '../identify/claims.ts';
import { networkOf } from '../identify/failed-attempts.ts';
import { type Consumer, type EndedSecret, fingerprintOf, type Identity } from '../identify/identify.ts';
import type { JwtIdentity, JwtRefusal, JwtVerifier } from '../identify/jwt.ts';
import { type KeySources, oneOf } from '../identify/key-sources.ts';
import type { UnreadableIdentity } from '../identify/record-store.ts';
import type { Match } from '../routing/router.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { certificateOf, type NotFromHere, routeFromElsewhere } from './who-may-call.ts';

export type Identified =
  | { readonly kind: 'caller'; readonly caller: Caller }
  | {
      readonly kind: 'unknown';
      readonly code: 'missing_api_key' | 'invalid_api_key' | 'expired_api_key';
      /** Why its token was refused; null if it sent none. */
      readonly token: JwtRefusal | null;
      /** Why its key was refused, for operators only; left out without a particular reason. */
      readonly cause?: string | undefined;
      /** Its secret is one that has ended; left out for any other. */
      readonly ended?: EndedSecret | undefined;
    }
  /** The request has more than one Authorization field, or more than one key. */
  | { readonly kind: 'ambiguous' }
  /**
   * The key is valid, but plans.yaml has no usable plan for it: the plan is gone, or needs a limit that the key does
   * not set.
   */
  | { readonly kind: 'planless'; readonly id: string; readonly plan: string }
  | UnreadableIdentity
  /** The store is away and the key was not seen before, or the keys of the token's issuer are not available. */
  | {
      readonly kind: 'unavailable';
      readonly code: 'store_unavailable' | 'identity_unavailable';
      readonly retryAfterMs: number;
    }
  /** The token was not verified, because the client address has spent its failed attempts. */
  | { readonly kind: 'unverified' }
  | NotFromHere;

/** The content of a request's Authorization fields, with everything derived from them alone. */
export interface Authorization {
  readonly credentials: Credentials;
  /** The SHA-256 of a credential with the form of an API key or a token; null for any other. */
  readonly sha: string | null;
  readonly isJwt: boolean;
}

/**
 * Reads the Authorization fields. The field block keeps the result, because a SHA-256 takes longer than everything else
 * here.
 */
export function readAuthorizationOf(rawHeaders: readonly string[]): Authorization {
  const value = authorizationOf(rawHeaders);
  if (value === undefined) return MISSING;
  if (value === null) return AMBIGUOUS;
  return authorizationWith(readAuthorization(value));
}

function authorizationWith(credentials: Credentials): Authorization {
  if (credentials.kind !== 'token') return { credentials, sha: null, isJwt: false };
  const { token } = credentials;
  if (!isJwtForm(token)) return { credentials, sha: fingerprintOf(token), isJwt: false };
  return { credentials, sha: hash('sha256', token, 'base64url'), isJwt: true };
}

const MISSING: Authorization = Object.freeze({ credentials: { kind: 'missing' } as const, sha: null, isJwt: false });
const AMBIGUOUS: Authorization = Object.freeze({
  credentials: { kind: 'ambiguous' } as const,
  sha: null,
  isJwt: false,
});

/** The same where the settings name other places for keys (`keys.from`); the query may be one of them. */
function authorizationFrom(sources: KeySources, head: Head): Authorization {
  const inFields = head.fields.derived(newKeyInFields).of(sources);
  const inQuery = sources.inQuery(head.target.slice(head.path.length));
  if (inQuery.kind === 'missing') return inFields;
  const credentials = oneOf(inFields.credentials, inQuery);
  // The gateway accepts no JSON Web Token in the query (RFC 9700 section 4.3.2): a token does not have the form of a key.
  return credentials.kind === 'token'
    ? { credentials, sha: fingerprintOf(credentials.token), isJwt: false }
    : { credentials, sha: null, isJwt: false };
}

/**
 * The key in a field block, which is kept with the block. The query is not part of it: two callers may send the same
 * fields and different keys in the query.
 */
class KeyInFields {
  readonly #rawHeaders: readonly string[];
  #sources: KeySources | null = null;
  #found = MISSING;

  constructor(rawHeaders: readonly string[]) {
    this.#rawHeaders = rawHeaders;
  }

  /** @param sources other ones after a reload */
  of(sources: KeySources): Authorization {
    if (this.#sources !== sources) {
      this.#found = authorizationWith(sources.inFields(this.#rawHeaders));
      this.#sources = sources;
    }
    return this.#found;
  }
}

function newKeyInFields(rawHeaders: readonly string[]): KeyInFields {
  return new KeyInFields(rawHeaders);
}

/**
 * Identifies the caller. On a route with `auth: none` the caller is the client's address, an IPv6 client by its /64,
 * and a key in the request is ignored. On every other route the caller is the owner of the API key or, if the settings
 * name an issuer, the subject of the JSON Web Token. A request without either may have a client certificate that stands for a key.
 */
export function callerOf(
  deps: GatewayDeps,
  head: Head,
  match: Match | null,
  origin: ClientAddress,
): Identified | Promise<Identified> {
  const elsewhere = match === null ? null : routeFromElsewhere(deps, match.route, origin);
  if (elsewhere !== null) return elsewhere;
  const perAddress = match?.route.perAddress ?? null;
  const { credentials, sha, isJwt } = authorizationIn(deps, head);
  if (perAddress !== null && credentials.kind !== 'ambiguous') {
    const network = networkOf(origin.address);
    const id = `${perAddress.id}:${network}`;
    const { allowance } = perAddress;
    const without = { consumer: null, tokenExpiresAtMs: null, secret: null, isSuspended: false };
    return { kind: 'caller', caller: { id, shareId: network, allowance, ...without } };
  }
  if (credentials.kind === 'missing' && deps.readsCertificates) return ofCertificate(deps, origin);
  if (credentials.kind !== 'token') return withoutToken(credentials);
  if (isJwt && deps.jwt !== null) return ofToken(deps, deps.jwt, credentials.token, sha!, origin.address);
  const identity = deps.identifier.identify(credentials.token, isJwt ? null : sha);
  return identity instanceof Promise
    ? identity.then((found) => fromIdentity(deps, found))
    : fromIdentity(deps, identity);
}

function authorizationIn({ keySources }: Pick<GatewayDeps, 'keySources'>, head: Head): Authorization {
  return keySources === null ? head.fields.derived(readAuthorizationOf) : authorizationFrom(keySources, head);
}

/** The claims of the token by which the caller was identified, so that they are verified. Deep frozen. */
export function claimsSentIn(deps: Pick<GatewayDeps, 'keySources'>, head: Head): Readonly<Record<string, unknown>> {
  const { credentials } = authorizationIn(deps, head);
  if (credentials.kind !== 'token') throw new Error('claims of a request without a token');
  return claimsOf(credentials.token);
}

function withoutToken({ kind }: Exclude<Credentials, { kind: 'token' }>): Identified {
  if (kind === 'ambiguous') return { kind: 'ambiguous' };
  return { kind: 'unknown', code: kind === 'missing' ? 'missing_api_key' : 'invalid_api_key', token: null };
}

/** The owner of the key that the client's certificate stands for. A certificate that stands for no key is not a credential. */
function ofCertificate(deps: GatewayDeps, origin: ClientAddress): Identified | Promise<Identified> {
  const certificate = certificateOf(origin, deps.wallMs());
  if (certificate === null) return withoutToken({ kind: 'missing' });
  const from = (identity: Identity): Identified =>
    identity.kind === 'refused' && identity.code === 'invalid_api_key'
      ? { ...NO_CREDENTIALS, cause: `no key has the certificate ${certificate.names[0]}, or several have its names` }
      : fromIdentity(deps, identity);
  const identity = deps.identifier.identifyCertificate(certificate.names);
  return identity instanceof Promise ? identity.then(from) : from(identity);
}

const NO_CREDENTIALS = { kind: 'unknown', code: 'missing_api_key', token: null } as const;

function fromIdentity(deps: GatewayDeps, identity: Identity): Identified {
  if (identity.kind === 'refused') {
    const { code, cause, ended } = identity;
    return { kind: 'unknown', code, token: null, cause, ended };
  }
  if (identity.kind === 'unavailable') return { kind: 'unavailable', code: 'store_unavailable', retryAfterMs: 0 };
  if (identity.kind === 'unreadable') return identity;
  const { key, secret } = identity;
  const allowance = deps.allowances.of(key);
  if (allowance === null) return { kind: 'planless', id: key.id, plan: key.plan };
  return callerWith(key, allowance, { tokenExpiresAtMs: null, secret, isSuspended: identity.kind === 'suspended' });
}

function ofToken(
  deps: GatewayDeps,
  jwt: JwtVerifier,
  token: string,
  sha: string,
  clientAddress: string,
): Identified | Promise<Identified> {
  const identity = jwt.identify(token, sha, clientAddress);
  return identity instanceof Promise ? identity.then((found) => fromToken(deps, found)) : fromToken(deps, identity);
}

function fromToken(deps: GatewayDeps, identity: JwtIdentity): Identified {
  if (identity.kind === 'refused') return { kind: 'unknown', code: identity.code, token: identity.why };
  if (identity.kind === 'unavailable') return { ...identity, code: 'identity_unavailable' };
  if (identity.kind === 'customer_unavailable') {
    return { kind: 'unavailable', code: 'store_unavailable', retryAfterMs: 0 };
  }
  if (identity.kind === 'unverified' || identity.kind === 'unreadable') return identity;
  const { key, expiresAtMs } = identity;
  const allowance = deps.allowances.of(key);
  // The operator has given the customer its plan, so that the token is not at fault.
  if (allowance === null && key.customer !== null) return { kind: 'planless', id: key.id, plan: key.plan };
  // The token names the plan. If that plan does not exist, or expects each key to set its limits, the token is refused.
  if (allowance === null) return { kind: 'unknown', code: 'invalid_api_key', token: 'plan' };
  const isSuspended = identity.kind === 'suspended';
  return callerWith(key, allowance, { tokenExpiresAtMs: expiresAtMs, secret: null, isSuspended });
}

function callerWith(
  consumer: Consumer,
  allowance: Allowance,
  { tokenExpiresAtMs, secret, isSuspended }: Pick<Caller, 'tokenExpiresAtMs' | 'secret' | 'isSuspended'>,
): Identified {
  const { id: consumerId, customer } = consumer;
  const id = customer === null ? consumerId : accountIdOf(consumerId, customer.id);
  // Attack: a customer makes as many keys as it likes, and each of them has a share.
  const shareId = customer?.id ?? consumerId;
  return { kind: 'caller', caller: { id, shareId, allowance, consumer, tokenExpiresAtMs, secret, isSuspended } };
}
