import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, errorAnswer } from '../annotate/error.ts';
import type { ClientFault } from '../forward/faults.ts';
import { closeGently } from '../gateway/linger.ts';
import type { HeadLimits } from './head.ts';
import type { PublicListenerOptions } from './public.ts';
import type { RequestFeed } from './request-feed.ts';

export type ParseError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/**
 * What could not be parsed has no request to answer: the connection gets the error and is closed.
 * @param feed of the connection; null for a stream of HTTP/2
 */
export function onClientError(
  error: ParseError,
  socket: Socket,
  options: PublicListenerOptions,
  feed: RequestFeed | null,
): void {
  const request = feed?.request ?? null;
  feed?.stop();
  const isParseError = error.code?.startsWith('HPE_') === true || error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  // The client has closed its side in the middle of a request.
  const hasEnded = error.code === 'HPE_INVALID_EOF_STATE';
  if (!isParseError || !socket.writable || (hasEnded && request !== null)) {
    socket.destroy(error);
    return;
  }
  const [code, message] = meaningOf(error, socket, options);
  // Found wrong while the body of a request was read that is being served.
  if (request !== null && isOfBody(code) && options.breakOff(socket, code)) return;
  answerRaw(socket, code, message, options, feed?.isHead === true);
}

/** Answers a new connection that has brought nothing in its time. */
export function answerLate(socket: Socket, options: PublicListenerOptions): void {
  answerRaw(socket, 'request_timeout', LATE, options, false);
}

const LATE = 'The request did not arrive in time.';

/** Whether it can be found wrong with a request whose head was served already. */
function isOfBody(code: ErrorCode): code is ClientFault {
  return ['request_timeout', 'invalid_request', 'payload_too_large', 'headers_too_large'].includes(code);
}

function meaningOf(error: ParseError, socket: Socket, { maxUrlBytes }: HeadLimits): [ErrorCode, string] {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['request_timeout', LATE];
    case 'HPE_HEADER_OVERFLOW':
      return isTargetTooLong(error.rawPacket, socket.bytesRead, maxUrlBytes)
        ? ['uri_too_long', `The request target is longer than ${maxUrlBytes} bytes.`]
        : ['headers_too_large', 'The header fields are too large or too many.'];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return ['payload_too_large', 'The chunk extensions are too large.'];
    case 'HPE_INVALID_VERSION':
      if (!hasOtherVersion(error.rawPacket)) break;
      return ['http_version_not_supported', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.'];
  }
  return ['invalid_request', 'This is not a well-formed HTTP/1.1 request.'];
}

/** Whether the request line is one of HTTP, of a version that is not spoken here; else its end is malformed. */
function hasOtherVersion(packet: Buffer | undefined): boolean {
  const line = packet?.subarray(0, Math.max(packet.indexOf('\r\n'), 0)).toString('latin1') ?? '';
  return / HTTP\/[0-9]\.[0-9]$/.test(line);
}

/**
 * Whether it was the target that was too long, of a head that was too large: it is in the packet where that begins, or
 * ends in this one. In the middle of a line that neither begins nor ends here it cannot be told, and fields are likelier.
 * @param received bytes that the connection has brought until now, this packet included
 */
function isTargetTooLong(packet: Buffer | undefined, received: number, maxUrlBytes: number): boolean {
  if (packet === undefined) return false;
  const text = packet.toString('latin1');
  const target = /^[\r\n]*[A-Z-]{3,20} ([!-~]+)/.exec(text)?.[1];
  if (target !== undefined) return target.length > maxUrlBytes;
  const end = / HTTP\/1\.[01]\r\n/.exec(text)?.index ?? -1;
  return end !== -1 && !text.slice(0, end).includes('\n') && received - packet.length + end > maxUrlBytes;
}

/** @param isHead whether it answers a HEAD, which gets the head alone (RFC 9110 section 9.3.2) */
function answerRaw(
  socket: Socket,
  code: ErrorCode,
  message: string,
  options: PublicListenerOptions,
  isHead: boolean,
): void {
  options.onUnparsed(code);
  // Never a second status line on a connection where an answer has begun.
  if (!socket.writable || hasAnswerUnderWay(socket)) {
    socket.destroy();
    return;
  }
  const { status, body } = errorAnswer(code, message);
  socket.write(
    `HTTP/1.1 ${status} ${REASONS[status] ?? 'Error'}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\nDate: ${new Date().toUTCString()}\r\n\r\n${isHead ? '' : body}`,
  );
  closeGently(socket);
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

function hasAnswerUnderWay(socket: Socket): boolean {
  const response = (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage;
  return response?.headersSent === true;
}
