import { beginsWith, FieldNames } from './field-names.ts';

/** What the gateway itself says to the upstream about a request (contract section 5), but for its id and its trace. */
export interface ForwardedAs {
  /** Whether traceparent and tracestate of the gateway's own come in place of the client's, which pass through else. */
  readonly isTraced: boolean;
  readonly consumerId: string | null;
  readonly plan: string | null;
  /** Whose connection it is, one form for IPv4-mapped ones: the client, or a proxy before the gateway. */
  readonly peer: string;
  readonly scheme: 'http' | 'https';
  /** The client's Host; null where HTTP/1.0 sent none. */
  readonly host: string | null;
  /** Whether the peer's X-Forwarded-* are believed and kept. */
  readonly trustedPeer: boolean;
  /** The name this gateway goes by in Via. */
  readonly via: string;
  readonly httpVersion: string;
  /** Names with punctuation that are forwarded all the same (`headers.allow`). */
  readonly allowedNames: FieldNames;
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

/** The request fields that end here, or that the gateway writes itself. */
const ENDING = new FieldNames([
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

/** What only a trusted peer may say about where a request came from. */
const PROVENANCE = new FieldNames(['forwarded', 'x-real-ip']);
const PROVENANCE_PREFIX = 'x-forwarded-';
/** What else stands there is the word of nobody who knows. */
const SCHEME = /^https?$/i;

/** What no name of a forwarded field has, unless `headers.allow` lists it. */
const PUNCTUATION = /[^0-9A-Za-z-]/;

/** The answer fields that end here, or that the gateway writes itself (contract section 4). */
export const ENDING_IN_ANSWERS: readonly string[] = [
  ...HOP_BY_HOP,
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'ratelimit',
  'ratelimit-policy',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'x-request-id',
];
const REPLACED = new FieldNames(ENDING_IN_ANSWERS);

/**
 * The fields that go to the upstream. Attack: a client sends `X-Consumer-Id`, or lists the gateway's own fields in
 * Connection so that a later hop drops them. So reserved and listed names are dropped, and ours are written last.
 *
 * Attack: a client sends `X_Consumer_Id` or `X.Consumer.Id`. CGI has one variable for all of these names: lighttpd and
 * PHP turn each character of a name that is neither letter nor digit into `_`, and the client's field is then read as
 * the gateway's. So every name with anything but letters, digits and `-` is dropped, from every client; an operator can
 * except names that fold into none of ours (`reservedByFolding`).
 *
 * @param rawHeaders as node:http gives them: name, value, name, value …
 * @param connectionNames lower-case names that the client's Connection fields list
 * @param contentLength the declared length of the body, digits; null where there is no body or it is chunked
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
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    const value = rawHeaders[i + 1]!;
    if (PUNCTUATION.test(name) && !as.allowedNames.has(name)) continue;
    if (isVia(name)) via += `${value}, `;
    else if (PROVENANCE.has(name) || beginsWith(name, PROVENANCE_PREFIX)) {
      if (!as.trustedPeer) continue;
      const said = name.toLowerCase();
      if (said === 'x-forwarded-for') forwardedFor += value === '' ? '' : `${value}, `;
      else if (said === 'x-forwarded-proto') proto = SCHEME.test(value) ? value.toLowerCase() : proto;
      else if (said === 'x-forwarded-host') host = value;
      else fields.push(name, value);
    } else if (as.isTraced && TRACE.has(name)) continue;
    else if (isForwardable(name, connectionNames)) fields.push(name, value);
  }
  fields.push('Via', `${via}${as.httpVersion} ${as.via}`);
  fields.push('X-Forwarded-For', `${forwardedFor}${as.peer}`, 'X-Forwarded-Proto', proto);
  if (host !== null) fields.push('X-Forwarded-Host', host);
  if (as.consumerId !== null) fields.push('X-Consumer-Id', as.consumerId);
  if (as.plan !== null) fields.push('X-Consumer-Plan', as.plan);
  if (contentLength !== null) fields.push('Content-Length', contentLength);
  return fields;
}

/** Whether a name can only be forwarded where `headers.allow` lists it. */
export function hasPunctuation(name: string): boolean {
  return PUNCTUATION.test(name);
}

/**
 * The field that the gateway writes or removes itself and for which a service that folds punctuation would take this
 * one, in lower case; null where there is none.
 */
export function reservedByFolding(name: string): string | null {
  const folded = name.toLowerCase().replace(/[^0-9a-z]/g, '-');
  const isReserved =
    [ENDING, PROVENANCE, TRACE].some((names) => names.has(folded)) ||
    [CONSUMER_PREFIX, PROVENANCE_PREFIX].some((prefix) => folded.startsWith(prefix));
  return isReserved ? folded : null;
}

/**
 * The upstream's fields that go to the client: hop-by-hop ones and those the gateway writes itself are dropped.
 * @param fields name and value in turn, as they were received
 * @param alsoOwn names that this answer's own fields replace
 * @param status a 1xx or 204 must not have Content-Length (RFC 9110 section 8.6), whatever the upstream says
 */
export function answerFields(fields: readonly string[], alsoOwn: FieldNames, status: number): string[] {
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
    } else if (REPLACED.has(name) || alsoOwn.has(name) || listed?.has(name.toLowerCase())) continue;
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
  if (ENDING.has(name) || beginsWith(name, CONSUMER_PREFIX)) return false;
  return listed.size === 0 || !listed.has(name.toLowerCase());
}

function isVia(name: string): boolean {
  return name.length === 3 && name.toLowerCase() === 'via';
}

export function isContentLength(name: string): boolean {
  return name.length === 14 && name.toLowerCase() === 'content-length';
}
