import type { ErrorResponse } from '../annotate/errors.ts';
import type { ClientResponse } from '../http1/client.ts';
import { closeAfter } from '../io/graceful-close.ts';

/** A stream, which carries one of several requests on a connection. */
interface SessionStream {
  endSession?(): void;
}

/**
 * Writes one of the gateway's own error responses, head and body in one piece.
 * @param fields the fields of every response; the error's own fields follow them
 * @param unread whether part of the request has not been read, so that the connection cannot be used again
 * @returns the bytes of the body
 */
export function replyWithError(
  response: ClientResponse,
  error: ErrorResponse,
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
 * Writes one of the gateway's own successful responses.
 * @param closes whether the connection ends with it
 * @returns the bytes of the body
 */
export function replyWithJson(
  response: ClientResponse,
  value: object,
  fields: readonly string[],
  closes: boolean,
): number {
  if (closes) closeAfter(response, false);
  const body = JSON.stringify(value);
  const length = String(Buffer.byteLength(body));
  // The body describes one caller at one moment.
  const own = ['Cache-Control', 'no-store', 'Content-Type', 'application/json', 'Content-Length', length];
  response.writeHead(200, [...fields, ...own]);
  response.end(response.req.method === 'HEAD' ? undefined : body);
  return response.req.method === 'HEAD' ? 0 : Buffer.byteLength(body);
}

/** Writes a response without a body. */
export function replyWithNothing(response: ClientResponse, fields: readonly string[], closes: boolean): void {
  if (closes) closeAfter(response, false);
  response.writeHead(204, [...fields]);
  response.end();
}
