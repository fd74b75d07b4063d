import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { networkOf } from '../identify/failed-attempts.ts';
import { destroyLate } from '../io/graceful-close.ts';
import { listening } from '../io/listening.ts';
import { oneForm } from './client-address.ts';

interface HttpChallengeOptions {
  readonly host: string;
  readonly port: number;
  /** In lower case. Other requests for these are redirected to `https://`. */
  readonly domains: readonly string[];
  /** @returns the key authorization of this token; null if no order under way has it */
  readonly answerTo: (token: string) => Promise<string | null>;
}

interface HttpChallengeListener {
  readonly port: number;
  close(): Promise<void>;
}

const PREFIX = '/.well-known/acme-challenge/';
const TOKEN = /^[A-Za-z0-9_-]{1,256}$/;
/** One request is all that a connection is for, and it has to be over by then. */
const DEADLINE_MS = 5_000;
const MAX_CONNECTIONS = 256;
const MAX_HEAD_BYTES = 8 * 1024;

/**
 * The listener of HTTP-01 (RFC 8555 section 8.3). It answers the tokens of orders that are under way, redirects other GETs and HEADs
 * for the domains to `https://`, and nothing else: it reads no bodies, looks up no files, and knows neither keys nor routes.
 *
 * Attack: slow clients keep all connections, so that the authority finds no room. A connection lives 5 s at most, and with 256 open
 * one makes room for a new one: the oldest of the address that has most. So an address that opens connections all the time closes
 * its own, and not the authority's.
 * @throws Failure `cannot_listen`
 */
export async function listenForHttpChallenges(options: HttpChallengeOptions): Promise<HttpChallengeListener> {
  const server = createServer({
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: DEADLINE_MS,
    requestTimeout: DEADLINE_MS,
    connectionsCheckingInterval: 1_000,
    keepAlive: false,
  });
  /** With the network of each client, in the order of their arrival. */
  const open = new Map<Socket, string>();
  server.on('connection', (socket) => {
    if (open.size >= MAX_CONNECTIONS) {
      const evicted = oldestOfBusiest(open);
      // Its `close` comes only after the other connections of this turn.
      open.delete(evicted);
      evicted.destroy();
    }
    open.set(socket, networkOf(oneForm(socket.remoteAddress ?? '') ?? ''));
    destroyLate(socket, DEADLINE_MS);
    socket.once('close', () => open.delete(socket));
  });
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    else socket.destroy();
  });
  server.on('upgrade', (_request, socket) => socket.destroy());
  server.on('connect', (_request, socket) => socket.destroy());
  server.on('request', (request, response) => {
    answer(request, response, options).catch(() => response.destroy());
  });
  await listening(server, options, 'listen.tls.acme.httpPort');
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open.keys()) socket.destroy();
      }),
  };
}

/** The oldest connection of the network that has most of them. @param open not empty */
function oldestOfBusiest(open: ReadonlyMap<Socket, string>): Socket {
  const ofEach = Map.groupBy(open, ([, network]) => network);
  const [busiest] = [...ofEach.values()].toSorted((a, b) => b.length - a.length);
  return busiest![0]![0];
}

async function answer(
  { method, url = '', headers }: IncomingMessage,
  response: ServerResponse,
  { domains, answerTo }: HttpChallengeOptions,
): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD') {
    send(response, 405, 'Only GET and HEAD are answered here.\n', { Allow: 'GET, HEAD' });
    return;
  }
  if (url.startsWith(PREFIX)) {
    const token = url.slice(PREFIX.length);
    const text = TOKEN.test(token) ? await answerTo(token) : null;
    if (text === null) send(response, 404, 'No order with this token is under way.\n');
    else send(response, 200, text, { 'Content-Type': 'application/octet-stream' });
    return;
  }
  const domain = (headers.host ?? '').replace(/:\d{1,5}$/, '').toLowerCase();
  if (!domains.includes(domain) || !/^\/[!-~]*$/.test(url)) send(response, 404, 'Not found.\n');
  else send(response, 308, '', { Location: `https://${domain}${url}` });
}

function send(
  response: ServerResponse,
  status: number,
  text: string,
  fields: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'X-Content-Type-Options': 'nosniff',
    Connection: 'close',
    ...fields,
  });
  response.end(text);
}
