import { LRUCache } from 'lru-cache';
import type { Identity } from './identify.ts';

/** A secret that belongs to a key that was not revoked when it was last looked up. */
export interface Known {
  readonly identity: Identity;
  readonly keyId: string;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAtMs: number;
  /** Monotonic milliseconds, as all that follow. */
  readonly confirmedAtMs: number;
  /** Until then it is used without a question. */
  freshUntilMs: number;
  /** The state of knowledge it belongs to; once that has moved on, the store is asked before the entry is used. */
  epoch: number;
  /** Until then it is used all the same: the store was asked and did not answer. */
  retryAtMs: number;
  /**
   * Not before this is it put under the newest pepper, monotonic milliseconds: another gateway may have the peppers in
   * another order, and put it back.
   */
  rehashAtMs: number;
}

/** An epoch that is never the present one. */
export const CHANGED = -1;

/** The known secrets by their SHA-256, the least recently used pushed out first, and which of them belong to a key. */
export class KnownSecrets {
  readonly #entries: LRUCache<string, Known>;
  readonly #hashesOfKey = new Map<string, Set<string>>();

  /** @param most entries that are kept */
  constructor(most: number) {
    this.#entries = new LRUCache({ max: most, dispose: ({ keyId }, sha) => this.#unlink(keyId, sha) });
  }

  get size(): number {
    return this.#entries.size;
  }

  get(sha: string): Known | undefined {
    return this.#entries.get(sha);
  }

  /** As `get`, but no use: it does not keep the entry from being pushed out. */
  peek(sha: string): Known | undefined {
    return this.#entries.peek(sha);
  }

  set(sha: string, known: Known): void {
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
