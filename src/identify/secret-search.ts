import { createSecretKey, type KeyObject } from 'node:crypto';
import { certificateDigest } from '../model/client-certificates.ts';
import type { StoredKey, StoredSecret } from '../model/record.ts';
import { digestOfHash, isSameDigest } from './api-key.ts';
import type { KeyStore } from './record-store.ts';
import { type Hashed, PepperMarks } from './secret-marks.ts';

/** A key and its secret, as the store has them. The key may be revoked. */
export interface KeyMatch {
  readonly key: StoredKey;
  /** Null: the key was found by a certificate, or the secret has ended. */
  readonly secret: StoredSecret | null;
  /** The digest under the newest pepper and its mark, if the record lacks one of them; else null. */
  readonly renewed: Hashed | null;
  /** The secret was one of the key's and has ended. */
  readonly hasEnded: boolean;
}

/** Searches the store for secrets, under every pepper. */
export class SecretSearch {
  readonly #keyStore: KeyStore;
  /** Newest first. KeyObjects made once are faster: a flood of unknown secrets needs a digest for each secret. */
  readonly #peppers: readonly KeyObject[];
  readonly #marks: PepperMarks;

  constructor({ keyStore, peppers }: { readonly keyStore: KeyStore; readonly peppers: readonly string[] }) {
    this.#keyStore = keyStore;
    this.#peppers = peppers.map((pepper) => createSecretKey(pepper, 'utf8'));
    this.#marks = new PepperMarks(peppers);
  }

  /** @param sha SHA-256 of the secret, base64url */
  async find(sha: string): Promise<KeyMatch | null> {
    const digest = digestOf(sha, this.#peppers[0]!);
    const newest = { digest, pepper: this.#marks.newest(digest) };
    const found = this.#peppers.length > 1 ? await this.#underAny(sha, newest) : null;
    if (found !== null && !found.hasEnded) return found;
    // Another gateway may have re-hashed the secret between these look-ups, so that neither found it: ask again.
    return foundIn(await this.#keyStore.ownerOf(digest), digest, newest) ?? found;
  }

  /**
   * The key of a certificate: that of its fingerprint, else the one key of its other names. Several keys with one name each are
   * none: which of them is meant cannot be known.
   * @param names the fingerprint first
   */
  async findByCertificate(names: readonly string[]): Promise<KeyMatch | null> {
    const owners = await Promise.all(names.map((name) => this.#keyStore.ownerOf(certificateDigest(name))));
    // What a store finds is compared, as the digest of a secret is.
    const keys = owners.map((key, i) => (key?.certificates?.includes(names[i]!) === true ? key : null));
    const found = keys[0] ?? keys.find((key) => key !== null) ?? null;
    const isOne = keys[0] != null || keys.every((key) => key === null || key.id === found?.id);
    return found === null || !isOne || found.deletedAtMs !== undefined
      ? null
      : { key: found, secret: null, renewed: null, hasEnded: false };
  }

  async #underAny(sha: string, newest: Hashed): Promise<KeyMatch | null> {
    const digests = this.#peppers.map((pepper) => digestOf(sha, pepper));
    // In parallel, so that a request does not wait twice as long while the pepper is being changed.
    const keys = await Promise.all(digests.map((digest) => this.#keyStore.ownerOf(digest)));
    const found = digests.map((digest, i) => foundIn(keys[i]!, digest, newest));
    return found.find((one) => one?.hasEnded === false) ?? found.find((one) => one !== null) ?? null;
  }
}

/** @param newest what the record is to have of the secret with this digest */
function foundIn(key: StoredKey | null, digest: string, newest: Hashed): KeyMatch | null {
  const secret = key?.secrets.find((candidate) => isSameDigest(candidate.digest, digest));
  if (key !== null && secret !== undefined) {
    const hasAll = secret.digest === newest.digest && secret.pepper === newest.pepper;
    return { key, secret, renewed: hasAll ? null : newest, hasEnded: false };
  }
  // Of a deleted key nothing more is noted.
  const isEnded = key?.deletedAtMs === undefined && key?.retired?.some((retired) => isSameDigest(retired, digest));
  return isEnded ? { key: key!, secret: null, renewed: null, hasEnded: true } : null;
}

function digestOf(sha: string, pepper: KeyObject): string {
  return digestOfHash(Buffer.from(sha, 'base64url'), pepper);
}
