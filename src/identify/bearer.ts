import { TOKEN } from '../http1/fields.ts';
/** The credentials of a request. */
export type Credentials =
  | { readonly kind: 'token'; readonly token: string }
  /** No Authorization field, an empty one, or another scheme. */
  | { readonly kind: 'missing' }
  /** The Bearer scheme without a valid token. */
  | { readonly kind: 'malformed' }
  /** More than one Authorization field. */
  | { readonly kind: 'ambiguous' };

const MISSING: Credentials = Object.freeze({ kind: 'missing' });
const MALFORMED: Credentials = Object.freeze({ kind: 'malformed' });

const SPACE = 0x20;
const EQUALS = 0x3d;

/** token68 of RFC 9110 section 11.2 without its `=` padding, by character code. */
const IS_TOKEN68 = Uint8Array.from({ length: 128 }, (_, code) =>
  /[A-Za-z0-9\-._~+/]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/** tchar of RFC 9110 section 5.6.2, by character code. One of these after `bearer` makes it the name of another scheme. */
const IS_TCHAR = Uint8Array.from({ length: 128 }, (_, code) => (TOKEN.test(String.fromCharCode(code)) ? 1 : 0));

/**
 * The value of the only Authorization field; undefined without one, null if there are several.
 *
 * Attack: a client sends two, the gateway verifies one, and the service behind it uses the other. So the fields are
 * counted in the raw list; `headers` of node:http has only the first.
 *
 * @param rawHeaders alternating names and values, as in node:http
 */
export function authorizationOf(rawHeaders: readonly string[]): string | undefined | null {
  let value: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length !== 13 || (name !== 'Authorization' && name.toLowerCase() !== 'authorization')) continue;
    if (value !== undefined) return null;
    value = rawHeaders[i + 1] ?? '';
  }
  return value;
}

/**
 * Parses the value of an Authorization field: `Bearer TOKEN`, the scheme in any case (contract section 5; RFC 6750
 * section 2.1; RFC 9110 sections 11.1 and 11.4).
 */
export function readAuthorization(value: string): Credentials {
  if (value.slice(0, 6).toLowerCase() !== 'bearer') return MISSING;
  const after = value.charCodeAt(6);
  if (after < 128 && IS_TCHAR[after] === 1) return MISSING;
  let from = 6;
  while (value.charCodeAt(from) === SPACE) from++;
  return from > 6 && isToken68(value, from) ? { kind: 'token', token: value.slice(from) } : MALFORMED;
}

/**
 * The key in `Basic`: the password or, without one, the name of the user, as in `git clone https://user:KEY@host` and `curl -u KEY:`
 * (RFC 7617 section 2).
 * @returns null for another scheme
 */
export function readBasic(value: string): Credentials | null {
  const from = /^basic +/i.exec(value)?.[0].length ?? 0;
  if (from === 0) return null;
  const pair = isToken68(value, from) ? Buffer.from(value.slice(from), 'base64').toString('latin1') : '';
  const colon = pair.indexOf(':');
  if (colon === -1) return MALFORMED;
  const key = pair.slice(colon + 1) || pair.slice(0, colon);
  if (key === '') return MISSING;
  return isToken68(key, 0) ? { kind: 'token', token: key } : MALFORMED;
}

/**
 * Whether a token has the form of a JSON Web Token: three parts separated by dots, the first the base64url of a text that
 * begins with `{` (RFC 7515 section 7.1; `{"` and `{ ` become `ey`). No API key of ours has a dot.
 */
export function isJwtForm(token: string): boolean {
  if (!token.startsWith('ey')) return false;
  const first = token.indexOf('.');
  const second = token.indexOf('.', first + 1);
  return first !== -1 && second !== -1 && token.indexOf('.', second + 1) === -1;
}

/** Whether the rest of a text is one token68 (RFC 9110 section 11.2). */
export function isToken68(value: string, from: number): boolean {
  let at = from;
  while (at < value.length && IS_TOKEN68[value.charCodeAt(at)] === 1) at++;
  if (at === from) return false;
  while (value.charCodeAt(at) === EQUALS) at++;
  return at === value.length;
}
