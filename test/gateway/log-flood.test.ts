import { expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream } from '../support/upstream.ts';

// Attack: requests that cost their sender 27 bytes, each of which is a line of 500 bytes in the log.

interface Line {
  readonly msg: string;
  readonly requestId: string;
  readonly clientAddress: string | null;
  readonly consumerId: string | null;
  readonly judgement: string;
  readonly status: number;
  readonly count?: number;
}

const linesOf = ({ process }: TestGateway) =>
  process.stdout
    .split('\n')
    .filter((line) => line.includes('"msg":"request"'))
    .map((line) => JSON.parse(line) as Line);
const sumOf = (lines: readonly Line[]) => lines.reduce((sum, { count = 0 }) => sum + count, 0);

/** Fewer than a connection may have waiting. */
const AT_ONCE = 50;

/** Sends so many requests, one connection after the other, and waits for all answers. */
const flood = async ({ port }: TestGateway, requests: number) => {
  const bytes = 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(AT_ONCE);
  for (let sent = 0; sent < requests; sent += AT_ONCE) {
    const { responses } = await rawExchange(port, bytes, { until: AT_ONCE, withinMs: 20_000 });
    expect(responses).toHaveLength(AT_ONCE);
  }
};

test('2,000 requests without a key are a handful of lines that count them all, and hide no other caller (reliability 153)', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ upstream: upstream.origin, listen: { trustedProxies: '[127.0.0.1]' } });
  const { id, key } = await gateway.createKey('free');
  const startedAtMs = performance.now();
  const other = { headers: { 'X-Forwarded-For': '192.0.2.7', 'X-Request-Id': 'other' } };
  await Promise.all([
    ...Array.from({ length: 8 }, () => flood(gateway, 250)),
    gateway.get('/v1/pets', undefined, other),
    ...Array.from({ length: 20 }, () => gateway.get('/v1/pets', key)),
  ]);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  // At once: what is held then must not be lost.
  await gateway.process.stop();
  const lines = linesOf(gateway);
  const own = lines.filter(({ clientAddress, consumerId }) => clientAddress === '127.0.0.1' && consumerId === null);
  expect(sumOf(own)).toBe(2_000);
  expect(own.length).toBeLessThanOrEqual(Math.ceil(seconds) + 2);
  expect(lines.filter(({ clientAddress }) => clientAddress === '192.0.2.7')).toMatchObject([
    { requestId: 'other', status: 401, count: 1 },
  ]);
  const known = lines.filter(({ consumerId }) => consumerId === id);
  expect(known.map(({ status, count }) => [status, count])).toEqual(Array(20).fill([200, undefined]));
  expect(lines).toHaveLength(own.length + 1 + 20);
});

test('whatever a stranger is refused for, the requests of one address share a line', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({
    upstream: upstream.origin,
    listen: { trustedProxies: '[127.0.0.1]', maxBodyBytes: '1KiB', maxUrlBytes: '64B' },
    routes: `
  - { path: /v1/pets, methods: [GET, POST], upstream: store }
  - { path: /status, methods: [GET], upstream: store, auth: none, limits: { minute: 1 } }
`,
    more: "cors: { origins: ['https://a.example'] }",
  });
  const heads = [
    'GET /v1/pets HTTP/1.1',
    'GET /v1/pets HTTP/1.1\r\nAuthorization: Bearer nonsense',
    'GET /v1/pets HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b',
    'GET /v1/../pets HTTP/1.1',
    'GET /v1/pets HTTP/1.1\r\nContent-Length: 1',
    `GET /${'a'.repeat(70)} HTTP/1.1`,
    `GET / HTTP/1.1\r\nX: ${'a'.repeat(16_500)}`,
    'TRACE / HTTP/1.1',
    'POST /v1/pets HTTP/1.1\r\nContent-Length: 2000',
    'POST /v1/pets HTTP/1.1\r\nContent-Length: 1\r\nExpect: miracles',
    'OPTIONS /v1/pets HTTP/1.1\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET',
    'GET /status HTTP/1.1',
    'GET /status HTTP/1.1',
  ];
  const statuses: (number | undefined)[] = [];
  const startedAtMs = performance.now();
  for (const head of heads) {
    const bytes = `${head}\r\nHost: a\r\nX-Forwarded-For: 2001:db8::${statuses.length + 1}\r\n\r\n`;
    statuses.push((await rawExchange(gateway.port, bytes)).responses[0]?.status);
  }
  const seconds = (performance.now() - startedAtMs) / 1_000;
  await gateway.process.stop();
  expect(statuses).toEqual([401, 401, 400, 400, 400, 414, 431, 501, 413, 417, 204, 200, 429]);
  const lines = linesOf(gateway);
  const admitted = lines.filter(({ judgement }) => judgement === 'admitted');
  expect(admitted).toMatchObject([{ status: 200 }]);
  expect(admitted[0]).not.toHaveProperty('count');
  const others = lines.filter(({ judgement }) => judgement !== 'admitted');
  expect(sumOf(others)).toBe(heads.length - 1);
  expect(others.length).toBeLessThanOrEqual(Math.ceil(seconds) + 2);
});
