import { createSecretKey, type KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { digestOfHash, isSameDigest } from './api-key.ts';
import type { Identity } from './consumer.ts';
import type { KeyStore, StoredKey, StoredSecret } from './key-store.ts';

/** A secret whose key existed and was not revoked when the store was last asked. */
export interface KnownSecret {
  readonly identity: Identity;
  readonly keyId: string;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAtMs: number;
  /** When the store was last asked. Monotonic milliseconds, as all that follow. */
  readonly confirmedAtMs: number;
  /** Until then the entry is used without a look-up. */
  freshUntilMs: number;
  /** The epoch of the Identifier in which the store confirmed it, or CHANGED. In a later epoch the store is asked first. */
  epoch: number;
  /** The store was asked and did not answer: until then the entry is used although its epoch is over. */
  retryAtMs: number;
  /**
   * The earliest time of the next re-hash: another gateway may have the peppers in the other order and undo each one.
   */
  rehashAtMs: number;
}

/** An epoch that is never the present one. */
export const CHANGED = -1;

/** The known secrets by their SHA-256, with an index by key id. Evicts the least recently used. */
export class KnownSecrets {
  readonly #entries: LRUCache<string, KnownSecret>;
  readonly #hashesOfKey = new Map<string, Set<string>>();

  /** @param most how many entries are kept */
  constructor(most: number) {
    this.#entries = new LRUCache({ max: most, dispose: ({ keyId }, sha) => this.#unlink(keyId, sha) });
  }

  get size(): number {
    return this.#entries.size;
  }

  get(sha: string): KnownSecret | undefined {
    return this.#entries.get(sha);
  }

  /** As `get`, but does not count as a use for the eviction. */
  peek(sha: string): KnownSecret | undefined {
    return this.#entries.peek(sha);
  }

  set(sha: string, known: KnownSecret): void {
    this.#entries.set(sha, known);
    const hashes = this.#hashesOfKey.get(known.keyId);
    if (hashes === undefined) this.#hashesOfKey.set(known.keyId, new Set([sha]));
    else hashes.add(sha);
  }

  delete(sha: string): void {
    this.#entries.delete(sha);
  }

  markChanged(keyId: string): void {
    for (const sha of this.#hashesOfKey.get(keyId) ?? []) this.#entries.peek(sha)!.epoch = CHANGED;
  }

  #unlink(keyId: string, sha: string): void {
    const hashes = this.#hashesOfKey.get(keyId);
    hashes?.delete(sha);
    if (hashes?.size === 0) this.#hashesOfKey.delete(keyId);
  }
}

/** A key and its secret, as the store has them. */
export interface Found {
  readonly key: StoredKey;
  readonly secret: StoredSecret;
  /** The digest under an older pepper; null if the secret was found under the newest. */
  readonly oldDigest: string | null;
}

/** Searches the store for secrets, under every pepper. */
export class SecretSearch {
  readonly #keyStore: KeyStore;
  /** Newest first. KeyObjects made once are faster: a flood of unknown secrets needs a digest for each secret. */
  readonly #peppers: readonly KeyObject[];

  constructor({ keyStore, peppers }: { readonly keyStore: KeyStore; readonly peppers: readonly string[] }) {
    this.#keyStore = keyStore;
    this.#peppers = peppers.map((pepper) => createSecretKey(pepper, 'utf8'));
  }

  /** @param sha SHA-256 of the secret, base64url */
  async find(sha: string): Promise<Found | null> {
    const newest = this.newestDigestOf(sha);
    if (this.#peppers.length > 1) {
      const found = await this.#underAny(sha);
      if (found !== null) return found;
      // Another gateway may have re-hashed the secret between these look-ups, so that neither found it: ask again.
    }
    return foundIn(await this.#keyStore.findByDigest(newest), newest, null);
  }

  newestDigestOf(sha: string): string {
    return digestOf(sha, this.#peppers[0]!);
  }

  async #underAny(sha: string): Promise<Found | null> {
    const digests = this.#peppers.map((pepper) => digestOf(sha, pepper));
    // In parallel, so that a request does not wait twice as long while the pepper is being changed.
    const keys = await Promise.all(digests.map((digest) => this.#keyStore.findByDigest(digest)));
    for (const [i, digest] of digests.entries()) {
      const found = foundIn(keys[i]!, digest, i > 0 ? digest : null);
      if (found !== null) return found;
    }
    return null;
  }
}

function foundIn(key: StoredKey | null, digest: string, oldDigest: string | null): Found | null {
  const secret = key?.secrets.find((candidate) => isSameDigest(candidate.digest, digest));
  return key !== null && secret !== undefined ? { key, secret, oldDigest } : null;
}

function digestOf(sha: string, pepper: KeyObject): string {
  return digestOfHash(Buffer.from(sha, 'base64url'), pepper);
}
