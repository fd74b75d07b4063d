/** What a request brings to say who calls. */
export type Credentials =
  | { readonly kind: 'token'; readonly token: string }
  /** No Authorization field, an empty one, or another scheme. */
  | { readonly kind: 'missing' }
  /** Bearer, but nothing after it that could be a token. */
  | { readonly kind: 'malformed' }
  /** More than one Authorization field: which of them counts would be anybody's guess. */
  | { readonly kind: 'ambiguous' };

const MISSING: Credentials = Object.freeze({ kind: 'missing' });
const MALFORMED: Credentials = Object.freeze({ kind: 'malformed' });

const SPACE = 0x20;
const EQUALS = 0x3d;

/** token68 of RFC 9110 section 11.2 without its `=` padding, by character code. */
const IS_TOKEN68 = Uint8Array.from({ length: 128 }, (_, code) =>
  /[A-Za-z0-9\-._~+/]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/** tchar of RFC 9110 section 5.6.2, by character code: what may go on after `bearer` makes it another scheme's name. */
const IS_TCHAR = Uint8Array.from({ length: 128 }, (_, code) =>
  /[!#$%&'*+\-.^_`|~A-Za-z0-9]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/**
 * The value of the one Authorization field; undefined where there is none, null where there are several.
 *
 * The attack: two of them, of which the gateway verifies one and the service behind it obeys the other. So they are
 * counted in the raw list; `headers` of node:http shows only the first.
 *
 * @param rawHeaders names and values in turn, as node:http has them
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
 * Reads the value of an Authorization field: `Bearer TOKEN`, the scheme in any case (contract section 5; RFC 6750
 * section 2.1; RFC 9110 sections 11.1 and 11.4).
 */
export function readAuthorization(value: string): Credentials {
  if (value.length < 6 || value.slice(0, 6).toLowerCase() !== 'bearer') return MISSING;
  const after = value.charCodeAt(6);
  if (after < 128 && IS_TCHAR[after] === 1) return MISSING;
  let from = 6;
  while (value.charCodeAt(from) === SPACE) from++;
  return from > 6 && isToken68(value, from) ? { kind: 'token', token: value.slice(from) } : MALFORMED;
}

/**
 * Whether a token can be a JSON Web Token: three parts with dots between, the first of which is the base64url of a text
 * that begins with `{` (RFC 7515 section 7.1; `ey` stands for `{"` and `{ `). No API key of ours has a dot.
 */
export function isJwtForm(token: string): boolean {
  if (!token.startsWith('ey')) return false;
  const first = token.indexOf('.');
  const second = token.indexOf('.', first + 1);
  return first !== -1 && second !== -1 && token.indexOf('.', second + 1) === -1;
}

function isToken68(value: string, from: number): boolean {
  let at = from;
  while (at < value.length && IS_TOKEN68[value.charCodeAt(at)] === 1) at++;
  if (at === from) return false;
  while (value.charCodeAt(at) === EQUALS) at++;
  return at === value.length;
}
