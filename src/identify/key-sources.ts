import { cookieValues, withoutCookies } from '../http1/cookies.ts';
import { FieldNames } from '../http1/field-names.ts';
import { onlyValue, valuesOf } from '../http1/fields.ts';
import type { KeyPlaces } from '../http1/forwarded-fields.ts';
import { QueryNames } from '../http1/query-names.ts';
import { authorizationOf, type Credentials, isToken68, readAuthorization, readBasic } from './bearer.ts';

/** A place where a request may have its API key (`keys.from` in gateway.yaml). */
export type KeySource =
  | { readonly kind: 'authorization' }
  | { readonly kind: 'basic' }
  | { readonly kind: 'header'; readonly name: string }
  | { readonly kind: 'cookie'; readonly name: string }
  /** One of the protocols that a WebSocket offers: the name, a dot and the key. */
  | { readonly kind: 'subprotocol'; readonly name: string }
  /** `name` has only characters that need no percent-encoding. */
  | { readonly kind: 'query'; readonly name: string };

const MISSING: Credentials = Object.freeze({ kind: 'missing' });
const MALFORMED: Credentials = Object.freeze({ kind: 'malformed' });
const AMBIGUOUS: Credentials = Object.freeze({ kind: 'ambiguous' });

/**
 * Finds the API key of a request in several places, and removes it from what is passed on.
 *
 * Attack: a client sends two keys, the gateway verifies one, and the service, or a log on the way, takes the other. So a
 * request with two is refused, even if they are equal, and every place loses its field or parameter, whether a key was
 * read there or not.
 */
export class KeySources implements KeyPlaces {
  /** The fields that are not passed on. Whether Authorization is, is another question. */
  readonly fieldNames: FieldNames;
  /** The places in words, for messages. */
  readonly places: string;
  /** Whether `Authorization: Bearer` is one of the places. */
  readonly readsAuthorization: boolean;
  /** Whether `Authorization: Basic` is. */
  readonly readsBasic: boolean;
  /** In lower case. */
  readonly #fields: readonly string[];
  readonly #cookies: readonly string[];
  /** With their dots. */
  readonly #protocols: readonly string[];
  readonly #parameters: ReadonlySet<string>;
  readonly #names: QueryNames;

  constructor(sources: readonly KeySource[]) {
    const names = (kind: 'header' | 'query' | 'cookie' | 'subprotocol') =>
      sources.flatMap((source) => (source.kind === kind ? [source.name] : []));
    this.readsAuthorization = sources.some(({ kind }) => kind === 'authorization');
    this.readsBasic = sources.some(({ kind }) => kind === 'basic');
    this.#cookies = names('cookie');
    this.#protocols = names('subprotocol').map((name) => `${name}.`);
    this.#fields = names('header').map((name) => name.toLowerCase());
    this.#parameters = new Set(names('query'));
    this.#names = new QueryNames(this.#parameters);
    this.fieldNames = new FieldNames(this.#fields);
    this.places = sources.map(inWords).join(' or ');
  }

  /** The key in the header fields. A token's form is checked, and whether it is a key is for the Identifier to decide. */
  inFields(rawHeaders: readonly string[]): Credentials {
    let found = this.readsAuthorization || this.readsBasic ? this.#inAuthorization(rawHeaders) : MISSING;
    for (const name of this.#fields) {
      const values = valuesOf(rawHeaders, name);
      if (values.length > 1) return AMBIGUOUS;
      found = oneOf(found, values.length === 0 ? MISSING : credentialsOf(values[0]!));
    }
    if (this.#cookies.length > 0) found = oneOf(found, this.#inCookies(rawHeaders));
    if (this.#protocols.length > 0) found = oneOf(found, this.#inProtocols(rawHeaders));
    return found;
  }

  #inAuthorization(rawHeaders: readonly string[]): Credentials {
    const value = authorizationOf(rawHeaders);
    if (value === undefined) return MISSING;
    if (value === null) return AMBIGUOUS;
    const basic = this.readsBasic ? readBasic(value) : null;
    return basic ?? (this.readsAuthorization ? readAuthorization(value) : MISSING);
  }

  /**
   * Attack: a page of another site lets the browser of a caller send a request, or open a WebSocket, and the browser adds the cookie by
   * itself. So the cookie of such a request is no key.
   */
  #inCookies(rawHeaders: readonly string[]): Credentials {
    const values = this.#cookieValues(rawHeaders);
    if (values.length > 1) return AMBIGUOUS;
    return values.length === 0 || mayBeOfOtherSite(rawHeaders) ? MISSING : credentialsOf(values[0]!);
  }

  #cookieValues(rawHeaders: readonly string[]): readonly string[] {
    return this.#cookies.flatMap((name) => cookieValues(valuesOf(rawHeaders, 'cookie'), name));
  }

  /** Names the cookie of a request without a key in words, for the message of its 401; null if it has no cookie with a value. */
  unreadCookie(rawHeaders: readonly string[]): string | null {
    const isSent = this.#cookieValues(rawHeaders).some((value) => value !== '');
    return isSent ? '`Cookie` of a request that may come from a page of another site' : null;
  }

  #inProtocols(rawHeaders: readonly string[]): Credentials {
    const keys = protocolsIn(valuesOf(rawHeaders, PROTOCOLS)).flatMap((offered) => {
      const prefix = this.#protocols.find((prefix) => offered.startsWith(prefix));
      return prefix === undefined ? [] : [offered.slice(prefix.length)];
    });
    if (keys.length > 1) return AMBIGUOUS;
    return keys.length === 0 ? MISSING : credentialsOf(keys[0]!);
  }

  /** A Cookie field without the cookies that may have a key; empty if it has no others. */
  withoutKeyCookies(value: string): string {
    return this.#cookies.length === 0 ? value : withoutCookies(value, (name) => this.#cookies.includes(name));
  }

  /** A Sec-WebSocket-Protocol field without the protocols that may be a key; empty if it has no others. */
  withoutKeyProtocols(value: string): string {
    if (!this.#protocols.some((prefix) => value.includes(prefix))) return value;
    return protocolsIn([value])
      .filter((offered) => !this.#protocols.some((prefix) => offered.startsWith(prefix)))
      .join(', ');
  }

  /**
   * The key in the query. Attack: `api_key[]=…` or `x=1;api_key=…` is not a key here but is one to the service, or stays in its
   * log. So a parameter that a service may take for one of ours is refused like a second key.
   * @param query with its `?`; empty without a query
   */
  inQuery(query: string): Credentials {
    let found: Credentials | null = null;
    for (const parameter of this.#parametersOf(query)) {
      if (!this.#isKey(parameter)) {
        if (this.#names.misspelt(parameter) !== null) return AMBIGUOUS;
        continue;
      }
      if (found !== null) return AMBIGUOUS;
      const equals = parameter.indexOf('=');
      found = equals === -1 ? MISSING : credentialsOf(decoded(parameter.slice(equals + 1)));
    }
    return found ?? MISSING;
  }

  /** The query without the parameters that may have a key; all other bytes stay as they are. */
  withoutKeys(query: string): string {
    const parameters = this.#parametersOf(query);
    const kept = parameters.filter((parameter) => !this.#isKey(parameter) && this.#names.misspelt(parameter) === null);
    if (kept.length === parameters.length) return query;
    return kept.length === 0 ? '' : `?${kept.join('&')}`;
  }

  #parametersOf(query: string): readonly string[] {
    return this.#parameters.size === 0 || query.length < 2 ? [] : query.slice(1).split('&');
  }

  /**
   * Attack: `api%5Fkey=…` is the same parameter to a service and would stay in its log. So names are compared decoded.
   */
  #isKey(parameter: string): boolean {
    const equals = parameter.indexOf('=');
    return this.#parameters.has(decoded(equals === -1 ? parameter : parameter.slice(0, equals)));
  }
}

/** Where other gateways read an API key: names of fields in lower case, as clients write them. */
const USUAL_FIELDS: ReadonlyMap<string, string> = new Map(
  ['X-API-Key', 'X-ApiKey', 'API-Key', 'ApiKey', 'X-Auth-Token', 'X-Access-Token'].map((name) => [
    name.toLowerCase(),
    name,
  ]),
);
const USUAL_PARAMETER = /[?&](api_key|api-key|apikey|access_token)=[^&]/i;

/**
 * Names the place where a request probably has its key, although the gateway does not read keys there; null if no place looks like one.
 * It is for the message of a 401: the value is neither read nor returned.
 * @param query with its `?`; empty if the request has no query
 * @param readsAuthorization whether `Authorization: Bearer` is read
 */
export function unreadKeyPlace(
  rawHeaders: readonly string[],
  query: string,
  readsAuthorization: boolean,
): string | null {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i + 1] === '') continue;
    const name = rawHeaders[i]!.toLowerCase();
    if (name === 'authorization') return readsAuthorization ? '`Authorization` without `Bearer`' : '`Authorization`';
    const usual = USUAL_FIELDS.get(name);
    if (usual !== undefined) return `\`${usual}\``;
  }
  const parameter = USUAL_PARAMETER.exec(query)?.[1];
  return parameter === undefined ? null : `\`?${parameter.toLowerCase()}=\``;
}

/** The credentials of two places together. */
export function oneOf(one: Credentials, other: Credentials): Credentials {
  if (one.kind === 'ambiguous' || other.kind === 'missing') return one;
  return one.kind === 'missing' ? other : AMBIGUOUS;
}

const PROTOCOLS = 'sec-websocket-protocol';

function protocolsIn(values: readonly string[]): readonly string[] {
  return values.flatMap((value) => value.split(',')).map((offered) => offered.trim());
}

/**
 * Whether a page of another site may have made the browser send a request: by Sec-Fetch-Site (Fetch Metadata), without that by an Origin, and
 * without both by a Referer that is not of this host.
 *
 * Attack: a page leads the browser to a gateway over plain HTTP, where no browser sends Sec-Fetch-Site, nor Origin with a GET, and the page
 * can leave out the Referer. So what says that it is a browser, as no page can prevent, is of this host only if one of them says so.
 */
function mayBeOfOtherSite(rawHeaders: readonly string[]): boolean {
  const sites = valuesOf(rawHeaders, 'sec-fetch-site');
  if (sites.length > 0)
    return !sites.every((site) => site === 'same-origin' || site === 'same-site' || site === 'none');
  const host = onlyValue(rawHeaders, 'host')?.toLowerCase() ?? null;
  const origins = valuesOf(rawHeaders, 'origin');
  const pages = origins.length > 0 ? origins : valuesOf(rawHeaders, 'referer');
  if (pages.length > 0) return pages.some((page) => HOST_OF_PAGE.exec(page)?.[1]?.toLowerCase() !== host);
  return valuesOf(rawHeaders, 'user-agent').some((name) => BROWSER.test(name));
}

const HOST_OF_PAGE = /^https?:\/\/([^/?#]*)/i;
/** All browsers, and hardly anything else, begin their names so; Opera Mini with the second. */
const BROWSER = /^(?:mozilla|opera)\//i;

/** A key without a scheme in front of it. An empty value counts as no key, because many clients send it for an unset variable. */
function credentialsOf(token: string): Credentials {
  if (token === '') return MISSING;
  return isToken68(token, 0) ? { kind: 'token', token } : MALFORMED;
}

/**
 * Percent-decoding, one character for each byte. `+` stays: it may be part of a key made elsewhere, and no key has a
 * blank.
 */
function decoded(text: string): string {
  if (!text.includes('%')) return text;
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function inWords(source: KeySource): string {
  if (source.kind === 'authorization') return '`Authorization: Bearer <API_KEY>`';
  if (source.kind === 'basic') return '`Authorization: Basic` with the key as the password';
  if (source.kind === 'cookie') return `\`Cookie: ${source.name}=<API_KEY>\``;
  if (source.kind === 'subprotocol') return `\`Sec-WebSocket-Protocol: ${source.name}.<API_KEY>\``;
  return source.kind === 'header' ? `\`${source.name}: <API_KEY>\`` : `\`?${source.name}=<API_KEY>\``;
}
