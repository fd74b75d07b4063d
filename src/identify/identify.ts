import { isDeepStrictEqual } from 'node:util';
import { RecentlyUsed } from '../io/recently-used.ts';
import type { Meta } from '../model/attributes.ts';
import type { Limits } from '../model/plan.ts';
import {
  isSuspended,
  longerOf,
  type StoredKey,
  type StoredSecret,
  type Suspension,
  UnreadableRecord,
} from '../model/record.ts';
import { fingerprintOf, foreignFingerprintOf, formOf, type KeyFormat } from './api-key.ts';
import {
  type Customer,
  type KnownCustomer,
  type KnownCustomers,
  type OnlyFrom,
  onlyFromOf,
} from './known-customers.ts';
import { type ChangeFeed, type KeyStore, type UnreadableIdentity, unreadable } from './record-store.ts';
import { type KeyMatch, SecretSearch } from './secret-search.ts';
import { secretName } from './secret-use-store.ts';

/*
 * Who has the API key of a request: the consumers, the Identifier, and the secrets that it knows or searches for.
 */

/** The consumer that a secret identifies, or why it identifies no consumer. */
export type Identity =
  | {
      readonly kind: 'consumer';
      readonly key: Consumer;
      /** The name of the secret (`secretName`); null if a certificate stands for the key. */
      readonly secret: string | null;
    }
  /** The consumer is known and an operator has suspended it, or its customer: it may do nothing. */
  | { readonly kind: 'suspended'; readonly key: Consumer; readonly secret: string | null }
  /** Unknown, revoked and malformed secrets get the same answer, so that a stranger cannot learn which keys have existed. */
  | {
      readonly kind: 'refused';
      readonly code: 'invalid_api_key' | 'expired_api_key';
      /** For operators alone; left out if the code is sufficient. */
      readonly cause?: string;
      /** The secret of a known key that has ended, for operators alone; left out for any other. */
      readonly ended?: EndedSecret;
    }
  /** The store does not answer and the secret is not in memory (contract section 6), or the pepper may be wrong: 503, not 401. */
  | { readonly kind: 'unavailable' }
  | UnreadableIdentity;

/** A secret that works no more: it or its key is revoked, replaced or expired. */
export interface EndedSecret {
  readonly keyId: string;
  /** Its last four characters; empty if they are not known. */
  readonly last4: string;
}

/** The identified caller. Frozen, and the same object from request to request while its key does not change. */
export interface Consumer {
  /** The id to which quota and bans belong: that of the key, of a token's holder, or of a public route's client network. */
  readonly id: string;
  /** That of the customer, for a caller of a customer. */
  readonly plan: string;
  /** The key's own limits, which replace those of its plan; for a caller of a customer, what it may take of the customer's. */
  readonly limits: Limits;
  readonly name: string | null;
  readonly owner: string | null;
  /** What the caller may do (RFC 6749 section 3.3), that of its customer included; see `scopesOf` in gateway/who-may-call.ts. */
  readonly scopes: readonly string[];
  /** Where its requests must come from; null if from anywhere, as for most callers. Its customer may say more of that. */
  readonly onlyFrom: OnlyFrom | null;
  /** With that of its customer. */
  readonly meta: Meta;
  /** Whose caller it is; null for a caller of its own. */
  readonly customer: Customer | null;
}

type KnownConsumer = Extract<Identity, { kind: 'consumer' }>;

/** The limits of most keys: one object for all of them. */
const NO_LIMITS: Limits = Object.freeze({});
const NO_SCOPES: readonly string[] = Object.freeze([]);
const NO_FORMATS: readonly KeyFormat[] = Object.freeze([]);
export const NO_META: Meta = Object.freeze({});

/**
 * The identity that all requests with a key share.
 * @param before the consumer of the previous look-up; reused if nothing has changed
 */
function consumerOf(
  { id, plan, limits, name, owner, scopes = NO_SCOPES, addresses, origins, boundTo, meta = NO_META }: StoredKey,
  customer: Customer | null,
  secret: StoredSecret | null,
  before: Consumer | null,
): KnownConsumer {
  const own = Object.keys(limits).length === 0 ? NO_LIMITS : Object.freeze({ ...limits });
  const onlyFrom = onlyFromOf({ addresses, origins, boundTo });
  const alone: Consumer = { id, plan, limits: own, name, owner, scopes, onlyFrom, meta, customer: null };
  const current = customer === null ? alone : consumerWith(alone, customer);
  const key = before !== null && isDeepStrictEqual(before, current) ? before : Object.freeze(current);
  return Object.freeze({ kind: 'consumer', key, secret: secret === null ? null : secretName(secret) });
}

/** A caller with what its customer brings: the plan, its scopes and its metadata. */
export function consumerWith(consumer: Consumer, customer: Customer): Consumer {
  const scopes =
    customer.scopes.length === 0 ? consumer.scopes : [...new Set([...consumer.scopes, ...customer.scopes])];
  return { ...consumer, plan: customer.plan, scopes, meta: { ...customer.meta, ...consumer.meta }, customer };
}

export { fingerprintOf };

export interface IdentifierOptions {
  readonly keyStore: KeyStore;
  readonly customers: Pick<KnownCustomers, 'read' | 'forget'>;
  /** Newest first; at least one. Keys found under an older one are re-hashed under the newest. */
  readonly peppers: readonly string[];
  /**
   * Whether the gateway has verified that the store uses these peppers; left out: true. With a wrong pepper no key is
   * found, so while this is false an unknown key is `unavailable` instead of refused.
   */
  readonly isPepperRight?: () => boolean;
  /** Whether the store has ever had another pepper; left out: it has not. Then each record gets the mark of its pepper when it is used. */
  readonly hadOtherPepper?: () => boolean;
  /** The formats of keys that were made elsewhere; called for each request, since gateway.yaml may change. */
  readonly formats?: () => readonly KeyFormat[];
  /** The feed that tells of changes by `forget`; left out: no feed does. */
  readonly changes?: Pick<ChangeFeed, 'isCurrent'>;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** A known key keeps working for this long after the store last confirmed it. */
  readonly staleKeysMs: number;
  /** Maximum secrets of each kind that are kept in memory. */
  readonly bounds?: { readonly known: number; readonly unknown: number };
  /**
   * Called when a secret of a key is in use, once on each day (UTC), and again if it returns false. It is called with the look-ups of
   * a secret in use, of which the first on a day is at most ten seconds late, so a use in the first seconds of a day may not be noted.
   * @param nowMs by `wallMs`
   */
  readonly onUse?: (key: StoredKey, secret: StoredSecret, nowMs: number) => boolean;
  /** Called when a secret that was found under an older pepper is stored under the newest. */
  readonly onRehash?: () => void;
  /** Called once per failed look-up with the store's error. */
  readonly onStoreFailure?: (error: unknown) => void;
}

/** The result of looking a secret up: its record, or why the caller has no identity. */
type SecretLookUp = { readonly known: KnownSecret } | { readonly identity: Identity };

const INVALID: Identity = Object.freeze({ kind: 'refused', code: 'invalid_api_key' });
const UNAVAILABLE: Identity = Object.freeze({ kind: 'unavailable' });
const NO_RECORD: Identity = Object.freeze({
  kind: 'refused',
  code: 'invalid_api_key',
  cause: 'the key is well-formed, and the store has no record of it',
});
const NO_CUSTOMER: Identity = Object.freeze({
  kind: 'refused',
  code: 'invalid_api_key',
  cause: 'the customer of the key is deleted',
});

/** The prefix of the names of a certificate where secrets have their SHA-256. No SHA-256 has a blank. */
const CERTIFICATE = 'certificate ';
/** A known secret is confirmed after this long, in case a notification of a change was lost: by the feed of changes, or a look-up in the background. */
const CONFIRM_AFTER_MS = 10_000;
/**
 * It is looked up after this long although the feed knows of no change: a process that changes a record may be killed before it announces
 * that. At ten seconds, 50,000 keys in use would need up to 5,000 look-ups a second.
 */
const LOOK_UP_AFTER_MS = 60_000;
/** Pause before a secret is re-hashed again that another gateway has put back under an older pepper. */
const REHASH_AGAIN_AFTER_MS = 60_000;
/** How long an unknown secret is refused from memory: a key made after that attempt works so soon (contract section 1: 1 s). */
const UNKNOWN_FOR_MS = 500;
/** Pause after a failed look-up of a known secret. */
const RETRY_AFTER_MS = 500;
/** After `forget(null)`, known secrets stay in use for this long while the store confirms them. */
const GRACE_MS = 250;
/** Look-ups in the background at a time. */
const MAX_CONFIRMING = 32;

/**
 * Identifies the consumer to whom a secret belongs (contract section 5). A known secret costs one SHA-256 and one look-up
 * in a table. The table is keyed by the hash, so that no secret stays in memory. Made-up secrets fail their checksum;
 * those that pass it go into a table of their own, so that a flood of them evicts no good key.
 */
export class Identifier {
  readonly #options: IdentifierOptions;
  readonly #search: SecretSearch;
  readonly #known: KnownSecrets;
  /** Secrets that are refused without a look-up until `untilMs` (monotonic milliseconds). */
  readonly #unknown: RecentlyUsed<{ readonly identity: Identity; readonly untilMs: number }>;
  readonly #lookUps = new Map<string, Promise<SecretLookUp>>();
  /** `forget(null)` begins a new epoch, in which every known secret must be confirmed. */
  #epoch = 0;
  /** Secrets confirmed in this epoch or later may be used until `untilMs`, although a newer epoch has begun. */
  #grace = { epoch: 0, untilMs: 0 };
  readonly #toConfirm = new Set<string>();
  #confirming = 0;
  /** Counts the calls of `forget`: an answer to a look-up that began before one may be older than the change. */
  #changes = 0;

  constructor(options: IdentifierOptions) {
    this.#options = options;
    this.#search = new SecretSearch(options);
    const { known, unknown } = options.bounds ?? { known: 50_000, unknown: 10_000 };
    this.#known = new KnownSecrets(known);
    this.#unknown = new RecentlyUsed(unknown);
  }

  /**
   * The identity, synchronously if memory suffices, else when the store has answered. Never rejects.
   * @param own `fingerprintOf(token)`, if the caller has it
   */
  identify(token: string, own = fingerprintOf(token)): Identity | Promise<Identity> {
    const sha = own ?? foreignFingerprintOf(token, this.#options.formats?.() ?? []);
    return sha === null ? INVALID : this.#identifyHash(sha, token);
  }

  /**
   * @param sha of a secret, or the names of a certificate after `CERTIFICATE`
   * @param token the secret; empty for a certificate
   */
  #identifyHash(sha: string, token: string): Identity | Promise<Identity> {
    const entry = this.#known.get(sha);
    if (entry === undefined) return this.#identifyUnknown(sha, token);
    const nowMs = this.#options.monotonicMs();
    const isChanged = entry.epoch !== this.#epoch && nowMs >= entry.retryAtMs;
    if (isChanged || (nowMs >= entry.freshUntilMs && !this.#confirmByFeed(entry, nowMs))) {
      const hasGrace = entry.epoch >= this.#grace.epoch && nowMs < this.#grace.untilMs;
      const isStale = nowMs - entry.confirmedAtMs >= this.#options.staleKeysMs;
      if (isStale || (isChanged && !hasGrace)) return this.#askFirst(sha, token);
      entry.freshUntilMs = nowMs + RETRY_AFTER_MS;
      this.#confirm(sha);
    }
    return this.#answer(entry);
  }

  /**
   * The identity of the key that has one of the names of a verified certificate; refused if no key has one. Like `identify`, it is
   * remembered, so only the first request of a certificate waits for the store.
   * @param names the fingerprint first
   */
  identifyCertificate(names: readonly string[]): Identity | Promise<Identity> {
    return this.#identifyHash(CERTIFICATE + names.join(' '), '');
  }

  /**
   * A key, or a customer, may have changed: the store must confirm its secrets, or those of all its keys, before they are used again.
   * @param id null: any key may have changed, as after an outage. Known secrets then stay in use for 250 ms while the
   *   store confirms them in the background, a few at a time, so as not to overload a store that has just come back.
   */
  forget(id: string | null): void {
    this.#changes++;
    this.#lookUps.clear();
    this.#options.customers.forget(id);
    if (id === null) {
      const nowMs = this.#options.monotonicMs();
      // Several such calls come at the end of an outage. Within a grace period they neither end nor prolong it.
      if (nowMs >= this.#grace.untilMs) this.#grace = { epoch: this.#epoch, untilMs: nowMs + GRACE_MS };
      this.#epoch++;
    } else this.#known.markChanged(id);
  }

  /** The number of secrets in memory, for a metric. */
  get remembered(): { readonly known: number; readonly unknown: number } {
    return { known: this.#known.size, unknown: this.#unknown.size };
  }

  #identifyUnknown(sha: string, token: string): Identity | Promise<Identity> {
    const refused = this.#unknown.get(sha);
    const isFresh = refused !== undefined && this.#options.monotonicMs() < refused.untilMs;
    return isFresh ? refused.identity : this.#askFirst(sha, token);
  }

  #askFirst(sha: string, token: string): Promise<Identity> {
    return this.#lookUp(sha, token).then(this.#identityOf);
  }

  /** One function for all requests, so that a flood of unknown secrets allocates no closure for each. */
  readonly #identityOf = (found: SecretLookUp): Identity =>
    'known' in found ? this.#answer(found.known) : found.identity;

  /** True if the feed would have told of a change, so that no look-up is needed yet. */
  #confirmByFeed(entry: KnownSecret, nowMs: number): boolean {
    if (entry.epoch !== this.#epoch || nowMs >= entry.lookUpAtMs || !this.#options.changes?.isCurrent) return false;
    entry.confirmedAtMs = nowMs;
    entry.freshUntilMs = nowMs + this.#freshForMs;
    return true;
  }

  get #freshForMs(): number {
    return Math.min(CONFIRM_AFTER_MS, this.#options.staleKeysMs);
  }

  /** Looks up a known secret in the background. At most `MAX_CONFIRMING` such look-ups run at a time. */
  #confirm(sha: string): void {
    this.#toConfirm.add(sha);
    if (this.#confirming < MAX_CONFIRMING) void this.#confirmAll();
  }

  async #confirmAll(): Promise<void> {
    this.#confirming++;
    for (const sha of this.#toConfirm) {
      this.#toConfirm.delete(sha);
      await this.#lookUp(sha, '');
    }
    this.#confirming--;
  }

  /** Checks the expiry and the suspension for each request, also when the identity comes from memory. */
  #answer(known: KnownSecret): Identity {
    const { identity, expiresAtMs, suspension } = known;
    if (expiresAtMs !== Number.POSITIVE_INFINITY && this.#options.wallMs() >= expiresAtMs) {
      known.expired ??= expiredOf(known);
      return known.expired;
    }
    if (suspension === undefined || !isSuspended(suspension, this.#options.wallMs())) return identity;
    return { kind: 'suspended', key: identity.key, secret: identity.secret };
  }

  /** Requests with the same secret share one look-up. Never rejects. @param token empty if it is not known */
  #lookUp(sha: string, token: string): Promise<SecretLookUp> {
    const underWay = this.#lookUps.get(sha);
    if (underWay !== undefined) return underWay;
    const lookUp = this.#ask(sha, token);
    this.#lookUps.set(sha, lookUp);
    return lookUp;
  }

  async #ask(sha: string, token: string): Promise<SecretLookUp> {
    const changes = this.#changes;
    const epoch = this.#epoch;
    const askedAtMs = this.#options.monotonicMs();
    try {
      const found = await this.#find(sha);
      const isCurrent = changes === this.#changes;
      const isKept = isCurrent || !this.#isAskedSince(sha, askedAtMs);
      const hasEnded = found !== null && (found.hasEnded || found.key.revokedAtMs !== null);
      if (found === null || hasEnded || found.hasNoCustomer) {
        const last4 = found?.secret?.last4 ?? (token.slice(-4) || last4Of(this.#known.peek(sha)));
        if (isKept) this.#known.delete(sha);
        // Under a wrong pepper no key is found, and a 401 would make clients discard good keys.
        if (found === null && this.#options.isPepperRight?.() === false) return { identity: UNAVAILABLE };
        const identity = found === null ? NO_RECORD : hasEnded ? endedOf(found.key, last4) : NO_CUSTOMER;
        if (isCurrent) this.#unknown.set(sha, { identity, untilMs: this.#options.monotonicMs() + UNKNOWN_FOR_MS });
        return { identity };
      }
      const known = this.#knownOf(sha, found, askedAtMs, isCurrent ? epoch : CHANGED);
      if (isKept) this.#known.set(sha, known);
      const renewed = this.#renewed(found, token);
      if (renewed !== null && askedAtMs >= known.rehashAtMs) void this.#rehash(known, found.secret!.digest, renewed);
      return { known };
    } catch (error) {
      this.#options.onStoreFailure?.(error);
      const found = this.#withoutStore(sha);
      return 'known' in found || !(error instanceof UnreadableRecord) ? found : { identity: unreadable(error) };
    } finally {
      // `forget` has removed this look-up, and a later one may be in its place.
      if (changes === this.#changes) this.#lookUps.delete(sha);
    }
  }

  /** The key of a secret or a certificate, with its customer. */
  async #find(sha: string): Promise<CustomerKeyMatch | null> {
    const found = await (sha.startsWith(CERTIFICATE)
      ? this.#search.findByCertificate(sha.slice(CERTIFICATE.length).split(' '))
      : this.#search.find(sha));
    if (found === null) return null;
    const id = found.key.customer;
    if (id === undefined || found.hasEnded) return { ...found, customer: null, hasNoCustomer: false };
    const customer = await this.#options.customers.read(id);
    return { ...found, customer, hasNoCustomer: customer === null };
  }

  #knownOf(sha: string, { key, secret, customer }: CustomerKeyMatch, askedAtMs: number, epoch: number): KnownSecret {
    const before = this.#known.peek(sha);
    const usedOn = this.#noteUse(key, secret, before?.usedOn ?? NEVER);
    return {
      // The same object while the key is unchanged: other modules cache by the identity of the consumer object.
      identity: consumerOf(key, customer?.customer ?? null, secret, before?.identity.key ?? null),
      keyId: key.id,
      customerId: customer?.customer.id ?? null,
      suspension: longerOf(key.suspended, customer?.suspension),
      expiresAtMs: Math.min(
        key.expiresAtMs ?? Number.POSITIVE_INFINITY,
        secret?.expiresAtMs ?? Number.POSITIVE_INFINITY,
        customer?.expiresAtMs ?? Number.POSITIVE_INFINITY,
      ),
      confirmedAtMs: askedAtMs,
      freshUntilMs: askedAtMs + this.#freshForMs,
      lookUpAtMs: askedAtMs + this.#lookUpAfterMs(usedOn),
      epoch,
      expired: null,
      retryAtMs: 0,
      rehashAtMs: before?.rehashAtMs ?? 0,
      usedOn,
    };
  }

  /**
   * Whether memory has an answer to a question that was asked then or later.
   *
   * Fault: a look-up is slow, the key is revoked meanwhile, and a second look-up is faster. The first one would bring the revoked key back
   * into memory, where it works while the store is away.
   */
  #isAskedSince(sha: string, askedAtMs: number): boolean {
    const [known, unknown] = [this.#known.peek(sha), this.#unknown.peek(sha)];
    return (
      (known !== undefined && known.confirmedAtMs >= askedAtMs) ||
      (unknown !== undefined && unknown.untilMs - UNKNOWN_FOR_MS >= askedAtMs)
    );
  }

  /** The first use on each day is noted, so a secret is looked up again on the next day, and soon if its use could not be noted. */
  #lookUpAfterMs(usedOn: number): number {
    const { onUse, wallMs } = this.#options;
    const nowMs = wallMs();
    const nextDayMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS;
    if (onUse !== undefined && nextDayMs !== (usedOn + 1) * DAY_MS) return 0;
    return Math.min(LOOK_UP_AFTER_MS, nextDayMs - nowMs);
  }

  /** @param usedOn the day that was noted before @returns the day that is noted now */
  #noteUse(key: StoredKey, secret: StoredSecret | null, usedOn: number): number {
    const { onUse, wallMs } = this.#options;
    const nowMs = wallMs();
    const today = Math.floor(nowMs / DAY_MS);
    if (onUse === undefined || secret === null || usedOn === today) return usedOn;
    return onUse(key, secret, nowMs) ? today : usedOn;
  }

  /** While the store is away, known secrets keep working for `staleKeysMs` (contract section 6). */
  #withoutStore(sha: string): SecretLookUp {
    const entry = this.#known.peek(sha);
    const nowMs = this.#options.monotonicMs();
    const isStale = entry === undefined || nowMs - entry.confirmedAtMs >= this.#options.staleKeysMs;
    if (isStale) return { identity: UNAVAILABLE };
    entry.retryAtMs = nowMs + RETRY_AFTER_MS;
    return { known: entry };
  }

  /**
   * What the record of a secret is to have: its digest under the newest pepper with the mark of that, and where there are formats, its
   * form. Null: it has all of it. A store without formats that has had one pepper needs neither.
   */
  #renewed({ secret, renewed }: KeyMatch, token: string): Partial<StoredSecret> | null {
    const formats = this.#options.formats?.() ?? NO_FORMATS;
    // In the background the secret itself is not known.
    const form = formats.length === 0 || secret === null || token === '' ? undefined : formOf(token, formats);
    const { peppers, hadOtherPepper } = this.#options;
    const hashed = peppers.length > 1 || hadOtherPepper?.() === true ? renewed : null;
    return form === undefined || form === secret?.form ? hashed : { ...hashed, form };
  }

  /**
   * Stores a secret's digest under the newest pepper, with what says so, in the background; if that fails, the next look-up tries again.
   *
   * Gateways that have both peppers, in either order, still find the secret. A gateway with the old pepper alone refuses
   * it. So operators first give `old,new` to all gateways that share a store, and only then `new,old`. While gateways have
   * both orders, each may undo the re-hash of another; the digest settles when all have the same order.
   */
  async #rehash(known: KnownSecret, present: string, renewed: Partial<StoredSecret>): Promise<void> {
    const { digest = present } = renewed;
    known.rehashAtMs = this.#options.monotonicMs() + REHASH_AGAIN_AFTER_MS;
    try {
      let isNew = false;
      const underNewest = (key: StoredKey): StoredKey => {
        const has = (one: string) => key.secrets.some((secret) => secret.digest === one);
        // Another gateway may have done it.
        isNew = digest !== present && has(present) && !has(digest);
        const replaced = isNew ? present : digest;
        const secrets = key.secrets.map((secret) => (secret.digest === replaced ? { ...secret, ...renewed } : secret));
        return isDeepStrictEqual(secrets, key.secrets) ? key : { ...key, secrets };
      };
      // Need not be durable: if a failover undoes it, the secret is found under its old digest and re-hashed again.
      await this.#options.keyStore.update(known.keyId, underNewest, { isLasting: false });
      if (isNew) this.#options.onRehash?.();
    } catch (error) {
      known.rehashAtMs = 0;
      this.#options.onStoreFailure?.(error);
    }
  }
}

/** A secret whose key existed and was not revoked when the store was last asked. */
interface KnownSecret {
  readonly identity: KnownConsumer;
  readonly keyId: string;
  readonly customerId: string | null;
  /** That of the key or of its customer, whichever ends last; undefined for most keys. One whose end has passed has no effect, so no look-up is needed then. */
  readonly suspension: Suspension | undefined;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAtMs: number;
  /** When the store was last asked. Monotonic milliseconds, as all that follow. */
  confirmedAtMs: number;
  /** Until then the entry is used without a confirmation. */
  freshUntilMs: number;
  /** From then on the store confirms it, and not the feed of changes. */
  readonly lookUpAtMs: number;
  /** The epoch of the Identifier in which the store confirmed it, or CHANGED. In a later epoch the store is asked first. */
  epoch: number;
  /** The identity once it has expired; null until then. */
  expired: Identity | null;
  /** The store was asked and did not answer: until then the entry is used although its epoch is over. */
  retryAtMs: number;
  /**
   * The earliest time of the next re-hash: another gateway may have the peppers in the other order and undo each one.
   */
  rehashAtMs: number;
  /** The day for which `onUse` was called last, in days since 1970; NEVER before that. */
  readonly usedOn: number;
}

/** The same answer as an unknown secret gets. For operators it names the key. */
function endedOf({ id, revokedAtMs }: StoredKey, last4: string): Identity {
  const cause = revokedAtMs === null ? `the secret …${last4} of ${id} has ended` : `${id} is revoked`;
  return Object.freeze({ kind: 'refused', code: 'invalid_api_key', cause, ended: { keyId: id, last4 } });
}

function expiredOf(known: KnownSecret): Identity {
  const { keyId } = known;
  const ended = { keyId, last4: last4Of(known) };
  return Object.freeze({
    kind: 'refused',
    code: 'expired_api_key',
    cause: `${keyId} or its secret has expired`,
    ended,
  });
}

/** Empty if they are not known. */
function last4Of(known: KnownSecret | undefined): string {
  return known?.identity.secret?.split(' ')[1] ?? '';
}

const DAY_MS = 86_400_000;
const NEVER = -1;

/** An epoch that is never the present one. */
const CHANGED = -1;

/** The known secrets by their SHA-256, with an index by key id and by customer id. Evicts the least recently used. */
class KnownSecrets {
  readonly #entries: RecentlyUsed<KnownSecret>;
  /** Most keys have one secret, some two: an array takes a fifth of the memory of a set. */
  readonly #hashesOfKey = new Map<string, readonly string[]>();
  readonly #hashesOfCustomer = new Map<string, Set<string>>();

  /** @param most how many entries are kept */
  constructor(most: number) {
    this.#entries = new RecentlyUsed(most, (known, sha) => this.#unlink(known, sha));
  }

  get size(): number {
    return this.#entries.size;
  }

  get(sha: string): KnownSecret | undefined {
    return this.#entries.get(sha);
  }

  /** Returns the same as `get`, without counting as a use for the eviction. */
  peek(sha: string): KnownSecret | undefined {
    return this.#entries.peek(sha);
  }

  set(sha: string, known: KnownSecret): void {
    this.#entries.set(sha, known);
    const hashes = this.#hashesOfKey.get(known.keyId) ?? [];
    // `[...hashes, sha]` would keep room for sixteen more.
    if (!hashes.includes(sha)) this.#hashesOfKey.set(known.keyId, hashes.concat(sha));
    if (known.customerId === null) return;
    const ofCustomer = this.#hashesOfCustomer.get(known.customerId);
    if (ofCustomer === undefined) this.#hashesOfCustomer.set(known.customerId, new Set([sha]));
    else ofCustomer.add(sha);
  }

  delete(sha: string): void {
    this.#entries.delete(sha);
  }

  /** @param id that of a key or of a customer */
  markChanged(id: string): void {
    for (const sha of this.#hashesOfKey.get(id) ?? []) this.#entries.peek(sha)!.epoch = CHANGED;
    for (const sha of this.#hashesOfCustomer.get(id) ?? []) this.#entries.peek(sha)!.epoch = CHANGED;
  }

  #unlink({ keyId, customerId }: KnownSecret, sha: string): void {
    const hashes = (this.#hashesOfKey.get(keyId) ?? []).filter((other) => other !== sha);
    if (hashes.length === 0) this.#hashesOfKey.delete(keyId);
    else this.#hashesOfKey.set(keyId, hashes);
    if (customerId === null) return;
    const ofCustomer = this.#hashesOfCustomer.get(customerId);
    if (ofCustomer?.delete(sha) && ofCustomer.size === 0) this.#hashesOfCustomer.delete(customerId);
  }
}

interface CustomerKeyMatch extends KeyMatch {
  /** Null for a key without a customer. */
  readonly customer: KnownCustomer | null;
  /** The key names a customer that the store does not have. */
  readonly hasNoCustomer: boolean;
}
