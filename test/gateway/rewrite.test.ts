import { once } from 'node:events';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { accessLines, askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// What path the service gets (`rewrite` of a route, base path of a target).

const ROUTES = `
  - { path: '/v1/**', methods: [GET, POST, OPTIONS], upstream: store, rewrite: { stripPrefix: /v1 }, websocket: true }
  - { path: '/old/{id}', methods: [GET], upstream: store, rewrite: { stripPrefix: /old, addPrefix: /internal } }
  - { path: '/store/{rest}/**', methods: [GET], upstream: store, rewrite: { path: '/shop/{rest}/items/**' } }
  - { path: /plain, methods: [GET], upstream: store }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: `${upstream.origin}/base%20of/it/`, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

async function ask(target: string, method = 'GET', body = '') {
  const seen = upstream.requests.length;
  const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`;
  const bytes = `${method} ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${length}\r\n${body}`;
  const { responses } = await rawExchange(gateway.port, bytes);
  return { status: responses[0]?.status, seen: upstream.requests.slice(seen).map(({ url }) => url) };
}

describe('the service gets the path as the route writes it, behind the base path of the target:', () => {
  test.each([
    ['/v1/pets/7', '/pets/7'],
    ['/v1/', '/'],
    ['/v1/?', '/?'],
    ['/v1/pets?a=%2F..%2f&/v1/x?y', '/pets?a=%2F..%2f&/v1/x?y'],
    ["/v1/a'b;c=1/%C3%A9%20/", "/a'b;c=1/%C3%A9%20/"],
    ['/old/7?x', '/internal/7?x'],
    ['/store/s;v=1/a/b', '/shop/s;v=1/items/a/b'],
    ['/store/@evil.com/', '/shop/@evil.com/items/'],
    ['http://a/v1/pets', '/pets'],
    ['/plain?/v1', '/plain?/v1'],
  ])('%s', async (sent, written) => {
    expect(await ask(sent)).toEqual({ status: 200, seen: [`/base%20of/it${written}`] });
  });

  test('with a body, and with every method of the route', async () => {
    expect(await ask('/v1/pets', 'POST', '{}')).toEqual({ status: 200, seen: ['/base%20of/it/pets'] });
    expect(await ask('/v1/pets', 'OPTIONS')).toEqual({ status: 200, seen: ['/base%20of/it/pets'] });
  });
});

// Attack: a part of the path means something else once the segments before it are gone.
test.each([
  '/v1//evil.com/x',
  '/v1/../plain',
  '/v1/%2e%2e/plain',
  '/v1/..;/plain',
  '/v1/%2fevil',
  '/v1/\\evil',
  '/store//x',
  '/v1/;x/plain',
  '/store/%3B/x',
  '/old/;',
  '/store/%20/x',
  '/store/../x',
  '/old/%2e%2e',
  '/old/..',
  '/%761/pets',
  '/v1/a%0d%0ab',
])('%s is refused before it is rewritten, and reaches nobody (reliability 170, 204)', async (path) => {
  expect(await ask(path)).toEqual({ status: 400, seen: [] });
});

test('the log has the path that the client sent', async () => {
  await ask('/v1/logged?secret=1');
  await eventually(() => accessLines(gateway).some(({ path, route }) => path === '/v1/logged' && route === '/v1/**'));
});

test('over HTTP/2 the path is written alike', async () => {
  const encrypted = await openEncrypted({ upstream: `${upstream.origin}/b`, routes: ROUTES });
  const { key: own } = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const headers = { authorization: `Bearer ${own}` };
  const seen = upstream.requests.length;
  expect((await askHttp2(session, { path: '/store/x/y?z=//', headers })).status).toBe(200);
  expect((await askHttp2(session, { path: '/v1/pets', method: 'POST', body: '{}', headers })).status).toBe(200);
  expect((await askHttp2(session, { path: '/v1//evil', headers })).status).toBe(400);
  expect(upstream.requests.slice(seen).map(({ url }) => url)).toEqual(['/b/shop/x/items/y?z=//', '/b/pets']);
});

test('a WebSocket is asked for under the written path', async () => {
  const service = await startWebSocketUpstream();
  const open = await openGateway({ upstream: `${service.origin}/base`, routes: ROUTES });
  const { key: own } = await open.createKey('endless');
  const { socket } = await openWebSocket(open, own, "/v1/live/a'b;c=%41?x=1&&y=%zz?");
  expect(service.asked.map(({ url }) => url)).toEqual(["/base/live/a'b;c=%41?x=1&&y=%zz?"]);
  socket.send('through');
  expect(String((await once(socket, 'message'))[0])).toBe('through');
});
