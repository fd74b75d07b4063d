import { setsConsoleCookie, withoutConsoleCookies } from './console-cookies.ts';
import { beginsWith, FieldNames } from './field-names.ts';
import { ownNames } from './own-fields.ts';

/**
 * The facts about a request that the gateway adds for the upstream (contract section 5), except its id and its trace.
 */
export interface ForwardedAs {
  /** Whether the gateway's own traceparent and tracestate replace the client's, which otherwise pass through. */
  readonly isTraced: boolean;
  readonly consumerId: string | null;
  readonly plan: string | null;
  /** Further fields that say who calls, names and values alternating; null if those of Kong are not written (`headers.consumer`). */
  readonly asKong: readonly string[] | null;
  /** Whether the service gets the client's Authorization. */
  readonly passesAuthorization: boolean;
  /** The beginning of the path that the service does not get (X-Forwarded-Prefix); null if none is taken away. */
  readonly prefix: string | null;
  /** Address of the client, or of the proxy in front of the gateway. IPv4-mapped addresses have become IPv4. */
  readonly peer: string;
  readonly scheme: 'http' | 'https';
  /** The client's Host; null if a client with HTTP/1.0 sent no Host. */
  readonly host: string | null;
  /** Whether the peer's X-Forwarded-* fields are trusted and kept. */
  readonly trustedPeer: boolean;
  /** The name of this gateway in Via. */
  readonly via: string;
  readonly httpVersion: string;
  /** Names with punctuation that are forwarded anyway (`headers.allow`). */
  readonly allowedNames: FieldNames;
  /** Null if Authorization alone may have an API key. */
  readonly keyPlaces: KeyPlaces | null;
}

/** Where a request may have an API key besides Authorization (`keys.from`). */
export interface KeyPlaces {
  readonly fieldNames: FieldNames;
  /** The query without the parameters that may have a key. @param query with its `?`; empty without a query */
  withoutKeys(query: string): string;
  /** A Cookie field without the cookies that may have a key; empty if it has no others. */
  withoutKeyCookies(value: string): string;
  /** A Sec-WebSocket-Protocol field without the protocols that may be a key; empty if it has no others. */
  withoutKeyProtocols(value: string): string;
}

/** Names that belong to one hop and are never passed on (RFC 9110 section 7.6.1), whether Connection lists them or not. */
const HOP_BY_HOP: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** The request fields that are not forwarded, or that the gateway writes itself. */
const NOT_FORWARDED = new FieldNames([
  ...HOP_BY_HOP,
  'host',
  'authorization',
  'content-length',
  'expect',
  'via',
  'x-request-id',
  'http2-settings',
]);
const CONSUMER_PREFIX = 'x-consumer-';
const TRACE = new FieldNames(['traceparent', 'tracestate']);

/** Fields that say where a request came from. Only a trusted peer may send them. */
const PROVENANCE = new FieldNames(['forwarded', 'x-real-ip']);
const PROVENANCE_PREFIX = 'x-forwarded-';
/**
 * Fields besides X-Consumer-* by which Kong says who calls, also in the spellings that a service takes for them (see `requestFields`).
 *
 * Attack: a service that Kong stood before believes the `X-Credential-Identifier` or `X-Authenticated-Groups` of a client.
 */
const OF_KONG = /^x[^0-9a-z](?:credential[^0-9a-z]|authenticated[^0-9a-z]|anonymous[^0-9a-z]consumer$)/i;
/** What a trusted proxy has taken from the path, without a slash at the end. X-Forwarded-Prefix with any other value is ignored. */
const PREFIX = /^(?:\/[!-+\-.0-~]+)+$/;
/** X-Forwarded-Proto with any other value is ignored. */
const SCHEME = /^https?$/i;

/** Characters that the name of a forwarded field must not have unless `headers.allow` lists the name. */
const PUNCTUATION = /[^0-9A-Za-z-]/;

/** The response fields that are not forwarded, or that the gateway writes itself (contract section 4). Earlier drafts had the last three. */
export const RESPONSE_FIELDS_NOT_FORWARDED: readonly string[] = [
  ...HOP_BY_HOP,
  ...ownNames('always'),
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
];
const REPLACED = new FieldNames(RESPONSE_FIELDS_NOT_FORWARDED);

/**
 * The fields that go to the upstream. Attack: a client sends `X-Consumer-Id`, or lists the gateway's own fields in
 * Connection so that a later hop drops them. So reserved and listed names are dropped, and ours are written last.
 *
 * Attack: a client sends `X_Consumer_Id` or `X.Consumer.Id`. CGI has one variable for all of these names: lighttpd and
 * PHP turn each character of a name that is neither letter nor digit into `_`, and the client's field is then read as
 * the gateway's. So every name with anything but letters, digits and `-` is dropped, from every client. An operator can
 * allow such a name unless it folds into one of ours (`reservedByFolding`).
 *
 * @param rawHeaders as node:http gives them: name, value, name, value …
 * @param connectionNames lower-case names that the client's Connection fields list
 * @param contentLength the declared length of the body, as digits; null if there is no body or it is chunked
 */
export function requestFields(
  rawHeaders: readonly string[],
  connectionNames: ReadonlySet<string>,
  contentLength: string | null,
  as: ForwardedAs,
): string[] {
  const fields: string[] = [];
  let forwardedFor = '';
  let via = '';
  let proto: string = as.scheme;
  let host = as.host;
  let prefix = '';
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    const value = rawHeaders[i + 1]!;
    if (PUNCTUATION.test(name) && !as.allowedNames.has(name)) continue;
    if (as.keyPlaces?.fieldNames.has(name)) continue;
    if (as.asKong !== null && OF_KONG.test(name)) continue;
    if (isVia(name)) via += `${value}, `;
    else if (PROVENANCE.has(name) || beginsWith(name, PROVENANCE_PREFIX)) {
      if (!as.trustedPeer) continue;
      const lowerName = name.toLowerCase();
      if (lowerName === 'x-forwarded-for') forwardedFor += value === '' ? '' : `${value}, `;
      else if (lowerName === 'x-forwarded-proto') proto = SCHEME.test(value) ? value.toLowerCase() : proto;
      else if (lowerName === 'x-forwarded-host') host = value;
      else if (lowerName === 'x-forwarded-prefix' && as.prefix !== null) prefix = PREFIX.test(value) ? value : '';
      else fields.push(name, value);
    } else if (as.isTraced && TRACE.has(name)) continue;
    else if (isCookie(name)) {
      const cookies = withoutConsoleCookies(as.keyPlaces === null ? value : as.keyPlaces.withoutKeyCookies(value));
      if ((cookies !== '' || value === '') && isForwardable(name, connectionNames)) fields.push(name, cookies);
    } else if (as.keyPlaces !== null && isProtocols(name)) {
      const protocols = as.keyPlaces.withoutKeyProtocols(value);
      if (protocols !== '' && isForwardable(name, connectionNames)) fields.push(name, protocols);
    } else if (as.passesAuthorization && isAuthorization(name)) {
      if (!connectionNames.has('authorization')) fields.push(name, value);
    } else if (isForwardable(name, connectionNames)) {
      fields.push(name, as.keyPlaces !== null && isReferer(name) ? refererWithoutKeys(value, as.keyPlaces) : value);
    }
  }
  fields.push('Via', `${via}${as.httpVersion} ${as.via}`);
  fields.push('X-Forwarded-For', `${forwardedFor}${as.peer}`, 'X-Forwarded-Proto', proto);
  if (host !== null) fields.push('X-Forwarded-Host', host);
  if (as.prefix !== null) fields.push('X-Forwarded-Prefix', prefix + as.prefix);
  if (as.consumerId !== null) fields.push('X-Consumer-Id', as.consumerId);
  if (as.plan !== null) fields.push('X-Consumer-Plan', as.plan);
  if (as.asKong !== null) fields.push(...as.asKong);
  if (contentLength !== null) fields.push('Content-Length', contentLength);
  return fields;
}

/** Fields that a service may read before the body, and must not learn after it (RFC 9110 section 6.5.1). */
const NOT_IN_TRAILERS = /^(?:content-.*|cache-control|cookie|date|if-.*|max-forwards|range|set-cookie)$/;

/**
 * The trailers of a request that go to the upstream.
 *
 * Attack: a client sends `X-Consumer-Id`, `Authorization` or `Content-Type` as a trailer, and a service that merges trailers into its fields
 * believes it. So what is reserved among fields, or frames, routes, authenticates or conditions a request, is dropped.
 * @param trailers names in lower case and values in turn
 * @param as `isAsKong`: whether the gateway writes the fields of Kong, which are reserved then
 */
export function requestTrailers(
  trailers: readonly string[],
  { allowedNames, keyPlaces, isAsKong }: Pick<ForwardedAs, 'allowedNames' | 'keyPlaces'> & { isAsKong: boolean },
): string[] {
  return trailers.filter((_, i) => {
    const name = trailers[i - (i % 2)]!;
    if ((PUNCTUATION.test(name) && !allowedNames.has(name)) || (isAsKong && OF_KONG.test(name))) return false;
    return reservedByFolding(name) === null && !NOT_IN_TRAILERS.test(name) && !keyPlaces?.fieldNames.has(name);
  });
}

/** Fields that are written anew for the service, and that a policy may know all the same. */
const SHOWN = new FieldNames(['host', 'content-length']);

/**
 * The fields of a request that code of the operator may see (`policies`), by name in lower case. Values of one name are joined
 * with `, `. An object without a prototype, frozen.
 *
 * Attack: a policy logs what it sees, or sends it to another service, and with it the key of the caller. Or a policy believes an
 * `X-Consumer-Plan` that the client has sent. So credentials and the gateway's own fields are left out under any name that a
 * service may take for theirs, and so is what the service does not get.
 * @param connectionNames lower-case names that the client's Connection fields list
 */
export function fieldsWithoutSecrets(
  rawHeaders: readonly string[],
  connectionNames: ReadonlySet<string>,
  { allowedNames, keyPlaces, asKong }: Pick<ForwardedAs, 'allowedNames' | 'keyPlaces' | 'asKong'>,
): Readonly<Record<string, string>> {
  const fields: Record<string, string> = Object.create(null);
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if ((PUNCTUATION.test(name) && !allowedNames.has(name)) || connectionNames.has(name)) continue;
    if (keyPlaces?.fieldNames.has(name) || isCookie(name) || (asKong !== null && OF_KONG.test(name))) continue;
    if (reservedByFolding(name) !== null && !SHOWN.has(name)) continue;
    const sent = rawHeaders[i + 1]!;
    const value = keyPlaces === null ? sent : valueWithoutKeys(name, sent, keyPlaces);
    fields[name] = name in fields ? `${fields[name]}, ${value}` : value;
  }
  return Object.freeze(fields);
}

/** Whether a name is forwarded only if `headers.allow` lists it. */
export function hasPunctuation(name: string): boolean {
  return PUNCTUATION.test(name);
}

/**
 * The reserved field, in lower case, that a service which folds punctuation would take this name for; null if there is
 * none. Reserved are the fields that the gateway writes or removes itself.
 */
export function reservedByFolding(name: string): string | null {
  const folded = name.toLowerCase().replace(/[^0-9a-z]/g, '-');
  const isReserved =
    [NOT_FORWARDED, PROVENANCE, TRACE].some((names) => names.has(folded)) ||
    [CONSUMER_PREFIX, PROVENANCE_PREFIX].some((prefix) => folded.startsWith(prefix));
  return isReserved ? folded : null;
}

/**
 * The upstream's fields that go to the client: hop-by-hop ones, those the gateway writes itself, and cookies of the console
 * are dropped.
 * @param fields names and values alternating, as they were received
 * @param alsoOwn names that the gateway also sets in this response, in any of these sets
 * @param status a 1xx or 204 must not have Content-Length (RFC 9110 section 8.6), even if the upstream sends it
 */
export function responseFields(fields: readonly string[], alsoOwn: readonly FieldNames[], status: number): string[] {
  let listed: Set<string> | null = null;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]!.length !== 10 || fields[i]!.toLowerCase() !== 'connection') continue;
    listed ??= new Set();
    addConnectionNames(fields[i + 1]!, listed);
  }
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (isContentLength(name)) {
      if (status < 200 || status === 204) continue;
    } else if (isSetCookie(name) && setsConsoleCookie(fields[i + 1]!)) continue;
    else if (REPLACED.has(name) || listed?.has(name.toLowerCase())) continue;
    else if (alsoOwn.some((names) => names.has(name))) continue;
    kept.push(name, fields[i + 1]!);
  }
  return kept;
}

/** Adds the names that a Connection field lists, in lower case. */
export function addConnectionNames(value: string, names: Set<string>): void {
  for (const part of value.split(',')) {
    const name = part.trim().toLowerCase();
    if (name !== '') names.add(name);
  }
}

function isForwardable(name: string, listed: ReadonlySet<string>): boolean {
  if (NOT_FORWARDED.has(name) || beginsWith(name, CONSUMER_PREFIX)) return false;
  return listed.size === 0 || !listed.has(name.toLowerCase());
}

function isVia(name: string): boolean {
  return name.length === 3 && name.toLowerCase() === 'via';
}

function isCookie(name: string): boolean {
  return name.length === 6 && name.toLowerCase() === 'cookie';
}

function isSetCookie(name: string): boolean {
  return name.length === 10 && name.toLowerCase() === 'set-cookie';
}

function isAuthorization(name: string): boolean {
  return name.length === 13 && name.toLowerCase() === 'authorization';
}

function isProtocols(name: string): boolean {
  return name.length === 22 && name.toLowerCase() === 'sec-websocket-protocol';
}

function valueWithoutKeys(name: string, value: string, places: KeyPlaces): string {
  if (isProtocols(name)) return places.withoutKeyProtocols(value);
  return isReferer(name) ? refererWithoutKeys(value, places) : value;
}

function isReferer(name: string): boolean {
  return name.length === 7 && name.toLowerCase() === 'referer';
}

/**
 * Attack: a browser that was given a page for `?api_key=…` sends this URL as the Referer of all that the page asks for,
 * and the service has the key in its log.
 */
function refererWithoutKeys(url: string, places: KeyPlaces): string {
  const mark = url.indexOf('?');
  if (mark === -1) return url;
  const hash = url.indexOf('#', mark);
  const end = hash === -1 ? url.length : hash;
  return url.slice(0, mark) + places.withoutKeys(url.slice(mark, end)) + url.slice(end);
}

export function isContentLength(name: string): boolean {
  return name.length === 14 && name.toLowerCase() === 'content-length';
}
