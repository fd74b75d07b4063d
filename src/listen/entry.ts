import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ErrorCode } from '../annotate/error.ts';
import type { Certificates } from './certificates.ts';
import { Connections, type ReadConnection } from './connections.ts';
import { Http2Sessions, type Http2Settings } from './http2.ts';
import type { BreakReason } from './http2-session.ts';
import { StreamSlots } from './http2-streams.ts';
import { LendingSocket } from './lending-socket.ts';
import { listening } from './listening.ts';
import { Networks, oneForm } from './networks.ts';
import type { OpenFiles } from './open-files.ts';
import { comesFrom, type Source, takeProxyHeader } from './proxy-protocol.ts';
import { createTlsStage, type TlsSettings } from './tls.ts';

/** Where connections come from when another process accepts them. */
export interface ConnectionFeed {
  /**
   * @param take gets each connection, half-open at the client's end of data; nothing of it has been read. `isFull`: there
   * are `maxConnections` already, so an idle one has to make room
   */
  open(take: (socket: Socket, isFull: boolean) => void): void;
}

/** Reads the requests of connections that it is given. */
export interface Reader {
  take(socket: Socket): ReadConnection;
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
  readonly maxConnectionsPerAddress: number;
  readonly trustedProxies: readonly string[];
  /** Whether each trusted proxy says in a header of its own who its client is. */
  readonly proxyProtocol: boolean;
  /** Null: nothing is encrypted. */
  readonly tls: (TlsSettings & { readonly certificates: Certificates }) | null;
  /** Null: HTTP/1.1 alone. Only where there is TLS. */
  readonly http2: Http2Settings | null;
  readonly openFiles: OpenFiles;
  /** Whether memory is nearly used up: no connection is taken then, and idle ones are closed. */
  readonly isShortOfMemory: () => boolean;
  /** A connection was closed unanswered. */
  readonly onDrop: (shortage: Shortage) => void;
  /** A connection that waited for a request was closed to make room. */
  readonly onEvict: (shortage: Shortage) => void;
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
  /** Closes the connections that wait for a request, because memory is nearly used up. */
  closeIdle(): void;
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
    connections: () => stages.connections.count,
    closeIdle: () => stages.closeIdle(),
    stopAccepting: () => {
      closed = arrivals.close();
      stages.stop();
    },
    drained: async (deadlineMs) => {
      // A connection that answered just before the drain began did not say that it would close.
      const sweep = setInterval(() => reader.closeIdle(), 50);
      const cut = setTimeout(() => stages.connections.close(), deadlineMs);
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
    stages.offer(LendingSocket.around(socket), stages.connections.isFull);
  });
  await listening(server, options, 'PORT');
  const { address, port } = server.address() as AddressInfo;
  const close = () => {
    server.close();
    return stages.connections.emptied();
  };
  return { host: address, port, close };
}

/** The process that feeds listens, counts the connections of all workers, and stops feeding before this is closed. */
function fed({ host, port }: EntryOptions, feed: ConnectionFeed, stages: Stages): Arrivals {
  feed.open((socket, isFull) => stages.offer(socket, isFull));
  return { host, port, close: () => stages.connections.emptied() };
}

/** Why there is no room for a connection. */
export type Shortage = 'connections' | 'address' | 'memory' | 'descriptors';

class Stages {
  readonly connections: Connections;
  /** Those of which nothing has been read that is part of a request. */
  readonly #arriving = new Set<Socket>();
  readonly #options: EntryOptions;
  readonly #reader: Reader;
  readonly #trusted: Networks;
  readonly #sources = new WeakMap<Socket, Source>();
  readonly #encrypt: ((socket: Socket) => void) | null;
  readonly #http2: Http2Sessions | null;

  constructor(options: EntryOptions, reader: Reader, streams: HttpServer) {
    this.#options = options;
    this.#reader = reader;
    this.#trusted = new Networks(options.trustedProxies);
    this.connections = new Connections(options, () => performance.now());
    this.#http2 = sessionsOf(options, streams);
    this.#encrypt = this.#encryption(options);
  }

  /** Takes a new connection where there is room for it, or an idle one makes room. */
  offer(socket: Socket, isFull: boolean): void {
    // For the connection's whole life: Node takes its own listener away when a request leaves HTTP.
    socket.on('error', () => socket.destroy());
    const shortage = this.#shortage(socket, isFull);
    if (shortage === null) this.#take(socket);
    else this.#drop(socket, shortage);
  }

  /**
   * What there is too little of for a new connection, once idle ones have made room; null where there is nothing.
   *
   * Attack: an address that has all that it may have connects again and again, so that connections of others make room
   * for one that is dropped. So its own limit is looked at first, and its own idle connection makes room.
   */
  #shortage(socket: Socket, isFull: boolean): Shortage | null {
    if (this.#options.isShortOfMemory()) return 'memory';
    const address = this.#isFromProxy(socket) ? null : this.#addressOf(socket);
    let hasMadeRoom = false;
    if (address !== null && this.connections.isAtLimit(address)) {
      if (!this.#evict('address', address)) return 'address';
      hasMadeRoom = true;
    }
    if (isFull && !hasMadeRoom && !this.#evict('connections')) return 'connections';
    return this.#options.openFiles.isShort(socket) && !this.#evict('descriptors') ? 'descriptors' : null;
  }

  stop(): void {
    for (const socket of this.#arriving) socket.destroy();
    this.#reader.closeIdle();
    this.#http2?.drain();
  }

  closeIdle(): void {
    for (let closed = this.connections.closeIdle(); closed > 0; closed--) this.#options.onEvict('memory');
  }

  #take(socket: Socket): void {
    this.connections.add(socket);
    this.#arriving.add(socket);
    socket.once('close', () => this.#arriving.delete(socket));
    if (!this.#isFromProxy(socket)) {
      this.#identified(socket, null);
      return;
    }
    takeProxyHeader(socket, {
      timeoutMs: this.#options.headersTimeoutMs,
      refused: this.#options.onBadProxyHeader,
      done: (source) => this.#identified(socket, source),
    });
  }

  /** Whether an idle connection made room, of this client address or of any. */
  #evict(shortage: Exclude<Shortage, 'memory'>, address: string | null = null): boolean {
    const isEvicted = this.connections.closeLongestIdle(address);
    if (isEvicted) this.#options.onEvict(shortage);
    return isEvicted;
  }

  #drop(socket: Socket, shortage: Shortage): void {
    socket.destroy();
    this.#options.onDrop(shortage);
  }

  #isFromProxy(socket: Socket): boolean {
    return this.#options.proxyProtocol && this.#isTrusted(socket);
  }

  #isTrusted({ remoteAddress = '' }: { readonly remoteAddress?: string | undefined }): boolean {
    const address = oneForm(remoteAddress);
    return address !== null && this.#trusted.has(address);
  }

  /** The address that a connection counts for; null for a trusted proxy, which connects for many clients. */
  #addressOf(socket: Socket): string | null {
    return this.#isTrusted(socket) ? null : (oneForm(socket.remoteAddress ?? '') ?? UNKNOWN);
  }

  #identified(socket: Socket, source: Source | null): void {
    if (source !== null) {
      this.#sources.set(socket, source);
      comesFrom(socket, source);
    }
    const address = this.#addressOf(socket);
    if (address !== null && this.connections.isAtLimit(address) && !this.#evict('address', address)) {
      this.#drop(socket, 'address');
      return;
    }
    if (address !== null) this.connections.enter(socket, address);
    if (this.#encrypt !== null) this.#encrypt(socket);
    else {
      this.#arriving.delete(socket);
      this.connections.reads(socket, this.#reader.take(socket));
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
    socket.on('error', () => socket.destroy());
    const source = this.#sources.get(raw);
    if (source !== undefined) comesFrom(socket, source);
    this.#arriving.delete(raw);
    const isHttp2 = socket.alpnProtocol === 'h2' && this.#http2 !== null;
    const reading = isHttp2 ? this.#http2!.take(socket, this.#addressOf(socket)) : this.#reader.take(socket);
    this.connections.reads(raw, reading);
  }
}

/** Stands for the address of a connection that was closed before it could be asked. */
const UNKNOWN = '0.0.0.0';

function sessionsOf(options: EntryOptions, server: HttpServer): Http2Sessions | null {
  if (options.http2 === null) return null;
  return new Http2Sessions({
    ...options,
    settings: options.http2,
    server,
    streams: new StreamSlots(options, options.isShortOfMemory),
    nowMs: () => performance.now(),
    onBreak: options.onSessionBroken,
  });
}
