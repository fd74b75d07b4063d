import { LRUCache } from 'lru-cache';
import { type Consumer, consumerOf } from './consumer.ts';
import { fingerprintOf, foreignFingerprintOf, type KeyFormat } from './key-format.ts';
import type { KeyStore, StoredKey, StoredSecret } from './key-store.ts';
import { CHANGED, type Known, KnownSecrets } from './known-secrets.ts';
import { SecretSearch } from './secret-search.ts';

export { type Consumer, fingerprintOf };

/** Who calls, or why that cannot be said. */
export type Identity =
  | { readonly kind: 'consumer'; readonly key: Consumer }
  /** Unknown, revoked and malformed are one answer: it tells nobody which keys there once were. */
  | {
      readonly kind: 'refused';
      readonly code: 'invalid_api_key' | 'expired_api_key';
      /** For operators alone; left out where the key itself says what is wrong with it. */
      readonly cause?: string;
    }
  /** The store does not answer and this key was not seen lately (contract section 6), or its pepper is another: 503, not 401. */
  | { readonly kind: 'unavailable' };

export interface IdentifierOptions {
  readonly keyStore: KeyStore;
  /** Newest first; at least one. Keys found under an older one are re-hashed under the newest. */
  readonly peppers: readonly string[];
  /**
   * Whether the store is known to use these peppers; true where it is left out. Where it is not, every good key looks like
   * one that there is no record of, and is `unavailable` and not refused.
   */
  readonly isPepperRight?: () => boolean;
  /** Of keys that were made elsewhere; asked each time, since gateway.yaml may change. */
  readonly formats?: () => readonly KeyFormat[];
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** A known key keeps working for this long after the store last confirmed it. */
  readonly staleKeysMs: number;
  /** Secrets kept in memory at most, of each kind. */
  readonly bounds?: { readonly known: number; readonly unknown: number };
  /** Called once per failed look-up with the store's complaint. */
  readonly onStoreFailure?: (error: unknown) => void;
}

type Settled = { readonly known: Known } | { readonly identity: Identity };

const INVALID: Identity = Object.freeze({ kind: 'refused', code: 'invalid_api_key' });
const EXPIRED: Identity = Object.freeze({ kind: 'refused', code: 'expired_api_key' });
const UNAVAILABLE: Identity = Object.freeze({ kind: 'unavailable' });
const NO_RECORD: Identity = Object.freeze({
  kind: 'refused',
  code: 'invalid_api_key',
  cause: 'the key is well-formed, and the store has no record of it',
});
const REVOKED: Identity = Object.freeze({ kind: 'refused', code: 'invalid_api_key', cause: 'the key is revoked' });

/** Asked again in the background after this long, should a change ever go unheard. */
const CONFIRM_AFTER_MS = 10_000;
/** A secret that another gateway has put back under an older pepper is put under the newest again. */
const REHASH_AGAIN_AFTER_MS = 60_000;
/** How soon a new key works although it was tried before it was made; contract section 1 allows a second. */
const UNKNOWN_FOR_MS = 500;
/** After a failed look-up of a known key. */
const RETRY_AFTER_MS = 500;
/** When anything may have changed, known keys are used so long while they are confirmed, so many at a time. */
const GRACE_MS = 250;
const CONFIRMED_AT_ONCE = 32;

/**
 * Tells whose secret a token is (contract section 5). A known secret costs one SHA-256 and a look in a table; the table
 * is keyed by that hash, so no secret stays in memory. Made-up secrets fail their checksum; those that do not go into a
 * table of their own, so that a flood of them pushes out no good key.
 */
export class Identifier {
  readonly #options: IdentifierOptions;
  readonly #search: SecretSearch;
  readonly #known: KnownSecrets;
  /** Secrets that are refused without asking the store, and until when (monotonic milliseconds). */
  readonly #unknown: LRUCache<string, { readonly identity: Identity; readonly untilMs: number }>;
  readonly #underWay = new Map<string, Promise<Settled>>();
  #epoch = 0;
  /** What was confirmed in this epoch or later may be used until then, although there is a newer one. */
  #grace = { epoch: 0, untilMs: 0 };
  readonly #toConfirm = new Set<string>();
  #confirming = 0;
  /** Counts every `forget`: an answer that was under way meanwhile may be older than the change. */
  #changes = 0;

  constructor(options: IdentifierOptions) {
    this.#options = options;
    this.#search = new SecretSearch(options);
    const { known, unknown } = options.bounds ?? { known: 50_000, unknown: 10_000 };
    this.#known = new KnownSecrets(known);
    this.#unknown = new LRUCache({ max: unknown });
  }

  /** At once where memory suffices, else when the store has answered. Never rejects. */
  identify(token: string, own = fingerprintOf(token)): Identity | Promise<Identity> {
    const sha = own ?? foreignFingerprintOf(token, this.#options.formats?.() ?? []);
    if (sha === null) return INVALID;
    const entry = this.#known.get(sha);
    if (entry === undefined) return this.#identifyUnknown(sha);
    const nowMs = this.#options.monotonicMs();
    const isChanged = entry.epoch !== this.#epoch && nowMs >= entry.retryAtMs;
    if (isChanged || nowMs >= entry.freshUntilMs) {
      const hasGrace = entry.epoch >= this.#grace.epoch && nowMs < this.#grace.untilMs;
      const isStale = nowMs - entry.confirmedAtMs >= this.#options.staleKeysMs;
      if (isStale || (isChanged && !hasGrace)) return this.#askFirst(sha);
      entry.freshUntilMs = nowMs + RETRY_AFTER_MS;
      this.#confirm(sha);
    }
    return this.#answer(entry);
  }

  /**
   * A key may have changed: the store is asked before it is used again. Null: any may have, as after an outage. For 250 ms
   * they are then asked about in the background, a few at a time: a store that has just come back is not run down.
   */
  forget(keyId: string | null): void {
    this.#changes++;
    this.#underWay.clear();
    if (keyId === null) {
      const nowMs = this.#options.monotonicMs();
      // Said again within a grace it neither ends nor prolongs it: an outage ends with several such words.
      if (nowMs >= this.#grace.untilMs) this.#grace = { epoch: this.#epoch, untilMs: nowMs + GRACE_MS };
      this.#epoch++;
    } else this.#known.markChanged(keyId);
  }

  /** Secrets that are remembered, for a metric. */
  get remembered(): { readonly known: number; readonly unknown: number } {
    return { known: this.#known.size, unknown: this.#unknown.size };
  }

  #identifyUnknown(sha: string): Identity | Promise<Identity> {
    const refused = this.#unknown.get(sha);
    const isFresh = refused !== undefined && this.#options.monotonicMs() < refused.untilMs;
    return isFresh ? refused.identity : this.#askFirst(sha);
  }

  #askFirst(sha: string): Promise<Identity> {
    return this.#lookUp(sha).then(this.#identityOf);
  }

  /** One for all: a flood of unknown secrets has no closure of its own for each. */
  readonly #identityOf = (settled: Settled): Identity =>
    'known' in settled ? this.#answer(settled.known) : settled.identity;

  /** Looks a known secret up in the background, with a few others at a time. */
  #confirm(sha: string): void {
    this.#toConfirm.add(sha);
    if (this.#confirming < CONFIRMED_AT_ONCE) void this.#confirmAll();
  }

  async #confirmAll(): Promise<void> {
    this.#confirming++;
    for (const sha of this.#toConfirm) {
      this.#toConfirm.delete(sha);
      await this.#lookUp(sha);
    }
    this.#confirming--;
  }

  /** Expiry is looked at each time, not only when the store is asked. */
  #answer({ identity, expiresAtMs }: Known): Identity {
    return expiresAtMs !== Number.POSITIVE_INFINITY && this.#options.wallMs() >= expiresAtMs ? EXPIRED : identity;
  }

  /** Requests with the same secret share one look-up. Never rejects. */
  #lookUp(sha: string): Promise<Settled> {
    const underWay = this.#underWay.get(sha);
    if (underWay !== undefined) return underWay;
    const lookUp = this.#ask(sha);
    this.#underWay.set(sha, lookUp);
    return lookUp;
  }

  async #ask(sha: string): Promise<Settled> {
    const changes = this.#changes;
    const epoch = this.#epoch;
    const askedAtMs = this.#options.monotonicMs();
    try {
      const found = await this.#search.find(sha);
      const isCurrent = changes === this.#changes;
      if (found === null || found.key.revokedAtMs !== null) {
        this.#known.delete(sha);
        // Under a wrong pepper no key is found, and 401 would tell the clients to throw good ones away.
        if (found === null && this.#options.isPepperRight?.() === false) return { identity: UNAVAILABLE };
        const identity = found === null ? NO_RECORD : REVOKED;
        if (isCurrent) this.#unknown.set(sha, { identity, untilMs: this.#options.monotonicMs() + UNKNOWN_FOR_MS });
        return { identity };
      }
      const known = this.#remember(sha, found.key, found.secret, askedAtMs, isCurrent ? epoch : CHANGED);
      if (found.oldDigest !== null && askedAtMs >= known.rehashAtMs) void this.#rehash(known, found.oldDigest, sha);
      return { known };
    } catch (error) {
      this.#options.onStoreFailure?.(error);
      return this.#withoutStore(sha);
    } finally {
      // After a `forget` it is not there any more, and another one may be.
      if (changes === this.#changes) this.#underWay.delete(sha);
    }
  }

  #remember(sha: string, key: StoredKey, secret: StoredSecret, askedAtMs: number, epoch: number): Known {
    const before = this.#known.peek(sha);
    const known: Known = {
      // The same object while nothing changed: others keep what they worked out for a consumer by its identity.
      identity: consumerOf(key, before?.identity.kind === 'consumer' ? before.identity.key : null),
      keyId: key.id,
      expiresAtMs: Math.min(
        key.expiresAtMs ?? Number.POSITIVE_INFINITY,
        secret.expiresAtMs ?? Number.POSITIVE_INFINITY,
      ),
      confirmedAtMs: askedAtMs,
      freshUntilMs: askedAtMs + Math.min(CONFIRM_AFTER_MS, this.#options.staleKeysMs),
      epoch,
      retryAtMs: 0,
      rehashAtMs: before?.rehashAtMs ?? 0,
    };
    this.#known.set(sha, known);
    return known;
  }

  /** Keys seen before keep working while the store is away, for as long as the operator allows. */
  #withoutStore(sha: string): Settled {
    const entry = this.#known.peek(sha);
    const nowMs = this.#options.monotonicMs();
    const isStale = entry === undefined || nowMs - entry.confirmedAtMs >= this.#options.staleKeysMs;
    if (isStale) return { identity: UNAVAILABLE };
    entry.retryAtMs = nowMs + RETRY_AFTER_MS;
    return { known: entry };
  }

  /**
   * Puts a secret under the newest pepper, in the background; if that fails, its next look-up tries again. Gateways that
   * have both peppers, in whatever order, go on finding it. One that has the old pepper alone does not and refuses the
   * key: where several gateways share a store, `old,new` goes to all of them first, and only then `new,old`. While both
   * orders are in force one puts back what the other has put there; the last one left does it once more.
   */
  async #rehash(known: Known, oldDigest: string, sha: string): Promise<void> {
    const newDigest = this.#search.newestDigestOf(sha);
    known.rehashAtMs = this.#options.monotonicMs() + REHASH_AGAIN_AFTER_MS;
    try {
      const underNewest = (key: StoredKey): StoredKey => {
        if (key.secrets.some(({ digest }) => digest === newDigest)) return key;
        const secrets = key.secrets.map((one) => (one.digest === oldDigest ? { ...one, digest: newDigest } : one));
        return { ...key, secrets };
      };
      // Where it is lost again the secret is found under its old digest, and this is done once more.
      await this.#options.keyStore.update(known.keyId, underNewest, { isLasting: false });
    } catch (error) {
      known.rehashAtMs = 0;
      this.#options.onStoreFailure?.(error);
    }
  }
}
