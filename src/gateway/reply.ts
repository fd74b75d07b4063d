import type { ErrorAnswer } from '../annotate/error.ts';
import type { ClientResponse } from '../forward/client.ts';
import { closeGently } from './linger.ts';

/** What carries one request of several on a connection. */
interface SessionStream {
  endSession?(): void;
}

/**
 * Writes an answer of the gateway's own, head and body in one piece.
 * @param fields what every answer carries; the error's own fields come after
 * @param unread true where the request has not been read to its end: the connection cannot be used again
 * @returns the bytes of the body
 */
export function replyWithError(
  response: ClientResponse,
  error: ErrorAnswer,
  fields: readonly string[],
  unread: boolean,
): number {
  const bytes = Buffer.byteLength(error.body);
  if (error.closes || unread) closeAfter(response, unread);
  if (error.endsSession === true) (response.socket as SessionStream | null)?.endSession?.();
  response.writeHead(error.status, [
    ...fields,
    ...error.fields,
    'Content-Type',
    'application/json',
    'Content-Length',
    String(bytes),
  ]);
  response.end(response.req.method === 'HEAD' ? undefined : error.body);
  return response.req.method === 'HEAD' ? 0 : bytes;
}

/**
 * Writes an answer of the gateway's own that is no error.
 * @param closes whether the connection ends with it
 * @returns the bytes of the body
 */
export function replyWithJson(
  response: ClientResponse,
  value: object,
  fields: readonly string[],
  closes: boolean,
): number {
  if (closes) response.shouldKeepAlive = false;
  const body = JSON.stringify(value);
  const length = String(Buffer.byteLength(body));
  // It is about one caller at one moment.
  const own = ['Cache-Control', 'no-store', 'Content-Type', 'application/json', 'Content-Length', length];
  response.writeHead(200, [...fields, ...own]);
  response.end(response.req.method === 'HEAD' ? undefined : body);
  return response.req.method === 'HEAD' ? 0 : Buffer.byteLength(body);
}

/** Writes an answer without a body. */
export function replyWithNothing(response: ClientResponse, fields: readonly string[], closes: boolean): void {
  if (closes) response.shouldKeepAlive = false;
  response.writeHead(204, [...fields]);
  response.end();
}

/** Closes the connection after this answer; gently where the request has not been read to its end. */
export function closeAfter(response: ClientResponse, unread: boolean): void {
  response.shouldKeepAlive = false;
  const { socket } = response;
  // Node calls this when the answer has been written.
  if (socket !== null && unread) socket.destroySoon = () => closeGently(socket);
}
