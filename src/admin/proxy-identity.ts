import { hash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { ROLES, type Role } from '../config/admin-tokens-file.ts';
import type { ProxyIdentitySettings } from '../config/identification.ts';
import { expiryOf, MAX_JWT_LENGTH, RememberedTokens, TOLERANCE_SECONDS, verifyClaims } from '../identify/jwt.ts';
import type { JwtKeys } from '../identify/jwt-keys.ts';
import type { Verifications } from '../identify/verifications.ts';
import type { Identity } from './call.ts';

interface ProxyIdentityOptions {
  readonly settings: ProxyIdentitySettings;
  readonly keys: JwtKeys;
  /** They wait when an address has sent too many wrong tokens: the right token always passes (contract section 7). */
  readonly verifications: Verifications;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** The person that the token of an authenticating proxy names, or why the token is not accepted. */
type ProxyOutcome =
  | { readonly kind: 'person'; readonly identity: ProxyIdentity }
  | { readonly kind: 'refused' }
  /** The token is right and has no name or no role of this gateway. */
  | { readonly kind: 'forbidden'; readonly why: string }
  /** The keys of the proxy cannot be had. */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number };

/** The longest name of a person that is accepted, in UTF-16 code units. */
const MAX_NAME = 256;
/** Values of the role claim that are looked at. */
const MAX_VALUES = 1_000;
/** Most tokens of people that are remembered. */
const REMEMBERED = 1_000;
/** Longest delay of a Node timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Identifies people by the JSON Web Tokens of an authenticating proxy in front of the admin listener (contract section 7), by the
 * rules for callers' tokens (identify/jwt.ts): only algorithms with public keys, issuer and audience to the letter, `exp` required.
 * A client that reaches the listener past the proxy cannot make such a token.
 */
export class ProxyIdentities {
  readonly #options: ProxyIdentityOptions;
  /** So that a person who is at work never waits behind wrong tokens. */
  readonly #people: RememberedTokens<ProxyIdentity>;

  constructor(options: ProxyIdentityOptions) {
    this.#options = options;
    this.#people = new RememberedTokens(REMEMBERED, options.monotonicMs);
  }

  /** The name of the field that has the token, in lower case. */
  get header(): string {
    return this.#options.settings.header;
  }

  /** Never rejects. */
  async identify(token: string, clientAddress: string): Promise<ProxyOutcome> {
    const { settings, keys, nowMs, verifications } = this.#options;
    if (token.length > MAX_JWT_LENGTH) return { kind: 'refused' };
    const set = await keys.current();
    if ('retryAfterMs' in set) return { kind: 'unavailable', ...set };
    const sha = hash('sha256', token);
    const known = this.#people.get(sha, set);
    if (known !== null) return known.expiresAtMs > nowMs() ? { kind: 'person', identity: known } : { kind: 'refused' };
    const options = { rules: settings, keys, requiredClaims: ['exp'], wallMs: nowMs, verifications, clientAddress };
    const verified = await verifyClaims(token, set, options);
    if ('retryAfterMs' in verified) return { kind: 'unavailable', ...verified };
    if (!('claims' in verified)) return { kind: 'refused' };
    const expiresAtMs = expiryOf(verified.claims, nowMs() / 1000 + TOLERANCE_SECONDS);
    if (typeof expiresAtMs === 'string' || expiresAtMs <= nowMs()) return { kind: 'refused' };
    const person = personOf(verified.claims, settings, { expiresAtMs, nowMs });
    if (person.kind === 'person') this.#people.keep(sha, verified.set, person.identity, expiresAtMs - nowMs());
    return person;
  }
}

function personOf(
  claims: JWTPayload,
  { nameClaim, roleClaim, roles }: ProxyIdentitySettings,
  times: Pick<ProxyIdentity, 'expiresAtMs'> & { readonly nowMs: () => number },
): Extract<ProxyOutcome, { kind: 'person' | 'forbidden' }> {
  const name = Object.hasOwn(claims, nameClaim) ? claims[nameClaim] : undefined;
  if (
    typeof name !== 'string' ||
    name.length > MAX_NAME ||
    !/^[^\p{C}\p{Z}]([^\p{C}\p{Zl}\p{Zp}]*[^\p{C}\p{Z}])?$/u.test(name)
  ) {
    return { kind: 'forbidden', why: `The token of the proxy has no name in the claim "${nameClaim}".` };
  }
  const claim = Object.hasOwn(claims, roleClaim) ? claims[roleClaim] : undefined;
  const values: readonly unknown[] = Array.isArray(claim) ? claim.slice(0, MAX_VALUES) : [claim];
  const found = values.flatMap((value) =>
    typeof value === 'string' && Object.hasOwn(roles, value) ? roles[value]! : [],
  );
  const role = ROLES.findLast((one) => found.includes(one));
  if (role === undefined) {
    return {
      kind: 'forbidden',
      why: `The claim "${roleClaim}" in the token of the proxy gives no role on this gateway.`,
    };
  }
  return { kind: 'person', identity: new ProxyIdentity(name, role, times) };
}

class ProxyIdentity implements Identity {
  readonly name: string;
  readonly role: Role;
  readonly via = 'proxy';
  /** When the token expires, in Unix milliseconds. */
  readonly expiresAtMs: number;
  readonly #nowMs: () => number;

  constructor(name: string, role: Role, { expiresAtMs, nowMs }: { expiresAtMs: number; nowMs: () => number }) {
    this.name = name;
    this.role = role;
    this.expiresAtMs = expiresAtMs;
    this.#nowMs = nowMs;
  }

  /** Aborted when the token expires. Made when it is asked for, so that only streams have a timer. */
  get signal(): AbortSignal {
    return AbortSignal.timeout(Math.min(Math.max(this.expiresAtMs - this.#nowMs(), 0), MAX_TIMER_MS));
  }
}
