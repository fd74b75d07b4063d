import { beforeAll, expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Attacks by the request target (RFC 9112 section 3.2): a path that the router reads in one way and the service behind
// it in another. Such a target is refused, or reaches the upstream byte for byte as it was routed, or has no route.

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await startGateway({
    upstream: upstream.origin,
    routes: `
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: '/v1/pets/{petId}', methods: [GET], upstream: store }
  - { path: '/public/**', methods: [GET, OPTIONS], upstream: store }
`,
  });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

const ask = async (target: string, method = 'GET', host = 'a', own = `Authorization: Bearer ${key}\r\n`) => {
  const before = upstream.requests.length;
  const bytes = `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${own}\r\n`;
  const { responses } = await rawExchange(gateway.port, bytes, { methods: [method] });
  const reached = upstream.requests.slice(before).map(({ url }) => url);
  return { status: responses[0]?.status, reached };
};

test.each([
  ...['/public/../v1/pets', '/public/%2e%2e/v1/pets', '/public/.%2E/v1/pets', '/public/./x', '/public/%2e/x'],
  ...['/public/..', '/public/.', '/public/..;/v1/pets', '/public/..;a=b/v1/pets', '/../../etc/passwd'],
  ...['/public/%2f..%2fv1', '/public/a%2fb', '/public/a%2Fb', '/public/a%5cb', '/public/a%5Cb'],
  ...['/public\\..\\v1', '/public/a\\b', '/\\', '/\\evil/v1/pets'],
  ...['//v1/pets', '/v1//pets', '/public//x', '//', '//evil.example/x'],
  ...['/public/%00', '/public/a%0d%0ab', '/public/%7f', '/public/a%1f', '/public/%zz', '/public/%2', '/public/%'],
  ...['/public/a#b', '/v1/pets#', '/v1/pets?a#b'],
  ...['*', 'v1/pets', 'http://[', 'http://a:99999/v1/pets', 'http:///v1/pets', 'http://b/v1/pets'],
  ...['http://a@b/v1/pets', 'http://a\\@b/v1/pets', 'ftp://a/v1/pets', 'a:80', '?a', 'javascript:alert(1)'],
  ...['/public/caf\xe9', '/public/a\x00b', '/public/\x7f', '/public/a b'],
])('GET %j is 400 and reaches nobody', async (target) => {
  expect(await ask(target)).toEqual({ status: 400, reached: [] });
});

test.each([
  ...['/V1/PETS', '/v1/pets/', '/v1/pets;x', '/v1/pets.', '/v1/pets%20', '/v1/%70ets', '/v1/pets%3f', '/v1/pets/1/'],
  ...['/public', '/Public/x', '/v1/pets/a/b', '/healthz', '/metrics', '/admin/keys', '/usage.'],
])('GET %j is another path than a route’s: 404, and reaches nobody', async (target) => {
  expect(await ask(target)).toEqual({ status: 404, reached: [] });
});

test.each([
  ...['/public/a%20b', '/public/%252e%252e/x', '/public/%c0%ae%c0%ae/x', '/public/...', '/public/.a', '/public/a..'],
  ...['/public/', '/public/a/', '/public/a;b=c', '/public/%e2%82%ac', "/public/~!$&'()*+,;=:@", '/v1/pets/%2e%2e%2e'],
  ...['/v1/pets?../../x', '/v1/pets?%00%2f%zz\\', '/v1/pets?//', '/v1/pets??', '/v1/pets/*', '/public/"<>`{|}^'],
])('GET %j is passed on as it is, byte for byte', async (target) => {
  expect(await ask(target)).toEqual({ status: 200, reached: [target] });
});

test.each([
  ['http://a/v1/pets?b', '/v1/pets?b'],
  ['HTTP://A/v1/pets', '/v1/pets'],
  ['https://a/v1/pets', '/v1/pets'],
])('the absolute form %s of the host itself is %s', async (target, path) => {
  expect(await ask(target)).toEqual({ status: 200, reached: [path] });
});

test('an absolute form without a path is the root, which has no route', async () => {
  expect(await ask('http://a')).toEqual({ status: 404, reached: [] });
  expect((await ask('http://a?b')).status).toBeGreaterThanOrEqual(400);
});

test('OPTIONS * and Max-Forwards: 0 are answered here', async () => {
  expect(await ask('*', 'OPTIONS')).toEqual({ status: 404, reached: [] });
});

test.each(['a b', 'a/b', 'u@h', 'a, b', 'a:b', '[::1', '[::1]x', 'a\\b', 'a:123456', '', 'a#', 'a?', '[g]'])(
  'the Host %j is 400',
  async (host) => {
    expect(await ask('/v1/pets', 'GET', host)).toEqual({ status: 400, reached: [] });
  },
);

test.each([
  'a',
  'A.Example',
  'a:80',
  'a:',
  '127.0.0.1:8080',
  '[::1]',
  '[::1]:80',
  'xn--e1afmkfd.example',
  'under_score',
])('the Host %j is one', async (host) => {
  expect((await ask('/v1/pets', 'GET', host)).status).toBe(200);
});

test.each(['/public/../v1/pets', '//v1/pets', '/v1/pets%00', '/V1/PETS', '/v1/pets;x', '/public/x', '/v1/pets/.'])(
  'without a key %j never reaches the upstream',
  async (target) => {
    const { status, reached } = await ask(target, 'GET', 'a', '');
    expect(reached).toEqual([]);
    expect([400, 401]).toContain(status);
  },
);

test('after all of them the gateway lives, and nothing of it was a defect', async () => {
  expect((await ask('/v1/pets')).status).toBe(200);
  expect(gateway.process.stdout + gateway.process.stderr).not.toMatch(/a defect|uncaught/i);
});
