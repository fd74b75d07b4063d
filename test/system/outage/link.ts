import { connect, createServer, type Socket } from 'node:net';
import { atEnd } from '../../support/endings.ts';
import { countConnections, listen } from '../../support/listening.ts';

/**
 * What happens on the way: `passes`; `hangs` (nothing gets through in either direction and nobody is told); `mute` (what
 * is asked arrives, what is answered does not); `cut` (connections are reset, new ones too).
 */
export type Weather = 'passes' | 'hangs' | 'mute' | 'cut';

/** The network between gateways and a Redis, for a test to disturb. */
export interface Link {
  readonly port: number;
  /** Replies are held back so long, milliseconds. */
  delayMs: number;
  /**
   * From `hangs` and `mute` to `passes` every connection is reset: a stream out of which bytes are missing does not go
   * on, on no network.
   */
  become(weather: Weather): void;
}

/** @param address where the Redis is, `redis://…` */
export async function startLink(address: string): Promise<Link> {
  const redis = new URL(address);
  let weather: Weather = 'passes';
  const clients = new Set<Socket>();
  const server = createServer();
  const link = { port: 0, delayMs: 0, become };
  const connections = countConnections(server, (client) => {
    if (weather === 'cut') return void client.resetAndDestroy();
    clients.add(client);
    client.on('close', () => clients.delete(client));
    relay(client, connect(Number(redis.port), redis.hostname), link, () => weather);
  });
  atEnd(() => connections.close());
  function become(next: Weather): void {
    const isWhole = weather === 'passes' && next !== 'cut';
    weather = next;
    if (!isWhole) for (const client of clients) client.resetAndDestroy();
  }
  link.port = (await listen(server)).port;
  return link;
}

function relay(client: Socket, server: Socket, link: { readonly delayMs: number }, weather: () => Weather): void {
  server.on('error', () => client.resetAndDestroy());
  server.on('close', () => client.destroy());
  client.on('close', () => server.destroy());
  client.on('data', (chunk: Buffer) => {
    if (weather() !== 'hangs') server.write(chunk);
  });
  server.on('data', (chunk: Buffer) => {
    const arrive = () => {
      if (weather() === 'passes' && !client.destroyed) client.write(chunk);
    };
    // Timers of the same length end in the order in which they began, so the replies stay in order.
    if (link.delayMs > 0) setTimeout(arrive, link.delayMs);
    else arrive();
  });
}
