import { TOKEN } from '../../http1/fields.ts';
import { BODYLESS } from '../../http1/request-framing.ts';

/** The head of a stream's request, as that of an HTTP/1.1 request. */
export interface StreamHead {
  readonly kind: 'head';
  readonly method: string;
  readonly target: string;
  /** Names and values alternating, one character for each byte, without Transfer-Encoding. */
  readonly fields: readonly string[];
  /** `unknown`: only the first byte of a body, or the end of the stream, shows whether there is a body. */
  readonly body: 'none' | 'length' | 'chunked' | 'unknown';
  /** The declared length in bytes; 0 if none is declared. */
  readonly contentLength: number;
  /** Bytes of all names and values. */
  readonly bytes: number;
}

interface StreamFault {
  readonly kind: 'fault';
}

const FAULT: StreamFault = { kind: 'fault' };

/** No control bytes, no white space at either end. */
const VALUE = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const TARGET = /^[\x21-\x7e\x80-\xff]+$/;
const LENGTH = /^[0-9]{1,15}$/;

const PSEUDO: ReadonlySet<string> = new Set([':method', ':scheme', ':authority', ':path']);

/** Fields for one HTTP/1.1 connection, which are not allowed on a stream (RFC 9113 section 8.2.2). */
const CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/**
 * Turns the fields of a stream into the head of an HTTP/1.1 request.
 *
 * Attack: input that is not allowed in an HTTP/1.1 head (a line end in a value, a space in a path, a second Host, a
 * transfer coding, an invalid length) would there become a different head, body or request. So every byte is checked
 * here, even if nghttp2 has checked it before, and a contradictory request is refused, never repaired.
 *
 * @param fields names and values alternating, as they were received
 * @param ended whether the stream has ended with its fields
 */
export function readStreamHead(fields: readonly string[], ended: boolean): StreamHead | StreamFault {
  const read: ReadFields = { pseudo: new Map(), kept: [], cookies: [], host: null, length: null, expects: false };
  let bytes = 0;
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i]!, fields[i + 1]!];
    bytes += name.length + value.length;
    if (!(name.startsWith(':') ? readPseudo(read, name, value) : readField(read, name, value))) return FAULT;
  }
  const { pseudo, kept, cookies, length } = read;
  const [method, target, host] = [pseudo.get(':method'), pseudo.get(':path'), hostOf(read)];
  if (method === undefined || !TOKEN.test(method) || method === 'CONNECT' || host === null) return FAULT;
  if (target === undefined || !TARGET.test(target) || pseudo.get(':scheme') !== 'https') return FAULT;
  if (ended && length !== null && Number(length) > 0) return FAULT;
  if (cookies.length > 0) kept.push('cookie', cookies.join('; '));
  if (length !== null) kept.push('content-length', length);
  return {
    kind: 'head',
    method,
    target,
    fields: host === '' ? kept : ['Host', host, ...kept],
    body: bodyOf(read, method, ended),
    contentLength: Number(length ?? 0),
    bytes,
  };
}

interface ReadFields {
  readonly pseudo: Map<string, string>;
  /** Names and values alternating. */
  readonly kept: string[];
  readonly cookies: string[];
  host: string | null;
  length: string | null;
  expects: boolean;
}

/** Reads a pseudo-header field. They precede all other fields, and each occurs at most once (RFC 9113 section 8.3). */
function readPseudo({ pseudo, kept, cookies, host, length }: ReadFields, name: string, value: string): boolean {
  const isFirst = kept.length === 0 && cookies.length === 0 && host === null && length === null;
  if (!isFirst || !PSEUDO.has(name) || pseudo.has(name)) return false;
  pseudo.set(name, value);
  return true;
}

function readField(read: ReadFields, name: string, value: string): boolean {
  // Names must be in lower case (RFC 9113 section 8.2.1).
  if (!TOKEN.test(name) || /[A-Z]/.test(name) || !VALUE.test(value) || CONNECTION.has(name)) return false;
  switch (name) {
    case 'host':
      if (read.host !== null) return false;
      read.host = value;
      return true;
    case 'content-length':
      if (read.length !== null || !LENGTH.test(value)) return false;
      read.length = value;
      return true;
    case 'te':
      // TE concerns only the trailers of this hop, so it is not passed on.
      return value === 'trailers';
    case 'cookie':
      // Clients may split a Cookie field so that it compresses better (RFC 9113 section 8.2.3).
      read.cookies.push(value);
      return true;
    case 'expect':
      read.expects = true;
  }
  read.kept.push(name, value);
  return true;
}

/** @returns the value for Host; empty if the request names no host, null if it names two or an invalid one */
function hostOf({ pseudo, host }: ReadFields): string | null {
  const authority = pseudo.get(':authority');
  if (authority === undefined) return host ?? '';
  if (!TARGET.test(authority)) return null;
  return host === null || host.toLowerCase() === authority.toLowerCase() ? authority : null;
}

function bodyOf({ length, expects }: ReadFields, method: string, ended: boolean): StreamHead['body'] {
  if (ended) return 'none';
  if (length !== null) return 'length';
  // An open stream alone does not announce a body.
  return BODYLESS.has(method) && !expects ? 'unknown' : 'chunked';
}

/** Response fields that concern only the HTTP/1.1 connection that the response was written for. */
const HOP: ReadonlySet<string> = new Set([...CONNECTION, 'te']);

/** The fields of a response as a stream carries them: with lower-case names, and without those for a connection. */
export function streamFields(fields: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!.toLowerCase();
    if (!HOP.has(name)) kept.push(name, fields[i + 1]!);
  }
  return kept;
}
