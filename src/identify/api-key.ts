import { createHmac, hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * The form of API keys: that of the gateway's own, with checksum and digest, and those that other gateways made.
 */

/** A source of unpredictable bytes: `randomBytes` of node:crypto; tests pass a fixed sequence. */
export type Random = (bytes: number) => Uint8Array;

const PREFIX = 'tg_live_';
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const SUMMED_LENGTH = PREFIX.length + RANDOM_LENGTH;

/** Characters in the secret of an API key. */
const SECRET_LENGTH = SUMMED_LENGTH + CHECKSUM_LENGTH;

const LAST_CODE = 0x7f;
const NO_DIGIT = 62;
/** The base62 value of a character, by its code. */
const DIGIT_OF = Uint8Array.from({ length: LAST_CODE + 1 }, (_, code) => {
  const digit = ALPHABET.indexOf(String.fromCharCode(code));
  return digit === -1 ? NO_DIGIT : digit;
});

/** The table of CRC-32 (ISO-HDLC, as in zlib). For texts this short, a call into zlib costs more than the sum itself. */
const CRC_TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let step = byte;
  for (let bit = 0; bit < 8; bit++) step = (step & 1) === 0 ? step >>> 1 : (step >>> 1) ^ 0xedb88320;
  return step;
});
/** The CRC-32 after the prefix, before the final inversion. */
const PREFIX_SUM = ~crc32(PREFIX);

/** Makes the secret of an API key: `tg_live_`, 32 random base62 characters, 6 of checksum (contract section 5). */
export function mint(random: Random): string {
  const summed = PREFIX + randomBase62(RANDOM_LENGTH, random);
  return summed + checksumOf(summed);
}

/** Makes the id of an API key: `key_` and 16 random base62 characters. */
export function newKeyId(random: Random): string {
  return `key_${randomBase62(16, random)}`;
}

/** Makes the id of a customer: `cus_` and 16 random base62 characters. */
export function newCustomerId(random: Random): string {
  return `cus_${randomBase62(16, random)}`;
}

/** The CRC-32 of a text in base62, padded with `0` on the left to 6 characters (62^6 is more than 2^32). */
export function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = ALPHABET[rest % 62]! + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/**
 * Whether a text has the form and the checksum of an API key's secret. Other texts are refused without a look-up, so that
 * made-up keys cost the store nothing.
 */
export function isWellFormed(secret: string): boolean {
  if (secret.length !== SECRET_LENGTH || !secret.startsWith(PREFIX)) return false;
  let sum = PREFIX_SUM;
  for (let i = PREFIX.length; i < SUMMED_LENGTH; i++) {
    const code = secret.charCodeAt(i);
    if (code > LAST_CODE || DIGIT_OF[code] === NO_DIGIT) return false;
    sum = CRC_TABLE[(sum ^ code) & 0xff]! ^ (sum >>> 8);
  }
  let given = 0;
  for (let i = SUMMED_LENGTH; i < SECRET_LENGTH; i++) {
    const code = secret.charCodeAt(i);
    if (code > LAST_CODE || DIGIT_OF[code] === NO_DIGIT) return false;
    given = given * 62 + DIGIT_OF[code]!;
  }
  return given === (sum ^ -1) >>> 0;
}

/** Whether a text begins with the prefix of our own keys; `isWellFormed` then decides whether it can be a key. */
export function isOwnForm(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Whether a text has one of our own keys in it, or what looks like one. */
export function hasOwnForm(text: string): boolean {
  return text.includes(PREFIX);
}

/**
 * The digest that a store keeps instead of a secret: HMAC-SHA-256(pepper, SHA-256(secret)), base64url (contract section 5).
 * A thief of the store who does not have the pepper cannot even verify a guessed secret.
 */
export function digestOf(secret: string, pepper: string): string {
  return digestOfHash(hash('sha256', secret, 'buffer'), pepper);
}

/** The same from the SHA-256 of the secret, which is all that an import may know. */
export function digestOfHash(sha256: Uint8Array, pepper: string | KeyObject): string {
  return createHmac('sha256', pepper).update(sha256).digest('base64url');
}

/** Compares two digests in constant time. */
export function isSameDigest(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

function randomBase62(length: number, random: Random): string {
  let text = '';
  while (text.length < length) {
    for (const byte of random(length)) {
      // 248 is the largest multiple of 62 in a byte: larger bytes would make the first characters more frequent.
      if (byte < 248 && text.length < length) text += ALPHABET[byte % 62]!;
    }
  }
  return text;
}

/**
 * The format of API keys that were made elsewhere and imported (`keys.formats` in gateway.yaml). It has a prefix, a length
 * and an alphabet instead of a regular expression, so that matching takes linear time on any input.
 */
export interface KeyFormat {
  readonly prefix: string;
  /** Minimum and maximum length in characters, including the prefix. */
  readonly least: number;
  readonly most: number;
  readonly alphabet: AlphabetName;
}

/** Of any format, in characters, including the prefix. Shorter keys could be guessed. */
export const FOREIGN_LENGTHS = { least: 8, most: 512 } as const;

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
 * The fingerprint of a secret that was made elsewhere; null if the secret has no known format. A text that begins with our own
 * prefix never matches a format, so that made-up keys with a wrong checksum cannot reach the store.
 */
export function foreignFingerprintOf(token: string, formats: readonly KeyFormat[]): string | null {
  return isForeign(token, formats) ? sha256Of(token) : null;
}

/** Whether a text has one of these formats and does not begin with our own prefix. */
export function isForeign(text: string, formats: readonly KeyFormat[]): boolean {
  return formats.length > 0 && !isOwnForm(text) && formats.some((format) => hasFormat(text, format));
}

/** The name of the form of the secrets that Tollgate makes. */
export const OWN_FORM = 'own';

/** The name of the form of a secret: that of Tollgate, or the prefix of its format and `*`. Undefined for a secret without a known form. */
export function formOf(secret: string, formats: readonly KeyFormat[]): string | undefined {
  if (isOwnForm(secret)) return isWellFormed(secret) ? OWN_FORM : undefined;
  const format = formats.find((one) => hasFormat(secret, one));
  return format === undefined ? undefined : nameOfFormat(format);
}

/** Formats with the same prefix have the same name. No prefix has a `*`. */
export function nameOfFormat({ prefix }: Pick<KeyFormat, 'prefix'>): string {
  return `${prefix}*`;
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

/** Whether a text has a key of one of these formats in it, between characters that the key cannot have. Takes linear time. */
export function hasForeign(text: string, formats: readonly KeyFormat[]): boolean {
  return formats.some(({ prefix, least, most, alphabet }) => {
    const allowed = ALLOWED[alphabet];
    let end = 0;
    for (let at = 0; at < text.length; at++) {
      // Base64 has `=` at its end only, and in `token=KEY` a key begins behind it.
      const before = text[at - 1] ?? ' ';
      if ((before !== '=' && allowed.has(before)) || !text.startsWith(prefix, at)) continue;
      end = Math.max(end, at + prefix.length);
      while (end < text.length && allowed.has(text[end]!)) end++;
      if (end - at >= least && end - at <= most) return true;
    }
    return false;
  });
}

function sha256Of(token: string): string {
  return hash('sha256', token, 'base64url');
}

// The ids of tokens' holders stand apart from jwt.ts, which imports jose: operations know them also where no tokens are accepted.

/**
 * The consumer id of a token's holder: `jwt_` and 32 characters of the SHA-256 of the JSON array `[issuer, subject]`,
 * base64url.
 *
 * Attack: the holder may have chosen the subject at the issuer. It may contain a line break, a person's address, or
 * `key_…`, the id of another caller's API key. The hash is safe in fields, names and logs, reveals nothing, and never
 * equals the id of an API key.
 */
export function jwtConsumerId(issuer: string, subject: string): string {
  return `${TOKEN_HOLDER}${hash('sha256', JSON.stringify([issuer, subject]), 'base64url').slice(0, 32)}`;
}

/** How the ids of token holders begin. */
export const TOKEN_HOLDER = 'jwt_';

/** Whether an id is one that `jwtConsumerId` makes. */
export function isTokenHolder(consumerId: string): boolean {
  return /^jwt_[A-Za-z0-9_-]{32}$/.test(consumerId);
}
