import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));

test.each([
  ['TRACE /v1/pets', '', ''],
  ['CONNECT 127.0.0.1:1', '', ''],
  ['POST /v1/pets', 'Transfer-Encoding: gzip, chunked\r\n', '2\r\n{}\r\n0\r\n\r\n'],
])(
  '501 not_implemented: %s (%j) is refused, closed, costs nothing, reaches nobody (reliability 6, 28)',
  async (line, fields, body) => {
    const before = await remaining();
    const seen = upstream.connections;
    const bytes = `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n${body}`;
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expect(responses[0]?.status).toBe(501);
    expect(responses[0]?.json()).toEqual({ code: 'not_implemented', message: expect.any(String), status: 501 });
    expect(responses[0]?.header('x-request-id')).not.toBeNull();
    expect(responses[0]?.body.toString()).not.toContain(key);
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(upstream.connections - seen).toBeLessThanOrEqual(1);
    expect(await remaining()).toBe(before - 1);
  },
);

test('after CONNECT there is no tunnel: what follows is thrown away (reliability 28)', async () => {
  const seen = upstream.requests.length;
  const inner = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses, closed } = await rawExchange(
    gateway.port,
    [`CONNECT 127.0.0.1:${upstream.port} HTTP/1.1\r\nHost: a\r\n\r\n${inner}`, inner],
    { until: 'closed' },
  );
  expect(responses.map(({ status }) => status)).toEqual([501]);
  expect(closed).toBe(true);
  expect(upstream.requests).toHaveLength(seen);
});
