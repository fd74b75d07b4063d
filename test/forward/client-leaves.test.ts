import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startDeafListener } from '../support/deaf-listener.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { privateRedis } from '../support/redis.ts';
import { startRawUpstream, startUpstream, type Upstream } from '../support/upstream.ts';
import { metric } from '../support/web-sockets.ts';

// A client that leaves takes its request with it: the upstream's connection is closed within a second, nothing stays in
// flight, and the log says 499.

const WITHIN = { withinMs: 1_000 };

let gateway: TestGateway;
let upstream: Upstream;
let key: string;
let held: ServerResponse[] = [];

beforeAll(async () => {
  upstream = await startUpstream((request, response) => {
    if (request.url?.includes('download')) {
      response.writeHead(200, { 'content-length': 1_000_000 });
      response.write('begun');
    }
    held.push(response);
  });
  gateway = await openGateway({
    upstream: upstream.origin,
    // One key is to have all of it.
    upstreamSettings: { maxConnections: 2, maxQueue: 1, fairShare: 1 },
  });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=1000', '--limit', 'day=1000'));
});

beforeEach(() => {
  held = [];
});

const send = async (line: string, fields = '', body = '') => {
  const socket = createConnection(gateway.port, '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(`${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n${body}`);
  return socket;
};

const inFlight = async ({ adminPort } = gateway) => {
  const metrics = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  const [, requests] = /^tollgate_in_flight (\d+)$/m.exec(metrics)!;
  const [, forwarded] = /^tollgate_upstream_in_flight\{upstream="store"\} (\d+)$/m.exec(metrics)!;
  return [Number(requests), Number(forwarded)];
};

/** Statuses in the access log of the requests for a path. */
const logged = (path: string) =>
  gateway.process.stdout
    .split('\n')
    .filter((line) => line.includes('"msg":"request"') && line.includes(`"path":"${path}"`))
    .map((line) => (JSON.parse(line) as { status: number }).status);

const expectGone = async (path: string) => {
  await eventually(async () => expect(await inFlight()).toEqual([0, 0]), WITHIN);
  await eventually(() => expect(upstream.open).toBe(0), WITHIN);
  await eventually(() => expect(logged(path)).toContain(499));
};

test.each(['destroy', 'resetAndDestroy', 'end'] as const)(
  'a client that leaves while it waits for an answer (%s) (reliability 93, 94)',
  async (leave) => {
    const path = `/v1/pets/waiting-${leave}`;
    const socket = await send(`GET ${path}`);
    await eventually(() => expect(held).toHaveLength(1));
    socket[leave]();
    await expectGone(path);
    expect(logged(path)).toEqual([499]);
  },
);

test('a client that leaves while it reads the answer (reliability 93)', async () => {
  const path = '/v1/pets/download';
  const socket = await send(`GET ${path}`);
  await once(socket, 'data');
  socket.destroy();
  await expectGone(path);
});

test('a client that leaves the queue gives its place back, and its request is never sent (reliability 91)', async () => {
  const waiting = [await send('GET /v1/pets/a'), await send('GET /v1/pets/b')];
  await eventually(() => expect(held).toHaveLength(2));
  const queued = await send('GET /v1/pets/queued');
  await eventually(async () => expect(await inFlight()).toEqual([3, 3]));
  // The queue is full.
  expect((await gateway.get('/v1/pets/c', key)).status).toBe(503);
  queued.destroy();
  await eventually(async () => expect(await inFlight()).toEqual([2, 2]), WITHIN);
  await eventually(() => expect(logged('/v1/pets/queued')).toEqual([499]));
  // The place is available again.
  const next = gateway.get('/v1/pets/next', key);
  await eventually(async () => expect(await inFlight()).toEqual([3, 3]));
  for (const response of held.splice(0)) response.end('{}');
  await eventually(() => expect(held).toHaveLength(1));
  held[0]?.end('{}');
  expect((await next).status).toBe(200);
  expect(upstream.requests.map(({ url }) => url)).not.toContain('/v1/pets/queued');
  for (const socket of waiting) socket.destroy();
  await eventually(async () => expect(await inFlight()).toEqual([0, 0]));
});

test('a request that a client left behind while its key was looked up is never sent (reliability 91)', async () => {
  const redis = await privateRedis();
  const answering = await startUpstream();
  const own = await openGateway({
    upstream: answering.origin,
    more: 'redis: { timeout: 60s }',
    env: { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that only the tests use' },
  });
  // Fresh keys, which the gateway has to look up.
  const [fresh, next] = [await own.createKey('free'), await own.createKey('free')];
  await redis.pause();
  const socket = createConnection(own.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(`GET /v1/pets/early HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${fresh.key}\r\n\r\n`);
  await eventually(async () => expect(await inFlight(own)).toEqual([1, 0]));
  socket.resetAndDestroy();
  await eventually(async () => expect(await metric(own, 'tollgate_connections')).toBe(0), WITHIN);
  await redis.resume();
  expect((await own.get('/v1/pets/next', next.key)).status).toBe(200);
  await eventually(async () => expect(await inFlight(own)).toEqual([0, 0]), WITHIN);
  expect(answering.requests.map(({ url }) => url)).toEqual(['/v1/pets/next']);
});

test('a client that resets its connection while the upstream has stopped reading its body is noticed within a second (reliability 92)', async () => {
  // The upstream reads the head and then nothing: what the client sends fills the buffers of the system and waits here.
  const stuck = await startRawUpstream((socket) => socket.pause());
  const own = await openGateway({ upstream: stuck.origin, listen: { maxBodyBytes: '64MiB' } });
  const { key: ownKey } = await own.createKey('enterprise', '--limit', 'minute=1000', '--limit', 'day=1000');
  const socket = createConnection(own.port, '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  const size = 32 * 1024 * 1024;
  socket.write(
    `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ownKey}\r\nContent-Length: ${size}\r\n\r\n`,
  );
  await eventually(async () => expect(await inFlight(own)).toEqual([1, 0]));
  // Until all buffers on the way are full: nothing moves from one look to the next, and the gateway takes some five times a second.
  socket.write(Buffer.alloc(size));
  let before = 0;
  await eventually(
    () => {
      const moved = before - socket.writableLength;
      before = socket.writableLength;
      return moved === 0;
    },
    { everyMs: 500 },
  );
  expect(before).toBeGreaterThan(0);
  socket.resetAndDestroy();
  await eventually(async () => expect(await inFlight(own)).toEqual([0, 0]), WITHIN);
});

test('a client that leaves while its upstream is being connected to gives its place back at once (reliability 93)', async () => {
  const own = await openGateway({
    upstream: `http://127.0.0.1:${await startDeafListener()}`,
    upstreamSettings: { maxConnections: 1, maxQueue: 0, connectTimeout: '20s' },
  });
  const { key: ownKey } = await own.createKey('free');
  const socket = createConnection(own.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ownKey}\r\n\r\n`);
  await eventually(async () => expect(await inFlight(own)).toEqual([1, 1]));
  socket.destroy();
  await eventually(async () => expect(await inFlight(own)).toEqual([0, 0]), WITHIN);
});
