import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { accessLines } from '../../support/encrypted.ts';
import { freePort } from '../../support/free-port.ts';
import { openGateway, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { LATE_MS, paced } from '../../support/room.ts';
import { stopwatch } from '../../support/stopwatch.ts';
import { type RawRequest, startRawUpstream } from '../../support/upstream.ts';
import { HANDSHAKE, metric } from '../../support/web-sockets.ts';

// `retries` of a route, between real sockets. Both targets of an upstream act by one script, a step for each request.

type Step = (socket: Socket) => unknown;

const say =
  (status: number, body = '', fields = '') =>
  (socket: Socket) =>
    socket.write(`HTTP/1.1 ${status} Any\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`);
const hang: Step = () => {};
const OK = say(200, 'ok');

interface Seen extends RawRequest {
  /** 0 or 1. */
  readonly target: number;
  readonly line: string;
  /** All bytes that had arrived with the head. */
  readonly text: string;
}

interface Setting {
  readonly retries?: string;
  /** Further members of the route. */
  readonly route?: string;
  readonly upstreamSettings?: Readonly<Record<string, string | number>>;
  readonly targets?: 1 | 2;
}

/** A gateway before targets that answer the n-th request by the n-th step, and all further ones by the last step. */
async function start(script: readonly Step[], setting: Setting = {}) {
  const { retries = '{}', route = '', upstreamSettings = {}, targets = 2 } = setting;
  const seen: Seen[] = [];
  const upstreams = await Promise.all(
    Array.from({ length: targets }, (_, target) =>
      startRawUpstream((socket, bytes, which) => {
        const text = bytes.toString('latin1');
        seen.push({ ...which, target, line: text.split('\r\n')[0]!, text });
        if (which.request === 1) socket.on('error', () => {});
        script[Math.min(seen.length, script.length) - 1]!(socket);
      }),
    ),
  );
  const gateway = await openGateway({
    upstream: upstreams.map(({ origin }) => origin).join(', '),
    upstreamSettings,
    routes: `\n  - { path: /a, methods: [GET, HEAD, OPTIONS, QUERY, PUT, DELETE, POST], upstream: store, retries: ${retries}${route} }`,
  });
  const { key } = await gateway.createKey('free');
  const ask = async (init: RequestInit = {}) => {
    const answer = await gateway.get('/a', key, init);
    return { status: answer.status, headers: answer.headers, body: await answer.text() };
  };
  const head = (method: string, fields = '') =>
    `${method} /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}`;
  return { gateway, key, ask, head, seen, upstreams };
}

/** The retries that were counted, by outcome; those with none are left out. */
async function retriesOf(gateway: TestGateway): Promise<Record<string, number>> {
  const counted: Record<string, number> = {};
  for (const outcome of ['answered', 'failed', 'abandoned', 'over_budget']) {
    const count = await metric(gateway, `tollgate_upstream_retries_total{upstream="store",outcome="${outcome}"}`);
    if (count > 0) counted[outcome] = count;
  }
  return counted;
}

const lastLine = (gateway: TestGateway) => eventually(() => accessLines(gateway).at(-1) ?? expect.fail('no line'));

describe('a request whose first attempt fails', () => {
  test('gets the answer of another target, and counts once: GET, HEAD, OPTIONS, QUERY, PUT and DELETE (reliability 182)', async () => {
    const methods = ['GET', 'HEAD', 'OPTIONS', 'QUERY', 'PUT', 'DELETE'];
    const { gateway, ask, seen } = await start(methods.flatMap(() => [say(503), OK]));
    for (const [i, method] of methods.entries()) {
      const { status, headers } = await ask({ method });
      expect({ status, remaining: headers.get('x-ratelimit-remaining') }).toEqual({
        status: 200,
        remaining: `${59 - i}`,
      });
      const [first, second] = seen.slice(2 * i);
      expect([first!.line, second!.line]).toEqual([`${method} /a HTTP/1.1`, `${method} /a HTTP/1.1`]);
      expect(first!.target).not.toBe(second!.target);
    }
    expect(seen).toHaveLength(12);
    expect(await retriesOf(gateway)).toEqual({ answered: 6 });
    expect(await lastLine(gateway)).toMatchObject({ status: 200, attempts: 2, target: expect.any(String) });
  });

  test('is never sent again if it is a POST (reliability 182)', async () => {
    const { gateway, ask, seen } = await start([say(503, 'busy'), OK]);
    expect(await ask({ method: 'POST', body: '{}' })).toMatchObject({ status: 503, body: 'busy' });
    expect(seen).toHaveLength(1);
    expect(await lastLine(gateway)).not.toHaveProperty('attempts');
  });

  test('gets the answer of the last attempt unchanged, and nothing of those before', async () => {
    const first = say(502, 'the first', 'X-First: 1\r\n');
    const { gateway, ask, seen } = await start([first, first, say(503, 'the last', 'Retry-After: 7\r\n')], {
      retries: '{ attempts: 3 }',
    });
    const { status, headers, body } = await ask();
    expect({ status, body, retryAfter: headers.get('retry-after') }).toEqual({
      status: 503,
      body: 'the last',
      retryAfter: '7',
    });
    expect(headers.has('x-first')).toBe(false);
    expect(seen).toHaveLength(3);
    expect(await retriesOf(gateway)).toEqual({ failed: 2 });
  });

  test('an answer with a status that is not listed is the answer', async () => {
    const { ask, seen } = await start([say(500, 'broken'), OK]);
    expect(await ask()).toMatchObject({ status: 500, body: 'broken' });
    expect(seen).toHaveLength(1);
  });

  test('every failed attempt counts against its target, which is left out after three in a row (reliability 181)', async () => {
    const { gateway, ask, upstreams } = await start([say(503), OK, say(503), OK, say(503), OK]);
    for (let i = 0; i < 3; i++) expect((await ask()).status).toBe(200);
    expect(upstreams).toHaveLength(2);
    await gateway.process.until(/"cause":"answered 503","msg":"left out"/);
  });
});

describe('a first attempt that is hostile (reliability 183)', () => {
  const endless = (socket: Socket) => {
    const write = () => {
      if (!socket.destroyed) socket.write(Buffer.alloc(65_536), () => setImmediate(write));
    };
    socket.write('HTTP/1.1 503 Any\r\n\r\n');
    write();
  };
  test.each<[string, Step]>([
    ['half a head, then its end', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le')],
    ['a reset', (socket) => socket.resetAndDestroy()],
    ['bytes that are no HTTP', (socket) => socket.write('SSH-2.0-x\r\n\r\n')],
    ['a 503 with an endless body', endless],
    ['a 503 whose body stops', (socket) => socket.write('HTTP/1.1 503 Any\r\nContent-Length: 9\r\n\r\nno')],
    [
      'a 503 with chunks that are none',
      (socket) => socket.write('HTTP/1.1 503 Any\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'),
    ],
    [
      'a 503 with an answer behind it',
      (socket) => socket.write('HTTP/1.1 503 Any\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n'),
    ],
    ['no head in time', hang],
    ['interim answers and no head', (socket) => socket.write('HTTP/1.1 102 Processing\r\n\r\n')],
  ])('%s: the client gets the second, and the first connection is closed', async (_what, step) => {
    const { ask, seen, upstreams } = await start([step, OK], { retries: `{ attemptTimeout: ${paced(300)}ms }` });
    expect(await ask()).toMatchObject({ status: 200, body: 'ok' });
    expect(seen).toHaveLength(2);
    await eventually(() => expect(upstreams[seen[0]!.target]!.open).toBe(0));
    // Nothing of the first is left to be taken for the answer to another request.
    expect(await ask()).toMatchObject({ status: 200, body: 'ok' });
  });

  test('a dropped response that arrived whole leaves its connection to the next attempt', async () => {
    const { ask, upstreams } = await start([say(503, 'busy'), OK], { targets: 1 });
    expect(await ask()).toMatchObject({ status: 200, body: 'ok' });
    expect(upstreams[0]!.connections).toBe(1);
  });

  test('early hints that have reached the client end the retries (reliability 182)', async () => {
    const hints = (socket: Socket) =>
      socket.write(
        'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 503 Any\r\nContent-Length: 0\r\n\r\n',
      );
    const { gateway, head, seen } = await start([hints, OK]);
    const { responses } = await rawExchange(gateway.port, head('GET', 'Sec-Fetch-Mode: navigate\r\n\r\n'));
    expect(responses.map(({ status }) => status)).toEqual([103, 503]);
    expect(seen).toHaveLength(1);
  });
});

test('the only target is tried again, also if it cannot be connected to', async () => {
  const port = await freePort();
  const gateway = await openGateway({
    upstream: `http://127.0.0.1:${port}`,
    routes: '\n  - { path: /a, methods: [GET], upstream: store, retries: { attempts: 3 } }',
  });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/a', key)).status).toBe(502);
  expect(await lastLine(gateway)).toMatchObject({ status: 502, attempts: 3 });
});

describe('a body', () => {
  test('that the gateway has whole is sent whole again', async () => {
    const { gateway, head, seen } = await start([say(503), OK]);
    const { responses } = await rawExchange(gateway.port, head('PUT', 'Content-Length: 5\r\n\r\nhello'));
    expect(responses[0]?.status).toBe(200);
    expect(seen.map(({ text }) => text.split('\r\n\r\n')[1])).toEqual(['hello', 'hello']);
  });

  test('that is forwarded as it arrives is not sent again (reliability 182)', async () => {
    const { gateway, head, seen } = await start([say(503, 'busy'), OK]);
    const parts = [head('PUT', 'Content-Length: 5\r\n\r\nhe'), () => seen.length > 0, 'llo'];
    const { responses } = await rawExchange(gateway.port, parts);
    expect(responses[0]?.status).toBe(503);
    expect(seen).toHaveLength(1);
  });
});

describe('the deadline for the head of the response (reliability 183)', () => {
  test('is one for all attempts', async () => {
    const { ask, seen } = await start([hang], {
      retries: '{ attempts: 5, attemptTimeout: 400ms }',
      upstreamSettings: { responseTimeout: '1s' },
    });
    const took = stopwatch();
    expect((await ask()).status).toBe(504);
    const ms = took();
    expect(ms).toBeGreaterThan(980);
    expect(ms).toBeLessThan(1_000 + LATE_MS);
    // The fourth would begin after 1.2 s at the earliest.
    expect([2, 3]).toContain(seen.length);
  });

  test('ends with each attempt after attemptTimeout, also the last', async () => {
    const { ask, seen } = await start([hang], { retries: '{ attemptTimeout: 300ms }' });
    const took = stopwatch();
    expect((await ask()).status).toBe(504);
    expect(took()).toBeLessThan(2 * 300 + LATE_MS);
    expect(seen).toHaveLength(2);
  });

  test('begins with the first attempt, however late that fails', async () => {
    const late = (socket: Socket) => setTimeout(() => say(503)(socket), 600);
    const { gateway, ask, seen } = await start([late, hang], { upstreamSettings: { responseTimeout: '1500ms' } });
    const took = stopwatch();
    expect((await ask()).status).toBe(504);
    expect(took()).toBeLessThan(1_500 + LATE_MS);
    expect(seen).toHaveLength(2);
    const { cause } = await lastLine(gateway);
    const [, leftMs] = /^no head within (\d+) ms$/.exec(String(cause)) ?? expect.fail(String(cause));
    expect(Number(leftMs)).toBeLessThanOrEqual(900);
  });
});

describe('a client that leaves (reliability 183)', () => {
  test.each([
    ['during the first attempt: there is no second', 1, {}],
    ['during the second: there is no third', 2, { abandoned: 1 }],
  ])('%s', async (_what, attempts, counted) => {
    const script = Array.from({ length: attempts }, (_, i) => (i === attempts - 1 ? hang : say(503)));
    const { gateway, head, seen, upstreams } = await start([...script, OK], {
      retries: '{ attempts: 4, attemptTimeout: 1s }',
    });
    const client = createConnection(gateway.port, '127.0.0.1');
    await once(client, 'connect');
    client.write(head('GET', '\r\n'));
    await eventually(() => expect(seen).toHaveLength(attempts));
    client.destroy();
    expect(await lastLine(gateway)).toMatchObject({ status: 499 });
    await eventually(() => expect(upstreams[seen.at(-1)!.target]!.open).toBe(0));
    // Another request does not find an attempt under way.
    expect(seen).toHaveLength(attempts);
    expect(await metric(gateway, 'tollgate_upstream_in_flight{upstream="store"}')).toBe(0);
    expect(await retriesOf(gateway)).toEqual(counted);
  });
});

describe('a service that is ill (reliability 181)', () => {
  test('is hit by at most ten retries of one key in ten seconds while there are few requests', async () => {
    const { gateway, ask, seen } = await start([say(503, 'ill')], { retries: '{ attempts: 5 }' });
    const took = stopwatch();
    for (let i = 0; i < 30; i++) expect(await ask()).toMatchObject({ status: 503, body: 'ill' });
    // On a machine that is held up for longer, the budget has begun anew.
    expect(seen.length).toBeLessThanOrEqual(30 + 10 * Math.ceil(took() / 10_000));
    expect(seen.length).toBeGreaterThanOrEqual(40);
    const { failed, over_budget } = await retriesOf(gateway);
    expect({ failed, isOver: over_budget! >= 20 }).toEqual({ failed: seen.length - 30, isOver: true });
    const lines = await eventually(() => {
      const all = accessLines(gateway);
      expect(all).toHaveLength(30);
      return all;
    });
    expect(lines[0]).toMatchObject({ status: 503, attempts: 5 });
    expect(lines.filter(({ retry }) => retry === 'over_budget')).toHaveLength(over_budget!);
    expect(lines[0]).not.toHaveProperty('retry');
  });

  test('has a retry take the place of its request: none waits for it, and it waits for none', async () => {
    const { ask, seen } = await start([say(503), OK], {
      upstreamSettings: { maxConnections: 1, fairShare: 1 },
      targets: 1,
    });
    const both = await Promise.all([ask(), ask({ method: 'DELETE' })]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect(seen[0]!.line).toBe(seen[1]!.line);
  });
});

test('an upgrade is never tried again (reliability 182)', async () => {
  const { gateway, head, seen } = await start([say(503, 'busy'), OK], { route: ', websocket: true' });
  const { responses } = await rawExchange(gateway.port, head('GET', `${HANDSHAKE}\r\n`));
  expect(responses[0]?.status).toBe(503);
  expect(seen).toHaveLength(1);
});

test('a gateway that is told to stop finishes the attempts first', async () => {
  const { gateway, ask, seen } = await start([hang, OK], { retries: '{ attemptTimeout: 500ms }' });
  const answer = ask();
  await eventually(() => expect(seen).toHaveLength(1));
  const stopped = gateway.process.stop();
  expect(await answer).toMatchObject({ status: 200, body: 'ok' });
  expect(seen).toHaveLength(2);
  await stopped;
});
