import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const HEAD_MS = paced(1_000);
const WHOLE_MS = paced(2_000);
const IDLE_MS = paced(1_500);

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    listen: { headersTimeout: `${HEAD_MS}ms`, requestTimeout: `${WHOLE_MS}ms`, idleTimeout: `${IDLE_MS}ms` },
  });
  ({ key } = await gateway.createKey('free'));
  // Warm: the first request of a process is slower than any other.
  await gateway.get('/v1/pets', key);
});

const timed = async (bytes: string | string[]) => {
  const stop = stopwatch();
  const exchange = await rawExchange(gateway.port, bytes, { until: 'closed', withinMs: 6_000, pauseMs: 300 });
  return { ...exchange, took: stop() };
};

test.concurrent.each([
  ['half a request line', 'GET /v1/pe'],
  ['half a field', 'GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-A: b'],
  ['a byte every 300 ms', [...'GET /v1/pets']],
])('408 request_timeout: %s is given up when the time for a head is over (reliability 61)', async (_what, bytes) => {
  const { responses, closed, took } = await timed(bytes);
  expect(responses).toHaveLength(1);
  expect(responses[0]?.json()).toEqual({ code: 'request_timeout', message: expect.any(String), status: 408 });
  expect(responses[0]?.header('connection')).toBe('close');
  expect(closed).toBe(true);
  expect(took).toBeGreaterThan(HEAD_MS - 20);
  expect(took).toBeLessThan(HEAD_MS + LATE_MS);
});

test.concurrent.each([
  ['Content-Length: 100', ['half']],
  ['Transfer-Encoding: chunked', ['4\r\nhalf\r\n']],
  ['Content-Length: 100', [...'a byte now and then']],
])(
  '408 request_timeout: a body (%s) of %j is given up when its time is over, on both sides (reliability 62)',
  async (field, parts) => {
    const path = `/v1/pets?${field.length}-${parts.length}`;
    const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${field}\r\n\r\n`;
    const { responses, closed, took } = await timed([head, ...parts]);
    expect(responses).toHaveLength(1);
    expect(responses[0]?.json()).toEqual({ code: 'request_timeout', message: expect.any(String), status: 408 });
    expect(responses[0]?.header('connection')).toBe('close');
    expect(responses[0]?.header('x-request-id')).not.toBeNull();
    expect(Number(responses[0]?.header('x-ratelimit-limit'))).toBe(60);
    expect(closed).toBe(true);
    expect(took).toBeGreaterThan(WHOLE_MS - 20);
    expect(took).toBeLessThan(WHOLE_MS + LATE_MS);
    expect(await upstream.requests.find(({ url }) => url === path)?.whole).not.toBe(true);
  },
);

test('a slow body without a key is not waited for: its answer is 401, at once', async () => {
  const { responses, took } = await timed('POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf');
  expect(responses[0]?.status).toBe(401);
  expect(took).toBeLessThan(HEAD_MS + LATE_MS);
});

test('408 request_timeout: the second request of a connection has the same time for its head', async () => {
  const first = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses, took } = await timed([first, 'GET /v1/pe']);
  expect(responses.map(({ status }) => status)).toEqual([200, 408]);
  expect(took).toBeLessThan(300 + HEAD_MS + LATE_MS);
});

test('a connection that rests is closed without a word when the idle time is over', async () => {
  const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses, closed, took } = await timed(bytes);
  expect(responses.map(({ status }) => status)).toEqual([200]);
  expect(closed).toBe(true);
  expect(took).toBeGreaterThan(IDLE_MS - 20);
  expect(took).toBeLessThan(IDLE_MS + LATE_MS);
});

test('after all of them no request is left over', async () => {
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
  });
});
