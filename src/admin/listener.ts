import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, isIP, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { listening } from '../io/listening.ts';
import { carrierOf } from '../io/node-internals.ts';
import { type ConnectionLimits, Connections } from '../listen/connections.ts';
import { type Certificates, serverOptionsOf, type TlsSettings, verifyClients } from '../listen/tls.ts';

/** The body of `/readyz`. */
export interface Readiness {
  readonly ready: boolean;
  readonly store: 'embedded' | 'present' | 'away' | 'never_reached';
  readonly draining: boolean;
  /** Why the store is away, and for how many milliseconds; absent while it is not away. */
  readonly outage?: { readonly reason: string; readonly lastsMs: number };
  /** `refused`: gateway.yaml or plans.yaml has a fault, so the earlier settings stay in force; absent otherwise. */
  readonly settings?: 'refused';
  /** `mismatch`: KEY_PEPPER is not the pepper of the store; absent otherwise. */
  readonly pepper?: 'mismatch';
  /** What is wrong with replicas of the store and what to do: no change to a key is acknowledged meanwhile; absent otherwise. */
  readonly replicas?: readonly string[];
  /** `short`: the heap is nearly full, so the gateway accepts no new connections; absent otherwise. */
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
  /** The metrics as text, with their content type. */
  readonly metrics: () => Promise<{ readonly text: string; readonly contentType: string }>;
  /** Answers everything under `/admin`. Never rejects. */
  readonly api: RequestHandler;
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
 * balancers send many, and they reveal nothing that helps an attacker.
 *
 * Attack: somebody who reaches the listener opens connections until the gateway has no file left for its callers or its
 * store. So they are bounded, in total and for each address. For one more, the connection that has been idle
 * longest is closed; if none is idle, the new one.
 * @throws Failure `cannot_listen`
 */
export async function listenAdmin(options: AdminListenerOptions): Promise<AdminListener> {
  const names = new Set([options.host, ...options.hosts].map((name) => name.toLowerCase()));
  const server = serverOf(options.tls);
  bound(server);
  const shared = { ...options, metrics: onceForAll(options.metrics) };
  server.on('request', (request, response) => {
    answer(request, response, shared, names).catch(() => {
      // A response that has begun cannot become an error any more.
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { status: 'error' });
    });
  });
  await listening(server, options, 'ADMIN_PORT');
  const { address, port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { host: address, port, close };
}

/** Enough for a dozen operators with the console open, behind one proxy or not, and for probes and a scraper. */
export const ADMIN_CONNECTIONS: ConnectionLimits = { maxConnections: 96, maxConnectionsPerAddress: 48 };

/** Keeps the connections of a server within their bounds. */
function bound(server: Server): void {
  const connections = new Connections(ADMIN_CONNECTIONS, () => performance.now());
  const readings = new WeakMap<Socket, { idleSinceMs: number | null }>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    if (connections.isAtLimit(address) && !connections.closeLongestIdle(address)) return void socket.destroy();
    if (connections.isFull && !connections.closeLongestIdle(null)) return void socket.destroy();
    const reading: { idleSinceMs: number | null } = { idleSinceMs: performance.now() };
    readings.set(socket, reading);
    connections.add(socket);
    connections.enter(socket, address);
    connections.reads(socket, reading);
  });
  server.on('request', ({ socket }, response) => {
    const reading = readings.get(carrierOf(socket as TLSSocket) ?? socket);
    if (reading === undefined) return;
    reading.idleSinceMs = null;
    response.once('close', () => {
      reading.idleSinceMs = performance.now();
    });
  });
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

const TIMEOUTS = { headersTimeout: 5_000, requestTimeout: 10_000, connectionsCheckingInterval: 500 };

function serverOf(tls: AdminListenerOptions['tls']) {
  if (tls === null) return createServer(TIMEOUTS);
  const server = createTlsServer({
    ...TIMEOUTS,
    handshakeTimeout: 5_000,
    ...serverOptionsOf(tls.certificates.current, tls),
  });
  verifyClients(server, tls);
  tls.certificates.onChange((certificate) => server.setSecureContext(serverOptionsOf(certificate, tls)));
  return server;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: AdminListenerOptions,
  names: ReadonlySet<string>,
): Promise<void> {
  const path = (request.url ?? '').split('?')[0]!;
  if (path !== '/livez' && path !== '/readyz' && !isOwn(request.headers.host, names)) {
    request.resume();
    const message =
      'The admin listener does not answer to this Host. Use its IP address, or add the name to admin.hosts.';
    return sendError(response, 421, 'misdirected_request', message);
  }
  if (path.startsWith('/admin/') || path === '/admin') return options.api(request, response);
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
  if (path === '/livez') return sendJson(response, 200, { status: 'alive' });
  if (path === '/readyz') {
    const { ready, ...detail } = await options.readiness();
    return sendJson(response, ready ? 200 : 503, { status: ready ? 'ready' : 'not_ready', ...detail });
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
