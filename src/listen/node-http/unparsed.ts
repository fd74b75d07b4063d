import type { Socket } from 'node:net';
import { type ErrorResponse, errorResponse, plainError } from '../../annotate/errors.ts';
import { ERRORS, type ErrorCode } from '../../errors/catalogue.ts';
import type { ClientBodyErrorCode } from '../../forward/faults.ts';
import { responseLinesOf } from '../../http1/fields.ts';
import type { HeadLimits } from '../../http1/request-framing.ts';
import { FOREIGN_CHARACTER } from '../../http1/request-line.ts';
import { closeGently } from '../../io/graceful-close.ts';
import { type ParseFault, parseFaultOf } from '../../io/node-internals.ts';
import { oneForm } from '../client-address.ts';
import type { RequestFeed } from './request-feed.ts';

export type ParseError = NodeJS.ErrnoException & {
  readonly rawPacket?: Buffer;
  /** Where in the packet the error is. */
  readonly bytesParsed?: number;
};

export interface UnparsedOptions extends HeadLimits {
  /** Ends the request that a connection is serving. @returns false if there is none that can still be answered */
  readonly breakOff: (socket: Socket, code: ClientBodyErrorCode) => boolean;
  /** Gives an error the fields of every response, and the form that the client asks for. */
  readonly formed: (
    error: ErrorResponse,
    socket: Socket,
    rawHeaders: readonly string[],
  ) => { readonly status: number; readonly fields: readonly string[]; readonly body: string | Buffer };
  /** Counts a response to bytes that node:http could not parse as a request. */
  readonly onUnparsed: (code: ErrorCode) => void;
  /** A client at this address has sent plain HTTP where HTTPS is spoken, and was told so. */
  readonly onPlainHttp: (clientAddress: string | null) => void;
}

/**
 * Handles bytes that node:http could not parse. There is no request to answer, so the error is written to the
 * connection, which is then closed.
 * @param feed of the connection; null if node:http does not serve it any more
 */
export function onClientError(
  error: ParseError,
  socket: Socket,
  options: UnparsedOptions,
  feed: RequestFeed | null,
): void {
  const request = feed?.request ?? null;
  feed?.stop();
  const fault = parseFaultOf(error);
  if (fault === null || !socket.writable || (fault === 'ended' && request !== null)) {
    socket.destroy(error);
    return;
  }
  const head = headNear(error);
  const [code, message] = meaningOf(fault, error.rawPacket, head, feed, options);
  // The parser found the error in the body of a request that is being served.
  if (request !== null && isOfBody(code) && options.breakOff(socket, code)) return;
  // Never a second status line on a connection where a response has begun.
  if (feed?.hasResponseBegun === true) {
    options.onUnparsed(code);
    socket.destroy();
  } else answerRaw(socket, errorResponse(code, message), code, options, fieldsIn(head), feed?.isHead === true);
}

/** Answers a new connection on which the client has not sent a request in time. */
export function respondTooLate(socket: Socket, options: UnparsedOptions): void {
  answerRaw(socket, plainError('request_timeout'), 'request_timeout', options, [], false);
}

/** Answers plain HTTP where HTTPS is spoken. The caller closes the connection. */
export function answerPlainHttp(socket: Socket, { onUnparsed, onPlainHttp }: UnparsedOptions): void {
  onUnparsed('invalid_request');
  onPlainHttp(oneForm(socket.remoteAddress ?? ''));
  socket.write(plainHttpResponse());
}

/** The response to plain HTTP where HTTPS is spoken, as it is written to the connection. */
export function plainHttpResponse(): string {
  const message = 'Plain HTTP was sent to a port that speaks HTTPS. Begin the address with https://.';
  const { status, body } = errorResponse('invalid_request', message);
  const fields = ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))];
  return rawResponse(status, fields, body);
}

/** How far a packet is read for the form of a response. */
const MAX_READ = 64 * 1024;

/**
 * The head in which the parser found the error, as far as it is in the packet; empty if there is none. What is read here
 * decides about the form of the response alone: the request is refused.
 */
function headNear({ rawPacket, bytesParsed = 0 }: ParseError): string {
  const text = rawPacket?.toString('latin1', 0, MAX_READ) ?? '';
  const before = bytesParsed === 0 ? -1 : text.lastIndexOf(HEAD_END, bytesParsed - 1);
  const begin = before === -1 ? 0 : before + HEAD_END.length;
  const end = text.indexOf(HEAD_END, begin);
  return text.slice(begin, end === -1 ? undefined : end);
}

const HEAD_END = '\r\n\r\n';
/** The longest method, two spaces, the version and CR. */
const MAX_AROUND_TARGET = 20 + 2 + 8 + 1;

/** @returns names and values alternating */
function fieldsIn(head: string): string[] {
  const fields: string[] = [];
  for (const line of head.split('\r\n').slice(1)) {
    const colon = line.indexOf(':');
    if (colon > 0) fields.push(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return fields;
}

/** Whether the parser can find this error in the body of a request, when the request is already being served. */
function isOfBody(code: ErrorCode): code is ClientBodyErrorCode {
  return ['request_timeout', 'invalid_request', 'payload_too_large', 'headers_too_large'].includes(code);
}

function meaningOf(
  fault: ParseFault,
  packet: Buffer | undefined,
  head: string,
  feed: RequestFeed | null,
  { maxUrlBytes }: HeadLimits,
): [ErrorCode, string] {
  switch (fault) {
    case 'late':
      return ['request_timeout', ERRORS.request_timeout.sentence];
    case 'head_too_large':
      return feed !== null && feed.requestLineBytes > maxUrlBytes + MAX_AROUND_TARGET
        ? ['uri_too_long', ERRORS.uri_too_long.sentence(maxUrlBytes)]
        : ['headers_too_large', 'The header fields are too large or too many.'];
    case 'extensions_too_large':
      return ['payload_too_large', 'The chunk extensions are too large.'];
    case 'version':
      if (!hasOtherVersion(packet)) break;
      return ['http_version_not_supported', ERRORS.http_version_not_supported.sentence];
  }
  if (hasForeignCharacter(head)) return ['invalid_request', FOREIGN_CHARACTER];
  return ['invalid_request', 'This is not a well-formed HTTP/1.1 request.'];
}

/** Whether the request line would be right but for a character in its target that a URL may not have. */
function hasForeignCharacter(head: string): boolean {
  const target = /^[!-~]+ (.*) HTTP\/1\.[01]$/s.exec(head.split('\r\n', 1)[0]!)?.[1];
  return target !== undefined && !/[\x00-\x1f\x7f]/.test(target) && /[^!-~]/.test(target);
}

/** Whether the request line names an HTTP version that is not supported. Otherwise its end is malformed. */
function hasOtherVersion(packet: Buffer | undefined): boolean {
  const line = packet?.subarray(0, Math.max(packet.indexOf('\r\n'), 0)).toString('latin1') ?? '';
  return / HTTP\/[0-9]\.[0-9]$/.test(line);
}

/** @param isHead whether this answers a HEAD, whose response has no body (RFC 9110 section 9.3.2) */
function answerRaw(
  socket: Socket,
  error: ErrorResponse,
  code: ErrorCode,
  options: UnparsedOptions,
  rawHeaders: readonly string[],
  isHead: boolean,
): void {
  options.onUnparsed(code);
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { status, fields, body } = options.formed(error, socket, rawHeaders);
  const written = isHead ? '' : body;
  if (typeof written === 'string') socket.write(rawResponse(status, fields, written));
  else socket.write(Buffer.concat([Buffer.from(rawResponse(status, fields, '')), written]));
  closeGently(socket);
}

/** @param fields Content-Length among them, unless the end of the connection ends the response */
function rawResponse(status: number, fields: readonly string[], body: string): string {
  const own = responseLinesOf([...fields, 'Connection', 'close', 'Date', new Date().toUTCString()]);
  return `HTTP/1.1 ${status} ${REASONS[status] ?? 'Error'}\r\n${own}\r\n${body}`;
}

const REASONS: Readonly<Record<number, string>> = {
  200: 'OK',
  400: 'Bad Request',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  414: 'URI Too Long',
  431: 'Request Header Fields Too Large',
  501: 'Not Implemented',
  505: 'HTTP Version Not Supported',
};
