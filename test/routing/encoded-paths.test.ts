import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { HANDSHAKE, logged, startWebSocketUpstream, type WebSocketUpstream } from '../support/web-sockets.ts';

// Attacks by percent-encoding what needs none: `/v1/%61dmin` is a path of `/v1/**` as it was sent, and of `/v1/admin` to
// the service behind the gateway, which decodes it.

let gateway: TestGateway;
let upstream: WebSocketUpstream;
let key: string;

beforeAll(async () => {
  upstream = await startWebSocketUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: `
  - { path: '/v1/**', methods: [GET], upstream: store, websocket: true, auth: none, limits: { minute: 100000 } }
  - { path: /v1/admin, methods: [GET], upstream: store, websocket: true }
  - { path: /v1/caf%C3%A9, methods: [GET], upstream: store }
  - { path: '/paid/{name}', methods: [GET], upstream: store }
  - { path: /paid/report, methods: [GET], upstream: store, cost: 5 }
  - { path: '/rows/**', methods: [GET], upstream: store, cost: { rows: 1 } }
  - { path: /rows/report, methods: [GET], upstream: store, cost: { rows: { reserve: 100, from: { json: /rows } } } }
  - { path: '/old/**', methods: [GET], upstream: store }
  - { path: /old/pets, methods: [GET], upstream: store, deprecated: { since: 2020-01-01, sunset: 2021-01-01 } }
  - { path: '/live/**', methods: [GET], upstream: store, websocket: true }
  - { path: /live/admin, methods: [GET], upstream: store, websocket: true, cost: 5 }
  - { path: '/own/**', methods: [GET], upstream: store }
  - { path: '/own/admin/**', methods: [GET], upstream: store, scopes: [admin] }
  - { path: '/own/users/{id}', methods: [GET], upstream: store }
  - { path: /own/users/me, methods: [GET], upstream: store }
  - { path: '/{name}', methods: [GET], upstream: store }
`,
    more: "cors: { origins: ['https://app.example.com'] }",
  });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

const reached = () => [...upstream.plain, ...upstream.asked].map(({ url }) => url);

const ask = async (path: string, own: string | null = null, fields = '', method = 'GET') => {
  const before = reached().length;
  const authorization = own === null ? '' : `Authorization: Bearer ${own}\r\n`;
  const bytes = `${method} ${path} HTTP/1.1\r\nHost: a\r\n${authorization}${fields}\r\n`;
  const answer = (await rawExchange(gateway.port, bytes, { methods: [method] })).responses[0]!;
  return { answer, status: answer.status, connection: answer.header('connection'), reached: reached().slice(before) };
};

const remaining = async () => Number((await ask('/paid/pets', key)).answer.header('x-ratelimit-remaining'));

test.each(['/v1/%61dmin', '/v1/%61%64%6d%69%6E', '/v1/%61dmin?a=b', '/v1/caf%c3%a9', '/v1/c%61f%C3%A9'])(
  '%s is no way around a key: 400 without one and with one, and reaches nobody (reliability 41, 42, 149)',
  async (path) => {
    for (const own of [null, key]) {
      const asked = await ask(path, own);
      expect(asked.answer.json()).toEqual({
        code: 'invalid_request',
        message: expect.stringContaining('Write it plainly'),
        status: 400,
      });
      expect(asked).toMatchObject({ connection: 'close', reached: [] });
    }
    expect(await ask('/v1/admin')).toMatchObject({ status: 401, reached: [] });
  },
);

test.each(['/v1/open/../admin', '/v1/open/%2e%2e/admin', '/v1/open/..%2fadmin', '/v1/./admin', '/v1/..;/v1/admin'])(
  '%s is no detour over a route without keys: 400 without a key and with one, and reaches nobody (reliability 42)',
  async (path) => {
    for (const own of [null, key]) expect(await ask(path, own)).toMatchObject({ status: 400, reached: [] });
  },
);

test.each(['/paid/%72eport', '/%70aid/report', '/old/%70ets', '/live/%61dmin', '/us%61ge', '/%75sage', '/%761/admin'])(
  '%s is no way around a cost, a sunset or the path of the gateway itself: 400, at no cost, and reaches nobody (reliability 149)',
  async (path) => {
    const before = await remaining();
    const asked = await ask(path, key);
    expect(asked).toMatchObject({ status: 400, connection: 'close', reached: [] });
    expect(asked.answer.header('deprecation')).toBeNull();
    expect(await remaining()).toBe(before - 1);
  },
);

test.each([
  ...[
    '/own/admin;a/x',
    '/own/admin;/x',
    '/own/admin%3ba/x',
    '/own/admin%3Ba=1/x',
    '/own/Admin/x',
    '/own/ADMIN/',
    '/own/admin./x',
  ],
  ...[
    '/own/admin%20/x',
    '/own/%20admin/x',
    '/own/admin%2e%20;x/x',
    '/own/%41dmi%6e;x/x',
    `/own/admin;${'x'.repeat(5_000)}/x`,
  ],
  ...[
    `/own/admin${'%20'.repeat(2_000)}/x`,
    '/v1/Admin',
    '/v1/admin;x',
    '/v1/admin.',
    '/paid/Report',
    '/old/pets;x',
    '/live/ADMIN',
  ],
  ...['/rows/Report', '/rows/report;x', '/rows/report.', '/rows/report%20'],
])(
  '%s is no way around the scopes, the key, the cost or the sunset of another route: 400, and reaches nobody (reliability 346, 380)',
  async (path) => {
    const asked = await ask(path, key);
    expect(asked).toMatchObject({ status: 400, connection: 'close', reached: [] });
    expect(asked.answer.json()).toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Write it plainly'),
    });
  },
);

test('without a key a path with two readings is a missing key wherever both ask for one: routes are not told to strangers', async () => {
  for (const path of ['/paid/%72eport', '/old/%70ets', '/us%61ge', '/%70aid', '/none/%61']) {
    const { answer, reached: urls } = await ask(path);
    expect([answer.status, urls], path).toEqual([401, []]);
    expect(answer.json(), path).toMatchObject({ code: 'missing_api_key' });
  }
});

test.each(['/v1/%61dmin', '/live/%61dmin'])('a WebSocket at %s is refused like any other request', async (path) => {
  expect(await ask(path, key, HANDSHAKE)).toMatchObject({ status: 400, connection: 'close', reached: [] });
});

test('a preflight is told nothing of a route by a path with two readings', async () => {
  const fields = 'Origin: https://app.example.com\r\nAccess-Control-Request-Method: GET\r\n';
  for (const [path, status, methods] of [
    ['/paid/report', 204, 'GET, HEAD'],
    ['/v1/%61dmin', 400, null],
    ['/paid/%72eport', 204, null],
  ] as const) {
    const { answer } = await ask(path, null, fields, 'OPTIONS');
    expect([answer.status, answer.header('access-control-allow-methods')], path).toEqual([status, methods]);
  }
});

test.each([
  ...['/v1/%61dmins', '/v1/%2561dmin', '/v1/%40home', '/v1/%41dmins', '/v1/admins%20', '/v1/a%3bb', '/v1/%c3%a9/%7E'],
  ...['/own/users/Me', '/own/users/ME;v=1', '/own/users/me.', '/own/Admins/x', '/own/x/admin;a', '/own/admin-x/y;a'],
  ...['/paid/%70ets', '/paid/%7Bname%7D', '/old/%70ets/1', '/caf%C3%A9'],
])('%s is of the same route in both readings: it is passed on byte for byte', async (path) => {
  expect(await ask(path, key)).toMatchObject({ status: 200, reached: [path] });
});

test('the log tells what was sent, and who sent it, under no route', async () => {
  await ask('/paid/repor%74', key);
  await eventually(() => {
    const line = logged(gateway, 'request').find(({ path }) => path === '/paid/repor%74');
    expect(line).toMatchObject({ route: null, judgement: 'malformed', status: 400, code: 'invalid_request' });
    expect(line).toMatchObject({ consumerId: expect.stringMatching(/^key_/), plan: 'enterprise' });
  });
});
