import type { Server as HttpServer } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import type { ErrorCode } from '../errors/catalogue.ts';
import { ClientNetworks } from '../identify/failed-attempts.ts';
import { afterReadyWork } from '../io/after-reading.ts';
import { Deadlines } from '../io/deadlines.ts';
import { type Arrival, arrivalOf, openEntrance } from '../io/entrance.ts';
import { Networks } from '../io/networks.ts';
import { inSlices, type Steps } from '../io/steps.ts';
import { hasWaiting } from '../io/tls-carrier.ts';
import { AcceptTurns } from './accept-turns.ts';
import { comesFrom, oneForm, type Source, takeProxyHeader } from './client-address.ts';
import { Connections, type ReadConnection, StreamSlots } from './connections.ts';
import { HandshakeTurns } from './handshake-turns.ts';
import { type BreakReason, Http2Sessions, type Http2Settings, type StreamServing } from './http2/session.ts';
import type { OpenFiles } from './open-files.ts';
import { type CertificateSource, createTlsStage, type TlsSettings } from './tls.ts';
import { answerTlsChallenges, type TlsChallengeOptions } from './tls-challenge.ts';

/** The source of connections when another process accepts them. */
export interface ConnectionFeed {
  /**
   * @param take called with each connection, from which nothing has been read, and which stays half-open when the
   * client ends its side. `isFull`: `maxConnections` are open already, so an idle one has to make room
   */
  open(take: (socket: Socket, isFull: boolean) => void): void;
}

/** Reads requests from the connections handed to it. */
interface ConnectionHandler {
  take(socket: Socket): ReadConnection;
  /** Closes the connections that wait for a request; those that wait for their first one only if `unused`. */
  closeIdle(unused: boolean): void;
}

/** The certificate of the public listener, and what proves its domains to a certificate authority. */
export interface ListenerCertificates {
  readonly certificates: CertificateSource;
  /** For other hosts, which clients name in the handshake (SNI). */
  readonly further?: readonly CertificateSource[];
  /** For TLS-ALPN-01; null if the listener answers no such challenges. */
  readonly challengeCertificateFor: TlsChallengeOptions['certificateFor'] | null;
}

/** Settings and events of the stages between a TCP connection and the requests on it. */
export interface AcceptOptions {
  readonly host: string;
  readonly port: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly maxHeaderBytes: number;
  readonly maxUrlBytes: number;
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly trustedProxies: readonly string[];
  /** Whether each trusted proxy begins its connections with a PROXY header that names the client. */
  readonly proxyProtocol: boolean;
  /** Null for plain TCP. */
  readonly tls: (TlsSettings & ListenerCertificates) | null;
  /** Null for HTTP/1.1 only. Needs `tls`. */
  readonly http2: Http2Settings | null;
  readonly openFiles: OpenFiles;
  /** Whether memory is nearly used up. New connections are then refused and idle ones closed. */
  readonly isShortOfMemory: () => boolean;
  /** A connection was closed without a response. */
  readonly onDrop: (shortage: Shortage) => void;
  /** A connection that waited for a request was closed to make room. */
  readonly onEvict: (shortage: Shortage) => void;
  /**
   * A request that could not be parsed was answered with this code, or its HTTP/2 stream was refused for that reason.
   */
  readonly onUnparsed: (code: ErrorCode) => void;
  /** A trusted proxy began a connection without a valid PROXY header. */
  readonly onBadProxyHeader: () => void;
  readonly onHandshakeFailure: () => void;
  /** A TLS connection was closed because its records brought nothing. */
  readonly onTlsWaste: (clientAddress: string | null) => void;
  /** Writes the response to a client that has sent plain HTTP where `tls` is set. The connection is closed after it. */
  readonly answerPlainHttp: (socket: Socket) => void;
  readonly onSessionBroken: (reason: BreakReason, address: string | null) => void;
  /** Null if this process listens on `host` and `port` itself. */
  readonly feed: ConnectionFeed | null;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /** TCP connections that are open now. */
  connections(): number;
  /** Closes the connections that wait for a request, because memory is nearly used up. */
  closeIdle(): void;
  /**
   * Accepts no more connections, closes idle ones at once and the others after their response. A connection on which no request has
   * come yet has a second for its first one, from when the last connection was taken.
   */
  stopAccepting(): void;
  /** Resolves when the last connection has ended. Connections that are still open after `deadlineMs` are cut off. */
  drained(deadlineMs: number): Promise<void>;
}

/**
 * Accepts TCP connections and passes each through the stages that the settings ask for: the PROXY protocol, then TLS,
 * then HTTP/2 if the client negotiates it. All connections share one count, one way to stop, and one reader of
 * requests.
 *
 * @param reader reads the requests of HTTP/1.1 connections
 * @param server a node:http server that does not listen, to which the reader hands connections
 * @throws Failure `cannot_listen`
 */
export async function openListener(
  options: AcceptOptions,
  reader: ConnectionHandler,
  streams: StreamServing,
  server: HttpServer,
): Promise<Listener> {
  const stages = new Stages(options, reader, streams);
  const arrivals = options.feed === null ? await accepted(options, stages) : fed(options, options.feed, stages);
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
      // A response that was sent just before the drain began did not announce that its connection would close.
      const sweep = setInterval(() => afterReadyWork(stages.sweep), SWEEP_EVERY_MS);
      const cut = setTimeout(() => stages.cut(), deadlineMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
      server.close();
    },
  };
}

const SWEEP_EVERY_MS = 50;
/**
 * Fault: a client opens a connection in the moment in which the listener closes. Its first request is on its way, and is not
 * repeated if the connection is closed, as the request of a reused connection is. So connections on which no request has come stay
 * open for this long.
 */
const UNUSED_MS = 1_000;

interface Arrivals {
  readonly host: string;
  readonly port: number;
  /** Accepts no more connections. Resolves when the last open one has ended. */
  close(): Promise<void>;
}

async function accepted(options: AcceptOptions, stages: Stages): Promise<Arrivals> {
  const turns = new AcceptTurns({
    maxConnections: options.maxConnections,
    maxConnectionsPerAddress: options.maxConnectionsPerAddress,
    count: () => stages.connections.count,
    open: (arrival) => stages.offer(arrival, stages.connections.isFull),
    onDrop: () => options.onDrop('address'),
    isShort: (descriptor) => options.openFiles.isShort(descriptor),
    nowMs: () => performance.now(),
  });
  const networks = new ArrivalNetworks(options.trustedProxies);
  const onArrival = (arrival: Arrival) => turns.take(arrival, networks.of(arrival));
  const entrance = await openEntrance({ ...options, paused: false, onArrival });
  const close = async () => {
    // Fault: clients that are answered with `Connection: close` connect again at once, so that there are always some in the queue.
    turns.hold(true);
    await entrance.close();
    turns.hold(false);
    while (turns.waiting > 0) await turn();
    stages.tookLast();
    await stages.connections.emptied();
  };
  return { host: entrance.address, port: entrance.port, close };
}

/** The feeding process listens, counts the connections of all workers, and stops feeding before `close` is called. */
function fed({ host, port }: AcceptOptions, feed: ConnectionFeed, stages: Stages): Arrivals {
  feed.open((socket, isFull) => stages.offer(arrivalOf(socket), isFull));
  const close = () => {
    stages.tookLast();
    return stages.connections.emptied();
  };
  return { host, port, close };
}

/** Whose turn it is with a connection that has been accepted. */
export class ArrivalNetworks {
  readonly #trusted: Networks;
  readonly #networks = new ClientNetworks(10_000);

  constructor(trustedProxies: readonly string[]) {
    this.#trusted = new Networks(trustedProxies);
  }

  /** @returns null for a trusted proxy, which connects for many clients */
  of({ remoteAddress }: Arrival): string | null {
    const address = oneForm(remoteAddress) ?? UNKNOWN;
    return this.#trusted.has(address) ? null : this.#networks.of(address);
  }
}

/** The other side of a connection. */
interface Peer {
  readonly remoteAddress?: string | undefined;
}

/** Why there is no room for a connection. */
export type Shortage = 'connections' | 'address' | 'memory' | 'descriptors';

class Stages {
  readonly connections: Connections;
  /** Connections from which no part of a request has been read. */
  readonly #arriving = new Set<Socket>();
  readonly #options: AcceptOptions;
  readonly #reader: ConnectionHandler;
  readonly #trusted: Networks;
  readonly #encrypt: ((socket: Socket) => void) | null;
  readonly #http2: Http2Sessions | null;
  /** When the last connection was taken; infinite before that. */
  #tookLastAtMs = Number.POSITIVE_INFINITY;
  #isCut = false;

  constructor(options: AcceptOptions, reader: ConnectionHandler, streams: StreamServing) {
    this.#options = options;
    this.#reader = reader;
    this.#trusted = new Networks(options.trustedProxies);
    this.connections = new Connections(options, () => performance.now());
    this.#http2 = sessionsOf(options, streams);
    this.#encrypt = this.#encryption(options);
  }

  /** Takes a new connection if there is room for it or an idle connection makes room. */
  offer(arrival: Arrival, isFull: boolean): void {
    if (this.#isCut) {
      arrival.drop();
      return;
    }
    const shortage = this.#shortage(arrival, isFull);
    if (shortage !== null) {
      arrival.drop();
      this.#options.onDrop(shortage);
      return;
    }
    const socket = arrival.open();
    // This listener stays for the connection's whole life. Node removes its own when a request leaves HTTP.
    socket.on('error', () => socket.destroy());
    this.#take(socket);
  }

  /**
   * The resource that a new connection lacks although idle connections were closed for it; null if it lacks none.
   *
   * Attack: an address that has reached its limit connects again and again, so that connections of other clients are
   * closed for one that is then dropped. So the limit of the address is checked first, and one of its own idle
   * connections makes room.
   */
  #shortage(arrival: Arrival, isFull: boolean): Shortage | null {
    if (this.#options.isShortOfMemory()) return 'memory';
    const address = this.#isFromProxy(arrival) ? null : this.#addressOf(arrival);
    let hasMadeRoom = false;
    if (address !== null && this.connections.isAtLimit(address)) {
      if (!this.#evict('address', address)) return 'address';
      hasMadeRoom = true;
    }
    if (isFull && !hasMadeRoom && !this.#evict('connections')) return 'connections';
    return this.#options.openFiles.isShort(arrival.descriptor) && !this.#evict('descriptors') ? 'descriptors' : null;
  }

  stop(): void {
    this.sweep();
    this.#http2?.drain();
  }

  /** No connection arrives any more, and none waits. Those on which no request has come have `UNUSED_MS` from now. */
  tookLast(): void {
    this.#tookLastAtMs = performance.now();
  }

  /** Closes all connections, and drops those that still wait, or arrive. */
  cut(): void {
    this.#isCut = true;
    this.connections.close();
  }

  /**
   * Closes what is idle after `stop`.
   *
   * Fault: this thread stalled for more than `UNUSED_MS`, and connections were closed on which a request had arrived. So what has arrived is
   * read before this is called.
   */
  readonly sweep = (): void => {
    const isLate = performance.now() - this.#tookLastAtMs >= UNUSED_MS;
    if (isLate) void inSlices(this.#endingArriving());
    this.#reader.closeIdle(isLate);
  };

  *#endingArriving(): Steps<void> {
    for (const socket of this.#arriving) {
      if (!hasWaiting(socket)) socket.destroy();
      yield;
    }
  }

  closeIdle(): void {
    this.connections.closeIdle(() => this.#options.onEvict('memory'));
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

  /** Closes an idle connection, of this client address if one is given. @returns whether there was one */
  #evict(shortage: Exclude<Shortage, 'memory'>, address: string | null = null): boolean {
    const isEvicted = this.connections.closeLongestIdle(address);
    if (isEvicted) this.#options.onEvict(shortage);
    return isEvicted;
  }

  #isFromProxy(peer: Peer): boolean {
    return this.#options.proxyProtocol && this.#isTrusted(peer);
  }

  #isTrusted({ remoteAddress = '' }: Peer): boolean {
    const address = oneForm(remoteAddress);
    return address !== null && this.#trusted.has(address);
  }

  /** The address that a connection counts towards; null for a trusted proxy, which connects for many clients. */
  #addressOf(peer: Peer): string | null {
    return this.#isTrusted(peer) ? null : (oneForm(peer.remoteAddress ?? '') ?? UNKNOWN);
  }

  #identified(socket: Socket, source: Source | null): void {
    if (source !== null) comesFrom(socket, source);
    const address = this.#addressOf(socket);
    if (address !== null && this.connections.isAtLimit(address) && !this.#evict('address', address)) {
      socket.destroy();
      this.#options.onDrop('address');
      return;
    }
    if (address !== null) this.connections.enter(socket, address);
    if (this.#encrypt !== null) this.#encrypt(socket);
    else {
      this.#arriving.delete(socket);
      this.connections.reads(socket, this.#reader.take(socket));
    }
  }

  #encryption({
    tls,
    http2,
    headersTimeoutMs,
    onHandshakeFailure,
    onTlsWaste,
    answerPlainHttp,
  }: AcceptOptions): ((socket: Socket) => void) | null {
    if (tls === null) return null;
    const stage = createTlsStage({
      ...tls,
      handshakeTimeoutMs: headersTimeoutMs,
      http2: http2 !== null,
      onSecure: (socket, raw) => this.#secured(socket, raw),
      onFailure: onHandshakeFailure,
      onWaste: ({ remoteAddress = '' }) => onTlsWaste(oneForm(remoteAddress)),
      answerPlainHttp,
    });
    tls.certificates.onChange(stage.use);
    const turns = new HandshakeTurns({
      timeoutMs: headersTimeoutMs,
      begin: stage.take,
      onFailure: onHandshakeFailure,
      nowMs: () => performance.now(),
    });
    const take = (socket: Socket) => turns.take(socket, this.#addressOf(socket));
    if (tls.challengeCertificateFor === null) return take;
    return answerTlsChallenges({
      certificateFor: tls.challengeCertificateFor,
      handshakeTimeoutMs: headersTimeoutMs,
      pass: take,
      onFailure: onHandshakeFailure,
    });
  }

  #secured(socket: TLSSocket, raw: Socket): void {
    socket.on('error', () => socket.destroy());
    this.#arriving.delete(raw);
    const isHttp2 = socket.alpnProtocol === 'h2' && this.#http2 !== null;
    const reading = isHttp2 ? this.#http2!.take(socket, this.#addressOf(socket)) : this.#reader.take(socket);
    this.connections.reads(raw, reading);
  }
}

/** The address of a connection that was closed before its own could be read. */
const UNKNOWN = '0.0.0.0';

function sessionsOf(options: AcceptOptions, serving: StreamServing): Http2Sessions | null {
  if (options.http2 === null) return null;
  const nowMs = () => performance.now();
  return new Http2Sessions({
    ...options,
    settings: options.http2,
    serving,
    streams: new StreamSlots(options, options.isShortOfMemory, nowMs),
    nowMs,
    deadlines: new Deadlines(nowMs),
    onBreak: options.onSessionBroken,
  });
}
