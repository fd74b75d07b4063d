import { createHash } from 'node:crypto';

export const WEBSOCKET_KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
/** What an upstream makes of that key (RFC 6455 section 4.2.2). */
export const WEBSOCKET_ACCEPT = createHash('sha1')
  .update(`${WEBSOCKET_KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
  .digest('base64');

/** The fields of a handshake of WebSocket, without those of every request. */
export const HANDSHAKE = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${WEBSOCKET_KEY}\r\n`;

/** What an upstream says to `WEBSOCKET_KEY`, with further lines that each end with CRLF. */
export function switching(more = ''): string {
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${WEBSOCKET_ACCEPT}\r\n${more}\r\n`;
}
