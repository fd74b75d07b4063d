import type { ServerResponse } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { type GatewaySetup, openGateway, PLANS, ROUTES, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { paced } from '../../support/room.ts';
import { type RecordedRequest, startUpstream, type UpstreamHandler } from '../../support/upstream.ts';

/**
 * One key, or one address, wants everything of an upstream. It gets a share, and all others are served beside it. The
 * sizes of the two attacks are those that once kept all others waiting for up to 48 s (reliability 150).
 */

interface Client {
  readonly socket: Socket;
  /** What it has been answered. */
  readonly text: string;
}

/** Sends bytes on a connection that stays open. */
function send(gateway: TestGateway, bytes: string): Client {
  const socket = createConnection({ port: gateway.port, host: '127.0.0.1', noDelay: true });
  atEnd(() => socket.destroy());
  const client = { socket, text: '' };
  socket.setEncoding('latin1').on('data', (text: string) => {
    client.text += text;
  });
  socket.on('error', () => {});
  socket.write(bytes);
  return client;
}

const get = (path: string, key: string, fields = '') =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`;
const post = (path: string, key: string, fields: string) => get(path, key, fields).replace('GET', 'POST');

const statuses = (clients: readonly Client[]) => clients.map(({ text }) => text.slice('HTTP/1.1 '.length, 12));
const answered = (clients: readonly Client[], status: number) =>
  statuses(clients).filter((it) => it === String(status)).length;

const metric = async ({ adminPort }: TestGateway, name: string) => {
  const metrics = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return Number(
    metrics
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length + 1) ?? 0,
  );
};
const inFlight = (gateway: TestGateway) => metric(gateway, 'tollgate_in_flight');
const atUpstream = (gateway: TestGateway) => metric(gateway, 'tollgate_upstream_in_flight{upstream="store"}');

/** An upstream that holds what asks for `hold`, until it is let go, and answers everything else at once. */
async function startHolding(setup: Omit<GatewaySetup, 'upstream'> = {}, other: UpstreamHandler = answerWhole) {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((request, response, recorded) => {
    if (request.url?.includes('hold')) held.push(response);
    else return other(request, response, recorded);
  });
  const gateway = await openGateway({ ...setup, upstream: upstream.origin });
  return { upstream, gateway, held };
}

async function answerWhole(_: unknown, response: ServerResponse, { whole }: RecordedRequest): Promise<void> {
  if (await whole) response.end('{}');
}

describe('One key before an upstream with the usual settings', () => {
  let it: Awaited<ReturnType<typeof startHolding>>;
  let attacker: string;
  let healthy: string;

  beforeAll(async () => {
    it = await startHolding();
    attacker = (await it.gateway.createKey('endless')).key;
    healthy = (await it.gateway.createKey('endless')).key;
  });

  test('with 290 uploads of which only the head has come takes no connection of the upstream (reliability 150)', async () => {
    const { gateway, upstream } = it;
    const uploads = Array.from({ length: 290 }, () =>
      send(gateway, post('/v1/pets', attacker, 'Expect: 100-continue\r\nContent-Length: 4\r\n')),
    );
    // All have passed admission: they are asked for their bodies.
    await eventually(() => expect(answered(uploads, 100)).toBe(290), { withinMs: 10_000 });
    expect([await inFlight(gateway), await atUpstream(gateway), upstream.connections]).toEqual([290, 0, 0]);
    for (let i = 0; i < 20; i++) expect((await gateway.get('/v1/pets', healthy)).status).toBe(200);
    expect(upstream.requests).toHaveLength(20);
    // They were not refused, only kept waiting for themselves.
    for (const { socket } of uploads) socket.write('body');
    await eventually(() => expect(uploads.filter(({ text }) => text.includes('HTTP/1.1 200')).length).toBe(290), {
      withinMs: 10_000,
    });
    expect(
      upstream.requests.filter(({ method, body }) => method === 'POST' && body.toString() === 'body'),
    ).toHaveLength(290);
  });

  test('with 900 slow requests has a quarter of the connections, and others are served as if it were not there (reliability 150)', async () => {
    const { gateway, upstream, held } = it;
    const slow = Array.from({ length: 900 }, (_, i) => send(gateway, get(`/v1/pets?hold=${i}`, attacker)));
    await eventually(() => expect(answered(slow, 429)).toBe(900 - (256 + 1_024) / 4), { withinMs: 10_000 });
    await eventually(() => expect(held).toHaveLength(256 / 4));
    for (let i = 0; i < 20; i++) expect((await gateway.get('/v1/pets', healthy)).status).toBe(200);
    expect(held).toHaveLength(256 / 4);
    expect(await atUpstream(gateway)).toBe(320);
    // What waits is served as the attacker's own requests end.
    await eventually(() => {
      for (const response of held.splice(0)) response.end('{}');
      expect(answered(slow, 200)).toBe(320);
    });
    expect(upstream.requests.filter(({ url }) => url.includes('hold'))).toHaveLength(320);
    expect(await inFlight(gateway)).toBe(0);
  });
});

describe('One key', () => {
  test('with many requests waiting does not have the next connection: it goes to each key in turn', async () => {
    const { gateway, upstream, held } = await startHolding({
      upstreamSettings: { maxConnections: 1, maxQueue: 20, fairShare: 0.5 },
    });
    const keys = await Promise.all(['a', 'b', 'c'].map(() => gateway.createKey('endless')));
    const [a, b, c] = keys.map(({ key }) => key) as [string, string, string];
    const order = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'];
    const clients: Client[] = [];
    for (const [i, name] of order.entries()) {
      clients.push(send(gateway, get(`/v1/pets?hold&${name}`, { a, b, c }[name[0] as 'a' | 'b' | 'c'])));
      await eventually(async () => expect(await atUpstream(gateway)).toBe(i + 1));
    }
    for (let served = 1; served <= order.length; served++) {
      await eventually(() => expect(held).toHaveLength(1));
      held.shift()?.end('{}');
    }
    await eventually(() => expect(answered(clients, 200)).toBe(order.length));
    const names = upstream.requests.map(({ url }) => url.slice(-2));
    expect(names).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  });

  test('has its whole share again when its requests have ended, in whatever way', async () => {
    const { gateway, held } = await startHolding(
      {
        plans: PLANS.replace('minute: 3,', 'minute: 1,'),
        // Two connections and two places in the queue for each key.
        upstreamSettings: {
          maxConnections: 8,
          maxQueue: 8,
          responseTimeout: `${paced(400)}ms`,
          bodyTimeout: `${paced(400)}ms`,
        },
        listen: { requestTimeout: `${paced(700)}ms`, headersTimeout: `${paced(700)}ms`, maxBodyBytes: 1_000 },
        routes: `${ROUTES}  - { path: /ws, methods: [GET], upstream: store, websocket: true }\n`,
      },
      async (request, response, { whole }) => {
        const { url = '' } = request;
        if (url.includes('reset')) request.socket.resetAndDestroy();
        else if (url.includes('cut'))
          response.writeHead(200, { 'content-length': 9 }).write('half', () => response.destroy());
        else if (url.includes('stall')) response.writeHead(200, { 'content-length': 9 }).write('half');
        else if (url.includes('early')) response.writeHead(403, { connection: 'close' }).end('{}');
        else if (await whole) response.end('{}');
      },
    );
    const { key } = await gateway.createKey('endless');
    const ask = async (bytes: string, methods: string[] = ['GET']) => {
      const { responses } = await rawExchange(gateway.port, bytes, { until: 'closed', withinMs: 3_000, methods });
      return responses.at(-1)?.status ?? 0;
    };
    const close = 'Connection: close\r\n';
    const chunked = `Transfer-Encoding: chunked\r\n${close}`;
    const ways: readonly (readonly [bytes: string, status: number])[] = [
      [get('/v1/pets', key, close), 200],
      [get('/v1/pets', key, close).replace('GET', 'HEAD'), 200],
      [`${post('/v1/pets', key, chunked)}0\r\n\r\n`, 200],
      [`${post('/v1/pets?early', key, chunked)}1\r\na\r\n`, 403],
      [get('/v1/none', key, close), 404],
      [get('/v1/pets', key, close).replace('GET', 'PUT'), 405],
      [get('/v1/gone', key, close), 410],
      [get('/usage', key, close), 200],
      [post('/v1/pets', key, 'Content-Length: 4\r\n'), 408],
      [`${post('/v1/pets', key, 'Content-Length: 4\r\n')}ha`, 408],
      [`${post('/v1/pets', key, chunked)}zz\r\n`, 400],
      [`${post('/v1/pets', key, chunked)}4\r\nhalf\r\nzz\r\n`, 400],
      [post('/v1/pets', key, 'Content-Length: 9999\r\n'), 413],
      [`${post('/v1/pets', key, chunked)}3e9\r\n${'a'.repeat(1_001)}\r\n0\r\n\r\n`, 413],
      [post('/v1/pets', key, 'Expect: something\r\nContent-Length: 4\r\n'), 417],
      [get('/v1/pets?reset', key, close), 502],
      [get('/v1/pets?cut', key, close), 200],
      [get('/v1/pets?stall', key, close), 200],
      [get('/v1/pets?hold', key, close), 504],
      [
        get(
          '/ws',
          key,
          `Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${'A'.repeat(22)}==\r\n`,
        ),
        200,
      ],
    ];
    for (const [bytes, status] of ways)
      expect([bytes, await ask(bytes, [bytes.split(' ')[0]!])]).toEqual([bytes, status]);
    // Clients that leave: before the body, in the body, before the answer, in the answer, in the queue.
    const leavers = [
      post('/v1/pets', key, 'Content-Length: 4\r\n'),
      `${post('/v1/pets', key, 'Content-Length: 4\r\n')}ha`,
      get('/v1/pets?hold', key),
      get('/v1/pets?stall', key),
    ];
    for (const bytes of leavers) {
      const { socket } = send(gateway, bytes);
      await eventually(async () => expect(await inFlight(gateway)).toBe(1));
      socket.destroy();
      await eventually(async () => expect(await inFlight(gateway)).toBe(0));
    }
    // The share as a whole, more than once: what is lost each time would show.
    for (let round = 0; round < 3; round++) {
      const all = [1, 2, 3, 4].map(() => send(gateway, get('/v1/pets?hold', key)));
      await eventually(async () => expect(await atUpstream(gateway)).toBe(4));
      const beyond = await gateway.get('/v1/pets', key);
      expect(await beyond.json()).toMatchObject({ code: 'too_many_in_flight' });
      for (const { socket } of all) socket.destroy();
      await eventually(async () => expect([await inFlight(gateway), await atUpstream(gateway)]).toEqual([0, 0]));
      held.length = 0;
    }
    // Refusals for the quota and under a ban, of the store and from memory: the share would be used up before the last.
    const { key: spent } = await gateway.createKey('small');
    for (let i = 0; i < 15; i++) await (await gateway.get('/v1/pets', spent)).text();
    const banned = await gateway.get('/v1/pets', spent);
    expect(await banned.json()).toMatchObject({ code: 'api_key_banned' });
    await gateway.process.stop();
    expect(gateway.process.stdout).not.toMatch(/a defect|uncaught/);
  });

  test('has no bound of its own with `fairShare: 1`, only those of all', async () => {
    const { gateway, held } = await startHolding({
      upstreamSettings: { maxConnections: 2, maxQueue: 2, fairShare: 1 },
    });
    const { key } = await gateway.createKey('endless');
    const slow = Array.from({ length: 4 }, () => send(gateway, get('/v1/pets?hold', key)));
    await eventually(async () => expect(await atUpstream(gateway)).toBe(4));
    await eventually(() => expect(held).toHaveLength(2));
    const beyond = await gateway.get('/v1/pets', key);
    expect([beyond.status, await beyond.json()]).toEqual([503, expect.objectContaining({ code: 'overloaded' })]);
    for (const { socket } of slow) socket.destroy();
  });
});

test('An address has one share of an upstream, not one for each route without keys', async () => {
  const { gateway } = await startHolding({
    upstreamSettings: { maxConnections: 4, maxQueue: 4 },
    listen: { trustedProxies: '[127.0.0.1]' },
    routes: ['/a', '/b', '/c']
      .map((path) => `\n  - { path: ${path}, methods: [GET], upstream: store, auth: none, limits: { minute: 100 } }`)
      .join(''),
  });
  const from = (address: string, path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${address}\r\n\r\n`;
  for (const [i, path] of ['/a?hold', '/b?hold'].entries()) {
    send(gateway, from('2001:db8::1', path));
    await eventually(async () => expect(await atUpstream(gateway)).toBe(i + 1));
  }
  const ask = async (address: string) => (await rawExchange(gateway.port, from(address, '/c'))).responses[0]?.status;
  expect(await ask('2001:db8::2')).toBe(429);
  expect(await ask('2001:db8:0:1::1')).toBe(200);
});
