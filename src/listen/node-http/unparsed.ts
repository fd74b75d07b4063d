import type { Socket } from 'node:net';
import { errorResponse } from '../../annotate/errors.ts';
import { ERRORS, type ErrorCode } from '../../errors/catalogue.ts';
import type { ClientBodyErrorCode } from '../../forward/faults.ts';
import type { HeadLimits } from '../../http1/request-framing.ts';
import { closeGently } from '../../io/graceful-close.ts';
import { type ParseFault, parseFaultOf } from '../../io/node-internals.ts';
import { oneForm } from '../client-address.ts';
import type { RequestFeed } from './request-feed.ts';

export type ParseError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

export interface UnparsedOptions extends HeadLimits {
  /** Ends the request that a connection is serving. @returns false if there is none that can still be answered */
  readonly breakOff: (socket: Socket, code: ClientBodyErrorCode) => boolean;
  /** Counts a response to bytes that node:http could not parse as a request. */
  readonly onUnparsed: (code: ErrorCode) => void;
  /** Somebody at this address has sent plain HTTP where HTTPS is spoken, and was answered so. */
  readonly onPlainHttp: (clientAddress: string | null) => void;
}

/**
 * Handles bytes that node:http could not parse. There is no request to answer, so the error is written to the
 * connection, which is then closed.
 * @param feed of the connection; null for an HTTP/2 stream
 * @param hasResponseBegun whether a response on this connection may be only partly written
 */
export function onClientError(
  error: ParseError,
  socket: Socket,
  options: UnparsedOptions,
  feed: RequestFeed | null,
  hasResponseBegun: boolean,
): void {
  const request = feed?.request ?? null;
  feed?.stop();
  const fault = parseFaultOf(error);
  if (fault === null || !socket.writable || (fault === 'ended' && request !== null)) {
    socket.destroy(error);
    return;
  }
  const [code, message] = meaningOf(fault, error.rawPacket, socket, options);
  // The parser found the error in the body of a request that is being served.
  if (request !== null && isOfBody(code) && options.breakOff(socket, code)) return;
  // Never a second status line on a connection where a response has begun.
  if (hasResponseBegun) {
    options.onUnparsed(code);
    socket.destroy();
  } else answerRaw(socket, code, message, options, feed?.isHead === true);
}

/** Answers a new connection on which the client has not sent a request in time. */
export function respondTooLate(socket: Socket, options: UnparsedOptions): void {
  answerRaw(socket, 'request_timeout', ERRORS.request_timeout.sentence, options, false);
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
  return rawResponse('invalid_request', message);
}

/** Whether the parser can find this error in the body of a request, when the request is already being served. */
function isOfBody(code: ErrorCode): code is ClientBodyErrorCode {
  return ['request_timeout', 'invalid_request', 'payload_too_large', 'headers_too_large'].includes(code);
}

function meaningOf(
  fault: ParseFault,
  packet: Buffer | undefined,
  socket: Socket,
  { maxUrlBytes }: HeadLimits,
): [ErrorCode, string] {
  switch (fault) {
    case 'late':
      return ['request_timeout', ERRORS.request_timeout.sentence];
    case 'head_too_large':
      return isTargetTooLong(packet, socket.bytesRead, maxUrlBytes)
        ? ['uri_too_long', ERRORS.uri_too_long.sentence(maxUrlBytes)]
        : ['headers_too_large', 'The header fields are too large or too many.'];
    case 'extensions_too_large':
      return ['payload_too_large', 'The chunk extensions are too large.'];
    case 'version':
      if (!hasOtherVersion(packet)) break;
      return ['http_version_not_supported', ERRORS.http_version_not_supported.sentence];
  }
  return ['invalid_request', 'This is not a well-formed HTTP/1.1 request.'];
}

/** Whether the request line names an HTTP version that is not supported. Otherwise its end is malformed. */
function hasOtherVersion(packet: Buffer | undefined): boolean {
  const line = packet?.subarray(0, Math.max(packet.indexOf('\r\n'), 0)).toString('latin1') ?? '';
  return / HTTP\/[0-9]\.[0-9]$/.test(line);
}

/**
 * Whether a head was too large because its target was too long. That shows if the target begins or ends in this packet.
 * If it does neither, the fields are assumed to be too large, because that is likelier.
 * @param received how many bytes the connection has received so far, including this packet
 */
function isTargetTooLong(packet: Buffer | undefined, received: number, maxUrlBytes: number): boolean {
  if (packet === undefined) return false;
  const text = packet.toString('latin1');
  const target = /^[\r\n]*[A-Z-]{3,20} ([!-~]+)/.exec(text)?.[1];
  if (target !== undefined) return target.length > maxUrlBytes;
  const end = / HTTP\/1\.[01]\r\n/.exec(text)?.index ?? -1;
  return end !== -1 && !text.slice(0, end).includes('\n') && received - packet.length + end > maxUrlBytes;
}

/** @param isHead whether this answers a HEAD, whose response has no body (RFC 9110 section 9.3.2) */
function answerRaw(socket: Socket, code: ErrorCode, message: string, options: UnparsedOptions, isHead: boolean): void {
  options.onUnparsed(code);
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.write(rawResponse(code, message, isHead));
  closeGently(socket);
}

function rawResponse(code: ErrorCode, message: string, isHead = false): string {
  const { status, body } = errorResponse(code, message);
  return `HTTP/1.1 ${status} ${REASONS[status] ?? 'Error'}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\nDate: ${new Date().toUTCString()}\r\n\r\n${isHead ? '' : body}`;
}

const REASONS: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  414: 'URI Too Long',
  431: 'Request Header Fields Too Large',
  501: 'Not Implemented',
  505: 'HTTP Version Not Supported',
};
