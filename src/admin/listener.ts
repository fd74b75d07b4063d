import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  isIP,
  type Socket,
  type Server as TcpServer,
} from 'node:net';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { networkOf } from '../identify/failed-attempts.ts';
import { Deadlines } from '../io/deadlines.ts';
import { HeldBytesBudget } from '../io/held-bytes.ts';
import { listening } from '../io/listening.ts';
import { readInTurn, SharedBufferSocket } from '../io/read-buffers.ts';
import { rawOf } from '../io/tls-carrier.ts';
import { type ConnectionLimits, Connections } from '../listen/connections.ts';
import { type BodyReading, NEVER_MS, RequestFeed } from '../listen/node-http/request-feed.ts';
import { plainHttpResponse } from '../listen/node-http/unparsed.ts';
import { type Certificates, createTlsStage, type TlsSettings } from '../listen/tls.ts';

/** The body of `/readyz`. */
export interface Readiness {
  readonly ready: boolean;
  readonly store: 'embedded' | 'present' | 'away' | 'never_reached';
  readonly draining: boolean;
  /** Why the store is away, and for how many milliseconds; absent while it is not away. */
  readonly outage?: { readonly reason: string; readonly lastsMs: number };
  /** `refused`: gateway.yaml or plans.yaml has a fault, so the earlier settings stay in force; absent otherwise. */
  readonly settings?: 'refused';
  /** The first faults of those files, each with its file and line; absent otherwise, and for a Host that is not this listener's. */
  readonly faults?: readonly string[];
  /** `mismatch`: KEY_PEPPER is not the pepper of the store; absent otherwise. */
  readonly pepper?: 'mismatch';
  /** `differs`: the clock of the store and this machine's differ by more than a minute; absent otherwise. */
  readonly clock?: 'differs';
  /** What is wrong with replicas of the store and what to do: no change to a key is acknowledged meanwhile; absent otherwise. */
  readonly replicas?: readonly string[];
  /** `short`: the heap or the container is nearly full, so the gateway accepts no new connections; absent otherwise. */
  readonly memory?: 'short';
  /** `missing`: `listen.tls.acme` has no certificate yet, so no client can connect; absent otherwise. */
  readonly certificate?: 'missing';
  /** The state of each worker; absent if the gateway is one process. */
  readonly workers?: readonly object[];
}

export interface AdminListenerOptions {
  readonly host: string;
  readonly port: number;
  /** Names that Host may be, besides `host` and the names of loopback (`admin.hosts`). */
  readonly hosts: readonly string[];
  readonly readiness: () => Readiness | Promise<Readiness>;
  /** Whether what serves callers still turns; absent if it is the thread that answers. */
  readonly isTurning?: () => boolean;
  /** The metrics as text, with their content type. */
  readonly metrics: () => Promise<{ readonly text: string; readonly contentType: string }>;
  /**
   * Answers everything under `/admin`. Never rejects. Calls `keepPlace` once the sender is authorised; false means that the request
   * has no place.
   */
  readonly api: (request: IncomingMessage, response: ServerResponse, keepPlace: () => boolean) => Promise<void>;
  /** Answers `/console` and everything under it; null while there is no admin token, which is then the response. */
  readonly console: RequestHandler | null;
  /** TLS of its own; null for plain HTTP. */
  readonly tls: (TlsSettings & { readonly certificates: Certificates }) | null;
}

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface AdminListener {
  readonly host: string;
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Opens the admin listener (contract section 7). Health and metrics are open to any client that can reach it; the admin
 * API requires a token, and the console is there only if one is set. The listener belongs on loopback or an internal network.
 *
 * Attack: DNS rebinding. An attacker makes the name of a web page resolve to 127.0.0.1 or an internal address. In an
 * operator's browser, the scripts of that page can then read this listener as if it were the page's own server, but the
 * browser still sends the page's name in Host. So metrics, API and console answer only if Host is an IP address, which cannot be
 * rebound, a name of loopback, or a name from the settings. `/livez` and `/readyz` answer under any Host, because load
 * balancers send many, and they reveal nothing that helps an attacker: faults of the settings, which name paths and quote values,
 * are shown under a name of the listener alone.
 *
 * Attack: a client that reaches the listener opens connections until the gateway has no file left for its callers or its
 * store. So they are bounded, in total and for each address; see `Places`.
 * @throws Failure `cannot_listen`
 */
export async function listenAdmin(options: AdminListenerOptions): Promise<AdminListener> {
  const names = new Set([options.host, ...options.hosts].map((name) => name.toLowerCase()));
  const places = new Places();
  const server = createServer({ keepAliveTimeoutBuffer: NEVER_MS });
  const feeds = new WeakMap<Socket, RequestFeed>();
  const held = new HeldBytesBudget();
  const limits = { ...TIMEOUTS, deadlines: new Deadlines(() => performance.now()) };
  const serve = (socket: Socket) => {
    feeds.set(socket, new RequestFeed(server, socket, held, BODIES, limits));
  };
  const accepting = acceptorOf(serve, places, options.tls);
  const shared = { ...options, metrics: onceForAll(options.metrics) };
  server.on('request', (request, response) => {
    if (feeds.get(request.socket)?.announced(request, response) !== true) return;
    places.requested(request);
    const keepPlace = () => places.keep(request, response);
    answer(request, response, keepPlace, shared, names).catch(() => {
      // A response that has begun cannot become an error any more.
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { status: 'error' });
    });
  });
  await listening(accepting, options, 'ADMIN_PORT');
  const { address, port } = accepting.address() as AddressInfo;
  const close = async () => {
    const closed = new Promise((resolve) => accepting.close(resolve));
    server.close();
    await places.close();
    await closed;
  };
  return { host: address, port, close };
}

/** As long as the socket of commands waits for requests that are under way. */
const CLOSING_MS = 2_000;
/** Enough for a dozen operators with the console open, behind one proxy or not, and for probes and a scraper. */
export const ADMIN_CONNECTIONS: ConnectionLimits = { maxConnections: 96, maxConnectionsPerAddress: 48 };
/** How many of them may keep their places, because they serve requests of authorised senders. The others are for probes and for new ones. */
export const KEPT_PLACES: ConnectionLimits = { maxConnections: 80, maxConnectionsPerAddress: 40 };

/** A connection as `Connections` sees it: idle unless it serves a request of an authorised sender. */
interface Place {
  readonly network: string;
  idleSinceMs: number | null;
}

/**
 * The connections of the listener, in total and for each address.
 *
 * Attack: two addresses without a token begin requests that they never end (a sign-in without its body, metrics that they do not
 * read), until no connection is left for anybody else, and the probes of `/livez` fail until the gateway is restarted. So a connection
 * may be closed to make room for a new one at any time until its sender is authorised, whatever it has sent: of the address that has
 * most of such connections, the one that has been so longest. Part of the places is never kept, so a probe always finds one.
 */
class Places {
  readonly #connections = new Connections(ADMIN_CONNECTIONS, () => performance.now());
  readonly #places = new WeakMap<Socket, Place>();
  readonly #kept = new Map<string, number>();
  #allKept = 0;
  #isClosing = false;

  /** A request has begun, whose sender is not authorised yet. */
  requested({ socket }: IncomingMessage): void {
    const place = this.#placeOf(socket);
    if (place !== undefined) place.idleSinceMs = performance.now();
  }

  /**
   * Closes all connections: those that serve an authorised sender once it has the response, or after two seconds.
   *
   * Fault: a gateway was stopped while it made a change, and the sender could not know whether it was made.
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#connections.closeIdle(() => {});
    await Promise.race([this.#connections.emptied(), delay(CLOSING_MS, null, { ref: false })]);
    this.#connections.close();
  }

  /** Keeps the connection of a request until it is answered. @returns false if as many are kept as may be */
  keep({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const place = this.#placeOf(socket);
    if (place === undefined || response.closed) return true;
    const ofNetwork = this.#kept.get(place.network) ?? 0;
    const { maxConnections, maxConnectionsPerAddress } = KEPT_PLACES;
    if (this.#allKept >= maxConnections || ofNetwork >= maxConnectionsPerAddress) return false;
    this.#allKept++;
    this.#kept.set(place.network, ofNetwork + 1);
    place.idleSinceMs = null;
    response.once('close', () => {
      this.#release(place);
      if (this.#isClosing) socket.destroy();
    });
    return true;
  }

  /** Takes a new connection, or closes it. @param socket without encryption */
  enter(socket: Socket): void {
    const address = socket.remoteAddress ?? '';
    const connections = this.#connections;
    if (connections.isAtLimit(address) && !connections.closeLongestIdle(address)) return void socket.destroy();
    if (connections.isFull && !connections.closeIdleOfBusiest()) return void socket.destroy();
    const place: Place = { network: networkOf(address), idleSinceMs: performance.now() };
    this.#places.set(socket, place);
    connections.add(socket);
    connections.enter(socket, address);
    connections.reads(socket, place);
  }

  #placeOf(socket: Socket): Place | undefined {
    return this.#places.get(rawOf(socket));
  }

  #release(place: Place): void {
    place.idleSinceMs = performance.now();
    this.#allKept--;
    const rest = this.#kept.get(place.network)! - 1;
    if (rest === 0) this.#kept.delete(place.network);
    else this.#kept.set(place.network, rest);
  }
}

/**
 * Does work once for all who ask before it begins, one run at a time.
 *
 * Attack: anybody who reaches the listener asks for the metrics again and again, on many connections. Each takes some
 * milliseconds of the thread that serves callers, who waited for more than a second.
 */
function onceForAll<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | null = null;
  const run = async () => {
    await running;
    await nextTurn();
    const begun = work();
    next = null;
    running = begun.catch(() => {});
    return begun;
  };
  return () => {
    next ??= run();
    return next;
  };
}

const TIMEOUTS = { headersTimeoutMs: 5_000, requestTimeoutMs: 10_000, idleTimeoutMs: 6_000 };

/** Operators have no shares of the thread, but whatever is read of their bodies takes turns. */
const BODIES: BodyReading = {
  read: (_socket, work) => {
    work();
    return true;
  },
  readLater: readInTurn,
  onTooManyChunks: (socket) => socket.destroy(),
};

/**
 * Accepts the connections, and gives `serve` each one whose bytes are, or by now have become, plain.
 *
 * Attack: 46 connections without a token send 1,600 requests each without waiting for responses. By itself node:http reads and answers
 * them all in one turn of the event loop, which took a second.
 */
function acceptorOf(serve: (socket: Socket) => void, places: Places, tls: AdminListenerOptions['tls']): TcpServer {
  const stage =
    tls === null
      ? null
      : createTlsStage({
          ...tls,
          http2: false,
          handshakeTimeoutMs: TIMEOUTS.headersTimeoutMs,
          onSecure: (socket) => {
            socket.on('error', () => socket.destroy());
            serve(socket);
          },
          onFailure: () => {},
          onWaste: () => {},
          answerPlainHttp: (raw) => void raw.write(plainHttpResponse()),
        });
  if (stage !== null) tls?.certificates.onChange(stage.use);
  return createTcpServer({ allowHalfOpen: true, noDelay: true }, (accepted) => {
    const socket = SharedBufferSocket.around(accepted);
    socket.on('error', () => socket.destroy());
    if (socket instanceof SharedBufferSocket) socket.owner = networkOf(socket.remoteAddress ?? '');
    places.enter(socket);
    if (socket.destroyed) return;
    if (stage === null) serve(socket);
    else stage.take(socket);
  });
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  keepPlace: () => boolean,
  options: AdminListenerOptions,
  names: ReadonlySet<string>,
): Promise<void> {
  const path = (request.url ?? '').split('?')[0]!;
  const isOwnName = isOwn(request.headers.host, names);
  if (path !== '/livez' && path !== '/readyz' && !isOwnName) {
    request.resume();
    const message =
      'The admin listener does not answer to this Host. Use its IP address, or add the name to admin.hosts.';
    return sendError(response, 421, 'misdirected_request', message);
  }
  if (path.startsWith('/admin/') || path === '/admin') return options.api(request, response, keepPlace);
  const isConsole = path.startsWith('/console/') || path === '/console';
  if (isConsole && options.console !== null) return options.console(request, response);
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (path === '/' && isRead && options.console !== null) {
    request.resume();
    response.writeHead(302, { Location: '/console/', 'Content-Length': 0 }).end();
    return;
  }
  request.resume();
  if (isConsole) {
    const message =
      'The console is off, because there is no admin token. Set ADMIN_TOKEN or ADMIN_TOKENS_FILE and start the gateway again.';
    return sendError(response, 403, 'forbidden', message);
  }
  if (path !== '/livez' && path !== '/readyz' && path !== '/metrics') return notFound(response);
  if (!isRead) {
    response.setHeader('Allow', 'GET, HEAD');
    return sendError(response, 405, 'method_not_allowed', 'Use GET or HEAD.');
  }
  if (path === '/livez') {
    const isAlive = options.isTurning?.() ?? true;
    return sendJson(response, isAlive ? 200 : 503, { status: isAlive ? 'alive' : 'stuck' });
  }
  if (path === '/readyz') {
    const { ready, faults, ...detail } = await options.readiness();
    const shown = isOwnName && faults !== undefined ? { faults } : {};
    return sendJson(response, ready ? 200 : 503, { status: ready ? 'ready' : 'not_ready', ...detail, ...shown });
  }
  const { text, contentType } = await options.metrics();
  response.writeHead(200, { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(text) });
  response.end(text);
}

function notFound(response: ServerResponse): void {
  sendError(response, 404, 'not_found', 'The admin listener has only /livez, /readyz, /metrics, /admin and /console.');
}

/** Whether Host names this listener. A request without Host is HTTP/1.0, which no browser sends. */
function isOwn(host: string | undefined, names: ReadonlySet<string>): boolean {
  if (host === undefined) return true;
  const name = host
    .toLowerCase()
    .replace(/:[0-9]*$/, '')
    .replace(/^\[(.*)\]$/, '$1');
  return isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost') || names.has(name);
}

function sendError(response: ServerResponse, status: number, code: string, message: string): void {
  sendJson(response, status, { code, message, status });
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  response.end(text);
}
