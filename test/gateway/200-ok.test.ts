import { parseRateLimit } from 'ratelimit-header-parser';
import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS } from '../support/room.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

const ask = async (head: string, own = key, method = 'GET') => {
  const bytes = `${head}\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n\r\n`;
  const { responses, closed } = await rawExchange(gateway.port, bytes, {
    methods: [method],
    until: head.endsWith('1.0') ? 'closed' : 1,
  });
  return { answer: responses[0]!, closed };
};

test('an admitted request costs one in every window, and the client is told of the one with the fewest left', async () => {
  const { key: own } = await gateway.createKey('enterprise', '--limit', 'minute=50', '--limit', 'day=4');
  const { answer } = await ask('GET /v1/pets HTTP/1.1', own);
  expect(answer.status).toBe(200);
  expect(answer.header('x-ratelimit-limit')).toBe('4');
  expect(answer.header('x-ratelimit-remaining')).toBe('3');
  expect(answer.header('ratelimit-policy')).toBe('"minute";q=50;w=60, "day";q=4;w=86400');
  expect(answer.header('ratelimit')).toMatch(/^"minute";r=49;t=(60|59), "day";r=3;t=(86400|86399)$/);
});

test('of windows with equally few left the X- fields describe the one that resets last', async () => {
  const { key: own } = await gateway.createKey('enterprise', '--limit', 'minute=5', '--limit', 'day=5');
  const { answer } = await ask('GET /v1/pets HTTP/1.1', own);
  const inSeconds = Number(answer.header('x-ratelimit-reset')) - Date.now() / 1000;
  expect(inSeconds).toBeGreaterThan(86_390);
  expect(inSeconds).toBeLessThanOrEqual(86_401);
});

test('a library for the X- fields reads them as they are meant', async () => {
  const { answer } = await ask('GET /v1/pets HTTP/1.1');
  const own = answer.headers.filter(([name]) => name.startsWith('X-RateLimit-'));
  const told = parseRateLimit(new Headers(own.map(([name, value]) => [name, value])), { reset: 'unix' });
  expect(told?.limit).toBe(60);
  expect(told?.remaining).toBe(Number(answer.header('x-ratelimit-remaining')));
  const inSeconds = (Number(told?.reset) - Date.now()) / 1000;
  expect(inSeconds).toBeGreaterThan(0);
  expect(inSeconds).toBeLessThanOrEqual(61);
});

test('HEAD is served wherever GET is, counts, and its answer has no body', async () => {
  const before = Number((await ask('GET /v1/pets HTTP/1.1')).answer.header('x-ratelimit-remaining'));
  const { answer } = await ask('HEAD /v1/pets HTTP/1.1', key, 'HEAD');
  expect(answer.status).toBe(200);
  expect(answer.body).toHaveLength(0);
  expect(Number(answer.header('x-ratelimit-remaining'))).toBe(before - 1);
  expect(upstream.requests.at(-1)?.method).toBe('HEAD');
});

test('a refused HEAD has the fields of the refusal and no body (reliability 57)', async () => {
  const { answer } = await ask('HEAD /v1/none HTTP/1.1', key, 'HEAD');
  expect(answer.status).toBe(404);
  expect(Number(answer.header('content-length'))).toBeGreaterThan(0);
  expect(answer.body).toHaveLength(0);
});

test.each(['', 'Connection: keep-alive\r\n'])(
  'HTTP/1.0 is served and closed (%j) (reliability 24)',
  async (connection) => {
    const bytes = `GET /v1/pets HTTP/1.0\r\n${connection}Authorization: Bearer ${key}\r\n\r\n`;
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expect(responses[0]?.status).toBe(200);
    expect(responses[0]?.json()).toEqual({ ok: true });
    expect(responses[0]?.header('transfer-encoding')).toBeNull();
    expect(closed).toBe(true);
    expect(upstream.requests.at(-1)?.values('host')).toEqual([`127.0.0.1:${upstream.port}`]);
    expect(upstream.requests.at(-1)?.values('x-forwarded-host')).toEqual([]);
  },
);

test('a refused HTTP/1.0 request is closed too, keep-alive or not', async () => {
  const bytes = `GET /v1/none HTTP/1.0\r\nConnection: keep-alive\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
  expect([responses[0]?.status, closed]).toEqual([404, true]);
});

test('a caller without any limit is told 999999999999999 and the present time', async () => {
  const { key: own } = await gateway.createKey('endless');
  const { answer } = await ask('GET /v1/pets HTTP/1.1', own);
  expect(answer.header('x-ratelimit-limit')).toBe('999999999999999');
  expect(answer.header('x-ratelimit-remaining')).toBe('999999999999999');
  expect(Math.abs(Number(answer.header('x-ratelimit-reset')) - Date.now() / 1000)).toBeLessThan(LATE_MS / 1000);
  expect(answer.header('ratelimit-policy')).toBe('"minute";q=999999999999999;w=60, "day";q=999999999999999;w=86400');
  expect(answer.header('ratelimit')).toBe('"minute";r=999999999999999;t=0, "day";r=999999999999999;t=0');
});

test('`draft: false` leaves the fields of the draft out, and only them', async () => {
  const quiet = await openGateway({ upstream: upstream.origin, more: 'headers: { draft: false }' });
  const own = await quiet.createKey('free');
  for (const answer of [await quiet.get('/v1/pets', own.key), await quiet.get('/v1/pets')]) {
    const names = [...answer.headers.keys()];
    expect(names).not.toContain('ratelimit');
    expect(names).not.toContain('ratelimit-policy');
    expect(names).toEqual(expect.arrayContaining(['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']));
  }
});

test('a deprecated route says so on its answers and on its refusals, and serves until its sunset', async () => {
  for (const own of [key, 'wrong']) {
    const { answer } = await ask('GET /v1/pets/1 HTTP/1.1', own);
    expect(answer.status).toBe(own === key ? 200 : 401);
    expect(answer.header('deprecation')).toBe('@1764892800');
    expect(answer.header('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
    expect(answer.header('link')).toBe('</v1/pets>; rel="successor-version"');
  }
});

test('`cost` is what one call of a route spends', async () => {
  const { key: own } = await gateway.createKey('enterprise', '--limit', 'minute=12', '--limit', 'day=100');
  const { answer } = await ask('GET /v1/costly HTTP/1.1', own);
  // The route is there, so it was admitted and forwarded.
  expect(answer.status).toBe(200);
  expect(answer.header('x-ratelimit-remaining')).toBe('7');
});
