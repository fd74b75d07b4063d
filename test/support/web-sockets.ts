import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { type ClientOptions, WebSocket, WebSocketServer } from 'ws';
import { eventually } from './conditions.ts';
import { atEnd } from './endings.ts';
import type { TestGateway } from './gateway.ts';
import { type ParsedResponse, readResponses } from './http-response.ts';
import { countConnections, listen } from './listening.ts';
import { HANDSHAKE } from './web-socket-handshake.ts';

export { HANDSHAKE, switching, WEBSOCKET_KEY } from './web-socket-handshake.ts';

/** Routes of a gateway in whose tests clients ask for WebSockets. */
export const WEBSOCKET_ROUTES = `
  - { path: /v1/live, methods: [GET], upstream: store, websocket: true }
  - { path: '/v1/live/**', methods: [GET, POST], upstream: store, websocket: true }
  - { path: /v1/chat, methods: [GET], upstream: store, upgrades: [chat/2] }
  - { path: /v1/pets, methods: [GET, POST], upstream: store }
  - { path: /v1/costly, methods: [GET], upstream: store, websocket: true, cost: 5 }
`;

/** The text of a request for a WebSocket. */
export function asking(key: string, target = '/v1/live', fields = HANDSHAKE): string {
  return `GET ${target} HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`;
}

export interface WebSocketUpstream {
  readonly origin: string;
  readonly port: number;
  /** The requests for an upgrade, in their order. */
  readonly asked: readonly IncomingMessage[];
  /** Requests that asked for none. */
  readonly plain: readonly IncomingMessage[];
  readonly sockets: ReadonlySet<WebSocket>;
  /** Connections open now. */
  readonly open: number;
  close(): Promise<void>;
}

/** An upstream that takes WebSockets and sends every message back as it came by default otherwise. */
export async function startWebSocketUpstream(
  onSocket: (socket: WebSocket, request: IncomingMessage) => void = echo,
): Promise<WebSocketUpstream> {
  const asked: IncomingMessage[] = [];
  const plain: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    plain.push(request);
    request.resume();
    response.setHeader('content-type', 'application/json').end('{"plain":true}');
  });
  const connections = countConnections(server, () => {});
  const sockets = new WebSocketServer({ server, perMessageDeflate: true, maxPayload: 128 * 1024 * 1024 });
  sockets.on('connection', (socket, request) => {
    asked.push(request);
    socket.on('error', () => {});
    onSocket(socket, request);
  });
  const address = await listen(server);
  const close = async () => {
    server.closeAllConnections();
    await connections.close();
  };
  atEnd(close);
  return {
    ...address,
    asked,
    plain,
    sockets: sockets.clients,
    get open() {
      return connections.open;
    },
    close,
  };
}

function echo(socket: WebSocket): void {
  socket.on('message', (data, isBinary) => socket.send(data as Buffer, { binary: isBinary }));
}

/** A client that is connected through the gateway. */
export async function openWebSocket(
  { port }: Pick<TestGateway, 'port'>,
  key: string,
  path = '/v1/live',
  options: ClientOptions = {},
): Promise<{ readonly socket: WebSocket; readonly answer: IncomingMessage }> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
    maxPayload: 128 * 1024 * 1024,
    ...options,
    headers: { Authorization: `Bearer ${key}`, ...options.headers },
  });
  atEnd(() => socket.terminate());
  const [[answer]] = await Promise.all([once(socket, 'upgrade') as Promise<[IncomingMessage]>, once(socket, 'open')]);
  socket.on('error', () => {});
  return { socket, answer };
}

/** A connection on which the test speaks itself. */
export interface RawClient {
  readonly socket: Socket;
  readonly bytes: Buffer;
  readonly ended: boolean;
  readonly closed: boolean;
  readonly reset: boolean;
  /** The head of the first answer, once it is there. */
  head(): Promise<string>;
  /** The only answer, once the connection is closed. */
  answer(): Promise<ParsedResponse>;
  /** What came behind the first head, once it is that long. */
  after(length: number): Promise<Buffer>;
}

export async function rawClient({ port }: Pick<TestGateway, 'port'>, bytes = ''): Promise<RawClient> {
  const socket = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  atEnd(() => socket.destroy());
  const received: Buffer[] = [];
  const state = { ended: false, closed: false, reset: false };
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  socket.once('end', () => {
    state.ended = true;
  });
  socket.once('close', () => {
    state.closed = true;
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    state.reset ||= error.code === 'ECONNRESET';
  });
  await once(socket, 'connect');
  if (bytes !== '') socket.write(bytes, 'latin1');
  const all = () => Buffer.concat(received);
  const headEnd = () => all().indexOf('\r\n\r\n');
  return {
    socket,
    get bytes() {
      return all();
    },
    get ended() {
      return state.ended;
    },
    get closed() {
      return state.closed;
    },
    get reset() {
      return state.reset;
    },
    head: async () => {
      await eventually(() => headEnd() !== -1, { withinMs: 5_000 });
      return all().subarray(0, headEnd()).toString('latin1');
    },
    answer: async () => {
      await eventually(() => state.ended || state.closed, { withinMs: 5_000 });
      const responses = readResponses(all(), ['GET'], !state.reset);
      if (responses.length !== 1) throw new Error(`${responses.length} answers`);
      return responses[0]!;
    },
    after: async (length) => {
      await eventually(() => headEnd() !== -1 && all().length >= headEnd() + 4 + length, { withinMs: 5_000 });
      return all().subarray(headEnd() + 4);
    },
  };
}

/** One sample of the metrics; 0 where there is none yet. */
export async function metric({ adminPort }: Pick<TestGateway, 'adminPort'>, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}

/** Lines of the log with this message. */
export function logged({ process }: Pick<TestGateway, 'process'>, msg: string): Record<string, unknown>[] {
  return process.stdout
    .split('\n')
    .filter((line) => line.includes(`"msg":"${msg}"`))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
