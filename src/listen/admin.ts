import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listening } from './listening.ts';

/** What `/readyz` says. */
export interface Readiness {
  readonly ready: boolean;
  readonly store: 'embedded' | 'present' | 'away' | 'never_reached';
  readonly draining: boolean;
  /** Why the store is away and for how long; left out while it is not. */
  readonly outage?: { readonly reason: string; readonly lastsMs: number };
  /** `refused`: the settings' files hold something that cannot be used, and what was in force before still is. */
  readonly settings?: 'refused';
  /** `mismatch`: KEY_PEPPER is not the one of the store; left out while it is. */
  readonly pepper?: 'mismatch';
  /** `short`: the heap is nearly full, so no new connections are taken; left out while it is not. */
  readonly memory?: 'short';
  /** How each worker is; where there is one process only, it is left out. */
  readonly workers?: readonly object[];
}

export interface AdminListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly readiness: () => Readiness | Promise<Readiness>;
  /** The metrics as text, with their content type. */
  readonly metrics: () => Promise<{ readonly text: string; readonly contentType: string }>;
  /** Answers everything under `/admin`. Never rejects. */
  readonly api: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
}

export interface AdminListener {
  readonly host: string;
  readonly port: number;
  close(): Promise<void>;
}

/**
 * The operators' listener (contract section 7): health and metrics, open to whoever reaches it, and the admin API, which
 * asks for a token. It belongs on loopback or an internal network.
 * @throws Failure `cannot_listen`
 */
export async function listenAdmin(options: AdminListenerOptions): Promise<AdminListener> {
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000, connectionsCheckingInterval: 500 });
  server.on('request', (request, response) => {
    answer(request, response, options).catch(() => sendJson(response, 500, { status: 'error' }));
  });
  await listening(server, options);
  const { address, port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { host: address, port, close };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: AdminListenerOptions,
): Promise<void> {
  const path = (request.url ?? '').split('?')[0]!;
  if (path.startsWith('/admin/') || path === '/admin') return options.api(request, response);
  request.resume();
  if (path !== '/livez' && path !== '/readyz' && path !== '/metrics') {
    return sendError(response, 404, 'not_found', 'Here are /livez, /readyz, /metrics and /admin.');
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    return sendError(response, 405, 'method_not_allowed', 'This is read with GET.');
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

function sendError(response: ServerResponse, status: number, code: string, message: string): void {
  sendJson(response, status, { code, message, status });
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  response.end(text);
}
