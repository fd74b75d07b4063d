import type { StoredSecret } from '../model/record.ts';
import { digestOfHash } from './api-key.ts';
import { pepperCheckOf } from './pepper-record.ts';

/**
 * What is known of the pepper under which the digest of a secret is, which the digest does not show. `old`: it is in use and not the
 * newest. `removed`: it is not in use any more, and the secret does not work.
 */
export const SECRET_PEPPERS = ['current', 'old', 'removed', 'unknown'] as const;
export type SecretPepper = (typeof SECRET_PEPPERS)[number];

/** Characters of the mark: the first ones of the pepper's check value, then those of the digest. */
const OF_PEPPER = 8;
const OF_DIGEST = 6;

/** The digest of a secret, and the mark of its pepper. */
export type Hashed = Required<Pick<StoredSecret, 'digest' | 'pepper'>>;

/** What the store keeps of a secret under a pepper. @param sha256 of the secret */
export function hashedUnder(sha256: Uint8Array, pepper: string): Hashed {
  const digest = digestOfHash(sha256, pepper);
  return { digest, pepper: markOf(digest, nameOf(pepper)) };
}

function nameOf(pepper: string): string {
  return pepperCheckOf(pepper).slice(0, OF_PEPPER);
}

/**
 * The mark of a digest. It names the digest as well as the pepper: an earlier version of Tollgate, which does not know the mark, keeps
 * it when it stores the digest under another pepper. The gateway ignores such a mark.
 */
function markOf(digest: string, name: string): string {
  return name + digest.slice(0, OF_DIGEST);
}

/** The peppers in use, by their names in marks. */
export class PepperMarks {
  /** Newest first. */
  readonly #names: readonly string[];

  /** @param peppers newest first; at least one */
  constructor(peppers: readonly string[]) {
    this.#names = peppers.map(nameOf);
  }

  /** The mark of a digest that was made under the newest pepper. */
  newest(digest: string): string {
    return markOf(digest, this.#names[0]!);
  }

  pepperOf({ digest, pepper }: StoredSecret): SecretPepper {
    if (pepper === undefined || pepper !== markOf(digest, pepper.slice(0, OF_PEPPER))) return 'unknown';
    const place = this.#names.indexOf(pepper.slice(0, OF_PEPPER));
    if (place < 0) return 'removed';
    return place === 0 ? 'current' : 'old';
  }

  /** A quick test of a key's record, JSON: false if some secret may be under another pepper than the newest, or under an unknown one. */
  areAllCurrent(record: string): boolean {
    const [, ...secrets] = record.split('"digest":"');
    const name = this.#names[0]!;
    return secrets.length > 0 && secrets.every((text) => text.includes(`"pepper":"${markOf(text, name)}"`));
  }
}
