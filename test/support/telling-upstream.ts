import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { countConnections, listen } from './listening.ts';
import { switching } from './web-socket-handshake.ts';

/** More than what the buffers on the way to a client hold that does not read. */
const LARGE_BYTES = 8 * 1024 * 1024;
const TARGET = /^(?:\/live)?\/(quick|held|large|broken)\/[\w-]+$/;

/** An upstream that tells what has reached it, and answers by the first word of the path. */
export interface TellingUpstream {
  readonly origin: string;
  /** Methods of the requests that arrived, by target, in their order. Whoever has read them may take them out. */
  readonly arrived: Map<string, string[]>;
  /** What no HTTP/1.1 client would send, or none that was asked to. */
  readonly problems: string[];
  /** @param call once the first request with this target is there, which may be at once; one call for each target */
  onArrival(target: string, call: () => void): void;
  forget(target: string): void;
  /** Closes the connections on which nothing is under way, as a server does that needs room. */
  closeIdle(): void;
  close(): Promise<void>;
}

/**
 * `/quick/…` is answered at once, `/held/…` never, `/large/…` with more than a client takes that does not read, and of
 * `/broken/…` the answer ends in its middle with a reset. The same below `/live` for WebSockets, which are opened unless held.
 * Each answer names its request in X-Target.
 */
export async function startTellingUpstream({ largeBytes = LARGE_BYTES } = {}): Promise<TellingUpstream> {
  const large = Buffer.alloc(largeBytes, 'x');
  const arrived = new Map<string, string[]>();
  const calls = new Map<string, () => void>();
  const problems: string[] = [];
  const enter = ({ method = '', url = '', rawHeaders }: IncomingMessage): string => {
    if (!TARGET.test(url)) problems.push(`The upstream was asked for ${method} ${url} with ${rawHeaders}`);
    const before = arrived.get(url);
    if (before === undefined) arrived.set(url, [method]);
    else before.push(method);
    calls.get(url)?.();
    return TARGET.exec(url)?.[1] ?? '';
  };
  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0, noDelay: true });
  server.headersTimeout = 0;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const manner = enter(request);
    const target = request.url ?? '';
    request.on('error', () => {}).resume();
    response.on('error', () => {});
    if (manner === 'held') return;
    const body = manner === 'large' || manner === 'broken' ? large : Buffer.from(target);
    const answer = () => {
      if (response.destroyed) return;
      response.writeHead(200, { 'X-Target': target, 'Content-Length': body.length });
      if (manner === 'broken') response.write(body.subarray(1), () => request.socket.resetAndDestroy());
      else response.end(body);
    };
    if (request.complete) answer();
    else request.once('end', answer);
  });
  server.on('upgrade', (request, stream) => {
    const socket = stream as Socket;
    const target = request.url ?? '';
    socket.on('error', () => {}).resume();
    socket.once('end', () => socket.end());
    const manner = enter(request);
    if (manner === 'held') return;
    socket.write(switching(`X-Target: ${target}\r\n`));
    if (manner === 'broken') setImmediate(() => socket.resetAndDestroy());
  });
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    // A request that is broken off ends in its middle, and so does its answer.
    if (!['ECONNRESET', 'EPIPE', 'HPE_INVALID_EOF_STATE'].includes(code ?? ''))
      problems.push(`The upstream could not read: ${code}`);
    socket.destroy();
  });
  const connections = countConnections(server, () => {});
  const { origin } = await listen(server);
  return {
    origin,
    arrived,
    problems,
    onArrival: (target, call) => {
      calls.set(target, call);
      if (arrived.has(target)) call();
    },
    forget: (target) => {
      calls.delete(target);
      arrived.delete(target);
    },
    closeIdle: () => server.closeIdleConnections(),
    close: async () => {
      server.closeAllConnections();
      await connections.close();
    },
  };
}
