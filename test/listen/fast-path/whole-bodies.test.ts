import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openGateway, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { type RawUpstream, startRawUpstream, startUpstream } from '../../support/upstream.ts';

// A request that comes whole is forwarded without a stream. Nobody is to see a difference, but that a refusal of it need
// not end the connection: all of it has been read.

const ROUTES = `
  - { path: /v1/pets, methods: [GET, POST, PUT, PATCH, DELETE], upstream: store }
  - { path: /v1/free, methods: [GET, POST, DELETE], upstream: store, body: true }
`;
const MAX_BODY = 4_096;
const ALL_BYTES = String.fromCharCode(...Array(256).keys());

let gateway: TestGateway;
let upstream: RawUpstream;
let key: string;

beforeAll(async () => {
  upstream = await startRawUpstream((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES, listen: { maxBodyBytes: MAX_BODY } });
  ({ key } = await gateway.createKey('endless'));
});

const asked = (line: string, body: string | null, fields = '', own = key) =>
  `${line} HTTP/1.1\r\nHost: a\r\nX-Request-Id: same\r\nAuthorization: Bearer ${own}\r\n${fields}` +
  `${body === null ? '' : `Content-Length: ${body.length}\r\n`}\r\n${body ?? ''}`;

/** What has reached the upstream on all its connections. */
const received = () => upstream.received.reduce((all, bytes) => all + bytes.toString('latin1'), '');

/** What reaches it of these bytes. */
async function forwarded(parts: string | readonly string[]): Promise<string> {
  const before = upstream.received.map(({ length }) => length);
  const { responses } = await rawExchange(gateway.port, parts, { pauseMs: 30 });
  expect(responses.map(({ status }) => status)).toEqual([200]);
  return upstream.received.map((bytes, i) => bytes.toString('latin1', before[i] ?? 0)).join('');
}

describe('what the upstream gets of a request in one packet is byte for byte what it gets of one in two:', () => {
  test.each([
    ...['POST', 'PUT', 'PATCH'].map((method): [string, string, string | null] => [method, '/v1/pets', '{"a":1}']),
    ...['POST', 'PUT', 'PATCH', 'DELETE'].map((method): [string, string, string | null] => [method, '/v1/pets', null]),
    ...['POST', 'PUT', 'PATCH', 'DELETE'].map((method): [string, string, string | null] => [method, '/v1/pets', '']),
    ['DELETE', '/v1/free', 'body'],
    ['POST', '/v1/pets', ALL_BYTES],
    ['POST', '/v1/pets', '\r\n\r\nGET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['POST', '/v1/pets', 'x'.repeat(MAX_BODY)],
  ])('%s %s with %j', async (method, path, body) => {
    const fields = 'Content-Type: a/b\r\nX-Empty:\r\nX-Spaces: \t a \t b \t \r\n';
    const bytes = asked(`${method} ${path}?a=b`, body, fields);
    const whole = await forwarded(bytes);
    expect(whole).toBe(await forwarded([bytes.slice(0, 40), bytes.slice(40)]));
    expect(whole.endsWith(`\r\n\r\n${body ?? ''}`)).toBe(true);
  });
});

test('a body goes to the upstream in one packet with its head', async () => {
  const packets: string[] = [];
  const watched = await startRawUpstream((socket, bytes) => {
    packets.push(bytes.toString('latin1'));
    socket.write('HTTP/1.1 204 No Content\r\n\r\n');
  });
  const other = await openGateway({ upstream: watched.origin });
  const own = await other.createKey('endless');
  for (const body of ['{}', ALL_BYTES.repeat(12)]) {
    await rawExchange(other.port, asked('POST /v1/pets', body, '', own.key));
    expect(packets.at(-1)?.endsWith(`\r\n\r\n${body}`)).toBe(true);
  }
});

describe('a whole request that is refused', () => {
  test.each([
    ['without a key', 401, () => asked('POST /v1/pets', '{}', '', 'none')],
    ['for its route', 404, () => asked('POST /v1/none', '{}')],
    ['for its method', 405, () => asked('PUT /v1/free', '{}')],
  ])('%s is followed by another on its connection', async (_, status, bytes) => {
    const seen = received().length;
    const next = asked('POST /v1/pets', 'next');
    const { responses, closed } = await rawExchange(gateway.port, [bytes(), next], { until: 2, pauseMs: 50 });
    expect(responses.map((it) => it.status)).toEqual([status, 200]);
    expect(responses[0]?.header('connection')).toBe('keep-alive');
    expect(closed).toBe(false);
    expect(received().slice(seen)).not.toContain('{}');
  });

  test('for its quota is followed by another on its connection', async () => {
    const small = await gateway.createKey('small');
    const all = Array.from({ length: 5 }, () => asked('POST /v1/pets', '{}', '', small.key));
    const { responses } = await rawExchange(gateway.port, all, { until: 5, pauseMs: 50 });
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
  });

  test.each([
    ['body of DELETE', 400, () => asked('DELETE /v1/pets', '{}')],
    ['key given twice', 400, () => asked('POST /v1/pets', '{}', `Authorization: Bearer ${key}\r\n`)],
    ['Host given twice', 400, () => asked('POST /v1/pets', '{}', 'Host: a\r\n')],
    ['size', 413, () => asked('POST /v1/pets', 'x'.repeat(MAX_BODY + 1))],
  ])('for its %s ends its connection, and nothing behind it is served', async (_, status, bytes) => {
    const seen = received().length;
    const { responses, closed } = await rawExchange(gateway.port, [bytes(), asked('GET /v1/pets', null)], {
      until: 'closed',
      pauseMs: 50,
    });
    expect(responses.map((it) => it.status)).toEqual([status]);
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(received()).toHaveLength(seen);
  });
});

test('the log has the length of a whole body', async () => {
  await forwarded(asked('POST /v1/pets', 'x'.repeat(1_234), 'X-Own: logged\r\n'));
  await eventually(() => expect(gateway.process.stdout).toContain('"bytesIn":1234,'));
});

test('a body that waits for its turn at the upstream is its own client’s when another client has sent', async () => {
  const held: (() => void)[] = [];
  const slow = await startUpstream((_request, response) => held.push(() => response.end('{}')));
  const narrow = await openGateway({ upstream: slow.origin, upstreamSettings: { maxConnections: 1 } });
  const own = await narrow.createKey('endless');
  const first = rawExchange(narrow.port, asked('POST /v1/pets', 'first', '', own.key));
  await eventually(() => expect(held).toHaveLength(1));
  const second = rawExchange(narrow.port, asked('POST /v1/pets', ALL_BYTES, '', own.key));
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${narrow.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 2$/m);
  });
  await rawExchange(narrow.port, `GET /v1/none HTTP/1.1\r\nHost: a\r\nX-Other: ${'o'.repeat(3_000)}\r\n\r\n`);
  held[0]?.();
  await first;
  await eventually(() => expect(held).toHaveLength(2));
  held[1]?.();
  await second;
  expect(slow.requests.map(({ body }) => body.toString('latin1'))).toEqual(['first', ALL_BYTES]);
});
