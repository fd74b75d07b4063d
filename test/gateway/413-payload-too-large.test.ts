import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const MAX = 4096;

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, listen: { maxBodyBytes: '4KiB' } });
  ({ key } = await gateway.createKey('free'));
});

const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
const head = (fields: string) =>
  `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n\r\n`;
const chunk = (size: number) => `${size.toString(16)}\r\n${'a'.repeat(size)}\r\n`;

test.each([
  ['declared', () => head(`Content-Length: ${MAX}`) + 'a'.repeat(MAX)],
  ['chunked', () => `${head('Transfer-Encoding: chunked') + chunk(MAX - 1) + chunk(1)}0\r\n\r\n`],
])('a body of exactly the limit passes (%s)', async (_how, bytes) => {
  const { responses } = await rawExchange(gateway.port, bytes());
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)?.body).toHaveLength(MAX);
});

test('413 payload_too_large: chunks are counted as they pass; the upstream never gets the request whole (reliability 14, 66)', async () => {
  const before = await remaining();
  const seen = upstream.requests.length;
  const parts = [head('Transfer-Encoding: chunked') + chunk(MAX), () => upstream.requests.length > seen, chunk(1)];
  const { responses, closed } = await rawExchange(gateway.port, parts, { until: 'closed' });
  expect(responses.map(({ status }) => status)).toEqual([413]);
  expect(responses[0]?.json()).toMatchObject({ code: 'payload_too_large' });
  expect(responses[0]?.header('connection')).toBe('close');
  expect(closed).toBe(true);
  expect(await upstream.requests.at(-1)?.whole).toBe(false);
  // It was found out after admission, so it counts.
  expect(await remaining()).toBe(before - 2);
});

test('413 payload_too_large: chunk extensions are no way round the limit (reliability 12)', async () => {
  const { responses, closed } = await rawExchange(
    gateway.port,
    `${head('Transfer-Encoding: chunked')}1;${'x'.repeat(20_000)}\r\na\r\n0\r\n\r\n`,
    { until: 'closed' },
  );
  expect(responses.map(({ status }) => status)).toEqual([413]);
  expect(closed).toBe(true);
});

test('400 invalid_request: chunks that go wrong after admission break the request off at the upstream too (reliability 14)', async () => {
  const before = await remaining();
  const seen = upstream.requests.length;
  const parts = [head('Transfer-Encoding: chunked'), '4\r\nbody\r\n', () => upstream.requests.length > seen, 'zz\r\n'];
  const { responses, closed } = await rawExchange(gateway.port, parts, { until: 'closed' });
  expect(responses[0]?.json()).toMatchObject({ code: 'invalid_request', status: 400 });
  expect(responses[0]?.header('x-request-id')).not.toBeNull();
  expect(closed).toBe(true);
  expect(await upstream.requests.at(-1)?.whole).not.toBe(true);
  // It had been admitted, so it counts.
  expect(await remaining()).toBe(before - 2);
});
