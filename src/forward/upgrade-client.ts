import type { Socket } from 'node:net';

/** What a client may send ahead of the answer before it is asked to wait. */
const HELD_BYTES = 64 * 1024;

/**
 * The connection of a client that asks for another protocol than HTTP, until it is known whether it gets it.
 *
 * Attack: what stands behind the request is of the other protocol only once the upstream has agreed to that. Handed on
 * before, it would be a request that nobody has judged (CVE-2026-2833). So it is held here, and shows early that the
 * client has left, which a connection that nobody reads does not.
 */
export class UpgradeClient {
  readonly socket: Socket;
  readonly #held: Buffer[] = [];
  #bytes = 0;

  /** @param early what came in one packet with the request */
  constructor(socket: Socket, early: Buffer) {
    this.socket = socket;
    // The deadlines of HTTP are over for this connection.
    socket.setTimeout(0);
    socket.on('error', this.#leave);
    socket.once('end', this.#leave);
    socket.on('data', this.#hold);
    if (early.length > 0) this.#hold(early);
  }

  /** Hands the connection on: the first to be read from it is what was held. */
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
