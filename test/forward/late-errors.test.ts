import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { type GatewaySetup, startGateway } from '../support/gateway.ts';
import { countConnections, listen } from '../support/listening.ts';
import { startRawUpstream } from '../support/upstream.ts';
import { asking, type RawClient, rawClient, switching, WEBSOCKET_ROUTES } from '../support/web-sockets.ts';

// An `error` event without a listener ends the process. So each socket to an upstream must have one from its creation to
// its close, whichever part of the gateway has it at the moment, and however the upstream or the client ends it.

const NODE_OPTIONS = `--import ${join(import.meta.dirname, 'unguarded-sockets.ts')}`;

const startWatched = async (setup: GatewaySetup) => {
  const gateway = await startGateway({ ...setup, routes: WEBSOCKET_ROUTES, env: { NODE_OPTIONS } });
  const { key } = await gateway.createKey('endless');
  const upgrade = (target: string) => rawClient(gateway, asking(key, target));
  const plain = (target: string) => rawClient(gateway, asking(key, target, 'Connection: close\r\n'));
  const unguarded = () => /^unguarded.*(?:\n +at .*)*/m.exec(gateway.process.stderr)?.[0];
  const connected = () => gateway.process.stderr.split('connects\n').length - 1;
  // Those of the self-tests at start do not count.
  const before = connected();
  const sockets = () => connected() - before;
  return { gateway, upgrade, plain, unguarded, sockets };
};

const untilClosed = async (asking: Promise<RawClient>) => {
  const client = await asking;
  await eventually(() => client.ended || client.closed, { withinMs: 5_000 });
  client.socket.destroy();
};

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const reset = (socket: Socket) => setTimeout(() => socket.resetAndDestroy(), 10);
const WAYS: Record<string, (socket: Socket) => unknown> = {
  answered: (socket) => socket.write(ANSWER),
  'answered-reset': (socket) => socket.write(ANSWER, () => reset(socket)),
  'joined-reset': (socket) => socket.write(switching(), () => reset(socket)),
  'joined-closed': (socket) => socket.end(switching()),
  'half-reset': (socket) => socket.write('HTTP/1.1 101 Swi', () => reset(socket)),
  unlawful: (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'),
  rubbish: (socket) => socket.write('rubbish\r\n\r\n'),
  reset: (socket) => socket.resetAndDestroy(),
  closed: (socket) => socket.end(),
  silent: () => {},
};

test('however an upstream ends a connection, each socket to it has a listener for errors for all its life', async () => {
  const checks = ['answered', 'reset', 'rubbish', 'silent', 'closed'];
  let check = 0;
  const upstream = await startRawUpstream((socket, bytes) => {
    const way = /^GET \/v1\/\w+\?([\w-]+)/.exec(bytes.toString('latin1'))?.[1];
    WAYS[way ?? checks[check++ % checks.length]!]!(socket);
  });
  const { gateway, upgrade, plain, unguarded, sockets } = await startWatched({
    upstream: upstream.origin,
    upstreamSettings: {
      responseTimeout: '200ms',
      health: '{ path: /healthz, interval: 20ms, timeout: 50ms, unhealthyAfter: 100 }',
    },
  });
  const ways = Object.keys(WAYS);
  const asked = ways.flatMap((way) => [upgrade(`/v1/live?${way}`), plain(`/v1/pets?${way}`)]);
  await Promise.all(asked.map(untilClosed));
  await eventually(() => expect(check).toBeGreaterThan(2 * checks.length));
  expect(sockets()).toBeGreaterThan(ways.length + 2 * checks.length);
  await upstream.close();
  await untilClosed(upgrade('/v1/live'));
  await untilClosed(plain('/v1/pets'));
  expect(unguarded()).toBeUndefined();
  expect((await gateway.process.stop()).code).toBe(0);
});

describe('a socket that the gateway gives up while it connects has one too', () => {
  /** Accepts connections, and answers a TLS handshake with nothing, or with something else. */
  const startListener = async () => {
    const says = { rubbish: false };
    const server = createServer();
    const connections = countConnections(server, (socket) => {
      socket.resume();
      if (says.rubbish) socket.write('no TLS');
    });
    atEnd(connections.close);
    return { origin: `https://127.0.0.1:${(await listen(server)).port}`, connections, says };
  };

  test('for a request and for an upgrade: the client left, it took too long, no TLS came', async () => {
    const { origin, connections, says } = await startListener();
    const upstreamSettings = { connectTimeout: '300ms' };
    const { gateway, upgrade, plain, unguarded, sockets } = await startWatched({ upstream: origin, upstreamSettings });
    for (const ask of [() => upgrade('/v1/live'), () => plain('/v1/pets')]) {
      const before = connections.accepted;
      const leaving = await ask();
      await eventually(() => expect(connections.accepted).toBe(before + 1));
      leaving.socket.destroy();
      await eventually(() => expect(connections.open).toBe(0));
      await untilClosed(ask());
      says.rubbish = true;
      await untilClosed(ask());
      says.rubbish = false;
    }
    expect(sockets()).toBe(6);
    expect(unguarded()).toBeUndefined();
    expect((await gateway.process.stop()).code).toBe(0);
  });

  test('for a health check: it took too long, no TLS came', async () => {
    const { origin, connections, says } = await startListener();
    const { gateway, unguarded, sockets } = await startWatched({
      upstream: origin,
      upstreamSettings: { health: '{ path: /healthz, interval: 20ms, timeout: 50ms }' },
    });
    await eventually(() => expect(connections.accepted).toBeGreaterThan(2));
    says.rubbish = true;
    const before = connections.accepted;
    await eventually(() => expect(connections.accepted).toBeGreaterThan(before + 2));
    // The gateway says of each socket that it has opened, a little later.
    await eventually(() => expect(sockets()).toBeGreaterThan(2));
    expect(unguarded()).toBeUndefined();
    expect((await gateway.process.stop()).code).toBe(0);
  });
});
