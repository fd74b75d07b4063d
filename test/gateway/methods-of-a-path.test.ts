import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { entriesOf } from '../support/run-command.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Several routes with one path, each with methods of its own.

const PAGE = 'https://app.example.com';
const day = (offset: number) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);

const ROUTES = `
  - { path: '/v1/pets/{id}', methods: [GET], upstream: store, deprecated: { since: 2020-01-01, sunset: 2021-01-01, successor: /v2/pets } }
  - { path: '/v1/pets/{petId}', methods: [DELETE], upstream: store, rewrite: { stripPrefix: /v1 } }
  - { path: /v1/reports, methods: [GET], upstream: store }
  - { path: /v1/reports, methods: [POST], upstream: store, cost: 5, maxBodyBytes: 4B }
  - { path: /v1/news, methods: [GET], auth: none, limits: { minute: 3 }, upstream: store }
  - { path: /v1/news, methods: [PUT], auth: none, limits: { minute: 1 }, upstream: store }
  - { path: /v1/news, methods: [POST], upstream: store }
  - { path: /v1/dim, methods: [GET], upstream: store, deprecated: { since: 2025-01-01, sunset: ${day(20)} } }
  - { path: /v1/dim, methods: [PUT, DELETE], upstream: store, deprecated: { since: 2025-01-01, sunset: ${day(10)} } }
  - { path: /v1/dim, methods: [POST], upstream: store }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES, more: `cors: { origins: ['${PAGE}'] }` });
  ({ key } = await gateway.createKey('free'));
});

const ask = async (method: string, path: string, own: string | null = key, rest = '') => {
  const authorization = own === null ? '' : `Authorization: Bearer ${own}\r\n`;
  const bytes = `${method} ${path} HTTP/1.1\r\nHost: a\r\n${authorization}${rest || '\r\n'}`;
  return (await rawExchange(gateway.port, bytes, { methods: [method] })).responses[0]!;
};
const left = async (method: string, path: string, own: string) =>
  Number((await ask(method, path, own)).header('x-ratelimit-remaining'));

test('a GET past its sunset is 410 while DELETE of the same path is served, without a word of the sunset', async () => {
  const gone = await ask('GET', '/v1/pets/7');
  expect([gone.status, gone.header('sunset')]).toEqual([410, 'Fri, 01 Jan 2021 00:00:00 GMT']);
  expect((await ask('HEAD', '/v1/pets/7')).status).toBe(410);
  const seen = upstream.requests.length;
  const served = await ask('DELETE', '/v1/pets/7');
  expect([served.status, served.header('sunset'), served.header('deprecation')]).toEqual([200, null, null]);
  expect(upstream.requests.slice(seen).map(({ method, url }) => `${method} ${url}`)).toEqual(['DELETE /pets/7']);
});

test('each method has the cost and the bounds of its own route', async () => {
  const { key: own } = await gateway.createKey('free');
  expect(await left('GET', '/v1/reports', own)).toBe(59);
  expect(await left('POST', '/v1/reports', own)).toBe(54);
  expect((await ask('POST', '/v1/reports', own, 'Content-Length: 5\r\n\r\n12345')).status).toBe(413);
});

test('405 and a preflight name the methods of all routes of the path', async () => {
  const refused = await ask('PATCH', '/v1/pets/7');
  expect([refused.status, refused.header('allow'), refused.header('sunset')]).toEqual([405, 'GET, HEAD, DELETE', null]);
  const preflight = await ask(
    'OPTIONS',
    '/v1/pets/7',
    null,
    `Origin: ${PAGE}\r\nAccess-Control-Request-Method: DELETE\r\n\r\n`,
  );
  expect([preflight.status, preflight.header('access-control-allow-methods')]).toEqual([204, 'GET, HEAD, DELETE']);
  const last = await ask('OPTIONS', '/v1/pets/7', key, 'Max-Forwards: 0\r\n\r\n');
  expect([last.status, last.header('allow')]).toEqual([405, 'GET, HEAD, DELETE']);
});

test('a method without a key leaves the others with theirs, and limits an address for itself alone', async () => {
  expect((await ask('PUT', '/v1/news', null)).status).toBe(200);
  expect((await ask('PUT', '/v1/news', null)).status).toBe(429);
  expect((await ask('GET', '/v1/news', null)).header('x-ratelimit-remaining')).toBe('2');
  for (const method of ['POST', 'DELETE']) {
    const refused = await ask(method, '/v1/news', null);
    expect([refused.status, refused.header('allow')], method).toEqual([401, null]);
  }
});

test('calls of deprecated methods are counted for their own route, and those of the others are not', async () => {
  for (const method of ['GET', 'PUT', 'DELETE', 'POST', 'PATCH']) await ask(method, '/v1/dim');
  await eventually(
    async () => {
      const reports = entriesOf((await gateway.command('deprecations', '--json')).stdout) as {
        route: string;
        methods: string[];
        sunset: string;
        calls: number;
      }[];
      const found = reports.filter(({ route }) => route === '/v1/dim');
      expect(found.map(({ methods, sunset, calls }) => [methods, sunset.slice(0, 10), calls])).toEqual([
        [['GET', 'HEAD'], day(20), 1],
        [['PUT', 'DELETE'], day(10), 2],
      ]);
    },
    { withinMs: 5_000, everyMs: 100 },
  );
  const table = (await gateway.command('deprecations')).stdout;
  expect(table).toMatch(/^\/v1\/dim\tPUT,DELETE\t/m);
});
