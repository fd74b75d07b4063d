import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const MAX = 16_384;

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

/** A request whose field lines have exactly this many bytes together, whatever its request line has. */
const request = (bytes: number, line = 'GET /v1/pets HTTP/1.1') => {
  const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\nX-A: `;
  return `${line}\r\n${fields}${'a'.repeat(bytes - fields.length - 2)}\r\n\r\n`;
};
const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));

test.each(['GET /v1/pets HTTP/1.1', `GET /v1/pets?${'a'.repeat(8000)} HTTP/1.1`])(
  'fields of exactly the limit pass, however long the request line is (%s)',
  async (line) => {
    const { responses } = await rawExchange(gateway.port, request(MAX, line));
    expect(responses[0]?.status).toBe(200);
  },
);

test.each([
  ['a byte more', () => request(MAX + 1)],
  ['30,000 bytes', () => request(30_000)],
  ['60,000 bytes', () => request(60_000)],
  ['2,500 fields', () => `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${'a:\r\n'.repeat(2_500)}\r\n`],
])(
  '431 headers_too_large: %s is refused, closed, costs nothing, reaches nobody (reliability 65)',
  async (_what, bytes) => {
    const before = await remaining();
    const seen = upstream.requests.length;
    const { responses, closed } = await rawExchange(gateway.port, bytes(), { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([431]);
    expect(responses[0]?.json()).toEqual({ code: 'headers_too_large', message: expect.any(String), status: 431 });
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(upstream.requests).toHaveLength(seen);
    expect(await remaining()).toBe(before - 1);
  },
);
