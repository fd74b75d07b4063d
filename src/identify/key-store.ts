import { z } from 'zod';
import type { Durability } from '../admit/ledger.ts';
import type { Limits } from '../admit/plan.ts';
import { type Attributes, KEPT } from '../model/attributes.ts';
import { certificateDigest } from '../model/certificates.ts';
import { type Listed, type RecordPage, type RecordStore, readRecord, type Updated } from './stored-record.ts';
import { STORED_SUSPENSION, type Suspension } from './suspension.ts';

/** The store's record of one secret of an API key. It never holds the secret itself. */
export interface StoredSecret {
  /** HMAC-SHA-256(pepper, SHA-256(secret)), base64url. */
  readonly digest: string;
  /** The last four characters of the secret, for people to recognise it; empty if only its hash was imported. */
  readonly last4: string;
  readonly createdAtMs: number;
  /** Null: valid as long as its key. A rotation sets it. */
  readonly expiresAtMs: number | null;
}

/** An entry of keys.yaml: the name of the set, and the name of the entry in it. */
export interface AppliedEntry {
  readonly set: string;
  readonly name: string;
}

/** One API key. Quota and bans belong to its `id`, whichever of its secrets is used. */
export interface StoredKey extends Attributes {
  readonly id: string;
  readonly plan: string;
  /** The key's own limits, each of which replaces the plan's limit of that window. */
  readonly limits: Limits;
  readonly createdAtMs: number;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** Absent unless an operator has suspended the key. An earlier version ignores it. */
  readonly suspended?: Suspension;
  /** Newest first. */
  readonly secrets: readonly StoredSecret[];
  /**
   * Digests of former secrets, oldest first: an import must not bring one of them back. Absent if there are none.
   */
  readonly retired?: readonly string[];
  /**
   * When an operator deleted the key for good. The record is then a tombstone: it keeps the id and all digests, retired, so
   * that an import does not bring the key back. Absent for other keys.
   */
  readonly deletedAtMs?: number;
  /**
   * The id of the customer that the key belongs to; absent for a key without one. The plan and the shared limits are those of the
   * customer, and `limits` bound what this key may take of them. `plan` is the customer's plan when the key came to it: gateways of
   * earlier versions, which know no customers, use it.
   */
  readonly customer?: string;
  /** Accounts under which the key was counted before it was moved, newest first; absent if it was never moved. */
  readonly formerAccounts?: readonly string[];
  /** The entry of keys.yaml that `tollgate keys apply` has made or adopted the key for; absent for other keys. */
  readonly applied?: AppliedEntry;
  /** Recognises a repeated request for the same creation (operations/create-once.ts); absent if that is not possible. */
  readonly creation?: { readonly salt: string; readonly body: string };
}

/** The part of the list of keys that a search has looked at. */
export interface KeyScan {
  /** The keys whose record may match, and those that cannot be read, in the order of the list. `place` is the place of a key in this part, from 1. */
  readonly found: readonly { readonly key: Listed<StoredKey>; readonly place: number }[];
  /** How many keys were looked at. */
  readonly searched: number;
  /** The id of the last of them, and null at the end of the list. */
  readonly cursor: string | null;
}

export interface UpdateOptions {
  /** False: the store does not wait for replicas, and the durability is unknown. For changes that are repeated if lost. */
  readonly isLasting?: boolean;
}

/** The store of API keys. No method but `ownerOf` and `get` with `evenDeleted` returns a deleted key. */
export interface KeyStore extends RecordStore<StoredKey> {
  /** The key that has a secret with this digest; revoked and expired keys are found too. */
  findByDigest(digest: string): Promise<StoredKey | null>;
  /**
   * The same, and also a key whose retired digests include this one, even a deleted key, or that has this digest of a name of
   * certificates (`indexedOf`).
   * @param options with `evenFull`, also while the store refuses writes alone: for operators, and not for requests, which could not
   *   be counted
   */
  ownerOf(digest: string, options?: { readonly evenFull: boolean }): Promise<StoredKey | null>;
  /** @param page with `customer`, only the keys whose record names this customer, and those that cannot be read and may be its */
  list(page: {
    readonly limit: number;
    readonly cursor: string | null;
    readonly customer?: string;
  }): Promise<RecordPage<StoredKey>>;
  /**
   * Looks at the next `most` keys after the one with the id `cursor`, and parses only those whose record, JSON, passes
   * `mayMatch`, or does not look like one: parsing every record would make a search over a million keys several times slower. So a
   * damaged record that still looks whole and does not pass is not found. Otherwise as `list`.
   */
  scan(part: {
    readonly most: number;
    readonly cursor: string | null;
    readonly mayMatch: (record: string) => boolean;
    /** Only the keys of this customer. */
    readonly customer?: string;
  }): Promise<KeyScan>;
  /**
   * Stores a new key atomically. Rejects with `refused` if another key has its id or one of its digests, even a retired
   * digest or a deleted key, or one of its certificates.
   */
  create(key: StoredKey): Promise<Durability>;
  /**
   * Reserves an id, or another text, for a name: two requests with the same name at the same time get the same id, through whichever gateways.
   * @param name a digest
   * @param forMs how long, by the store's clock
   * @returns the id that was reserved for the name first
   */
  reserve(name: string, id: string, forMs: number): Promise<string>;
  /**
   * Stores many new keys, each atomically. Gateways are not notified: they ask about unknown secrets again within a second.
   * @returns for each key, in order: `created`; `unknown` if it was stored and may not be durable; `taken` if another key
   *   has its id or a digest. If the call rejects, some of the keys may have been stored.
   */
  createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'unknown' | 'taken')[]>;
  /** Digests that the new version lacks are no longer found. Rejects with `refused` if another key has one of its certificates. */
  update(
    id: string,
    change: (key: StoredKey) => StoredKey,
    options?: UpdateOptions,
  ): Promise<Updated<StoredKey> | null>;
}

/** Notifies a gateway of changes that a command or another gateway made to keys, customers and bans. */
export interface ChangeFeed {
  /**
   * Calls `listener` within 1 s of every change. If notifications may have been lost, as after a broken connection, it
   * assumes a change: `keyId` is then null, and any key or customer may have changed.
   */
  subscribe(listener: (change: StoreChange) => void): void;
}

export interface StoreChange {
  /** The id of the key, the customer or the account. */
  readonly keyId: string | null;
  /**
   * `key`, `customer`: the record changed, so cached copies are outdated. `account`: a ban was lifted, or usage was topped up or
   * reset. `any`: each of these may be true.
   */
  readonly kind: 'key' | 'customer' | 'account' | 'any';
}

const moment = z.number().int();
const limit = z.union([z.number().int().min(0), z.literal('unlimited')]).optional();
const SECRET = z.looseObject({
  digest: z.string(),
  last4: z.string(),
  createdAtMs: moment,
  expiresAtMs: moment.nullable(),
});
/** Loose: fields that a later version has added survive a change by this version. */
const STORED_KEY = z.looseObject({
  id: z.string(),
  plan: z.string(),
  limits: z.looseObject({ second: limit, minute: limit, hour: limit, day: limit, week: limit, month: limit }),
  ...KEPT,
  createdAtMs: moment,
  expiresAtMs: moment.nullable(),
  revokedAtMs: moment.nullable(),
  suspended: STORED_SUSPENSION.optional(),
  secrets: z.array(SECRET),
  retired: z.array(z.string()).optional(),
  deletedAtMs: moment.optional(),
  customer: z.string().optional(),
  formerAccounts: z.array(z.string()).optional(),
  applied: z.looseObject({ set: z.string(), name: z.string() }).optional(),
  creation: z.looseObject({ salt: z.string(), body: z.string() }).optional(),
});

/** Every digest that belongs to a key: those of its secrets, and the retired ones. */
export function digestsOf({ secrets, retired = [] }: StoredKey): string[] {
  return [...secrets.map(({ digest }) => digest), ...retired];
}

/** The names under which a store finds a key, each of which belongs to one key: its digests, and its certificates while it is not revoked. */
export function indexedOf(key: StoredKey): string[] {
  return [...digestsOf(key), ...certificateDigestsOf(key)];
}

/** What a store indexes of the certificates of a key. */
export function certificateDigestsOf({ certificates = [], revokedAtMs }: StoredKey): string[] {
  return revokedAtMs === null ? certificates.map(certificateDigest) : [];
}

/**
 * Parses the store's record of a key, JSON.
 * @throws Failure `store_corrupt` if it is not a key: another program's value, or a damaged record
 */
export function readStoredKey(text: string): StoredKey {
  return readRecord(text, STORED_KEY, 'an API key') as StoredKey;
}
