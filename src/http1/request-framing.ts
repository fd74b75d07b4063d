import { isIPv6 } from 'node:net';
import { ERRORS } from '../errors/catalogue.ts';
import { addConnectionNames } from './forwarded-fields.ts';

export interface HeadLimits {
  readonly maxUrlBytes: number;
  /** Without the request line. */
  readonly maxHeaderBytes: number;
}

/** The result of checking header fields, without the request line. */
export type ValidatedFields =
  | HeadFault
  | { readonly kind: 'valid'; readonly fields: ReadFields; readonly framing: Exclude<Framing, HeadFault> };

const NO_NAMES: ReadonlySet<string> = new Set();

/** Methods whose requests are not expected to have a body, and for which a body has no meaning. */
export const BODYLESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS']);

/**
 * A registered name, an IPv4 address or a bracketed IPv6 address, with an optional port (RFC 9110 section 7.2). A name
 * must not contain a comma, because two Host fields that an intermediary has merged do.
 */
const HOST = /^(?:(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{0,5}))?$/;

/** Reads and checks the fields of an HTTP/1.1 or HTTP/1.0 request. */
export function validateFields(
  rawHeaders: readonly string[],
  httpVersion: string,
  limits: HeadLimits,
): ValidatedFields {
  const fields = readFields(rawHeaders);
  if (fields.bytes > limits.maxHeaderBytes) {
    const message = `The header fields are larger than ${limits.maxHeaderBytes} bytes.`;
    return fault('headers_too_large', message);
  }
  const framing = readFraming(fields, httpVersion);
  if (framing.kind === 'fault') return framing;
  return checkHost(fields, httpVersion) ?? { kind: 'valid', fields, framing };
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
  // The length of the name is compared first, so that most fields are skipped without a copy of their name.
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

type Framing = { kind: 'framing'; body: 'none' | 'chunked' | 'length'; contentLength: number } | HeadFault;

function readFraming({ lengths, length, codings, coding }: ReadFields, httpVersion: string): Framing {
  if (codings > 0) {
    if (lengths > 0) return fault('invalid_request', 'Content-Length and Transfer-Encoding must not come together.');
    if (httpVersion === '1.0') return fault('invalid_request', 'HTTP/1.0 has no Transfer-Encoding.');
    if (codings > 1) return fault('invalid_request', 'Transfer-Encoding must come once.');
    // Not `trim`, which removes bytes that are not white space here, such as 0xA0.
    const name = coding.toLowerCase();
    if (name === 'chunked') return { kind: 'framing', body: 'chunked', contentLength: 0 };
    return /^(?:gzip|x-gzip|deflate|compress|x-compress|br|zstd)[ \t]*,[ \t]*chunked$/.test(name)
      ? fault('not_implemented', ERRORS.not_implemented.sentence)
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

/** Why a head is refused; the codes are those of contract section 4. */
export interface HeadFault {
  readonly kind: 'fault';
  readonly code:
    | 'invalid_request'
    | 'uri_too_long'
    | 'headers_too_large'
    | 'expectation_failed'
    | 'not_implemented'
    | 'http_version_not_supported';
  /** A sentence for the developer who reads it. */
  readonly message: string;
}

export function fault(code: HeadFault['code'], message: string): HeadFault {
  return { kind: 'fault', code, message };
}
