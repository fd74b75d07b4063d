import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Client, type Dispatcher, errors, Pool } from 'undici';
import { DeadlineError } from './faults.ts';

export interface UpstreamOptions {
  /** `http://host:port` or `https://host:port`. */
  readonly target: string;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  /** Requests that may wait for a connection. */
  readonly maxQueue: number;
}

/** An idle connection is closed before the servers in common use close theirs. */
const IDLE_CONNECTION_MS = 4_000;
const MAX_ANSWER_HEAD_BYTES = 16 * 1024;

/** A request on its way through an upstream: what `start` runs when there is a connection for it. */
export interface Turn {
  start(): void;
}

/**
 * The service behind the gateway: a bounded pool of connections with a bounded queue before it. The queue is our own,
 * because a place in the pool's cannot be given back when its client leaves.
 */
export class Upstream {
  readonly options: UpstreamOptions;
  readonly #settings: Client.Options;
  readonly #pool: Pool;
  readonly #waiting = new Set<Turn>();
  /** Errors of connections that had carried an answer before they died. */
  readonly #ofUsed = new WeakSet<Error>();
  #running = 0;
  #breaking: Error | null = null;

  constructor(options: UpstreamOptions) {
    this.options = options;
    this.#settings = {
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: IDLE_CONNECTION_MS,
      maxHeaderSize: MAX_ANSWER_HEAD_BYTES,
      // The deadlines are the gateway's own: undici's are late by up to a second.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: connector(options, (error, used) => this.#broke(error, used)),
    };
    this.#pool = new Pool(options.target, { ...this.#settings, connections: options.maxConnections });
  }

  /** Requests that have a connection or wait for one. */
  get inFlight(): number {
    return this.#running + this.#waiting.size;
  }

  /**
   * Starts the turn now or when a connection is free. Every turn that was started must be given back with `leave`.
   * @returns false when neither a connection nor a place in the queue is free
   */
  enter(turn: Turn): boolean {
    if (this.#running < this.options.maxConnections) {
      this.#running++;
      turn.start();
      return true;
    }
    if (this.#waiting.size >= this.options.maxQueue) return false;
    this.#waiting.add(turn);
    return true;
  }

  /** Gives a place back, in the queue or at a connection. */
  leave(turn: Turn): void {
    if (this.#waiting.delete(turn)) return;
    this.#running--;
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    this.#running++;
    next.start();
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#pool.dispatch(request, handler);
  }

  /** Sends on a connection of its own, made for this request: in the pool it might meet the next one that is dying. */
  dispatchFresh(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    const client = new Client(this.options.target, this.#settings);
    client.dispatch(request, handler);
    void client.close();
  }

  /**
   * Whether this error is the death of a connection that had carried an answer before: the service may have closed it
   * as idle just when the request went out (RFC 9112 section 9.3.1).
   */
  wasUsed(error: Error): boolean {
    if (this.#ofUsed.has(error)) return true;
    return error instanceof errors.SocketError && (error.socket?.bytesRead ?? 0) > 0;
  }

  /**
   * The error that is ending a connection at this very moment, else null. undici takes a reset for the end of an answer
   * that has no framing of its own; but an answer that broke off is incomplete (RFC 9112 section 8).
   */
  get breaking(): Error | null {
    return this.#breaking;
  }

  #broke(error: Error, used: boolean): void {
    if (used) this.#ofUsed.add(error);
    this.#breaking = error;
    // undici hears of the error next, in the same turn.
    queueMicrotask(() => {
      this.#breaking = null;
    });
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

type Connected = (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void;

/** Connects with a deadline that is kept (undici's own is checked twice a second only). */
function connector({ connectTimeoutMs }: UpstreamOptions, broke: (error: Error, used: boolean) => void) {
  return ({ hostname, port, protocol }: { hostname: string; port: string; protocol: string }, connected: Connected) => {
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
    const isTls = protocol === 'https:';
    const to = { host, port: Number(port) || (isTls ? 443 : 80), noDelay: true, keepAlive: true };
    const socket = isTls
      ? connectTls({ ...to, ALPNProtocols: ['http/1.1'], ...(isIP(host) === 0 ? { servername: host } : {}) })
      : connectTcp(to);
    const timer = setTimeout(() => socket.destroy(new DeadlineError('connect', connectTimeoutMs)), connectTimeoutMs);
    const fail = (error: Error) => {
      clearTimeout(timer);
      connected(error, null);
    };
    socket.once('error', fail);
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer);
      socket.removeListener('error', fail);
      socket.on('error', (error) => broke(error, socket.bytesRead > 0));
      connected(null, socket);
    });
    return socket;
  };
}
