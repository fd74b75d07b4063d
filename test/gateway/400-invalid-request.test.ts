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
  ['two Authorization fields', 'GET /v1/pets', (own: string) => `Host: a\r\n${own}${own}`],
  [
    'two Authorization fields, one of them wrong',
    'GET /v1/pets',
    (own: string) => `Host: a\r\n${own}Authorization: x\r\n`,
  ],
  ['no Host', 'GET /v1/pets', (own: string) => own],
  ['two Hosts', 'GET /v1/pets', (own: string) => `Host: a\r\nHost: a\r\n${own}`],
  ['a Host that is none', 'GET /v1/pets', (own: string) => `Host: a b\r\n${own}`],
  ['a body on GET', 'GET /v1/pets', (own: string) => `Host: a\r\n${own}Content-Length: 2\r\n\r\n{}`],
  ['chunks on DELETE', 'DELETE /v1/pets', (own: string) => `Host: a\r\n${own}Transfer-Encoding: chunked\r\n\r\n0\r\n`],
  ['a dot segment', 'GET /v1/../v1/pets', (own: string) => `Host: a\r\n${own}`],
  ['the URL of another host', 'GET http://b/v1/pets', (own: string) => `Host: a\r\n${own}`],
  ['a malformed field', 'GET /v1/pets', (own: string) => `Host: a\r\n${own}: nameless\r\n`],
])(
  '400 invalid_request: %s is refused and closed, costs nothing and reaches nobody (reliability 8, 33, 34, 54)',
  async (_what, line, fields) => {
    const before = await remaining();
    const seen = upstream.requests.length;
    const bytes = `${line} HTTP/1.1\r\n${fields(`Authorization: Bearer ${key}\r\n`)}\r\n`;
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expect(responses[0]?.status).toBe(400);
    expect(responses[0]?.json()).toEqual({ code: 'invalid_request', message: expect.any(String), status: 400 });
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(upstream.requests).toHaveLength(seen);
    expect(await remaining()).toBe(before - 1);
  },
);

test('400 invalid_request: chunks that go wrong after admission break the request off at the upstream too (reliability 14)', async () => {
  const before = await remaining();
  const seen = upstream.requests.length;
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const parts = [head, '4\r\nbody\r\n', () => upstream.requests.length > seen, 'zz\r\n'];
  const { responses, closed } = await rawExchange(gateway.port, parts, { until: 'closed' });
  expect(responses[0]?.json()).toMatchObject({ code: 'invalid_request', status: 400 });
  expect(responses[0]?.header('x-request-id')).not.toBeNull();
  expect(closed).toBe(true);
  expect(await upstream.requests.at(-1)?.whole).not.toBe(true);
  // It had been admitted, so it counts.
  expect(await remaining()).toBe(before - 2);
});

test('a route with `body: true` lets GET carry one', async () => {
  const bytes = `GET /v1/search HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 2\r\n\r\n{}`;
  const { responses } = await rawExchange(gateway.port, bytes);
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)?.body.toString()).toBe('{}');
});

test.each([
  ['in one packet', ['HEAD /v1/pets HTTP/1.1\r\nbroken field\r\n\r\n']],
  ['in pieces', ['\r\nHE', 'AD /v1/pets HTTP/1.1\r\nHost: a\r\n', 'broken field\r\n\r\n']],
])('a HEAD that cannot be parsed is answered with the head alone: %s (RFC 9110 section 9.3.2)', async (_, parts) => {
  const { bytes, closed } = await rawExchange(gateway.port, parts, { until: 'closed', pauseMs: 50 });
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  expect(bytes.toString()).toMatch(/Content-Length: [1-9][0-9]*\r\n/);
  expect(bytes.toString().endsWith('\r\n\r\n')).toBe(true);
  expect(closed).toBe(true);
});
