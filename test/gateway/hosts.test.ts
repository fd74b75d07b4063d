import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { accessLines, askHttp2, type EncryptedGateway, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Routes by host (`hosts` of a route).

const ROUTES = `
  - { path: '/**', hosts: [api.example.com, API-2.example.com], methods: [GET], upstream: store, rewrite: { addPrefix: /api } }
  - { path: '/**', hosts: ['*.example.com'], methods: [GET], upstream: store, rewrite: { addPrefix: /any } }
  - { path: /old, hosts: [api.example.com], methods: [GET], upstream: store, deprecated: { since: 2025-01-01, sunset: 2025-06-01 } }
  - { path: /old, hosts: [shop.example.com], methods: [GET], upstream: store }
  - { path: /v1/pets, methods: [GET], upstream: store }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

async function ask(host: string, path: string) {
  const seen = upstream.requests.length;
  const bytes = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, bytes);
  return [responses[0]?.status, ...upstream.requests.slice(seen).map(({ url }) => url)];
}

test.each([
  ['api.example.com', '/v1/pets', 200, '/api/v1/pets'],
  ['API.example.com:8080', '/x', 200, '/api/x'],
  ['api-2.example.com', '/x', 200, '/api/x'],
  ['other.example.com', '/x', 200, '/any/x'],
  ['example.com', '/v1/pets', 200, '/v1/pets'],
  ['127.0.0.1', '/v1/pets', 200, '/v1/pets'],
])('a request for %s%s gets the route of its host', async (host, path, status, url) => {
  expect(await ask(host, path)).toEqual([status, url]);
});

test('a host without a route for the path is 404, and a route of one host says nothing of that of another', async () => {
  expect(await ask('example.com', '/x')).toEqual([404]);
  expect(await ask('api.example.com', '/old')).toEqual([410]);
  expect(await ask('shop.example.com', '/old')).toEqual([200, '/old']);
});

test('a request may name its host once, in its target or in its Host', async () => {
  for (const head of [
    'GET /x HTTP/1.1\r\nHost: api.example.com\r\nHost: other.example.com\r\n',
    'GET http://other.example.com/x HTTP/1.1\r\nHost: api.example.com\r\n',
  ]) {
    const { responses } = await rawExchange(gateway.port, `${head}Authorization: Bearer ${key}\r\n\r\n`);
    expect(responses[0]?.status, head).toBe(400);
  }
  expect(await ask('api.example.com', 'http://api.example.com/x')).toEqual([200, '/api/x']);
});

test('`GET /usage` is answered on every host, and the log names a route with its first host', async () => {
  for (const host of ['api.example.com', 'nowhere']) expect(await ask(host, '/usage')).toEqual([200]);
  await ask('api-2.example.com', '/logged');
  await eventually(() =>
    expect(accessLines(gateway).find(({ path }) => path === '/logged')?.route).toBe('api.example.com/**'),
  );
});

test('over HTTP/2 `:authority` is the host, and the service gets it as X-Forwarded-Host', async () => {
  const encrypted: EncryptedGateway = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
  const { key: own } = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const headers = { ':authority': 'other.example.com', authorization: `Bearer ${own}` };
  const seen = upstream.requests.length;
  expect((await askHttp2(session, { path: '/x', headers })).status).toBe(200);
  const [got] = upstream.requests.slice(seen);
  const named = got!.rawHeaders[got!.rawHeaders.indexOf('X-Forwarded-Host') + 1];
  expect([got!.url, named]).toEqual(['/any/x', 'other.example.com']);
});
