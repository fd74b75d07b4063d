import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';

/** How clients encrypt their connections: the first one shakes hands in full, and those after it go on with its session. */
export class Encryption {
  readonly #context: SecureContext;
  readonly #protocol: 'http/1.1' | 'h2';
  #session: Buffer | undefined;

  /** @param ca PEM of the authority that has signed the gateway's certificate */
  constructor(ca: string, protocol: 'http/1.1' | 'h2') {
    this.#context = createSecureContext({ ca });
    this.#protocol = protocol;
  }

  over(raw: Socket): TLSSocket {
    const session = this.#session === undefined ? {} : { session: this.#session };
    const options = {
      socket: raw,
      secureContext: this.#context,
      servername: 'localhost',
      ALPNProtocols: [this.#protocol],
    };
    const socket = connect({ ...options, ...session });
    socket.on('session', (made: Buffer) => {
      this.#session ??= made;
    });
    return socket;
  }
}

/** A client's connection that can be left in every way there is. What comes is not read before somebody listens. */
export interface LeavingClient {
  /** What is written and read: bytes of HTTP. */
  readonly socket: Socket;
  /** Whether the gateway has closed it, or it was left. */
  readonly isClosed: boolean;
  /** Resolves when the connection is no more. */
  readonly closed: Promise<void>;
  /** Waits for something that may never be, for as long as the connection is there, and for `maxMs` at most. */
  until(happened: Promise<unknown>, maxMs: number): Promise<void>;
  /** With a reset; what was written before is on its way. */
  reset(): void;
  /** The end of the connection alone, although TLS has an end of its own to say before it. */
  fin(): void;
}

/** @param encryption null: none */
export async function openLeavingClient(port: number, encryption: Encryption | null): Promise<LeavingClient> {
  const raw = createConnection({ port, host: '127.0.0.1', noDelay: true });
  raw.on('error', () => {});
  const state = { isClosed: false };
  const closed = new Promise<void>((resolve) => {
    raw.once('close', () => {
      state.isClosed = true;
      resolve();
    });
  });
  await Promise.race([once(raw, 'connect').catch(() => {}), closed]);
  const socket = encryption === null ? raw : await secured(encryption.over(raw), closed);
  return {
    socket,
    closed,
    get isClosed() {
      return state.isClosed;
    },
    until: async (happened, maxMs) => {
      const over = new AbortController();
      await Promise.race([happened, closed, delay(maxMs, undefined, { signal: over.signal }).catch(() => {})]);
      over.abort();
    },
    reset: () => {
      // Node (26.10) cannot reset a connection whose own half is being closed, and would never close it then. And where TLS is
      // destroyed together with what carries it, just behind the handshake, the process ends with a segmentation fault.
      if (socket.writableEnded || raw.writableEnded) raw.destroy();
      else if (!raw.destroyed) raw.resetAndDestroy();
    },
    fin: () => {
      raw.end();
    },
  };
}

async function secured(socket: TLSSocket, closed: Promise<void>): Promise<TLSSocket> {
  socket.on('error', () => {});
  await Promise.race([once(socket, 'secureConnect').catch(() => {}), closed]);
  return socket;
}
