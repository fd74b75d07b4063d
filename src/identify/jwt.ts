import { decodeProtectedHeader, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { RecentlyUsed } from '../io/recently-used.ts';
import { UnreadableRecord } from '../model/record.ts';
import { jwtConsumerId } from './api-key.ts';
import { type Consumer, consumerWith, NO_META } from './identify.ts';
import type { JwtKeys, KeySet, KeysAway } from './jwt-keys.ts';
import type { CustomerFound, KnownCustomers } from './known-customers.ts';
import { type UnreadableIdentity, unreadable } from './record-store.ts';
import { NotVerified, type Verifications } from './verifications.ts';

/** The rules that a token must meet (contract section 5). */
interface JwtRules {
  /** `iss`, to the letter. */
  readonly issuer: string;
  /** One of these must be in `aud`. */
  readonly audience: readonly string[];
  /** JOSE names. Never an algorithm with a shared secret: the keys are public. */
  readonly algorithms: readonly string[];
  /** The claim that names the plan. */
  readonly planClaim: string;
  /** The claim that names the customer by its id; null if tokens name no customer. */
  readonly customerClaim: string | null;
}

/** The consumer that a token identifies, or why it identifies no consumer. */
export type JwtIdentity =
  | { readonly kind: 'consumer'; readonly key: Consumer; readonly expiresAtMs: number }
  /** An operator has suspended the customer that the token names: its callers may do nothing. */
  | { readonly kind: 'suspended'; readonly key: Consumer; readonly expiresAtMs: number }
  | JwtRefused
  /** The issuer's keys are not available: 503, not 401, or clients would discard good tokens. */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number }
  /** The store does not answer, and the customer that the token names is not in memory: 503, not 401. */
  | { readonly kind: 'customer_unavailable' }
  | UnreadableIdentity
  /** The client address has spent its failed attempts, and the few signatures a second that are verified for it all the same. */
  | { readonly kind: 'unverified' };

type JwtConsumer = Extract<JwtIdentity, { kind: 'consumer' }>;

interface JwtRefused {
  readonly kind: 'refused';
  readonly code: 'invalid_api_key' | 'expired_api_key';
  readonly why: JwtRefusal;
}

interface JwtVerifierOptions {
  readonly rules: JwtRules;
  readonly keys: JwtKeys;
  readonly verifications: Verifications;
  /** The customers that tokens name. */
  readonly customers: Pick<KnownCustomers, 'of'>;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Maximum verified tokens that are remembered. */
  readonly remembered?: number;
}

/** A token that was verified. */
interface VerifiedToken {
  /** The claims of the token itself. */
  readonly consumer: Consumer;
  /** The identity without the customer; with the customer that the token named last, if it names one. */
  identity: JwtConsumer;
  /** Null if the token names no customer. */
  readonly customerId: string | null;
}

/** What verifying tokens has found, by the SHA-256 of each. */
export class RememberedTokens<T> {
  readonly #monotonicMs: () => number;
  readonly #found: RecentlyUsed<{ readonly value: T; readonly set: KeySet; readonly untilMs: number }>;

  /** @param most how many are kept */
  constructor(most: number, monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
    this.#found = new RecentlyUsed(most);
  }

  /** @param set the keys in force: what was found with other keys counts no longer */
  get(sha: string, set: KeySet): T | null {
    const entry = this.#found.get(sha);
    return entry !== undefined && entry.set === set && this.#monotonicMs() < entry.untilMs ? entry.value : null;
  }

  /** @param leftMs how long the token is valid, if that is shorter than it may be remembered */
  keep(sha: string, set: KeySet, value: T, leftMs = REMEMBER_MS): void {
    this.#found.set(sha, { value, set, untilMs: this.#monotonicMs() + Math.min(leftMs, REMEMBER_MS) });
  }
}

/** Longer tokens are refused before they are parsed, so that a stranger's token costs no more than a request. */
export const MAX_JWT_LENGTH = 8_192;
/** How far the issuer's clock may be ahead, for `nbf` and `iat`. A token is never accepted after its own `exp`. */
export const TOLERANCE_SECONDS = 10;
/** How long a verified token is accepted before its signature is verified again. */
const REMEMBER_MS = 300_000;
/** How long a wrong token is refused before its signature is verified again: not long, because the clock may have been wrong. */
const REFUSE_MS = 60_000;
/** The same for one without `kid` whose signature no key verifies: the issuer may have a newer key. */
const REFUSE_UNNAMED_MS = 1_000;
/** Maximum wrong tokens that are remembered. They have a table of their own, so that a flood of them evicts no good token. */
const REFUSED = 4_096;
/** Why a token is refused for good, while its issuer's keys stay the same. */
const LASTING: ReadonlySet<JwtRefusal> = new Set([
  'signature',
  'issuer',
  'audience',
  'expired',
  'no_expiry',
  'subject',
]);
/** When to retry after too many signatures were to be verified at once. */
const BUSY_RETRY_MS = 1_000;
/** Maximum keys that are tried for a token: those with its `kid`, or of its type if it has none. An issuer has one, or two for a while. */
const MAX_KEYS = 4;

/**
 * Identifies the consumer of a JSON Web Token (contract section 5; RFC 7519, RFC 8725). The settings alone decide which
 * algorithms, issuer and audience are accepted; the token's own `jwk`, `jku` and `x5c` are ignored.
 *
 * Attacks: `alg: none`; HS256 with the public key as the secret; a key inside the token; a token for another audience; a
 * token that never expires. Each has its test in test/identify/jwt.test.ts.
 */
export class JwtVerifier {
  readonly #options: JwtVerifierOptions;
  readonly #verified: RememberedTokens<VerifiedToken>;
  readonly #refused: RememberedTokens<JwtRefused>;
  readonly #underWay = new Map<string, Promise<JwtIdentity>>();

  constructor(options: JwtVerifierOptions) {
    this.#options = options;
    this.#verified = new RememberedTokens(options.remembered ?? 50_000, options.monotonicMs);
    this.#refused = new RememberedTokens(REFUSED, options.monotonicMs);
  }

  /**
   * The identity: synchronously if the token was verified recently, otherwise when the keys have been read and the signature has
   * been verified. Never rejects.
   * @param sha the SHA-256 of the token, under which it is remembered
   * @param clientAddress whose limits apply if the signature has to be verified
   */
  identify(token: string, sha: string, clientAddress: string): JwtIdentity | Promise<JwtIdentity> {
    if (token.length > MAX_JWT_LENGTH) return refused('too_long');
    const keys = this.#options.keys.current();
    return keys instanceof Promise
      ? keys.then((keySet) => this.#identify(token, sha, keySet, clientAddress))
      : this.#identify(token, sha, keys, clientAddress);
  }

  #identify(
    token: string,
    sha: string,
    keys: KeySet | KeysAway,
    clientAddress: string,
  ): JwtIdentity | Promise<JwtIdentity> {
    if ('retryAfterMs' in keys) return { kind: 'unavailable', ...keys };
    const verified = this.#verified.get(sha, keys);
    if (verified !== null) {
      return this.#options.wallMs() >= verified.identity.expiresAtMs ? refused('expired') : this.#ofCustomer(verified);
    }
    return this.#refused.get(sha, keys) ?? this.#verifyOnce(token, sha, keys, clientAddress);
  }

  /** Requests with the same token share one verification. */
  #verifyOnce(token: string, sha: string, set: KeySet, clientAddress: string): Promise<JwtIdentity> {
    const underWay = this.#underWay.get(sha);
    if (underWay !== undefined) return underWay;
    const verification = this.#verify(token, sha, set, clientAddress).finally(() => this.#underWay.delete(sha));
    this.#underWay.set(sha, verification);
    return verification;
  }

  async #verify(token: string, sha: string, set: KeySet, clientAddress: string): Promise<JwtIdentity> {
    const { keys, rules, wallMs, verifications } = this.#options;
    const options = { keys, rules, wallMs, requiredClaims: ['exp', 'sub'], verifications, clientAddress };
    const verified = await verifyClaims(token, set, options);
    if ('retryAfterMs' in verified) return { kind: 'unavailable', ...verified };
    if ('isSpent' in verified) return { kind: 'unverified' };
    const found = 'why' in verified ? refused(verified.why) : this.#accept(verified.claims, sha, verified.set);
    if (!('kind' in found)) return this.#ofCustomer(found);
    const refuseMs = found.why === 'signature' && !namesKey(token) ? REFUSE_UNNAMED_MS : REFUSE_MS;
    if (LASTING.has(found.why)) this.#refused.keep(sha, set, found, refuseMs);
    return found;
  }

  /** The identity of a verified token, with its customer if it names one. */
  #ofCustomer(verified: VerifiedToken): JwtIdentity | Promise<JwtIdentity> {
    const { customerId, identity } = verified;
    if (customerId === null) return identity;
    const found = this.#options.customers.of(customerId);
    return found instanceof Promise ? found.then((one) => withCustomer(verified, one)) : withCustomer(verified, found);
  }

  #accept(claims: JWTPayload, sha: string, set: KeySet): JwtRefused | VerifiedToken {
    const { rules, wallMs } = this.#options;
    const read = consumerOfClaims(claims, rules, wallMs() / 1000 + TOLERANCE_SECONDS);
    if (typeof read === 'string') return refused(read);
    const { consumer, customerId, expiresAtMs } = read;
    const leftMs = expiresAtMs - wallMs();
    if (leftMs <= 0) return refused('expired');
    const verified = { consumer, identity: identityOf(consumer, expiresAtMs), customerId };
    this.#verified.keep(sha, set, verified, leftMs);
    return verified;
  }
}

function identityOf(key: Consumer, expiresAtMs: number): JwtConsumer {
  return Object.freeze({ kind: 'consumer' as const, key, expiresAtMs });
}

/** The same object while the customer does not change: other modules cache by the identity of the consumer object. */
function withCustomer(verified: VerifiedToken, found: CustomerFound): JwtIdentity {
  if (found === 'unknown') return refused('customer');
  if (found === 'expired') return refused('customer_expired');
  if (found === 'unavailable') return { kind: 'customer_unavailable' };
  if (found instanceof UnreadableRecord) return unreadable(found);
  const isSuspended = 'suspended' in found;
  const customer = isSuspended ? found.suspended : found;
  const { key, expiresAtMs } = verified.identity;
  if (key.customer !== customer) {
    verified.identity = identityOf(Object.freeze(consumerWith(verified.consumer, customer)), expiresAtMs);
  }
  return isSuspended ? { ...verified.identity, kind: 'suspended' } : verified.identity;
}

interface ClaimsOptions {
  readonly rules: Pick<JwtRules, 'issuer' | 'audience' | 'algorithms'>;
  readonly keys: JwtKeys;
  readonly requiredClaims: readonly string[];
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  readonly verifications: Verifications;
  readonly clientAddress: string;
}

/**
 * Verifies the signature and the registered claims of a token. Never rejects.
 * Attack: a flood of tokens without `kid`, whose signatures no key verifies. They have the keys read no more often than tokens that name
 * unknown keys. If the issuer is away they get 401 and not 503, so that they count as failed attempts of their address.
 *
 * @param set the keys to begin with; if they may lack the token's key, newer ones are read
 * @returns the claims and the keys that verified them; why the token is refused; `isSpent` if the signature was not
 *   verified, because the address may have no more failures; or when to retry, if the issuer's keys are not available or
 *   too many signatures wait
 */
export async function verifyClaims(
  token: string,
  set: KeySet,
  options: ClaimsOptions,
): Promise<
  | { readonly claims: JWTPayload; readonly set: KeySet }
  | { readonly why: JwtRefusal }
  | { readonly isSpent: true }
  | KeysAway
> {
  const { keys } = options;
  const refusal = (error: unknown, by: KeySet) => {
    if (error instanceof NotVerified) {
      return error.why === 'spent' ? { isSpent: true as const } : { retryAfterMs: BUSY_RETRY_MS };
    }
    const why = refusalOf(error);
    // An unusable key is a fault of the issuer, not of the caller.
    return why === null ? keys.unusable(by, error) : { why };
  };
  let isUnnamed: boolean;
  let first: unknown;
  try {
    return { claims: await claimsOf(token, set, options), set };
  } catch (error) {
    isUnnamed = error instanceof errors.JWSSignatureVerificationFailed && !namesKey(token);
    if (!isUnnamed && !(error instanceof errors.JWKSNoMatchingKey)) return refusal(error, set);
    first = error;
  }
  const newer = await keys.newerThan(set);
  if ('retryAfterMs' in newer) return isUnnamed ? refusal(first, set) : newer;
  if (newer === set) return refusal(first, set);
  try {
    return { claims: await claimsOf(token, newer, options), set: newer };
  } catch (error) {
    return refusal(error, newer);
  }
}

async function claimsOf(
  token: string,
  { find }: KeySet,
  { rules: { issuer, audience, algorithms }, requiredClaims, wallMs, verifications, clientAddress }: ClaimsOptions,
): Promise<JWTPayload> {
  const options = {
    issuer,
    audience: [...audience],
    algorithms: [...algorithms],
    requiredClaims: [...requiredClaims],
    clockTolerance: TOLERANCE_SECONDS,
    currentDate: new Date(wallMs()),
  };
  const verify = (key: JWTVerifyGetKey) =>
    verifications.of(clientAddress, async () => (await jwtVerify(token, key, options)).payload);
  let several: errors.JWKSMultipleMatchingKeys;
  try {
    return await verify(find);
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    several = error;
  }
  let tried = 0;
  for await (const key of several) {
    try {
      return await verify(async () => key);
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
    if (++tried === MAX_KEYS) break;
  }
  throw new errors.JWSSignatureVerificationFailed();
}

/** @param token one whose header has been read */
function namesKey(token: string): boolean {
  return typeof decodeProtectedHeader(token).kid === 'string';
}

function refused(why: JwtRefusal): JwtRefused {
  const isExpired = why === 'expired' || why === 'customer_expired';
  return { kind: 'refused', code: isExpired ? 'expired_api_key' : 'invalid_api_key', why };
}

/**
 * The consumer that verified claims identify.
 * @param latestSeconds the latest `iat` that is accepted, Unix seconds
 */
function consumerOfClaims(
  claims: JWTPayload,
  { issuer, planClaim, customerClaim }: Pick<JwtRules, 'issuer' | 'planClaim' | 'customerClaim'>,
  latestSeconds: number,
): { readonly consumer: Consumer; readonly customerId: string | null; readonly expiresAtMs: number } | JwtRefusal {
  const expiresAtMs = expiryOf(claims, latestSeconds);
  if (typeof expiresAtMs === 'string') return expiresAtMs;
  const { sub } = claims;
  if (typeof sub !== 'string' || sub === '') return 'subject';
  const claim = (name: string) => (Object.hasOwn(claims, name) ? claims[name] : undefined);
  const customerId = customerClaim === null ? undefined : claim(customerClaim);
  if (customerId !== undefined && typeof customerId !== 'string') return 'customer';
  // The plan of a customer's token is that of the customer.
  const plan = customerId === undefined ? claim(planClaim) : '';
  if (typeof plan !== 'string') return 'plan';
  const id = jwtConsumerId(issuer, sub);
  const scopes = scopesOfClaims(claims);
  const boundTo = certificateOfClaims(claims);
  const onlyFrom = boundTo === null ? null : { boundTo };
  const unknown = { name: null, owner: null, onlyFrom, meta: NO_META, customer: null };
  const consumer: Consumer = { id, plan, limits: Object.freeze({}), scopes, ...unknown };
  return { consumer: Object.freeze(consumer), customerId: customerId ?? null, expiresAtMs };
}

/**
 * The scopes of a token: those of `scope` (RFC 8693 section 4.2, RFC 9068 section 2.2.3), else of `scp`, which some issuers
 * write instead. Each is a text of scopes with blanks between them, or a list. A claim of another form brings no scope.
 */
function scopesOfClaims({ scope, scp }: JWTPayload): readonly string[] {
  const claim = scope ?? scp;
  const texts: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
  const found = texts.flatMap((text) => (typeof text === 'string' ? text.split(' ').filter((one) => one !== '') : []));
  return Object.freeze([...new Set(found)]);
}

/**
 * The thumbprint of the client certificate that a token is bound to (RFC 8705 section 3.1); null without such a binding. One that is no
 * text is that of no certificate.
 */
function certificateOfClaims({ cnf }: JWTPayload): string | null {
  if (typeof cnf !== 'object' || cnf === null || !Object.hasOwn(cnf, 'x5t#S256')) return null;
  const thumbprint = (cnf as Record<string, unknown>)['x5t#S256'];
  return typeof thumbprint === 'string' ? thumbprint : '';
}

/**
 * When verified claims expire, in Unix milliseconds.
 * @param latestSeconds the latest `iat` that is accepted, Unix seconds
 */
export function expiryOf({ exp, iat }: JWTPayload, latestSeconds: number): number | 'no_expiry' | 'not_yet' {
  if (typeof exp !== 'number' || !Number.isFinite(exp)) return 'no_expiry';
  if (iat !== undefined && !(typeof iat === 'number' && iat <= latestSeconds)) return 'not_yet';
  return exp * 1000;
}

/** The faults of tokens; annotate/errors.ts has a sentence for the caller for each. */
export type JwtRefusal =
  | 'malformed'
  | 'too_long'
  /** The token is signed with an algorithm that the settings do not allow, or not signed. */
  | 'algorithm'
  /** The issuer has no key with the `kid` of the token; if it has none, no key of its type. */
  | 'unknown_key'
  | 'signature'
  | 'issuer'
  | 'audience'
  | 'expired'
  /** `exp` is missing or not a time. */
  | 'no_expiry'
  /** `nbf` or `iat` is in the future or not a time. */
  | 'not_yet'
  /** `sub` is missing or empty. */
  | 'subject'
  /** The claim that names the plan is missing, or names a plan that a token cannot have. */
  | 'plan'
  /** The claim that names the customer is not the id of one. */
  | 'customer'
  | 'customer_expired'
  /** The token is bound to a client certificate (`cnf`), and the connection has another one, or no certificate. */
  | 'certificate';

const REFUSAL_OF_CLAIM: Readonly<Record<string, JwtRefusal>> = {
  iss: 'issuer',
  aud: 'audience',
  exp: 'no_expiry',
  nbf: 'not_yet',
  iat: 'not_yet',
  sub: 'subject',
};

/** The refusal for an error of jose; null if the token is not at fault. */
export function refusalOf(error: unknown): JwtRefusal | null {
  if (error instanceof errors.JWTExpired) return 'expired';
  if (error instanceof errors.JWTClaimValidationFailed) return REFUSAL_OF_CLAIM[error.claim] ?? 'malformed';
  if (error instanceof errors.JOSEAlgNotAllowed) return 'algorithm';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'signature';
  if (error instanceof errors.JWKSNoMatchingKey) return 'unknown_key';
  if (error instanceof errors.JWKSInvalid) return null;
  // Among them a `crit` parameter that jose does not support (RFC 7515 section 4.1.11).
  return error instanceof errors.JOSEError ? 'malformed' : null;
}
