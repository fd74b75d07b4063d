import type { Durability } from '../admit/ledger.ts';
import type { Listed, StoredCustomer, StoredKey, UnreadableRecord } from '../model/record.ts';

/** A page of records in the order of their creation. `cursor` is the id of its last record, and null on the last page. */
export interface RecordPage<T> {
  readonly records: readonly Listed<T>[];
  readonly cursor: string | null;
}

/** A record after a change. */
export interface RecordUpdate<T> {
  readonly record: T;
  readonly durability: Durability;
}

export interface RecordDeletion<T> {
  /** The record before the deletion; its tombstone if it had been deleted already. */
  readonly before: T;
  readonly durability: Durability;
}

/**
 * A store of records of one kind, keys or customers. Implemented by stores/embedded and stores/redis; test/contracts tests both. Every
 * method rejects with Failure `store_unavailable` if the store does not answer, and with UnreadableRecord if it is asked for one
 * record that cannot be read. Lists have that in the place of the record.
 */
export interface RecordStore<T> {
  /** A deleted record, its tombstone, is found only with `evenDeleted`. */
  get(id: string, options?: { readonly evenDeleted: boolean }): Promise<T | null>;
  /** The records after the one with the id `cursor`. New ones do not move it. Rejects with `refused` for an unknown cursor. */
  list(page: { readonly limit: number; readonly cursor: string | null }): Promise<RecordPage<T>>;
  /** Stores a new record atomically. Rejects with `refused` if another has its id, even a deleted one. */
  create(record: T): Promise<Durability>;
  /**
   * Replaces a record by `change(record)` atomically and notifies every gateway. Two concurrent changes both take effect, one
   * after the other: `change` may run more than once and must be pure. If `change` throws, nothing is stored and the promise rejects
   * with its error.
   * @returns null if there is no such record
   */
  update(id: string, change: (record: T) => T): Promise<RecordUpdate<T> | null>;
  /**
   * Replaces a record by its tombstone `bury(record)` and removes it from the list, with the same atomicity and durability as
   * `update`. For a record that is already deleted it completes what an earlier deletion left undone. If `bury` throws,
   * nothing is changed and the promise rejects with its error.
   * @returns null if there is no such record
   */
  delete(id: string, bury: (record: T) => T): Promise<RecordDeletion<T> | null>;
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
  ): Promise<RecordUpdate<StoredKey> | null>;
}

/** Notifies a gateway of changes that a command or another gateway made to keys, customers and bans. */
export interface ChangeFeed {
  /**
   * Calls `listener` within 1 s of every change. If notifications may have been lost, as after a broken connection, it
   * assumes a change: `keyId` is then null, and any key or customer may have changed.
   */
  subscribe(listener: (change: StoreChange) => void): void;
  /** True while the listeners have heard of every change that was announced up to half a second ago. */
  readonly isCurrent: boolean;
}

export interface StoreChange {
  /** The id of the key, the customer or the account; of `cache`, the purge as `purgeText` writes it. */
  readonly keyId: string | null;
  /**
   * `key`, `customer`: the record changed, so cached copies are outdated. `account`: a ban was lifted, or usage was topped up or
   * reset. `cache`: stored responses are to be removed. `any`: each of these may be true.
   */
  readonly kind: 'key' | 'customer' | 'account' | 'cache' | 'any';
}

/** The store of customers. Which keys a customer has is in the records of the keys (`KeyStore.list`). */
export type CustomerStore = RecordStore<StoredCustomer>;

/** A caller is known to the store, and its record, or that of its customer, cannot be read. */
export interface UnreadableIdentity {
  readonly kind: 'unreadable';
  /** Names the record and the fault, for operators alone. */
  readonly cause: string;
}

export function unreadable({ message }: UnreadableRecord): UnreadableIdentity {
  return { kind: 'unreadable', cause: message };
}
