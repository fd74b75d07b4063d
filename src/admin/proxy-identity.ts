import { hash } from 'node:crypto';
import type { Role } from '../config/admin-tokens-file.ts';
import type { ProxyIdentitySettings } from '../config/identification.ts';
import { expiryOf, MAX_JWT_LENGTH, RememberedTokens, TOLERANCE_SECONDS, verifyClaims } from '../identify/jwt.ts';
import type { JwtKeys } from '../identify/jwt-keys.ts';
import type { Verifications } from '../identify/verifications.ts';
import type { Identity } from './call.ts';
import { type Person, personIn } from './person.ts';

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
    const person = personIn(verified.claims, settings, 'the token of the proxy');
    if ('why' in person) return { kind: 'forbidden', why: person.why };
    const identity = new ProxyIdentity(person, { expiresAtMs, nowMs });
    this.#people.keep(sha, verified.set, identity, expiresAtMs - nowMs());
    return { kind: 'person', identity };
  }
}

class ProxyIdentity implements Identity {
  readonly name: string;
  readonly role: Role;
  readonly kind = 'person';
  readonly via = 'proxy';
  /** When the token expires, in Unix milliseconds. */
  readonly expiresAtMs: number;
  readonly #nowMs: () => number;

  constructor({ name, role }: Person, { expiresAtMs, nowMs }: { expiresAtMs: number; nowMs: () => number }) {
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
