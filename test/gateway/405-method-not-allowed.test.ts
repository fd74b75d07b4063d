import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

const ask = (method: string, path: string) =>
  rawExchange(gateway.port, `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`, {
    methods: [method],
  }).then(({ responses }) => responses[0]!);

test.each([
  ['DELETE', '/v1/pets', 'GET, HEAD, POST'],
  ['PUT', '/v1/pets', 'GET, HEAD, POST'],
  ['OPTIONS', '/v1/pets', 'GET, HEAD, POST'],
  ['POST', '/v1/pets/1', 'GET, HEAD'],
])('405 method_not_allowed: %s %s is told what the route allows', async (method, path, allow) => {
  const answer = await ask(method, path);
  expect(answer.status).toBe(405);
  expect(answer.json()).toEqual({ code: 'method_not_allowed', message: expect.stringContaining(allow), status: 405 });
  expect(answer.header('allow')).toBe(allow);
  expect(answer.header('connection')).not.toBe('close');
});

test('a request with a method that the route does not have counts, and the upstream never sees it', async () => {
  const seen = upstream.requests.length;
  const before = Number((await ask('GET', '/v1/pets')).header('x-ratelimit-remaining'));
  const refused = await ask('DELETE', '/v1/pets');
  expect(Number(refused.header('x-ratelimit-remaining'))).toBe(before - 1);
  expect(upstream.requests.slice(seen).map(({ method }) => method)).toEqual(['GET']);
});

test('without a key a wrong method is no more than a missing key: routes are not told to strangers', async () => {
  const answer = await rawExchange(gateway.port, 'DELETE /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n');
  expect(answer.responses[0]?.json()).toMatchObject({ code: 'missing_api_key' });
  expect(answer.responses[0]?.header('allow')).toBeNull();
});
