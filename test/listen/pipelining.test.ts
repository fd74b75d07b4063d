import { once } from 'node:events';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Several requests in one go (RFC 9112 sections 9.3.2 and 9.6).

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream(async (request, response) => {
    // Earlier requests take longer, so that answers in the order of their readiness would come out backwards.
    const waitMs = Number(/wait=(\d+)/.exec(request.url ?? '')?.[1] ?? 0);
    await delay(waitMs);
    response.end(request.url);
  });
  gateway = await startGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

const get = (query: string, own = key, fields = '') =>
  `GET /v1/pets?${query} HTTP/1.1\r\nHost: a\r\n${own === '' ? '' : `Authorization: Bearer ${own}\r\n`}${fields}\r\n`;
const urls = () => upstream.requests.map(({ url }) => url);

test('answers come in the order of the requests (reliability 23)', async () => {
  const bytes = [150, 80, 0, 40].map((ms, i) => get(`wait=${ms}&order=${i}`)).join('');
  const { responses } = await rawExchange(gateway.port, bytes, { until: 4 });
  expect(responses.map(({ body }) => /order=(\d)/.exec(body.toString())?.[1])).toEqual(['0', '1', '2', '3']);
});

test('each request is authenticated on its own (reliability 20, 23)', async () => {
  const bytes = get('auth=1') + get('auth=2', '') + get('auth=3', 'wrong') + get('auth=4');
  const { responses } = await rawExchange(gateway.port, bytes, { until: 4 });
  expect(responses.map(({ status }) => status)).toEqual([200, 401, 401, 200]);
  expect(urls().filter((url) => url.includes('auth='))).toEqual(['/v1/pets?auth=1', '/v1/pets?auth=4']);
});

test('each request has an id of its own, and counts on its own', async () => {
  const { responses } = await rawExchange(gateway.port, get('a').repeat(3), { until: 3 });
  const left = responses.map((response) => Number(response.header('x-ratelimit-remaining')));
  expect(left[0]! - left[2]!).toBe(2);
  expect(new Set(responses.map((response) => response.header('x-request-id'))).size).toBe(3);
});

test('after `Connection: close` nothing is served (reliability 23)', async () => {
  const bytes = get('close=1', key, 'Connection: close\r\n') + get('close=2');
  const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
  expect(responses.map(({ status }) => status)).toEqual([200]);
  expect(responses[0]?.header('connection')).toBe('close');
  expect(closed).toBe(true);
  expect(urls().filter((url) => url.includes('close='))).toEqual(['/v1/pets?close=1']);
});

test('after HTTP/1.0 nothing is served (reliability 23)', async () => {
  const first = `GET /v1/pets?old=1 HTTP/1.0\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, first + get('old=2'), { until: 'closed' });
  expect(responses.map(({ status }) => status)).toEqual([200]);
  expect(urls().filter((url) => url.includes('old='))).toEqual(['/v1/pets?old=1']);
});

test.each([
  ['400', `GET /v1//pets HTTP/1.1\r\nHost: a\r\n\r\n`],
  ['413', `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n`],
  ['401', `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n`],
  [
    '400',
    `POST /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['501', `POST /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ['400', `GET /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx`],
])('after an answer that closes (%s) nothing is served (reliability 22, 23)', async (status, first) => {
  const before = upstream.requests.length;
  const { responses, closed } = await rawExchange(gateway.port, first + get(`after=${status}`).repeat(3), {
    until: 'closed',
  });
  expect(responses.map((response) => response.status)).toEqual([Number(status)]);
  expect(closed).toBe(true);
  expect(upstream.requests).toHaveLength(before);
});

test('a refused request whose body came whole is followed by the next, which begins where the body ends (reliability 22, 23)', async () => {
  const refused = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: ${get('within').length}\r\n\r\n${get('within')}`;
  const before = upstream.requests.length;
  const { responses } = await rawExchange(gateway.port, refused + get('behind'), { until: 2 });
  expect(responses.map(({ status }) => status)).toEqual([401, 200]);
  expect(urls().slice(before)).toEqual(['/v1/pets?behind']);
});

test.each([
  'garbage\r\n\r\n',
  'GET /v1/pets HTTP/9.9\r\n\r\n',
  ': x\r\n\r\n',
  'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
])(
  'a good request before %j gets its own answer, whole, before anything else, and then the connection ends (reliability 23)',
  async (tail) => {
    const { responses, closed } = await rawExchange(gateway.port, get('wait=100&good') + tail + get('smuggled'), {
      until: 'closed',
    });
    expect(responses[0]?.status).toBe(200);
    expect(responses[0]?.body.toString()).toContain('good');
    for (const { status } of responses.slice(1)) expect(status).toBeGreaterThanOrEqual(400);
    expect(responses.length).toBeLessThanOrEqual(2);
    expect(closed).toBe(true);
    expect(urls().filter((url) => url.includes('smuggled'))).toEqual([]);
  },
);

// Attack: node:http takes its listeners off a connection that asks for CONNECT or an upgrade. While such a request waited
// for the answer to the one before it, a reset was an error that nothing listened for, and the process ended: 69 bytes
// without a key.
test.each([
  ['a CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'],
  ['a CONNECT with a body that is still to come', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 9\r\n\r\n'],
  ['an upgrade', 'GET /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
  [
    'h2c',
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n',
  ],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['half a head', 'GET / HTTP/1.1\r\nHo'],
])(
  '%s behind a request whose answer takes its time, left by reset or FIN: noticed at once, and nothing is left (reliability 146)',
  async (_, behind) => {
    const before = upstream.requests.length;
    let forwarded = 0;
    for (const first of [get('wait=60000&held'), 'GET / HTTP/1.1\r\nHost: a\r\n\r\n']) {
      for (const leave of ['resetAndDestroy', 'end'] as const) {
        const socket = createConnection(gateway.port, '127.0.0.1');
        socket.on('error', () => {});
        await once(socket, 'connect');
        socket.write(first + behind);
        if (first.includes('held')) {
          forwarded++;
          await eventually(() => expect(upstream.requests).toHaveLength(before + forwarded));
        }
        socket[leave]();
      }
    }
    await eventually(async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
      expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
      expect(metrics).toMatch(/^tollgate_connections 0$/m);
    });
    expect(upstream.requests).toHaveLength(before + 2);
    expect(gateway.process.stderr).toBe('');
  },
);

test('of a connection that is reset with many requests on it, nothing stays (reliability 95)', async () => {
  await rawExchange(gateway.port, get('wait=5000&reset').repeat(30), { forMs: 100 });
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
  });
});

test('one whose body is malformed is never forwarded while it waits (reliability 14, 23)', async () => {
  const body = `POST /v1/pets?malformed HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`;
  const { responses } = await rawExchange(gateway.port, get('wait=50') + body, { until: 'closed' });
  expect(responses.map(({ status }) => status)).toEqual([200, 400]);
  expect(urls().filter((url) => url.includes('malformed'))).toEqual([]);
});

test('thirty requests in one packet are answered, in order, and each reaches the upstream once (reliability 23, 67)', async () => {
  const before = upstream.requests.length;
  const bytes = Array.from({ length: 30 }, (_, i) => get(`deep=${i}.`)).join('');
  const { responses } = await rawExchange(gateway.port, bytes, { until: 30, withinMs: 10_000 });
  expect(responses.map(({ body }) => body.toString())).toEqual(
    Array.from({ length: 30 }, (_, i) => `/v1/pets?deep=${i}.`),
  );
  expect(upstream.requests).toHaveLength(before + 30);
});
