import type { Socket } from 'node:net';
import type { ClientRequest, ClientResponse } from '../../http1/client.ts';
import type { HeadLimits } from '../../http1/request-framing.ts';
import { type Head, type HeadFault, readHead } from '../../http1/request-head.ts';
import { ownCopy } from '../../io/buffers.ts';
import { Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { closeAfter, closeGently, endAfterClient } from '../../io/graceful-close.ts';
import { HeldBytes, type HeldBytesBudget } from '../../io/held-bytes.ts';
import { readInTurn, SharedBufferSocket } from '../../io/read-buffers.ts';
import { inSlices, type Steps } from '../../io/steps.ts';
import { hasWaiting } from '../../io/tls-carrier.ts';
import { TextWriter } from '../../io/writes.ts';
import { MAX_EMPTY_BYTES, type RequestFeed, UNREAD_FOR_MS } from '../node-http/request-feed.ts';
import { FastResponse, type ResponseConnection } from './fast-response.ts';
import { SimpleReader, type SimpleRequest } from './simple-request.ts';

export interface FastPathOptions extends HeadLimits {
  readonly headersTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** How long a client may take to read the rest of a response before it is disconnected. */
  readonly writeTimeoutMs: number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Hands a connection to node:http for good, because its client has sent something that is not a simple request. */
  readonly feed: (socket: Socket) => RequestFeed;
  readonly held: HeldBytesBudget;
  readonly handler: { handle(request: ClientRequest, response: ClientResponse, head: Head | HeadFault): void };
  /** The client of a new connection has not sent a request in time. */
  readonly onSilent: (socket: Socket) => void;
}

/** The longest request that is read here. A packet from another machine is seldom longer. */
const MAX_REQUEST_BYTES = 16 * 1024;

/**
 * Serves requests of the simplest form without node:http, whose request and response objects, streams and timers cost
 * more than everything that the gateway does. node:http reads all other requests, from their first byte.
 */
export class FastPath {
  readonly deadlines = new Deadlines(() => performance.now());
  readonly keepAlive: string;
  readonly maxRequestBytes: number;
  readonly options: FastPathOptions;
  readonly #connections = new Set<FastConnection>();
  readonly #handedOver = new Map<Socket, RequestFeed>();
  /** Whether idle connections are being closed. */
  #isClosing = false;
  #second = Number.NaN;
  #date = '';

  constructor(options: FastPathOptions) {
    this.options = options;
    this.maxRequestBytes = Math.min(MAX_REQUEST_BYTES, options.maxUrlBytes + options.maxHeaderBytes);
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(options.idleTimeoutMs / 1000)}\r\n`;
  }

  get held(): HeldBytesBudget {
    return this.options.held;
  }

  /** @param socket a connection without unserved bytes that were read from it */
  take(socket: Socket): FastConnection {
    const connection = new FastConnection(socket, this);
    this.#connections.add(connection);
    return connection;
  }

  /** Forgets a connection that has ended or that node:http serves from now on. */
  forget(connection: FastConnection): void {
    this.#connections.delete(connection);
  }

  /** Lets node:http serve a connection from now on. */
  handOver(socket: Socket): RequestFeed {
    const feed = this.options.feed(socket);
    this.#handedOver.set(socket, feed);
    socket.once('close', () => this.#handedOver.delete(socket));
    return feed;
  }

  /**
   * Closes idle connections, but those that wait for their first request only if `unused`. Called repeatedly, because a connection
   * that cannot be identified as idle now may be later.
   *
   * Fault: 1,500 idle connections that were closed as the drain began took one turn of 30 ms, in which running requests waited.
   */
  closeIdle(unused: boolean): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    void inSlices(this.#closingIdle(unused));
  }

  *#closingIdle(unused: boolean): Steps<void> {
    for (const connection of this.#connections) {
      connection.closeIfIdle(unused);
      yield;
    }
    for (const [socket, feed] of this.#handedOver) {
      if (feed.isIdle && !hasWaiting(socket)) socket.destroy();
      yield;
    }
    this.#isClosing = false;
  }

  /** The current time as a value of Date (RFC 9110 section 5.6.7). */
  date(): string {
    const second = Math.floor(this.options.wallMs() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#date = new Date(second * 1000).toUTCString();
    }
    return this.#date;
  }
}

/** A connection on which the client has so far sent only requests of the simplest form. */
class FastConnection implements ResponseConnection, Timed {
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly keepAlive: string;
  readonly writer: TextWriter;
  readonly #socket: Socket;
  readonly #path: FastPath;
  readonly #reader = new SimpleReader();
  #active: FastResponse | null = null;
  /** Set once node:http serves the connection. */
  #feed: RequestFeed | null = null;
  /** Bytes that follow the request that is being served. */
  readonly #held: HeldBytes;
  /** Runs while the connection is not read, because its client has sent much behind the request that is being served. */
  #givingUp: NodeJS.Timeout | null = null;
  /** The connection ends with the response in progress, and bytes that still arrive are dropped. */
  #hasGivenUp = false;
  #isNew = true;
  /** Bytes of empty lines since the last request. Attack: a client sends nothing else, which counts towards no limit. */
  #emptyBytes = 0;
  #idleSinceMs: number;
  /** Bytes that still arrive are ignored. */
  #isClosing = false;

  constructor(socket: Socket, path: FastPath) {
    this.#socket = socket;
    this.writer = new TextWriter(socket);
    this.#path = path;
    this.keepAlive = path.keepAlive;
    this.#held = new HeldBytes(path.held);
    this.#idleSinceMs = path.deadlines.nowMs();
    this.deadlineAtMs = this.#idleSinceMs + path.options.headersTimeoutMs;
    path.deadlines.watch(this);
    if (socket instanceof SharedBufferSocket) socket.taker = this.#onBytes;
    // Delivers the bytes that were read before and, on an encrypted connection, all bytes.
    socket.on('data', this.#onBytes);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#onClose);
  }

  date(): string {
    return this.#path.date();
  }

  onDeadline(): void {
    // Its client is not late: the gateway has yet to process what it has sent. So it is looked at again.
    if (hasWaiting(this.#socket)) {
      this.deadlineAtMs = this.#path.deadlines.nowMs();
      return;
    }
    if (!this.#isNew) {
      this.#socket.destroy();
      return;
    }
    this.#close();
    this.#path.options.onSilent(this.#socket);
  }

  /** When it began to wait for a request, on the clock of the deadlines; null while it serves one. */
  get idleSinceMs(): number | null {
    if (this.#feed !== null) return this.#feed.idleSinceMs;
    return this.#active === null && this.#held.length === 0 ? this.#idleSinceMs : null;
  }

  /** Closes the connection if it waits for a request, and for its first one only if `unused`. */
  closeIfIdle(unused: boolean): void {
    if (this.idleSinceMs === null || (this.#isNew && !unused) || hasWaiting(this.#socket)) return;
    this.#socket.destroy();
  }

  onUnread(): void {
    this.deadlineAtMs = this.#path.deadlines.nowMs() + this.#path.options.writeTimeoutMs;
  }

  onFinished(response: FastResponse): void {
    if (!response.shouldKeepAlive) {
      this.#close();
      // Closing a connection with unread bytes would make the client's system discard the response.
      if (this.#held.length > 0) closeGently(this.#socket);
      else this.#socket.destroySoon();
      return;
    }
    this.#active = null;
    this.#idleSinceMs = this.#path.deadlines.nowMs();
    this.deadlineAtMs = this.#idleSinceMs + this.#path.options.idleTimeoutMs;
    // Not from within the previous response, because its request has yet to be logged.
    if (this.#held.length > 0) readInTurn(this.#socket, this.#serveHeld);
  }

  /** @param bytes valid during the call only: they are copied if they must be kept */
  readonly #onBytes = (bytes: Buffer): void => {
    if (this.#isClosing || this.#hasGivenUp) return;
    if (this.#active !== null) this.#hold(bytes);
    else if (this.#held.length > 0) this.#take(Buffer.concat([this.#held.take(), bytes]));
    else if (!isEmptyLine(bytes)) this.#take(bytes);
    else {
      this.#emptyBytes += bytes.length;
      if (this.#emptyBytes > MAX_EMPTY_BYTES) this.#socket.destroy();
    }
  };

  #take(bytes: Buffer): void {
    const simple = bytes.length > this.#path.maxRequestBytes ? null : this.#reader.read(bytes.toString('latin1'));
    if (simple === null) this.#handOver(bytes);
    else this.#serve(simple);
  }

  #serve({ method, url, fields, body }: SimpleRequest): void {
    const request: ClientRequest = {
      method,
      url,
      rawHeaders: fields.rawHeaders,
      socket: this.#socket,
      complete: true,
      wholeBody: body,
      destroyed: false,
    };
    this.#isNew = false;
    this.#emptyBytes = 0;
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    const response = new FastResponse(request, this);
    this.#active = response;
    const { options } = this.#path;
    options.handler.handle(request, response, readHead({ method, url, httpVersion: '1.1', fields }, options));
  }

  /**
   * Holds the bytes of later requests. A pipelined request is served after the response to the one before it. The client may have
   * all of the response before its end is noticed here, so nothing is dropped that a response did not announce as dropped.
   */
  #hold(bytes: Buffer): void {
    const active = this.#active!;
    if (this.#held.add(bytes)) {
      if (!this.#held.isFull) return;
      if (!active.headersSent) this.#givingUp ??= setTimeout(this.#giveUp, UNREAD_FOR_MS);
    } else if (!active.headersSent) {
      this.#giveUp();
      return;
    } else this.#held.addAnyway(bytes);
    this.#socket.pause();
  }

  /** Only a connection that is read shows that the client has disconnected. */
  readonly #giveUp = (): void => {
    const active = this.#active;
    if (active === null || active.headersSent) return;
    this.#hasGivenUp = true;
    this.#held.drop();
    closeAfter(active, true);
    this.#readOn();
  };

  #readOn(): void {
    if (this.#givingUp !== null) clearTimeout(this.#givingUp);
    this.#givingUp = null;
    if (this.#socket.isPaused()) this.#socket.resume();
  }

  readonly #serveHeld = (): void => {
    if (this.#active !== null || this.#held.length === 0 || !this.#socket.writable || this.#isClosing) return;
    this.#readOn();
    this.#take(this.#held.take());
  };

  #handOver(bytes: Buffer): void {
    const socket = this.#socket;
    this.#unregister();
    this.#stopTaking();
    socket.removeListener('data', this.#onBytes);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('close', this.#onClose);
    this.#feed = this.#path.handOver(socket);
    this.#feed.begin(ownCopy(bytes));
  }

  #close(): void {
    this.#isClosing = true;
    this.#stopTaking();
  }

  /** From now on all bytes go to the readers of the socket's stream. */
  #stopTaking(): void {
    if (this.#socket instanceof SharedBufferSocket) this.#socket.taker = null;
  }

  /** As in node:http, a client that ends its side of the connection gets nothing more. */
  readonly #onEnd = (): void => endAfterClient(this.#socket);

  readonly #onClose = (): void => {
    this.#close();
    if (this.#givingUp !== null) clearTimeout(this.#givingUp);
    this.#held.drop();
    this.#unregister();
    const active = this.#active;
    this.#active = null;
    active?.closed();
  };

  #unregister(): void {
    this.#path.deadlines.forget(this);
    this.#path.forget(this);
  }
}

/** Some clients send an empty line before or after a request (RFC 9112 section 2.2). It does not start a deadline. */
function isEmptyLine(bytes: Buffer): boolean {
  return bytes.length === 2 && bytes[0] === 13 && bytes[1] === 10;
}
