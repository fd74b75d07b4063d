import { createSecretKey, type KeyObject } from 'node:crypto';
import { digestOfHash, isSameDigest } from './api-key.ts';
import type { KeyStore, StoredKey, StoredSecret } from './key-store.ts';

/** What the store has for a secret. */
export interface Found {
  readonly key: StoredKey;
  readonly secret: StoredSecret;
  /** Null when it was found under the newest pepper. */
  readonly oldDigest: string | null;
}

/** Searches the store for secrets, under every pepper. */
export class SecretSearch {
  readonly #keyStore: KeyStore;
  /** Newest first. Made ready once: a flood of unknown secrets takes a digest for each of them. */
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
      // What another gateway puts under the newest pepper between two look-ups is found by neither.
    }
    return foundIn(await this.#keyStore.findByDigest(newest), newest, null);
  }

  newestDigestOf(sha: string): string {
    return digestOf(sha, this.#peppers[0]!);
  }

  async #underAny(sha: string): Promise<Found | null> {
    const digests = this.#peppers.map((pepper) => digestOf(sha, pepper));
    // Side by side, so that a rollover does not double the time that a request waits.
    const keys = await Promise.all(digests.map((digest) => this.#keyStore.findByDigest(digest)));
    for (const [i, digest] of digests.entries()) {
      const found = foundIn(keys[i]!, digest, i > 0 ? digest : null);
      if (found !== null) return found;
    }
    return null;
  }
}

function foundIn(key: StoredKey | null, digest: string, oldDigest: string | null): Found | null {
  const secret = key?.secrets.find((one) => isSameDigest(one.digest, digest));
  return key !== null && secret !== undefined ? { key, secret, oldDigest } : null;
}

function digestOf(sha: string, pepper: KeyObject): string {
  return digestOfHash(Buffer.from(sha, 'base64url'), pepper);
}
