import type { Socket } from 'node:net';
import type { ClientRequest, ClientResponse } from '../../forward/client.ts';
import { Deadlines } from '../../forward/deadlines.ts';
import type { Head, HeadFault, HeadLimits } from '../head.ts';
import type { HeldBytesBudget } from '../held-bytes.ts';
import type { RequestFeed } from '../request-feed.ts';
import { FastConnection } from './fast-connection.ts';

export interface FastPathOptions extends HeadLimits {
  readonly headersTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** A client that does not take the rest of an answer is given up after this long. */
  readonly writeTimeoutMs: number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Opens node:http's reader on a connection that has brought something that is not simple; it stays there. */
  readonly feed: (socket: Socket) => RequestFeed;
  readonly held: HeldBytesBudget;
  readonly serve: (request: ClientRequest, response: ClientResponse, head: Head | HeadFault) => void;
  /** A new connection has brought nothing in its time. */
  readonly onSilent: (socket: Socket) => void;
}

/** The longest head that is read here: what a packet from another machine seldom exceeds. */
const MOST_BYTES = 16 * 1024;

/**
 * Serves requests of the simplest form without node:http, whose request and response objects, streams and timers cost
 * more than all that the gateway does. Everything else, from its first byte on, is for node:http.
 */
export class FastPath {
  readonly deadlines = new Deadlines(() => performance.now());
  readonly keepAlive: string;
  readonly mostBytes: number;
  readonly options: FastPathOptions;
  readonly #connections = new Set<FastConnection>();
  readonly #handedOver = new Map<Socket, RequestFeed>();
  #second = Number.NaN;
  #date = '';

  constructor(options: FastPathOptions) {
    this.options = options;
    this.mostBytes = Math.min(MOST_BYTES, options.maxUrlBytes + options.maxHeaderBytes);
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(options.idleTimeoutMs / 1000)}\r\n`;
  }

  get held(): HeldBytesBudget {
    return this.options.held;
  }

  /** @param socket nothing that was read from it is still to be served */
  take(socket: Socket): FastConnection {
    const connection = new FastConnection(socket, this);
    this.#connections.add(connection);
    return connection;
  }

  /** The connection has ended, or is node:http's from now on. */
  forget(connection: FastConnection): void {
    this.#connections.delete(connection);
  }

  /** For node:http, from here on. */
  handOver(socket: Socket): RequestFeed {
    const feed = this.options.feed(socket);
    this.#handedOver.set(socket, feed);
    socket.once('close', () => this.#handedOver.delete(socket));
    return feed;
  }

  /** Is called again and again: a connection that cannot be told idle from busy is closed another time. */
  closeIdle(): void {
    for (const connection of this.#connections) connection.closeIfIdle();
    for (const [socket, feed] of this.#handedOver) if (feed.isIdle) socket.destroy();
  }

  /** Now, as a value of Date (RFC 9110 section 5.6.7). */
  date(): string {
    const second = Math.floor(this.options.wallMs() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#date = new Date(second * 1000).toUTCString();
    }
    return this.#date;
  }
}
