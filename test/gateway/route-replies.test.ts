import { beforeAll, describe, expect, test } from 'vitest';
import { askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Routes that the gateway answers itself: `redirect` and `respond`.

const ROUTES = `
  - { path: '/old/{id}/**', methods: [GET, POST], redirect: { to: '/new/{id}/**' } }
  - { path: '/moved/**', methods: [GET], redirect: { to: 'https://api.example.com/**', status: 302 } }
  - { path: '/root/**', methods: [GET], redirect: { to: '/**' } }
  - path: /down
    methods: [GET, POST]
    upstream: store
    websocket: true
    cost: 5
    respond: { status: 503, body: 'Zurück um 9', headers: { Retry-After: '600', X-Plan: '{plan}' } }
  - { path: /nothing, methods: [GET], auth: none, limits: { minute: 2 }, respond: { status: 204 } }
  - { path: '/closed/**', respond: { status: 503 } }
  - { path: '/free/**', auth: none, limits: { minute: 9 }, redirect: { to: '/new/**' } }
  - { path: '/left/**', redirect: { to: '/new/**' } }
  - { path: /gone, methods: [GET], respond: {}, deprecated: { since: 2020-01-01, sunset: 2021-01-01 } }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

const ask = async (line: string, rest = '\r\n', own = key) => {
  const bytes = `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${rest}`;
  const { responses } = await rawExchange(gateway.port, bytes, { methods: [line.split(' ')[0]!] });
  expect(upstream.requests).toEqual([]);
  return responses.at(-1)!;
};

describe('redirect', () => {
  test.each([
    ['/old/7/a/b?x=//y', 308, '/new/7/a/b?x=//y'],
    ['/old/%C3%A9/', 308, '/new/%C3%A9/'],
    ['/moved/a?b', 302, 'https://api.example.com/a?b'],
    ['/moved/', 302, 'https://api.example.com/'],
    ['/root/evil.example', 308, '/evil.example'],
    ['/root/@evil.example', 308, '/@evil.example'],
  ])('%s is %i to %s', async (path, status, location) => {
    const response = await ask(`GET ${path}`);
    expect(response.status).toBe(status);
    expect(response.header('location')).toBe(location);
    expect(response.header('x-ratelimit-limit')).not.toBeNull();
  });

  test.each([
    '/root//evil.example',
    '/root/\\evil.example',
    '/root/%2fevil.example',
    '/root/%5cevil',
    '/root/a%0d%0aX:1',
  ])('%s leads nowhere (reliability 170)', async (path) => {
    const response = await ask(`GET ${path}`);
    expect(response.status).toBe(400);
    expect(response.header('location')).toBeNull();
  });
});

describe('respond', () => {
  test('has the status, body and fields of the settings beside those of every response, and is counted by its cost', async () => {
    const { key: own } = await gateway.createKey('free');
    const response = await ask('GET /down', '\r\n', own);
    expect(response.status).toBe(503);
    expect(response.body.toString()).toBe('Zurück um 9');
    expect(response.header('content-type')).toBe('text/plain; charset=utf-8');
    expect(response.header('retry-after')).toBe('600');
    expect(response.header('x-plan')).toBe('free');
    expect(response.header('x-ratelimit-remaining')).toBe('55');
  });

  test('needs the key of its route, and its methods', async () => {
    expect((await ask('GET /down', '\r\n', 'tg_live_none')).status).toBe(401);
    expect((await ask('DELETE /down')).status).toBe(405);
  });

  test('a redirect without a key takes nothing from the quota of a key, and is limited by address', async () => {
    const { key: own } = await gateway.createKey('free');
    const moved = await ask('GET /free/a', '\r\n', own);
    expect([moved.status, moved.header('x-ratelimit-remaining')]).toEqual([308, '8']);
    expect((await ask('GET /old/7/a', '\r\n', own)).header('x-ratelimit-remaining')).toBe('59');
    expect((await ask('GET /fre', '\r\n', own)).status).toBe(404);
  });

  test('without methods it answers every method, and so does a redirect', async () => {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
      expect((await ask(`${method} /closed/a`)).status, method).toBe(503);
      const moved = await ask(`${method} /left/a`);
      expect([moved.status, moved.header('location')], method).toEqual([308, '/new/a']);
    }
    expect((await ask('TRACE /closed/a')).status).toBe(501);
  });

  test('has no body for HEAD, waits for no body of a request, and is plain HTTP for an upgrade', async () => {
    const head = await ask('HEAD /down');
    expect([head.status, head.body.length, head.header('content-length')]).toEqual([503, 0, '12']);
    expect((await ask('POST /down', 'Content-Length: 100\r\n\r\nonly this')).status).toBe(503);
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
    expect((await ask('GET /down', `${upgrade}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`)).status).toBe(503);
  });

  test('without a key it counts by address; 204 has no length; a sunset is a sunset', async () => {
    const first = await ask('GET /nothing');
    expect([first.status, first.header('content-length')]).toEqual([204, null]);
    await ask('GET /nothing');
    expect((await ask('GET /nothing')).status).toBe(429);
    expect((await ask('GET /gone')).status).toBe(410);
  });
});

test('over HTTP/2 both are the same', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
  const { key: own } = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const headers = { authorization: `Bearer ${own}` };
  const moved = await askHttp2(session, { path: '/old/7/a', method: 'POST', body: 'x', headers });
  expect([moved.status, new Map(moved.fields).get('location')]).toEqual([308, '/new/7/a']);
  const down = await askHttp2(session, { path: '/down', headers });
  expect([down.status, down.body]).toEqual([503, 'Zurück um 9']);
});

test('a gateway whose routes all redirect or respond needs no upstream', async () => {
  const alone = await openGateway({
    upstream: null,
    routes: `
  - { path: '/down', auth: none, limits: { minute: 9 }, respond: { status: 503 } }
  - { path: '/**', auth: none, limits: { minute: 600 }, redirect: { to: 'https://api.example.com/**' } }
`,
  });
  const replies = await Promise.all(
    ['/v1/pets?a=b', '/down'].map(async (path) => {
      const { status, headers } = await fetch(`http://127.0.0.1:${alone.port}${path}`, { redirect: 'manual' });
      return [status, headers.get('location')];
    }),
  );
  expect(replies).toEqual([
    [308, 'https://api.example.com/v1/pets?a=b'],
    [503, null],
  ]);
});
