import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterReadyWork } from './after-reading.ts';
import { interceptDestroySoon, makeLast } from './node-internals.ts';
import { rawOf } from './tls-carrier.ts';

/** Closes the connection after this response; gently if part of the request has not been read. */
export function closeAfter(
  response: { shouldKeepAlive: boolean; readonly socket: Socket | null },
  unread: boolean,
): void {
  makeLast(response);
  const { socket } = response;
  if (socket !== null && unread) interceptDestroySoon(socket, () => closeGently(socket));
}

/** How long, and for how many bytes, a closing connection is still read while its client is sending. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 256 * 1024;

/**
 * Ends a connection whose client has closed its half, so that the client gets nothing more. Bytes that still have to be
 * written get LINGER_MS.
 *
 * Attack: in Node 26.10, over TLS, the callback of a write that coincides with the client's FIN and reset may never be
 * called. The connection would then wait for it for ever, and count towards the limits.
 */
export function endAfterClient(socket: Socket): void {
  destroyLate(socket, LINGER_MS);
  socket.end();
}

/**
 * Destroys a connection that has not closed within this time.
 *
 * Fault: this thread stalled for longer than that, and connections were reset on which bytes had arrived. So they are read first, and what
 * waits to be written is written.
 */
export function destroyLate(socket: Socket, withinMs: number): void {
  const timer = setTimeout(() => afterReadyWork(() => socket.destroy()), withinMs);
  socket.once('close', () => clearTimeout(timer));
}

/**
 * Closes a connection whose client may still be sending, so that the client gets the response that was written.
 *
 * If a socket is closed while bytes of the request are unread, the operating system sends a reset, and a reset makes
 * the client's system discard the response that it had already received. So the sending side is closed first, and the
 * bytes that still arrive are read and discarded for LINGER_MS (RFC 9112 section 9.6).
 */
export function closeGently(socket: Socket): void {
  socket.removeAllListeners('data');
  let left = LINGER_BYTES;
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left <= 0) socket.destroy();
  });
  destroyLate(socket, LINGER_MS);
  socket.once('end', () => socket.destroy());
  socket.end();
  socket.resume();
}

/**
 * Closes a connection at once, and with a reset if it is TCP that is still open for writing: after a clean end, the other side would
 * take what it has received for complete.
 *
 * Attack: a client resets its WebSocket to a service over TLS or on a Unix socket. Node (26.10) throws when it is to reset a socket
 * that is not TCP itself, which ended the gateway.
 *
 * Fault: a client closes its half in the turn of the event loop in which its response breaks off. Node cannot reset a connection whose
 * own half is being closed, and never closes it after that, so it counted towards `maxConnections` for ever.
 */
export function reset(socket: Duplex): void {
  const raw = socket instanceof Socket ? rawOf(socket) : socket;
  // A Unix socket has no port.
  const isTcp = raw instanceof Socket && raw.remotePort !== undefined;
  if (isTcp && !raw.destroyed && !raw.writableEnded) raw.resetAndDestroy();
  else raw.destroy();
  // Attack: Node (26.10) crashes (SIGSEGV) if both sockets are destroyed in the same turn within the callback of the TLS handshake.
  if (raw !== socket) setImmediate(() => socket.destroy());
}

/** The error code CANCEL (RFC 9113 section 7). */
const CANCEL = 8;

/**
 * Resets a stream of HTTP/2 with CANCEL, in a later phase of the event loop.
 *
 * Attack: a service ends its response while the client still sends. Node (26.10) aborts the process (`Http2Stream::OnTrailers`) if a stream
 * that may have trailers, and whose own side is open, is closed with CANCEL while frames of its connection are read.
 */
export function cancelStream(stream: { close(code: number): void }): void {
  setImmediate(() => stream.close(CANCEL));
}
