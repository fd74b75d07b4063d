import { decodeProtectedHeader, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Consumer } from './consumer.ts';
import { consumerOfClaims } from './jwt-claims.ts';
import type { JwtKeys, KeySet, KeysAway } from './jwt-keys.ts';
import { type JwtRefusal, refusalOf } from './jwt-refusal.ts';

/** What a token has to be like (contract section 5). */
export interface JwtRules {
  /** `iss`, to the letter. */
  readonly issuer: string;
  /** One of these must be in `aud`. */
  readonly audience: readonly string[];
  /** JOSE names. Never one of a shared secret: the keys are public. */
  readonly algorithms: readonly string[];
  /** The claim that names the plan. */
  readonly planClaim: string;
}

/** Who calls with a token, or why that cannot be said. */
export type JwtIdentity =
  | { readonly kind: 'consumer'; readonly key: Consumer; readonly expiresAtMs: number }
  | JwtRefused
  /** The issuer's keys cannot be had: 503, not 401, or clients would throw good tokens away. */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number };

export interface JwtRefused {
  readonly kind: 'refused';
  readonly code: 'invalid_api_key' | 'expired_api_key';
  readonly why: JwtRefusal;
}

export interface JwtVerifierOptions {
  readonly rules: JwtRules;
  readonly keys: JwtKeys;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Verified tokens that are remembered at most. */
  readonly remembered?: number;
}

interface Verified {
  readonly identity: Extract<JwtIdentity, { kind: 'consumer' }>;
  /** The keys that it was verified with; others may not have signed it. */
  readonly set: KeySet;
  /** Monotonic milliseconds. */
  readonly untilMs: number;
}

/** Longer tokens are refused unread: what a stranger sends must not cost more than a request. */
export const MAX_JWT_LENGTH = 8_192;
/** How far the issuer's clock may be ahead, for `nbf` and `iat`. A token is never accepted after its own `exp`. */
const TOLERANCE_SECONDS = 10;
/** A verified token is believed for this long at most before its signature is looked at again. */
const REMEMBER_MS = 300_000;
/** Keys of one `kid` that are tried. An issuer has one; some have two for a moment. */
const MOST_KEYS = 4;

/**
 * Tells whose a JSON Web Token is (contract section 5; RFC 7519, RFC 8725). Algorithms, issuer and audience are those of
 * the settings whatever the token says of itself; the token's own `jwk`, `jku` and `x5c` are not looked at.
 *
 * The attacks: `alg: none`; HS256 with the public key as the secret; a key that the token brings along; a token for
 * another audience; one that lives for ever. Each has its test in test/identify/jwt.test.ts.
 */
export class JwtVerifier {
  readonly #options: JwtVerifierOptions;
  readonly #verified: LRUCache<string, Verified>;
  readonly #underWay = new Map<string, Promise<JwtIdentity>>();

  constructor(options: JwtVerifierOptions) {
    this.#options = options;
    this.#verified = new LRUCache({ max: options.remembered ?? 50_000 });
  }

  /**
   * At once where the token was verified lately, else when its signature has been, or the keys were waited for. Never
   * rejects.
   * @param sha the SHA-256 of the token: what it is remembered under
   */
  identify(token: string, sha: string): JwtIdentity | Promise<JwtIdentity> {
    if (token.length > MAX_JWT_LENGTH) return refused('too_long');
    const keys = this.#options.keys.current();
    return keys instanceof Promise
      ? keys.then((it) => this.#identify(token, sha, it))
      : this.#identify(token, sha, keys);
  }

  #identify(token: string, sha: string, keys: KeySet | KeysAway): JwtIdentity | Promise<JwtIdentity> {
    if ('retryAfterMs' in keys) return { kind: 'unavailable', ...keys };
    const entry = this.#verified.get(sha);
    if (entry !== undefined && entry.set === keys && this.#options.monotonicMs() < entry.untilMs) {
      return this.#options.wallMs() >= entry.identity.expiresAtMs ? refused('expired') : entry.identity;
    }
    return this.#verifyOnce(token, sha, keys);
  }

  /** Requests with the same token share one verification. */
  #verifyOnce(token: string, sha: string, set: KeySet): Promise<JwtIdentity> {
    const underWay = this.#underWay.get(sha);
    if (underWay !== undefined) return underWay;
    const verification = this.#verify(token, sha, set).finally(() => this.#underWay.delete(sha));
    this.#underWay.set(sha, verification);
    return verification;
  }

  async #verify(token: string, sha: string, set: KeySet): Promise<JwtIdentity> {
    try {
      return this.#accept(await this.#claims(token, set), sha, set);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) return this.#refusal(error, set);
    }
    const newer = await this.#options.keys.newerThan(set);
    if ('retryAfterMs' in newer) return { kind: 'unavailable', ...newer };
    if (newer === set) return refused('unknown_key');
    try {
      return this.#accept(await this.#claims(token, newer), sha, newer);
    } catch (error) {
      return this.#refusal(error, newer);
    }
  }

  async #claims(token: string, { find }: KeySet): Promise<JWTPayload> {
    const { issuer, audience, algorithms } = this.#options.rules;
    const options = {
      issuer,
      audience: [...audience],
      algorithms: [...algorithms],
      requiredClaims: ['exp', 'sub'],
      clockTolerance: TOLERANCE_SECONDS,
      currentDate: new Date(this.#options.wallMs()),
    };
    const verify = async (key: JWTVerifyGetKey) => (await jwtVerify(token, key, options)).payload;
    let several: errors.JWKSMultipleMatchingKeys;
    try {
      return await verify(find);
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      several = error;
    }
    // A token that does not say which of several keys it means is not tried against them all.
    if (decodeProtectedHeader(token).kid === undefined) throw several;
    let tried = 0;
    for await (const key of several) {
      try {
        return await verify(async () => key);
      } catch (error) {
        if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
      }
      if (++tried === MOST_KEYS) break;
    }
    throw new errors.JWSSignatureVerificationFailed();
  }

  #accept(claims: JWTPayload, sha: string, set: KeySet): JwtIdentity {
    const { rules, wallMs, monotonicMs } = this.#options;
    const read = consumerOfClaims(claims, rules, wallMs() / 1000 + TOLERANCE_SECONDS);
    if (typeof read === 'string') return refused(read);
    const { consumer, expiresAtMs } = read;
    const leftMs = expiresAtMs - wallMs();
    if (leftMs <= 0) return refused('expired');
    const identity = Object.freeze({ kind: 'consumer' as const, key: consumer, expiresAtMs });
    this.#verified.set(sha, { identity, set, untilMs: monotonicMs() + Math.min(leftMs, REMEMBER_MS) });
    return identity;
  }

  #refusal(error: unknown, set: KeySet): JwtIdentity {
    const why = refusalOf(error);
    if (why !== null) return refused(why);
    // A key that cannot be used is the issuer's mistake, not the caller's.
    return { kind: 'unavailable', ...this.#options.keys.unusable(set, error) };
  }
}

function refused(why: JwtRefusal): JwtRefused {
  return { kind: 'refused', code: why === 'expired' ? 'expired_api_key' : 'invalid_api_key', why };
}
