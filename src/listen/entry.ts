import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ErrorCode } from '../annotate/error.ts';
import type { Certificates } from './certificates.ts';
import { Http2Sessions, type Http2Settings } from './http2.ts';
import type { BreakReason } from './http2-session.ts';
import { LendingSocket } from './lending-socket.ts';
import { listening } from './listening.ts';
import { Networks, oneForm } from './networks.ts';
import { comesFrom, type Source, takeProxyHeader } from './proxy-protocol.ts';
import { createTlsStage, type TlsSettings } from './tls.ts';

/** Where connections come from when another process accepts them. */
export interface ConnectionFeed {
  /** @param take gets each connection, half-open at the client's end of data; nothing of it has been read */
  open(take: (socket: Socket) => void): void;
}

/** Reads the requests of connections that it is given. */
export interface Reader {
  take(socket: Socket): void;
  /** Closes those that wait for a request. */
  closeIdle(): void;
}

/** What stands between a TCP connection and the requests on it. */
export interface EntryOptions {
  readonly host: string;
  readonly port: number;
  readonly headersTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly maxHeaderBytes: number;
  readonly maxUrlBytes: number;
  readonly maxConnections: number;
  readonly trustedProxies: readonly string[];
  /** Whether each trusted proxy says in a header of its own who its client is. */
  readonly proxyProtocol: boolean;
  /** Null: nothing is encrypted. */
  readonly tls: (TlsSettings & { readonly certificates: Certificates }) | null;
  /** Null: HTTP/1.1 alone. Only where there is TLS. */
  readonly http2: Http2Settings | null;
  /** A connection was closed unanswered because there were `maxConnections` already. */
  readonly onDrop: () => void;
  /** A request that could not be parsed was answered with this code, or its stream was refused for that. */
  readonly onUnparsed: (code: ErrorCode) => void;
  /** A trusted proxy did not begin its connection as it must. */
  readonly onBadProxyHeader: () => void;
  readonly onHandshakeFailure: () => void;
  readonly onSessionBroken: (reason: BreakReason) => void;
  /** Null: this process listens on `host` and `port` itself. */
  readonly feed: ConnectionFeed | null;
}

export interface Entry {
  readonly host: string;
  readonly port: number;
  /** TCP connections that are open now. */
  connections(): number;
  /** Takes no new connection, closes idle ones at once and the others after their answer. */
  stopAccepting(): void;
  /** Resolves when the last connection has ended; those that have not by `deadlineMs` from now are cut. */
  drained(deadlineMs: number): Promise<void>;
}

/**
 * Accepts TCP connections and brings each to where its requests are read, through what the settings put in between:
 * the PROXY protocol, then TLS, then HTTP/2 where the client agrees to it. So there is one count of connections, one way
 * to stop, and one reader of requests behind all of them.
 *
 * @param reader of connections
 * @param servers node:http servers that do not listen: one to which the reader gives connections, one for the streams of
 * HTTP/2, each of which is a connection to it
 * @throws Failure `cannot_listen`
 */
export async function openEntry(
  options: EntryOptions,
  reader: Reader,
  servers: { readonly connections: HttpServer; readonly streams: HttpServer },
): Promise<Entry> {
  const stages = new Stages(options, reader, servers.streams);
  const arrivals = options.feed === null ? await accepted(options, stages) : fed(options, options.feed, stages);
  // They would do this when they listen: from here on they look after the deadlines of what they are given.
  for (const server of [servers.connections, servers.streams]) server.emit('listening');
  let closed: Promise<void> = Promise.resolve();
  return {
    host: arrivals.host,
    port: arrivals.port,
    connections: () => stages.open.size,
    stopAccepting: () => {
      closed = arrivals.close();
      stages.stop();
    },
    drained: async (deadlineMs) => {
      // A connection that answered just before the drain began did not say that it would close.
      const sweep = setInterval(() => reader.closeIdle(), 50);
      const cut = setTimeout(() => stages.cut(), deadlineMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
      for (const server of [servers.connections, servers.streams]) server.close();
    },
  };
}

interface Arrivals {
  readonly host: string;
  readonly port: number;
  /** Resolves when the last connection that had come has ended. */
  close(): Promise<void>;
}

async function accepted(options: EntryOptions, stages: Stages): Promise<Arrivals> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    if (stages.open.size < options.maxConnections) stages.take(LendingSocket.around(socket));
    else {
      socket.destroy();
      options.onDrop();
    }
  });
  await listening(server, options);
  const { address, port } = server.address() as AddressInfo;
  const close = () => {
    server.close();
    return stages.emptied();
  };
  return { host: address, port, close };
}

/** Whoever feeds has the bound on connections, listens, and stops feeding before this is closed. */
function fed({ host, port }: EntryOptions, feed: ConnectionFeed, stages: Stages): Arrivals {
  feed.open((socket) => stages.take(socket));
  return { host, port, close: () => stages.emptied() };
}

class Stages {
  readonly open = new Set<Socket>();
  /** Those of which nothing has been read that is part of a request. */
  readonly #arriving = new Set<Socket>();
  readonly #options: EntryOptions;
  readonly #reader: Reader;
  readonly #trusted: Networks;
  readonly #sources = new WeakMap<Socket, Source>();
  readonly #encrypt: ((socket: Socket) => void) | null;
  readonly #http2: Http2Sessions | null;
  #onEmpty: (() => void) | null = null;

  constructor(options: EntryOptions, reader: Reader, streams: HttpServer) {
    this.#options = options;
    this.#reader = reader;
    this.#trusted = new Networks(options.proxyProtocol ? options.trustedProxies : []);
    this.#http2 = sessionsOf(options, streams);
    this.#encrypt = this.#encryption(options);
  }

  take(socket: Socket): void {
    this.open.add(socket);
    this.#arriving.add(socket);
    socket.once('close', () => {
      this.open.delete(socket);
      this.#arriving.delete(socket);
      if (this.open.size === 0) this.#onEmpty?.();
    });
    if (!this.#isFromProxy(socket)) {
      this.#identified(socket, null);
      return;
    }
    socket.on('error', () => socket.destroy());
    takeProxyHeader(socket, {
      timeoutMs: this.#options.headersTimeoutMs,
      refused: this.#options.onBadProxyHeader,
      done: (source) => this.#identified(socket, source),
    });
  }

  stop(): void {
    for (const socket of this.#arriving) socket.destroy();
    this.#reader.closeIdle();
    this.#http2?.drain();
  }

  /** Resolves when no connection is open, which may be at once. */
  emptied(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
      if (this.open.size === 0) resolve();
    });
  }

  cut(): void {
    for (const socket of this.open) socket.destroy();
  }

  #isFromProxy(socket: Socket): boolean {
    if (!this.#options.proxyProtocol) return false;
    const address = oneForm(socket.remoteAddress ?? '');
    return address !== null && this.#trusted.has(address);
  }

  #identified(socket: Socket, source: Source | null): void {
    if (source !== null) {
      this.#sources.set(socket, source);
      comesFrom(socket, source);
    }
    if (this.#encrypt !== null) this.#encrypt(socket);
    else {
      this.#arriving.delete(socket);
      this.#reader.take(socket);
    }
  }

  #encryption({ tls, http2, headersTimeoutMs, onHandshakeFailure }: EntryOptions): ((socket: Socket) => void) | null {
    if (tls === null) return null;
    const stage = createTlsStage({
      ...tls,
      handshakeTimeoutMs: headersTimeoutMs,
      http2: http2 !== null,
      onSecure: (socket, raw) => this.#secured(socket, raw),
      onFailure: onHandshakeFailure,
    });
    tls.certificates.onChange(stage.use);
    return stage.take;
  }

  #secured(socket: TLSSocket, raw: Socket): void {
    const source = this.#sources.get(raw);
    if (source !== undefined) comesFrom(socket, source);
    this.#arriving.delete(raw);
    if (socket.alpnProtocol === 'h2' && this.#http2 !== null) this.#http2.take(socket);
    else this.#reader.take(socket);
  }
}

function sessionsOf(options: EntryOptions, server: HttpServer): Http2Sessions | null {
  if (options.http2 === null) return null;
  return new Http2Sessions({
    ...options,
    settings: options.http2,
    server,
    streams: { count: 0, most: options.maxConnections },
    nowMs: () => performance.now(),
    onBreak: options.onSessionBroken,
  });
}
