import type { Socket } from 'node:net';

/** How long, and for how much, a closing connection still listens to a client that is sending. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 256 * 1024;

/**
 * Ends a connection whose client has closed its half: it gets nothing more. What is still to be written has a moment.
 *
 * Attack: over TLS, a write that meets a client's end and reset may never be called back in Node 26.10. The connection
 * would then wait for it for ever, and count.
 */
export function endAfterClient(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.end();
}

/**
 * Closes a connection whose client may still be sending, so that the client gets the answer that was written.
 *
 * A socket that is closed while bytes of the request are unread answers them with a reset, and a reset makes the
 * client's system throw away the answer that it had already received. So the sending side is closed first, and what
 * still comes is read and thrown away for a moment (RFC 9112 section 9.6). Nothing in it is looked at any more.
 */
export function closeGently(socket: Socket): void {
  socket.removeAllListeners('data');
  let left = LINGER_BYTES;
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left <= 0) socket.destroy();
  });
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.once('end', () => socket.destroy());
  socket.end();
  socket.resume();
}
