import { once } from 'node:events';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { startWatchedGateway, type WatchedGateway } from '../../../tools/fuzz/gateway.ts';
import { countConnections, listen } from '../../support/listening.ts';

/** A gateway with short deadlines before an upstream that answers at once. */
export interface Stage {
  readonly gateway: WatchedGateway;
  readonly origin: string;
  /** Of the hostile clients. */
  readonly key: string;
  /** Of the well-behaved client: what one consumer does to itself is no attack on others. */
  readonly healthyKey: string;
  readonly deadlinesMs: { readonly headers: number; readonly request: number; readonly write: number };
  /** Closes connections of the upstream on which nothing is under way. */
  closeIdle(): void;
  stop(): Promise<void>;
}

/** Answers with more than all buffers on the way hold. */
export const LARGE = '/large';
const PIECE = Buffer.alloc(64 * 1024, 'b');
const PIECES = 512;
// Far enough apart for a test to tell which of them it was, and `write` long enough for all to be there before the first is cut.
const DEADLINES_MS = { headers: 1_000, request: 3_500, write: 3_000 };

/** Starts the upstream and the gateway; `stop` ends both. */
export async function setStage(): Promise<Stage> {
  const server = createServer(async (request, response) => {
    request.on('error', () => {}).resume();
    response.on('error', () => {});
    if (request.url?.startsWith(LARGE)) {
      response.writeHead(200, { 'Content-Length': PIECE.length * PIECES });
      Readable.from(pieces())
        .on('error', () => {})
        .pipe(response);
      return;
    }
    if (!request.complete) await once(request, 'end').catch(() => {});
    response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"ok":true}');
  });
  const connections = countConnections(server, () => {});
  const { origin: upstream } = await listen(server);
  const gateway = await startWatchedGateway({
    listen: {
      headersTimeout: `${DEADLINES_MS.headers}ms`,
      requestTimeout: `${DEADLINES_MS.request}ms`,
      writeTimeout: `${DEADLINES_MS.write}ms`,
    },
    upstreams: `  store: { targets: [${upstream}] }`,
    routes: '  - { path: /**, methods: [GET, POST], upstream: store }',
    callers: 2,
  });
  return {
    gateway,
    origin: `http://127.0.0.1:${gateway.port}`,
    key: gateway.callers[0]!.key,
    healthyKey: gateway.callers[1]!.key,
    deadlinesMs: DEADLINES_MS,
    closeIdle: () => server.closeIdleConnections(),
    stop: async () => {
      await gateway.stop();
      server.closeAllConnections();
      await connections.close();
    },
  };
}

function* pieces(): Generator<Buffer> {
  for (let i = 0; i < PIECES; i++) yield PIECE;
}
