import { hash } from 'node:crypto';
import { isOwnForm, isWellFormed } from './api-key.ts';

/**
 * The format of API keys that were made elsewhere and imported (`keys.formats` in gateway.yaml). It has a prefix, a length
 * and an alphabet instead of a regular expression, so that matching takes linear time on any input.
 */
export interface KeyFormat {
  readonly prefix: string;
  /** Fewest and most characters, the prefix included. */
  readonly least: number;
  readonly most: number;
  readonly alphabet: AlphabetName;
}

/** The characters that may follow the prefix. No alphabet has a dot: three parts with dots between them are a JWT. */
export const ALPHABETS = {
  hex: '0123456789abcdefABCDEF',
  base58: '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz',
  base62: '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
  base64url: '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_',
  base64: '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/=',
} as const;

export type AlphabetName = keyof typeof ALPHABETS;

const ALLOWED: Readonly<Record<AlphabetName, ReadonlySet<string>>> = {
  hex: new Set(ALPHABETS.hex),
  base58: new Set(ALPHABETS.base58),
  base62: new Set(ALPHABETS.base62),
  base64url: new Set(ALPHABETS.base64url),
  base64: new Set(ALPHABETS.base64),
};

/** The fingerprint of a secret in Tollgate's own form: its SHA-256, base64url. Null if the checksum is wrong. */
export function fingerprintOf(token: string): string | null {
  return isWellFormed(token) ? sha256Of(token) : null;
}

/**
 * The fingerprint of a secret that was made elsewhere; null if it has none of the formats. A text that begins with our own
 * prefix never matches a format, so that made-up keys with a wrong checksum cannot reach the store.
 */
export function foreignFingerprintOf(token: string, formats: readonly KeyFormat[]): string | null {
  return isForeign(token, formats) ? sha256Of(token) : null;
}

/** Whether a text has one of these formats and does not begin with our own prefix. */
export function isForeign(text: string, formats: readonly KeyFormat[]): boolean {
  return formats.length > 0 && !isOwnForm(text) && formats.some((format) => hasFormat(text, format));
}

/** Whether a secret with these last characters may have one of these formats. An import may know no more than its hash and end. */
export function mayEndForeign(end: string, formats: readonly KeyFormat[]): boolean {
  return formats.some(({ prefix, alphabet }) =>
    [...end].every((character) => ALLOWED[alphabet].has(character) || prefix.includes(character)),
  );
}

function hasFormat(text: string, { prefix, least, most, alphabet }: KeyFormat): boolean {
  if (text.length < least || text.length > most || !text.startsWith(prefix)) return false;
  const allowed = ALLOWED[alphabet];
  for (let i = prefix.length; i < text.length; i++) if (!allowed.has(text[i]!)) return false;
  return true;
}

function sha256Of(token: string): string {
  return hash('sha256', token, 'base64url');
}
