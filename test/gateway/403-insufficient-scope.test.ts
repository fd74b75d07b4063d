import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { AUDIENCE, ISSUER, jwksOf, type SigningKey, signingKey } from '../identify/jwt-issuer.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { asking } from '../support/web-sockets.ts';

const ROUTES = `
  - { path: /v1/orders, methods: [GET], upstream: store, scopes: [orders:read] }
  - { path: /v1/orders, methods: [POST, DELETE], upstream: store, scopes: [orders:read, orders:write] }
  - { path: /v1/orders/live, methods: [GET], upstream: store, websocket: true, scopes: [orders:read] }
  - { path: '/v1/**', methods: [GET, POST], upstream: store }
`;

let gateway: TestGateway;
let upstream: Upstream;
let issuer: SigningKey;

beforeAll(async () => {
  upstream = await startUpstream();
  issuer = await signingKey();
  const jwks = join(await temporaryFolder(), 'jwks.json');
  await writeFile(jwks, jwksOf(issuer));
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    more: `jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256] }`,
  });
});

const statusOf = async (key: string, method = 'GET', path = '/v1/orders') =>
  (await gateway.get(path, key, { method })).status;

test('403 insufficient_scope: the challenge names all that the route requires; it is counted, and the service sees nothing', async () => {
  const { key } = await gateway.createKey('gentle', '--scope', 'orders:read');
  const seen = upstream.requests.length;
  const answer = await gateway.get('/v1/orders', key, { method: 'POST' });
  expect(answer.status).toBe(403);
  expect(answer.headers.get('www-authenticate')).toBe(
    'Bearer realm="tollgate", error="insufficient_scope", scope="orders:read orders:write"',
  );
  expect(await answer.json()).toEqual({
    code: 'insufficient_scope',
    message: expect.stringContaining('orders:read orders:write'),
    status: 403,
  });
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('2');
  expect(upstream.requests).toHaveLength(seen);
  // So trying routes ends with the quota.
  for (let i = 0; i < 2; i++) expect(await statusOf(key, 'POST')).toBe(403);
  expect(await statusOf(key, 'POST')).toBe(429);
});

test('a key calls the routes whose scopes it has, all of them, and every route without scopes', async () => {
  const { key: none } = await gateway.createKey('free');
  const { key: reader } = await gateway.createKey('free', '--scope', 'orders:read', '--scope', 'pets:read');
  const { key: writer } = await gateway.createKey('free', '--scope', 'orders:write', '--scope', 'orders:read');
  expect([await statusOf(none), await statusOf(none, 'POST'), await statusOf(none, 'GET', '/v1/pets')]).toEqual([
    403, 403, 200,
  ]);
  expect([await statusOf(reader), await statusOf(reader, 'POST')]).toEqual([200, 403]);
  expect([await statusOf(writer), await statusOf(writer, 'POST')]).toEqual([200, 200]);
  // What a caller has used is no route of the service.
  expect(await statusOf(none, 'GET', '/usage')).toBe(200);
});

test.each([
  ['scope, with blanks between', { scope: 'orders:read  orders:write' }, 200],
  ['scope, a list', { scope: ['orders:write', 'orders:read'] }, 200],
  ['scp, a list', { scp: ['orders:read', 'orders:write'] }, 200],
  ['scp, with blanks between', { scp: 'orders:write orders:read' }, 200],
  ['scope before scp', { scope: 'orders:read', scp: ['orders:write'] }, 403],
  ['one of two', { scope: 'orders:read' }, 403],
  ['the beginning of one', { scope: 'orders:read orders:writ' }, 403],
  ['others in capitals', { scope: 'ORDERS:READ ORDERS:WRITE' }, 403],
  ['one text with a comma', { scp: 'orders:read,orders:write' }, 403],
  ['a list of lists', { scp: [['orders:read', 'orders:write']] }, 403],
  ['an object', { scope: { 'orders:read': true, 'orders:write': true } }, 403],
  ['no claim', {}, 403],
])('a token brings its scopes: %s', async (_name, claims, status) => {
  expect(await statusOf(await issuer.sign({ sub: JSON.stringify(claims), ...claims }), 'POST')).toBe(status);
});

test('a change of the scopes of a key is in force within a second', async () => {
  const { id, key } = await gateway.createKey('free');
  expect(await statusOf(key)).toBe(403);
  expect(await gateway.command('keys', 'update', id, '--scope', 'orders:read')).toMatchObject({ code: 0 });
  await eventually(async () => expect(await statusOf(key)).toBe(200));
  expect(await gateway.command('keys', 'update', id, '--scope', '')).toMatchObject({ code: 0 });
  await eventually(async () => expect(await statusOf(key)).toBe(403));
});

test('no other way to write a route avoids its scopes: HEAD, an upgrade, encoded letters (reliability 268)', async () => {
  const { key } = await gateway.createKey('endless');
  const seen = upstream.requests.length;
  expect(await statusOf(key, 'HEAD')).toBe(403);
  for (const path of ['/v1/%6frders', '/v1/order%73', '/v1/x/../orders', '/v1//orders/../orders', '/v1%2Forders']) {
    const target = `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const { responses } = await rawExchange(gateway.port, target);
    expect([path, responses[0]?.status]).toEqual([path, 400]);
  }
  const upgrade = await rawExchange(gateway.port, asking(key, '/v1/orders/live'));
  expect(upgrade.responses[0]?.json()).toMatchObject({ code: 'insufficient_scope' });
  expect(upstream.requests).toHaveLength(seen);
});
