import { isIPv6 } from 'node:net';
import { addConnectionNames } from '../forward/headers.ts';
import { readTarget } from './target.ts';

/** A request head that can be served, read once from what was received (`rawHeaders`), not from what Node merged. */
export interface Head {
  readonly kind: 'head';
  readonly method: string;
  readonly httpVersion: string;
  /** As received, but for a Max-Forwards that OPTIONS brought, which is less by one. */
  readonly rawHeaders: readonly string[];
  /** Path and query in origin form, byte for byte; `*` for OPTIONS. */
  readonly target: string;
  readonly path: string;
  /** Null where HTTP/1.0 sent none. */
  readonly host: string | null;
  readonly body: 'none' | 'chunked' | 'length';
  /** The declared length in bytes; 0 where none is declared. */
  readonly contentLength: number;
  /** Lower-case names that Connection lists. */
  readonly connectionNames: ReadonlySet<string>;
  readonly expectsContinue: boolean;
  /** True for an OPTIONS that must not be passed on: it came with `Max-Forwards: 0` (RFC 9110 section 7.6.2). */
  readonly endsHere: boolean;
}

/** Why a head is refused; the codes are those of contract section 4. */
export interface HeadFault {
  readonly kind: 'fault';
  readonly code:
    | 'invalid_request'
    | 'uri_too_long'
    | 'headers_too_large'
    | 'payload_too_large'
    | 'expectation_failed'
    | 'not_implemented'
    | 'http_version_not_supported';
  /** A sentence for the developer who reads it. */
  readonly message: string;
}

export interface HeadLimits {
  readonly maxUrlBytes: number;
  /** Without the request line. */
  readonly maxHeaderBytes: number;
  readonly maxBodyBytes: number;
}

export interface ReceivedHead {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
}

const NO_NAMES: ReadonlySet<string> = new Set();

/**
 * A registered name, an IPv4 address or a bracketed IPv6 address, with an optional port (RFC 9110 section 7.2). A comma
 * is not among the characters of a name: it is what two Hosts become when somebody merges them.
 */
const HOST = /^(?:(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{0,5}))?$/;

/**
 * Checks the framing and form of a request (RFC 9112 sections 3 and 6).
 *
 * Attack: a request that two parsers read differently (two lengths, a length and chunks, two Hosts) smuggles a second
 * one past the gateway. So whatever is ambiguous is refused, never repaired.
 */
export function readHead({ method, url, httpVersion, rawHeaders }: ReceivedHead, limits: HeadLimits): Head | HeadFault {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return fault('http_version_not_supported', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.');
  }
  if (method === 'CONNECT' || method === 'TRACE') return fault('not_implemented', `${method} is not offered.`);
  if (url.length > limits.maxUrlBytes) {
    return fault('uri_too_long', `The request target is longer than ${limits.maxUrlBytes} bytes.`);
  }
  const fields = readFields(rawHeaders);
  if (fields.bytes > limits.maxHeaderBytes) {
    return fault('headers_too_large', `The header fields are larger than ${limits.maxHeaderBytes} bytes.`);
  }
  const framing = readFraming(fields, httpVersion);
  if (framing.kind === 'fault') return framing;
  const hostFault = checkHost(fields, httpVersion);
  if (hostFault !== null) return hostFault;
  const target = readTarget(url, method, fields.host);
  if (target.kind === 'fault') return fault('invalid_request', target.message);
  if (framing.contentLength > limits.maxBodyBytes) {
    return fault('payload_too_large', `The body is larger than ${limits.maxBodyBytes} bytes.`);
  }
  // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
  const expectation = httpVersion === '1.1' ? fields.expect : null;
  if (expectation !== null && expectation.toLowerCase() !== '100-continue') {
    return fault('expectation_failed', 'The only expectation that can be met is 100-continue.');
  }
  const maxForwards = method === 'OPTIONS' ? readMaxForwards(rawHeaders) : null;
  return {
    kind: 'head',
    method,
    httpVersion,
    rawHeaders: maxForwards?.rawHeaders ?? rawHeaders,
    target: target.target,
    path: target.path,
    host: fields.host,
    body: framing.body,
    contentLength: framing.contentLength,
    connectionNames: fields.connectionNames,
    expectsContinue: expectation !== null && framing.body !== 'none',
    endsHere: maxForwards?.endsHere === true,
  };
}

/** The highest Max-Forwards that is passed on (RFC 9110 section 7.6.2 lets a recipient have one). */
const MOST_FORWARDS = 1_000;

/** Fields whose Max-Forwards is less by one, and whether it was 0; what is no number is passed on as it is. */
function readMaxForwards(rawHeaders: readonly string[]) {
  let endsHere = false;
  const lessened = rawHeaders.map((value, i) => {
    if (i % 2 === 0 || rawHeaders[i - 1]!.toLowerCase() !== 'max-forwards' || !/^[0-9]+$/.test(value)) return value;
    const left = Math.min(Number(value) - 1, MOST_FORWARDS);
    endsHere ||= left < 0;
    return String(left);
  });
  return { rawHeaders: lessened, endsHere };
}

interface ReadFields {
  bytes: number;
  hosts: number;
  host: string | null;
  lengths: number;
  length: string;
  codings: number;
  coding: string;
  expect: string | null;
  connectionNames: ReadonlySet<string>;
}

function readFields(rawHeaders: readonly string[]): ReadFields {
  const fields: ReadFields = {
    bytes: 0,
    hosts: 0,
    host: null,
    lengths: 0,
    length: '',
    codings: 0,
    coding: '',
    expect: null,
    connectionNames: NO_NAMES,
  };
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    const value = rawHeaders[i + 1]!;
    fields.bytes += name.length + value.length + 4;
    readField(fields, name, value);
  }
  return fields;
}

function readField(fields: ReadFields, name: string, value: string): void {
  // The lengths of the names that matter: most fields are passed over without a copy.
  switch (name.length) {
    case 4:
      if (name.toLowerCase() !== 'host') return;
      fields.hosts++;
      fields.host = value;
      return;
    case 6:
      if (name.toLowerCase() === 'expect')
        fields.expect = fields.expect === null ? value : `${fields.expect}, ${value}`;
      return;
    case 10:
      if (name.toLowerCase() !== 'connection') return;
      if (fields.connectionNames === NO_NAMES) fields.connectionNames = new Set();
      addConnectionNames(value, fields.connectionNames as Set<string>);
      return;
    case 14:
      if (name.toLowerCase() !== 'content-length') return;
      fields.lengths++;
      fields.length = value;
      return;
    case 17:
      if (name.toLowerCase() !== 'transfer-encoding') return;
      fields.codings++;
      fields.coding = value;
  }
}

type Framing = { kind: 'framing'; body: Head['body']; contentLength: number } | HeadFault;

function readFraming({ lengths, length, codings, coding }: ReadFields, httpVersion: string): Framing {
  if (codings > 0) {
    if (lengths > 0) return fault('invalid_request', 'Content-Length and Transfer-Encoding must not come together.');
    if (httpVersion === '1.0') return fault('invalid_request', 'HTTP/1.0 has no Transfer-Encoding.');
    if (codings > 1) return fault('invalid_request', 'Transfer-Encoding must come once.');
    // Not `trim`: it takes away bytes that are no white space here, 0xA0 for one.
    const name = coding.toLowerCase();
    if (name === 'chunked') return { kind: 'framing', body: 'chunked', contentLength: 0 };
    return /^(?:gzip|x-gzip|deflate|compress|x-compress|br|zstd)[ \t]*,[ \t]*chunked$/.test(name)
      ? fault('not_implemented', 'The only transfer coding that is understood is chunked.')
      : fault('invalid_request', 'Transfer-Encoding must be chunked, and nothing else.');
  }
  if (lengths === 0) return { kind: 'framing', body: 'none', contentLength: 0 };
  if (lengths > 1 || !/^[0-9]{1,15}$/.test(length)) {
    return fault('invalid_request', 'Content-Length must come once and be a number.');
  }
  const contentLength = Number(length);
  return { kind: 'framing', body: contentLength === 0 ? 'none' : 'length', contentLength };
}

function checkHost({ hosts, host }: ReadFields, httpVersion: string): HeadFault | null {
  if (hosts > 1) return fault('invalid_request', 'Host must come once.');
  if (host === null) return httpVersion === '1.0' ? null : fault('invalid_request', 'Host is missing.');
  const parts = HOST.exec(host);
  const isValid = parts !== null && (parts[1] === undefined || isIPv6(parts[1])) && Number(parts[2] ?? 0) <= 65_535;
  return isValid ? null : fault('invalid_request', 'Host is not a valid host name with an optional port.');
}

function fault(code: HeadFault['code'], message: string): HeadFault {
  return { kind: 'fault', code, message };
}
