import type { ServerResponse } from 'node:http';
import type { ErrorAnswer } from '../annotate/error.ts';

/**
 * Writes an answer of the gateway's own, head and body in one piece.
 * @param fields what every answer carries; the error's own fields come after
 * @param unread true where the request has not been read to its end: the connection cannot be used again
 * @returns the bytes of the body
 */
export function replyWithError(
  response: ServerResponse,
  error: ErrorAnswer,
  fields: readonly string[],
  unread: boolean,
): number {
  const bytes = Buffer.byteLength(error.body);
  if (error.closes || unread) closeAfter(response, unread);
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

/** How long, and for how much, a closing connection still listens to a client that is sending. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 256 * 1024;

/**
 * Closes the connection after this answer.
 *
 * A socket that is closed while bytes of the request are unread answers them with a reset, and a reset makes the
 * client's system throw away the answer that it had already received. So the sending side is closed first, and what
 * still comes is read and thrown away for a moment (RFC 9112 section 9.6). Nothing in it is looked at any more.
 */
export function closeAfter(response: ServerResponse, unread: boolean): void {
  response.shouldKeepAlive = false;
  const { socket } = response;
  if (socket === null || !unread) return;
  socket.destroySoon = () => {
    socket.removeAllListeners('data');
    let left = LINGER_BYTES;
    socket.on('data', (chunk: Buffer) => {
      left -= chunk.length;
      if (left <= 0) socket.destroy();
    });
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.end();
    socket.resume();
  };
}
