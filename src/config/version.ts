import { createHash } from 'node:crypto';

/** The version of a file: the beginning of the SHA-256 of its text. */
export function versionOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
