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
  ...['/public/..%3b/v1/pets', '/public/%2e%2e%3Ba=b/v1/pets', '/v1/%70ets', '/%761/pets', '/v1/pets%2f1'],
  ...['/public/%2f..%2fv1', '/public/a%2fb', '/public/a%2Fb', '/public/a%5cb', '/public/a%5Cb'],
  ...['/public\\..\\v1', '/public/a\\b', '/\\', '/\\evil/v1/pets'],
  ...[
    '/;/v1/pets',
    '/v1/;x/pets',
    '/v1/pets/;',
    '/v1/pets/;x=1',
    '/v1/pets/%3b',
    '/public/;x=1/',
    '/public/%3Bx/y',
    '/public/;?a',
  ],
  ...[
    '/v1/pets/%20',
    '/public/%20%20/x',
    '/public/%20;x/y',
    '/public/..%20/v1/pets',
    '/public/%20.%20/x',
    '/public/.%20;x/y',
  ],
  ...['//v1/pets', '/v1//pets', '/public//x', '//', '//evil.example/x'],
  ...['/public/%00', '/public/a%0d%0ab', '/public/%7f', '/public/a%1f', '/public/%zz', '/public/%2', '/public/%'],
  ...['/public/a#b', '/v1/pets#', '/v1/pets?a#b'],
  ...['*', 'v1/pets', 'http://[', 'http://a:99999/v1/pets', 'http:///v1/pets', 'http://b/v1/pets'],
  ...['http://a@b/v1/pets', 'http://a\\@b/v1/pets', 'ftp://a/v1/pets', 'a:80', '?a', 'javascript:alert(1)'],
  ...['/public/caf\xe9', '/public/a\x00b', '/public/\x7f', '/public/a b'],
])('GET %j is 400 and reaches nobody (reliability 39, 40, 41, 43, 44, 47, 204)', async (target) => {
  expect(await ask(target)).toEqual({ status: 400, reached: [] });
});

test.each([
  ...['/V1/PETS', '/v1/pets/', '/v1/pets;x', '/v1/pets.', '/v1/pets%20', '/v1/%70etz', '/v1/pets%3f', '/v1/pets/1/'],
  ...['/publi', '/Public', '/Public/x', '/v1/pets/a/b', '/healthz', '/metrics', '/admin/keys', '/usage.'],
])('GET %j is another path than a route’s: 404, and reaches nobody (reliability 41)', async (target) => {
  expect(await ask(target)).toEqual({ status: 404, reached: [] });
});

test.each([
  ...['/public/a%20b', '/public/%252e%252e/x', '/public/%c0%ae%c0%ae/x', '/public/...', '/public/.a', '/public/a..'],
  ...['/public/', '/public/a/', '/public/a;b=c', '/public/%e2%82%ac', "/public/~!$&'()*+,;=:@", '/v1/pets/%2e%2e%2e'],
  ...['/v1/pets?../../x', '/v1/pets?%00%2f%zz\\', '/v1/pets?//', '/v1/pets??', '/v1/pets/*', '/public/"<>`{|}^'],
  ...['/v1/pets?a=2&a=1&A=3&&b&=', "/v1/pets?'%27+%20", '/v1/pets?a=%0d%0aSet-Cookie:%20b=c', '/public/%e0%80%af'],
])('GET %j is passed on as it is, byte for byte (reliability 40, 46, 47)', async (target) => {
  expect(await ask(target)).toEqual({ status: 200, reached: [target] });
});

test.each([
  ['http://a/v1/pets?b', '/v1/pets?b'],
  ['HTTP://A/v1/pets', '/v1/pets'],
  ['https://a/v1/pets', '/v1/pets'],
])('the absolute form %s of the host itself is %s (reliability 34)', async (target, path) => {
  expect(await ask(target)).toEqual({ status: 200, reached: [path] });
});

test('an absolute form without a path is the root, which has no route (reliability 34)', async () => {
  expect(await ask('http://a')).toEqual({ status: 404, reached: [] });
  expect((await ask('http://a?b')).status).toBeGreaterThanOrEqual(400);
});

test('OPTIONS * and Max-Forwards: 0 are answered here (reliability 45)', async () => {
  expect(await ask('*', 'OPTIONS')).toEqual({ status: 404, reached: [] });
  for (const fields of ['Max-Forwards: 0', 'max-forwards: 00', 'Max-Forwards: 3\r\nMax-Forwards: 0']) {
    const bytes = `OPTIONS /public/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n\r\n`;
    const seen = upstream.requests.length;
    const { responses } = await rawExchange(gateway.port, bytes);
    expect(responses.map(({ status }) => status)).toEqual([405]);
    expect(responses[0]?.header('allow')).toBe('GET, HEAD');
    expect(upstream.requests).toHaveLength(seen);
  }
});

// Two gateways that pass a request on to each other would do so for ever if neither counted (RFC 9110 section 7.6.2).
test.each([
  ['OPTIONS', '5', '4'],
  ['OPTIONS', '1', '0'],
  ['OPTIONS', '9'.repeat(40), '1000'],
  ['OPTIONS', 'x', 'x'],
  ['OPTIONS', '-1', '-1'],
  ['GET', '0', '0'],
])('%s with Max-Forwards: %s is passed on with %s (reliability 45)', async (method, value, forwarded) => {
  const own = `Authorization: Bearer ${key}\r\nMax-Forwards: ${value}\r\n`;
  expect((await ask('/public/x', method, 'a', own)).status).toBe(200);
  expect(upstream.requests.at(-1)?.values('max-forwards')).toEqual([forwarded]);
});

// Attack: a line end that is decoded on its way into a field of the answer begins a second answer.
test('what a path or query says of line ends comes back encoded, or not at all (reliability 36)', async () => {
  for (const target of [
    '/none/%0d%0aX-A:b',
    '/none?%0d%0aX-A:b',
    '/public/%E5%98%8A%E5%98%8DX-A:b',
    '/none/"\\u000d',
  ]) {
    const bytes = `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const { responses } = await rawExchange(gateway.port, bytes);
    expect(responses).toHaveLength(1);
    expect(responses[0]?.header('x-a')).toBeNull();
    expect(responses[0]?.json()).toBeTypeOf('object');
  }
});

test.each([
  ...['a b', 'a/b', 'u@h', 'a, b', 'a:b', '[::1', '[::1]x', 'a\\b', 'a:123456', '', 'a#', 'a?', '[g]'],
  ...['a,b', ':80', 'a:80:80', 'a:-1', 'a:65536', '::1', '[]', '[:::::]', '[1.2.3.4]', '%', '%zz', 'a\xe9', 'http://a'],
  ...['a"b', '<a>', 'a|b', 'a^b', 'a`b', '{a}', 'a\tb'],
])('the Host %j is 400 (reliability 33)', async (host) => {
  expect(await ask('/v1/pets', 'GET', host)).toEqual({ status: 400, reached: [] });
});

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
  'a:65535',
  '[::ffff:1.2.3.4]',
  'a%20b',
])('the Host %j is one (reliability 33)', async (host) => {
  expect((await ask('/v1/pets', 'GET', host)).status).toBe(200);
});

test.each(['/public/../v1/pets', '//v1/pets', '/v1/pets%00', '/V1/PETS', '/v1/pets;x', '/public/x', '/v1/pets/.'])(
  'without a key %j never reaches the upstream (reliability 41)',
  async (target) => {
    const { status, reached } = await ask(target, 'GET', 'a', '');
    expect(reached).toEqual([]);
    expect([400, 401]).toContain(status);
  },
);

test('after all of them the gateway lives, and nothing of it was a defect (reliability 44)', async () => {
  expect((await ask('/v1/pets')).status).toBe(200);
  await gateway.process.stop();
  expect(gateway.process.stdout + gateway.process.stderr).not.toMatch(/a defect|uncaught/i);
});
