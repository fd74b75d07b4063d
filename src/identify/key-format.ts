import { hash } from 'node:crypto';
import { isOwnForm, isWellFormed } from './api-key.ts';

/**
 * What API keys look like that were made elsewhere and moved here (`keys.formats` in gateway.yaml). A prefix, a length and
 * an alphabet instead of a pattern: telling takes one look at each character, whatever was sent.
 */
export interface KeyFormat {
  readonly prefix: string;
  /** Characters, the prefix included. */
  readonly least: number;
  readonly most: number;
  readonly alphabet: AlphabetName;
}

/** What may follow the prefix. None has a dot: three parts with dots between them are a JWT. */
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

/** Under what a secret is remembered: its SHA-256. Null where it cannot be a secret of ours. */
export function fingerprintOf(token: string): string | null {
  return isWellFormed(token) ? sha256Of(token) : null;
}

/**
 * The same for a key that was made elsewhere. What begins as our own keys do is judged by our checksum alone, so that no
 * format lets made-up keys of ours through to the store.
 */
export function foreignFingerprintOf(token: string, formats: readonly KeyFormat[]): string | null {
  return isForeign(token, formats) ? sha256Of(token) : null;
}

/** Whether a text is of one of these formats and not of our own. */
export function isForeign(text: string, formats: readonly KeyFormat[]): boolean {
  return formats.length > 0 && !isOwnForm(text) && formats.some((format) => isOf(text, format));
}

/** Whether a secret that ends so may be of one of these formats; all that is known of it may be its hash and its end. */
export function mayEndForeign(end: string, formats: readonly KeyFormat[]): boolean {
  return formats.some(({ prefix, alphabet }) =>
    [...end].every((one) => ALLOWED[alphabet].has(one) || prefix.includes(one)),
  );
}

function isOf(text: string, { prefix, least, most, alphabet }: KeyFormat): boolean {
  if (text.length < least || text.length > most || !text.startsWith(prefix)) return false;
  const allowed = ALLOWED[alphabet];
  for (let i = prefix.length; i < text.length; i++) if (!allowed.has(text[i]!)) return false;
  return true;
}

function sha256Of(token: string): string {
  return hash('sha256', token, 'base64url');
}
