import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    more: "cors: { origins: ['https://app.example.com'] }",
    // The test is a trusted proxy, so that each case can have an address of its own.
    listen: { trustedProxies: '[127.0.0.1]' },
  });
  const origins = ['https://app.example.com', 'https://*.shop.example', 'http://localhost:3000'];
  ({ key } = await gateway.createKey('endless', ...origins.flatMap((one) => ['--origin', one])));
});

let clients = 0;

/** A request with these field lines, from an address of its own. */
async function ask(lines: readonly string[], method = 'GET', path = '/v1/pets') {
  const client = `198.51.${clients >> 8}.${clients++ & 255}`;
  const fields = ['Host: a', `Authorization: Bearer ${key}`, `X-Forwarded-For: ${client}`, ...lines];
  const body = method === 'POST' ? 'Content-Length: 2\r\n\r\n{}' : '\r\n';
  const { responses } = await rawExchange(
    gateway.port,
    `${method} ${path} HTTP/1.1\r\n${fields.join('\r\n')}\r\n${body}`,
    {
      methods: [method],
    },
  );
  return responses[0]!;
}

test('403 origin_not_allowed: not counted, a failed attempt, names no origin; the log says whose key it was', async () => {
  const { id, key: own } = await gateway.createKey('gentle', '--origin', 'https://app.example.com');
  const seen = upstream.requests.length;
  const from = (origin: string) => gateway.get('/v1/pets', own, { headers: { Origin: origin } });
  const answer = await from('https://evil.example');
  expect(answer.status).toBe(403);
  const body = await answer.text();
  expect(JSON.parse(body)).toEqual({ code: 'origin_not_allowed', message: expect.any(String), status: 403 });
  expect(body).not.toContain('example');
  expect(answer.headers.get('ratelimit-policy')).toBe('"failed-authentication";q=30;w=60');
  const [line] = await gateway.process.until(/^.*"origin_not_allowed".*$/m);
  expect(JSON.parse(line)).toMatchObject({ consumerId: id, judgement: 'unauthenticated' });
  expect(upstream.requests).toHaveLength(seen);
  const allowed = await from('https://app.example.com');
  expect([allowed.status, allowed.headers.get('x-ratelimit-remaining')]).toEqual([200, '2']);
});

test.each([
  ['an origin of the list', ['Origin: https://app.example.com'], 200],
  ['a subdomain', ['Origin: https://eu.shop.example'], 200],
  ['a subdomain of a subdomain', ['Origin: https://a.eu.shop.example'], 200],
  ['an origin with a port', ['Origin: http://localhost:3000'], 200],
  ['the Referer of a page, without Origin', ['Referer: https://app.example.com/cart?id=7#top'], 200],
  ['the Referer of a subdomain', ['Referer: https://eu.shop.example/'], 200],
  ['neither', [], 403],
  ['the domain itself', ['Origin: https://shop.example'], 403],
  ['another scheme', ['Origin: http://app.example.com'], 403],
  ['another port', ['Origin: https://app.example.com:8443'], 403],
  ['no port', ['Origin: http://localhost'], 403],
  ['a longer host', ['Origin: https://app.example.com.evil.example'], 403],
  ['a host that ends alike', ['Origin: https://evil-shop.example'], 403],
  ['a path that ends alike', ['Origin: https://evil.example/.shop.example'], 403],
  ['a query that ends alike', ['Origin: https://evil.example?.shop.example'], 403],
  ['a user that begins alike', ['Origin: https://app.example.com@evil.example'], 403],
  ['an empty label', ['Origin: https://.shop.example'], 403],
  ['null, as sandboxed pages send', ['Origin: null'], 403],
  ['null with a good Referer', ['Origin: null', 'Referer: https://app.example.com/'], 403],
  ['an empty Origin with a good Referer', ['Origin:', 'Referer: https://app.example.com/'], 403],
  ['two origins', ['Origin: https://app.example.com', 'Origin: https://evil.example'], 403],
  ['two origins in one field', ['Origin: https://app.example.com https://evil.example'], 403],
  ['one origin twice', ['Origin: https://app.example.com', 'Origin: https://app.example.com'], 403],
  ['a Referer of elsewhere', ['Referer: https://evil.example/https://app.example.com/'], 403],
  ['a Referer with a user', ['Referer: https://app.example.com@evil.example/'], 403],
  ['a Referer with a backslash', ['Referer: https://evil.example\\@app.example.com/'], 403],
  ['two Referers', ['Referer: https://app.example.com/', 'Referer: https://evil.example/'], 403],
  ['a Referer that is no URL', ['Referer: app.example.com'], 403],
])('a request with %s (reliability 272)', async (_name, lines, status) => {
  expect((await ask(lines)).status).toBe(status);
});

test('a method that changes something needs Origin, which browsers always send with it (reliability 272)', async () => {
  expect((await ask(['Referer: https://app.example.com/'], 'POST')).status).toBe(403);
  expect((await ask(['Origin: https://app.example.com'], 'POST')).status).toBe(200);
  expect((await ask(['Referer: https://app.example.com/'], 'HEAD')).status).toBe(200);
});

test('a preflight needs no key, so it is answered as ever', async () => {
  const lines = ['Origin: https://evil.example', 'Access-Control-Request-Method: GET'];
  expect((await ask(lines, 'OPTIONS')).status).toBe(204);
});
