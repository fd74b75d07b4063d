import { z } from 'zod';
import type { Limits } from '../admit/plan.ts';
import { Failure } from '../failure.ts';

/** One secret of an API key, as the store has it: never the secret itself. */
export interface StoredSecret {
  /** HMAC-SHA-256(pepper, SHA-256(secret)), base64url. */
  readonly digest: string;
  /** The last four characters of the secret, to recognise it by; empty where only its hash was ever known. */
  readonly last4: string;
  readonly createdAtMs: number;
  /** Null: lives as long as its key. Set when a rotation retires it. */
  readonly expiresAtMs: number | null;
}

/** One API key. Quota and bans belong to its `id`, whichever of its secrets is used. */
export interface StoredKey {
  readonly id: string;
  readonly plan: string;
  /** Limits of its own that replace its plan's, one window at a time. */
  readonly limits: Limits;
  readonly name: string | null;
  readonly owner: string | null;
  /** Absent where there are none, as in the records of earlier versions. */
  readonly notes?: string;
  readonly createdAtMs: number;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** Newest first. */
  readonly secrets: readonly StoredSecret[];
  /**
   * Digests of secrets that it had and no longer has, oldest first: an import must not bring one of them back. Absent where
   * there are none.
   */
  readonly retired?: readonly string[];
  /**
   * When it was deleted for good. What is left of it are its id and the digests that it had, all retired: a tombstone, so that
   * an import does not bring it back. Absent while it was not.
   */
  readonly deletedAtMs?: number;
  /** How its creation is told from another when it is asked for again (repeatable.ts); absent where it cannot be. */
  readonly creation?: { readonly salt: string; readonly body: string };
}

/** A page of keys in the order of their creation. `cursor` is the id of its last key, and null on the last page. */
export interface KeyPage {
  readonly keys: readonly StoredKey[];
  readonly cursor: string | null;
}

/**
 * Whether a change outlives the server that took it. `unknown`: it was made, and a failover may still undo it; the store
 * goes on to secure it, makes it again where it was undone, and tells in `settled`, which never rejects, how that ended.
 */
export type Durability =
  | { readonly kind: 'durable' }
  | { readonly kind: 'unknown'; readonly settled: Promise<Settlement> };

/**
 * `superseded`: it was undone, and what it was about was changed differently since, so it was not made again.
 * `given_up`: it is still not known.
 */
export type Settlement = 'durable' | 'superseded' | 'given_up';

export const DURABLE: Durability = { kind: 'durable' };

/** A key as a change has left it. */
export interface Updated {
  readonly key: StoredKey;
  readonly durability: Durability;
}

export interface Deleted {
  /** The key as it was; its tombstone where it had been deleted before. */
  readonly before: StoredKey;
  readonly durability: Durability;
}

export interface UpdateOptions {
  /** False for what may be lost, since it is made again by itself: nothing is waited for, and the durability is unknown. */
  readonly isLasting?: boolean;
}

/**
 * Where API keys live. Owned by identify, implemented by stores/embedded and stores/redis, held to by
 * test/contracts/key-store.ts. Every method rejects with Failure `store_unavailable` when the store does not answer.
 */
export interface KeyStore {
  /** The key that has a secret with this digest, whatever its state (revoked and expired ones are found too). */
  findByDigest(digest: string): Promise<StoredKey | null>;
  /**
   * The same, and the key that had such a secret once and keeps its digest among the retired ones, be it deleted. Nothing else
   * here shows a deleted key unless asked for it.
   */
  ownerOf(digest: string): Promise<StoredKey | null>;
  get(id: string, options?: { readonly evenDeleted: boolean }): Promise<StoredKey | null>;
  /** The keys behind the one whose id is `cursor`, which stays where it is whatever is added. `refused` for any other. */
  list(page: { readonly limit: number; readonly cursor: string | null }): Promise<KeyPage>;
  /**
   * Stores a new key, whole or not at all. Rejects with `refused` when its id or a digest is taken, be it a retired one or a
   * deleted key's.
   */
  create(key: StoredKey): Promise<Durability>;
  /**
   * Stores many new keys, each whole or not at all. Nobody is told: what was unknown is asked again within a second.
   * @returns per key, in order, whether it was stored; `unknown` when it was and that may not be durable, `taken` when
   *   its id or a digest belongs to a key already. When it rejects, some may have been stored and others not.
   */
  createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'unknown' | 'taken')[]>;
  /**
   * Replaces a key by `change(key)` atomically: two changes at once both take effect, one after the other (`change` may
   * run more than once and must be pure). Digests that the new version lacks can no longer be found.
   * Tells every gateway. Null when there is no such key; what `change` throws comes through and nothing is stored.
   */
  update(id: string, change: (key: StoredKey) => StoredKey, options?: UpdateOptions): Promise<Updated | null>;
  /**
   * Replaces a key by `bury(key)`, its tombstone, and takes it from the list; as atomic and as lasting as a change. Of a key
   * that is deleted already that is done once more, as far as it was not. Null when there is no such key; what `bury` throws
   * comes through and nothing is changed.
   */
  delete(id: string, bury: (key: StoredKey) => StoredKey): Promise<Deleted | null>;
}

/** How a gateway hears of changes that others (a command, another gateway) made to keys and bans. */
export interface ChangeFeed {
  /**
   * Calls `listener` within 1 s of every change, in the worst case (a notification lost, a link cut) by assuming one.
   * `keyId` null: anything may have changed.
   */
  subscribe(listener: (change: Change) => void): void;
}

export interface Change {
  readonly keyId: string | null;
  /** `key`: the record changed (forget what was cached). `ban`: a ban was lifted. `any`: both may be true. */
  readonly kind: 'key' | 'ban' | 'any';
}

const moment = z.number().int();
const limit = z.union([z.number().int().min(0), z.literal('unlimited')]).optional();
const SECRET = z.looseObject({
  digest: z.string(),
  last4: z.string(),
  createdAtMs: moment,
  expiresAtMs: moment.nullable(),
});
/** Loose: what a later version has added is carried through a change made by this one. */
const STORED_KEY = z.looseObject({
  id: z.string(),
  plan: z.string(),
  limits: z.looseObject({ second: limit, minute: limit, hour: limit, day: limit }),
  name: z.string().nullable(),
  owner: z.string().nullable(),
  createdAtMs: moment,
  expiresAtMs: moment.nullable(),
  revokedAtMs: moment.nullable(),
  notes: z.string().optional(),
  secrets: z.array(SECRET),
  retired: z.array(z.string()).optional(),
  deletedAtMs: moment.optional(),
  creation: z.looseObject({ salt: z.string(), body: z.string() }).optional(),
});

/** Every digest that belongs to a key: those of its secrets, and the retired ones. */
export function digestsOf({ secrets, retired = [] }: StoredKey): string[] {
  return [...secrets.map(({ digest }) => digest), ...retired];
}

/**
 * Reads a key as a store has it, JSON.
 * @throws Failure `store_corrupt` when it is no key: somebody else's value in its place, or a broken record
 */
export function readStoredKey(text: string): StoredKey {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The syntax error quotes the text, and the text may be anything.
  }
  const read = STORED_KEY.safeParse(value);
  if (!read.success)
    throw new Failure('store_corrupt', 'The store holds something in the place of an API key that is none.');
  return read.data as StoredKey;
}
