import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { accessLines, askHttp2, metricsOf, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Routes by header fields (`when` of a route).

const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store, when: { header: X-Version, is: [v2, v3] }, rewrite: { addPrefix: /new } }
  - { path: /v1/pets, methods: [GET], upstream: store, when: { header: X-Version, is: [v0] }, deprecated: { since: 2025-01-01, sunset: 2025-06-01 } }
  - { path: /v1/pets, methods: [GET], upstream: store, when: [{ header: X-Version, is: [v2] }, { header: X-Beta }], rewrite: { addPrefix: /beta } }
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/tools, methods: [GET, POST], upstream: store, when: { header: Mcp-Name, is: [send_mail] } }
  - { path: /open, methods: [GET], upstream: store, auth: none, limits: { minute: 2 }, when: { header: X-Part, is: [a] } }
  - { path: /open, methods: [GET], upstream: store, auth: none, limits: { minute: 2 }, when: { header: X-Part, is: [b] } }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

async function ask(fields: string, path = '/v1/pets', method = 'GET') {
  const seen = upstream.requests.length;
  const lines = fields === '' ? '' : `${fields.replaceAll('; ', '\r\n')}\r\n`;
  const bytes = `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${lines}\r\n`;
  const { responses } = await rawExchange(gateway.port, bytes);
  return [responses[0]?.status, ...upstream.requests.slice(seen).map(({ url }) => url)];
}

test.each([
  ['', 200, '/v1/pets'],
  ['X-Version: v2', 200, '/new/v1/pets'],
  ['x-version:v3', 200, '/new/v1/pets'],
  ['X-Version: v1', 200, '/v1/pets'],
  ['X-Version: v2; X-Beta: yes', 200, '/beta/v1/pets'],
  ['X-Version: v3; X-Beta: yes', 200, '/new/v1/pets'],
  ['X-Version: v2; Connection: X-Version', 200, '/v1/pets'],
  ['X-Version: v2; X-Version: v3', 200, '/new/v1/pets'],
])('a request with "%s" gets the route of its fields', async (fields, status, url) => {
  expect(await ask(fields)).toEqual([status, url]);
});

test('a field with values of different routes is 400 that names it, and reaches no service (reliability 570)', async () => {
  expect(await ask('X-Version: v1, v2')).toEqual([400]);
  expect(await ask('X-Version: v2; X-Version: v1')).toEqual([400]);
  const response = await gateway.get('/v1/pets', key, { headers: { 'X-Version': 'v1, v2' } });
  expect(await response.json()).toMatchObject({
    code: 'invalid_request',
    message: 'x-version has several values, and this path has different routes for them. Send it once, with one value.',
  });
  expect((await gateway.get('/v1/pets', undefined, { headers: { 'X-Version': 'v1, v2' } })).status).toBe(401);
});

test('a request that no `when` of its path holds for is 404, and another method 405 with those of all', async () => {
  expect([await ask('', '/v1/tools'), await ask('Mcp-Name: send_mail', '/v1/tools')]).toEqual([
    [404],
    [200, '/v1/tools'],
  ]);
  const response = await gateway.get('/v1/tools', key, { method: 'DELETE', headers: { 'Mcp-Name': 'send_mail' } });
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
});

test('each route has its own sunset, and its own limits for an address without a key', async () => {
  expect(await ask('X-Version: v0')).toEqual([410]);
  for (const part of ['a', 'b']) {
    for (const status of [200, 200, 429]) expect((await ask(`X-Part: ${part}`, '/open'))[0], part).toBe(status);
  }
});

test('log and metrics name a route with its fields', async () => {
  await ask('X-Version: v2; X-Beta: 1');
  const name = '/v1/pets (x-version: v2, x-beta)';
  await eventually(() => expect(accessLines(gateway).map(({ route }) => route)).toContain(name));
  expect(await metricsOf(gateway)).toContain(`route="${name}"`);
});

test('the same over HTTP/2', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
  const { key: own } = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const seen = upstream.requests.length;
  const of = async (version: string | string[]) => {
    const headers = { authorization: `Bearer ${own}`, 'x-version': version };
    return (await askHttp2(session, { path: '/v1/pets', headers })).status;
  };
  expect([await of('v2'), await of('v1'), await of(['v1', 'v2'])]).toEqual([200, 200, 400]);
  expect(upstream.requests.slice(seen).map(({ url }) => url)).toEqual(['/new/v1/pets', '/v1/pets']);
});

test('a stored response is for the fields by which its route was chosen', async () => {
  const service = await startUpstream((request, response) =>
    response.writeHead(200, { 'cache-control': 'max-age=60' }).end(String(request.headers['x-version'])),
  );
  const route = '{ path: /a, methods: [GET], upstream: store, cache: { shared: true }';
  const routes = `\n  - ${route}, when: { header: X-Version, is: [v2, v3] } }\n  - ${route} }`;
  const cached = await openGateway({ upstream: service.origin, routes });
  const { key: own } = await cached.createKey('endless');
  const of = async (headers: Record<string, string>) => (await cached.get('/a', own, { headers })).text();
  for (const _ of ['stored', 'from memory']) {
    expect([await of({ 'X-Version': 'v2' }), await of({ 'X-Version': 'v3' }), await of({})]).toEqual([
      'v2',
      'v3',
      'undefined',
    ]);
  }
  expect(service.requests).toHaveLength(3);
});
