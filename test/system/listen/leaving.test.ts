import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openGateway, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { privateRedis } from '../../support/redis.ts';
import { startUpstream, type Upstream } from '../../support/upstream.ts';

// Clients that go away, in every way there is. What they began is broken off and never completed, their requests are
// logged as 499 and as no fault of anybody, and nothing stays behind. A client that closes its half is gone too: it is
// told by the same bytes as one that crashed.

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  // It answers nothing but whole uploads to ?alive, so that all others are cut while they wait.
  upstream = await startUpstream(async (request, response, { whole }) => {
    if ((await whole) && request.url?.includes('alive')) response.end('{}');
  });
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

async function connected(to = gateway): Promise<Socket> {
  const socket = createConnection({ port: to.port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  socket.resume();
  await once(socket, 'connect');
  return socket;
}

const head = (id: string, fields = '', own = key, method = 'POST') =>
  `${method} /v1/pets?${id} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\nX-Request-Id: ${id}\r\n${fields}\r\n`;

/** Status and code in the access log of a request, once it has ended. */
const logged = (id: string, of = gateway) =>
  eventually(() => {
    const lines = of.process.stdout.split('\n').filter((line) => line.includes(`"requestId":"${id}"`));
    expect(lines, id).toHaveLength(1);
    const { status, code } = JSON.parse(lines[0]!) as { status: number; code: string | null };
    return [status, code];
  });

const expectInFlight = (requests: number, forwarded: number, of = gateway) =>
  eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${of.adminPort}/metrics`)).text();
    expect(/^tollgate_in_flight (\d+)$/m.exec(metrics)?.[1]).toBe(String(requests));
    expect(/^tollgate_upstream_in_flight\{upstream="store"\} (\d+)$/m.exec(metrics)?.[1]).toBe(String(forwarded));
  });
const expectNothingLeft = (of = gateway) => expectInFlight(0, 0, of);

const LEAVE = ['end', 'destroy', 'resetAndDestroy'] as const;
const BODIES = [
  ['before a sized body', 'Content-Length: 9\r\n', ''],
  ['in a sized body', 'Content-Length: 9\r\n', 'half'],
  ['before chunks', 'Transfer-Encoding: chunked\r\n', ''],
  ['in the size of a chunk', 'Transfer-Encoding: chunked\r\n', '4\r\nhalf\r\n4'],
  ['in an extension', 'Transfer-Encoding: chunked\r\n', '4\r\nhalf\r\n4;a="'],
  ['in a chunk', 'Transfer-Encoding: chunked\r\n', '4\r\nhalf\r\n4\r\nha'],
  ['behind a chunk', 'Transfer-Encoding: chunked\r\n', '4\r\nhalf\r\n'],
  ['before the last line end', 'Transfer-Encoding: chunked\r\n', '4\r\nhalf\r\n0\r\n'],
  ['in the trailers', 'Transfer-Encoding: chunked\r\n', '4\r\nhalf\r\n0\r\nX-A: b'],
  ['after 100 Continue', 'Expect: 100-continue\r\nContent-Length: 9\r\n', 'h'],
] as const;

// The attack: an upload that is cut short is passed on as a whole one, so half an order becomes an order.
describe.each(BODIES)('A client that leaves %s (reliability 92)', (what, fields, body) => {
  test.each(LEAVE)('by %s, at once or later: 499, and the upstream never has the request whole', async (leave) => {
    for (const when of ['at-once', 'later']) {
      const id = `${what.replaceAll(' ', '-')}-${leave}-${when}`;
      const socket = await connected();
      socket.write(head(id, fields) + body);
      // Before the first byte of its body it takes no connection to the upstream.
      if (when === 'later') await expectInFlight(1, body === '' ? 0 : 1);
      socket[leave]();
      if (leave === 'end' || when === 'later') expect(await logged(id)).toEqual([499, null]);
      for (const request of upstream.requests.filter(({ url }) => url.endsWith(id)))
        expect(await request.whole).toBe(false);
    }
    await expectNothingLeft();
  });
});

test('A half-closed client with several requests: none of those behind is sent, nothing stays (reliability 94)', async () => {
  const socket = await connected();
  socket.end(['piped-1', 'piped-2', 'piped-3'].map((id) => head(id, '', key, 'GET')).join(''));
  expect(await logged('piped-1')).toEqual([499, null]);
  await expectNothingLeft();
  expect(upstream.requests.map(({ url }) => url).filter((url) => /piped-[23]/.test(url))).toEqual([]);
});

test.each(['', 'GET', 'GET /v1/pets HTTP/1.1\r\nHo', '\r\n'])(
  'A client that sends %j and closes its half keeps no connection (reliability 94)',
  async (bytes) => {
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed', halfClose: true });
    expect(closed).toBe(true);
    for (const { status } of responses) expect(status).toBe(400);
  },
);

test('A storm of clients that reset at every stage ends nothing, and leaves nothing (reliability 95)', async () => {
  const upload = head('storm', 'Content-Length: 9\r\n');
  const stages = ['', 'GE', upload, `${upload}half`, head('storm', '', key, 'GET')];
  const sockets = await Promise.all(Array.from({ length: 200 }, () => connected()));
  sockets.forEach((socket, i) => {
    const bytes = stages[i % stages.length]!;
    if (bytes === '') socket.resetAndDestroy();
    else socket.write(bytes, () => socket.resetAndDestroy());
  });
  await expectNothingLeft();
  await eventually(() => expect(upstream.open).toBeLessThanOrEqual(1));
  expect((await gateway.get('/v1/pets?alive', key, { headers: { 'X-Request-Id': 'alive' } })).status).toBe(200);
  // The lines of those that left come before this one.
  await gateway.process.until(/"requestId":"alive"/);
  expect(gateway.process.stdout + gateway.process.stderr).not.toMatch(/a defect|uncaught/i);
});

// The attack: clients that leave while Redis is asked would each leave a request to the upstream behind, with nobody to
// read its answer, until all its connections are taken.
test.each(LEAVE)(
  'A client that leaves (%s) while Redis is asked: its request is never sent (reliability 91)',
  async (leave) => {
    const redis = await privateRedis();
    const slow = await openGateway({
      upstream: upstream.origin,
      env: { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper of sixteen' },
      more: 'redis: { timeout: 5s }',
    });
    const own = (await slow.createKey('free')).key;
    await redis.pause();
    const socket = await connected(slow);
    const id = `asking-${leave}`;
    socket.write(head(id, '', own, 'GET'));
    await expectInFlight(1, 0, slow);
    socket[leave]();
    await once(socket, 'close');
    await redis.resume();
    expect(await logged(id, slow)).toEqual([499, null]);
    await expectNothingLeft(slow);
    expect(upstream.requests.filter(({ url }) => url.includes(id))).toEqual([]);
  },
);

// The store may have counted it; nothing is wrong with its key, and no operator should look for a failed authentication.
test('A request that breaks off while its admission is asked for is logged as undecided, under its own name', async () => {
  const redis = await privateRedis();
  const start = () =>
    openGateway({
      upstream: upstream.origin,
      env: { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper of sixteen' },
      more: 'redis: { timeout: 5s }',
    });
  const { key: own, id: consumerId } = await (await start()).createKey('free');
  // Begun later, so that it is not told that the key is new. It asks for every key again once it has subscribed to changes:
  // until then the request may break off while its key is looked up, and is tried again.
  const slow = await start();
  const breakOff = async (id: string) => {
    await slow.get('/usage', own);
    await redis.pause();
    const socket = await connected(slow);
    socket.write(head(id, 'Transfer-Encoding: chunked\r\n', own));
    await expectInFlight(1, 0, slow);
    socket.write('zz\r\n');
    expect(await logged(id, slow)).toEqual([400, 'invalid_request']);
    await redis.resume();
    await expectNothingLeft(slow);
    const line = slow.process.stdout.split('\n').find((it) => it.includes(`"requestId":"${id}"`))!;
    return JSON.parse(line) as Record<string, unknown>;
  };
  let attempts = 0;
  await eventually(async () =>
    expect(await breakOff(`broken-${attempts++}`)).toMatchObject({ judgement: 'undecided', consumerId }),
  );
});
