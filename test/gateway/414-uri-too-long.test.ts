import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const MAX = 8192;

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

const target = (length: number) => `/v1/pets?${'a'.repeat(length - '/v1/pets?'.length)}`;
const request = (length: number) => `GET ${target(length)} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));

test('a target of exactly the limit passes, whole', async () => {
  const { responses } = await rawExchange(gateway.port, request(MAX));
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)?.url).toBe(target(MAX));
});

test.each([MAX + 1, 30_000, 60_000, 100_000, 500_000])(
  '414 uri_too_long: a target of %d bytes is refused, closed, costs nothing (reliability 65)',
  async (length) => {
    const before = await remaining();
    const seen = upstream.requests.length;
    const { responses, closed } = await rawExchange(gateway.port, request(length), { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([414]);
    expect(responses[0]?.json()).toEqual({ code: 'uri_too_long', message: expect.any(String), status: 414 });
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(upstream.requests).toHaveLength(seen);
    expect(await remaining()).toBe(before - 1);
  },
);

// Attack: whoever cannot tell which part of a head is too large sends clients after the wrong fault, and a head that
// grows without end takes memory.
test.each([
  [
    'a target of 9,000 and fields of 50,000 in one go',
    [`${'a'.repeat(9_000)} HTTP/1.1\r\nX-A: `, 'b'.repeat(50_000)],
    true,
  ],
  ['a target of 20,000 in small packets', ['a'.repeat(20_000).match(/.{1000}/g)!, ' HTTP/1.1\r\n\r\n'].flat(), false],
  [
    'a target of 30,000 that ends with the last packet',
    ['a'.repeat(15_000), 'a'.repeat(15_000), ` HTTP/1.1\r\nX-A: ${'b'.repeat(9_000)}`],
    false,
  ],
])('414 uri_too_long: %s is told as such (reliability 65)', async (_what, parts, atOnce) => {
  const [first, ...rest] = parts;
  const begun = [`GET /v1/pets?${first}`, ...rest];
  const { responses, closed } = await rawExchange(gateway.port, atOnce ? begun.join('') : begun, {
    until: 'closed',
    pauseMs: 5,
  });
  expect(responses.map(({ status }) => status)).toEqual([414]);
  expect(closed).toBe(true);
});
