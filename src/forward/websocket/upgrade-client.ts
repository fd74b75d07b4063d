import type { Socket } from 'node:net';

/** How many bytes a client may send ahead of the response before its connection is paused. */
const HELD_BYTES = 64 * 1024;

/**
 * The connection of a client that asks for a protocol other than HTTP, until the upstream has agreed or refused.
 *
 * Attack: the bytes after the request belong to the other protocol only once the upstream has agreed to it. If they
 * were forwarded before, the upstream could read them as a request that the gateway has not checked (CVE-2026-2833). So
 * they are held here. Reading them also shows early that the client has disconnected.
 */
export class UpgradeClient {
  readonly socket: Socket;
  readonly #held: Buffer[] = [];
  #bytes = 0;

  /** @param early bytes that arrived in the same packet as the request */
  constructor(socket: Socket, early: Buffer) {
    this.socket = socket;
    // The deadlines of HTTP no longer apply to this connection.
    socket.setTimeout(0);
    socket.on('error', this.#leave);
    socket.once('end', this.#leave);
    socket.on('data', this.#hold);
    if (early.length > 0) this.#hold(early);
  }

  /** Stops reading the connection. The bytes that were held are the first that its next reader gets. */
  release(): Socket {
    const { socket } = this;
    socket.removeListener('data', this.#hold);
    socket.removeListener('end', this.#leave);
    socket.pause();
    if (this.#bytes > 0) socket.unshift(Buffer.concat(this.#held));
    this.#held.length = 0;
    return socket;
  }

  readonly #hold = (chunk: Buffer): void => {
    this.#held.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes >= HELD_BYTES) this.socket.pause();
  };

  readonly #leave = (): void => {
    this.socket.destroy();
  };
}
