import { createServer } from 'node:http';
import { listen } from '../../../test/support/listening.ts';

/** The service behind the gateways: answers at once, and counts what reached it. */
export interface CountingUpstream {
  readonly origin: string;
  /** Requests of a consumer that have arrived so far. */
  reached(consumerId: string): number;
  /** Closes the connections on which nothing is under way. */
  closeIdle(): void;
  close(): Promise<void>;
}

export async function startCountingUpstream(): Promise<CountingUpstream> {
  const reached = new Map<string, number>();
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const id = String(request.headers['x-consumer-id']);
    reached.set(id, (reached.get(id) ?? 0) + 1);
    response.writeHead(200, { 'content-length': 2 }).end('ok');
  });
  const { origin } = await listen(server);
  return {
    origin,
    reached: (consumerId) => reached.get(consumerId) ?? 0,
    closeIdle: () => server.closeIdleConnections(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
