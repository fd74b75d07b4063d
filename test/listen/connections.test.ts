import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream, WEBSOCKET_ROUTES } from '../support/web-sockets.ts';

let upstream: Upstream;
let held: ServerResponse[];
/** With room for three connections. */
let small: TestGateway;
/** Idle connections that it has closed for new ones so far. */
let evicted = 0;

beforeAll(async () => {
  upstream = await startUpstream((request, response) => {
    if (request.url?.endsWith('hold')) held.push(response);
    else response.end('[]');
  });
  small = await openGateway({ upstream: upstream.origin, listen: { maxConnections: 3 } });
});

beforeEach(() => {
  held = [];
});

/** A client at one of the addresses of this machine. */
async function connected({ port }: TestGateway, address = '127.0.0.1'): Promise<Socket> {
  const socket = createConnection({ port, host: '127.0.0.1', localAddress: address });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

async function metricsOf({ adminPort }: TestGateway): Promise<string> {
  return (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
}

/** Waits until so many connections are open, and as many have been dropped and evicted for want of this. */
async function expectCounts(gateway: TestGateway, open: number, reason: string, dropped: number, evicted: number) {
  await eventually(async () => {
    const metrics = await metricsOf(gateway);
    const count = (name: string) =>
      Number(new RegExp(`^tollgate_connections_${name}_total\\{reason="${reason}"\\} (\\d+)`, 'm').exec(metrics)?.[1]);
    const connections = Number(/^tollgate_connections (\d+)/m.exec(metrics)?.[1]);
    expect([connections, count('dropped'), count('evicted')]).toEqual([open, dropped, evicted]);
  });
}

const closed = (socket: Socket) => eventually(() => expect(socket.resume().closed).toBe(true));
const request = (key: string) => `GET /v1/pets?hold HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;

// Attack: open connections and send nothing, or 27 bytes and then nothing, until there is room for nobody else.
test.each([
  ['new ones that send nothing', ''],
  ['kept ones after a 401', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['ones with half a head', 'GET / HTTP/1.1\r\nHo'],
  ['ones that node:http reads', 'GET / HTTP/1.1\r\nHost: a\r\nX: \xe9\r\n\r\n'],
])(
  'beyond maxConnections the connection that has been idle longest makes room: %s (reliability 64, 151)',
  async (_, sent) => {
    const idle: Socket[] = [];
    await expectCounts(small, 0, 'connections', 0, evicted);
    for (let i = 0; i < 3; i++) {
      const socket = await connected(small);
      if (sent !== '') socket.write(sent, 'latin1');
      if (sent.endsWith('\r\n\r\n')) await once(socket, 'data');
      idle.push(socket);
      await expectCounts(small, i + 1, 'connections', 0, evicted);
    }
    const next = await connected(small, '127.0.0.2');
    await closed(idle[0]!);
    await expectCounts(small, 3, 'connections', 0, ++evicted);
    expect(idle.slice(1).map(({ closed }) => closed)).toEqual([false, false]);
    next.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(String(await once(next, 'data'))).toContain('401');
    for (const socket of [...idle, next]) socket.destroy();
  },
);

test('connections that serve a request make no room: beyond maxConnections a new one is closed unanswered', async () => {
  await expectCounts(small, 0, 'connections', 0, evicted);
  const { key } = await small.createKey('free');
  const busy = await Promise.all([connected(small), connected(small), connected(small)]);
  for (const socket of busy) socket.write(request(key));
  await eventually(() => expect(held).toHaveLength(3));
  const beyond = await rawExchange(small.port, request(key), { until: 'closed' });
  expect([beyond.bytes.length, beyond.closed]).toEqual([0, true]);
  await expectCounts(small, 3, 'connections', 1, evicted);
  held[0]?.end('ok');
  expect(String(await once(busy[0]!, 'data'))).toContain('200 OK');
  // It is idle now. Right after a look that found none the gateway does not look again.
  const more: Socket[] = [];
  await eventually(async () => {
    more.push(await connected(small));
    expect(busy[0]!.closed).toBe(true);
  });
  for (const socket of [...busy, ...more]) socket.destroy();
});

test('one address has no more than maxConnectionsPerAddress, and its own idle connections make room for its new ones (reliability 151)', async () => {
  const gateway = await openGateway({
    upstream: upstream.origin,
    listen: { maxConnections: 10, maxConnectionsPerAddress: 2 },
  });
  const { key } = await gateway.createKey('free');
  const [other, first, second] = [
    await connected(gateway, '127.0.0.2'),
    await connected(gateway),
    await connected(gateway),
  ];
  await expectCounts(gateway, 3, 'address', 0, 0);
  const third = await connected(gateway);
  await closed(first);
  await expectCounts(gateway, 3, 'address', 0, 1);
  for (const socket of [second, third]) socket.write(request(key));
  await eventually(() => expect(held).toHaveLength(2));
  const beyond = await connected(gateway);
  await closed(beyond);
  await expectCounts(gateway, 3, 'address', 1, 1);
  expect(other.closed).toBe(false);
  for (const socket of [other, second, third]) socket.destroy();
});

test('trustedProxies have no limit of their own, and with the PROXY protocol their clients have one', async () => {
  const limited = { maxConnections: 10, maxConnectionsPerAddress: 1, trustedProxies: '[127.0.0.1]' };
  const plain = await openGateway({ upstream: upstream.origin, listen: limited });
  const three = await Promise.all([connected(plain), connected(plain), connected(plain)]);
  await expectCounts(plain, 3, 'address', 0, 0);
  const named = await openGateway({ upstream: upstream.origin, listen: { ...limited, proxyProtocol: 'true' } });
  const from = async (address: string) => {
    const socket = await connected(named);
    socket.write(`PROXY TCP4 ${address} 192.0.2.1 1000 80\r\n`);
    return socket;
  };
  const one = await from('198.51.100.1');
  await expectCounts(named, 1, 'address', 0, 0);
  const [two, again] = [await from('198.51.100.2'), await from('198.51.100.1')];
  await closed(one);
  await expectCounts(named, 2, 'address', 0, 1);
  for (const socket of [...three, two, again]) socket.destroy();
});

test('with two workers maxConnections is kept, and an idle connection makes room (reliability 151)', async () => {
  const gateway = await startGateway({
    upstream: upstream.origin,
    listen: { maxConnections: 4, maxConnectionsPerAddress: 4 },
    env: { WORKERS: '2' },
  });
  const idle: Socket[] = [];
  for (let i = 0; i < 4; i++) idle.push(await connected(gateway));
  await expectCounts(gateway, 4, 'connections', 0, 0);
  const more = [await connected(gateway, '127.0.0.2'), await connected(gateway, '127.0.0.2')];
  await expectCounts(gateway, 4, 'connections', 0, 2);
  await eventually(() => expect(idle.filter((socket) => socket.closed)).toHaveLength(2));
  for (const socket of [...idle, ...more]) socket.destroy();
});

// Attack: half a head on each of many connections, and then silence; all others wait for the thread that waits for it.
test('many connections with half a head each take nothing from a client that sends a whole one (reliability 61)', async () => {
  const gateway = await openGateway({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const slow = Array.from({ length: 200 }, () => createConnection(gateway.port, '127.0.0.1'));
  for (const socket of slow) {
    socket.on('error', () => {});
    socket.resume();
    socket.write('GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-');
  }
  let ended = 0;
  for (const socket of slow) socket.on('end', () => ended++);
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  // Before any of them is cut.
  expect(ended).toBe(0);
  for (const socket of slow) socket.destroy();
});

// Attack: connect and never send a byte. No request has begun, so that a deadline for requests would never end it.
test('connections that never send anything are closed at headersTimeout, and those that rest at idleTimeout (reliability 64)', async () => {
  const before = upstream.requests.length;
  const [HEAD_MS, IDLE_MS] = [paced(700), paced(1_200)];
  const gateway = await openGateway({
    upstream: upstream.origin,
    listen: { headersTimeout: `${HEAD_MS}ms`, idleTimeout: `${IDLE_MS}ms` },
  });
  const { key } = await gateway.createKey('free');
  const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const lifeMs = async (first: string) => {
    const beganAtMs = performance.now();
    const { closed } = await rawExchange(gateway.port, first, { until: 'closed', withinMs: 5_000 });
    expect(closed).toBe(true);
    return performance.now() - beganAtMs;
  };
  const [silent, resting] = await Promise.all([
    Promise.all(Array.from({ length: 50 }, () => lifeMs(''))),
    Promise.all(Array.from({ length: 5 }, () => lifeMs(bytes))),
  ]);
  expect(Math.min(...silent)).toBeGreaterThan(HEAD_MS - 50);
  expect(Math.max(...silent)).toBeLessThan(HEAD_MS + LATE_MS);
  expect(Math.min(...resting)).toBeGreaterThan(IDLE_MS - 50);
  expect(Math.max(...resting)).toBeLessThan(IDLE_MS + LATE_MS);
  expect(upstream.requests).toHaveLength(before + 5);
});

// Attack: what makes an open WebSocket look idle, so that others are the first to lose theirs.
test('an open WebSocket, and one that is still asked for, make no room', async () => {
  const echo = await startWebSocketUpstream();
  const gateway = await openGateway({
    upstream: echo.origin,
    routes: WEBSOCKET_ROUTES,
    listen: { maxConnections: 3 },
  });
  const { key } = await gateway.createKey('endless');
  const { socket } = await openWebSocket(gateway, key);
  const idle = [await connected(gateway), await connected(gateway)];
  await expectCounts(gateway, 3, 'connections', 0, 0);
  const more = [await connected(gateway), await connected(gateway)];
  await closed(idle[0]!);
  await closed(idle[1]!);
  await expectCounts(gateway, 3, 'connections', 0, 2);
  socket.send('still here');
  expect(String((await once(socket, 'message'))[0])).toBe('still here');
  socket.terminate();
  for (const one of more) one.destroy();
});

// Attack: an address that has all that it may have connects again and again, and others lose their idle connections.
test('an address at its limit makes room itself, and takes none from others', async () => {
  const gateway = await openGateway({
    upstream: upstream.origin,
    listen: { maxConnections: 4, maxConnectionsPerAddress: 2 },
  });
  const others = [await connected(gateway, '127.0.0.2'), await connected(gateway, '127.0.0.2')];
  const mine = [await connected(gateway), await connected(gateway)];
  await expectCounts(gateway, 4, 'address', 0, 0);
  for (let i = 0; i < 5; i++) mine.push(await connected(gateway));
  await expectCounts(gateway, 4, 'address', 0, 5);
  expect(others.map(({ closed }) => closed)).toEqual([false, false]);
  for (const socket of [...others, ...mine]) socket.destroy();
});
