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

const ask = async (line: string, own = `Authorization: Bearer ${key}\r\n`) =>
  (await rawExchange(gateway.port, `${line} HTTP/1.1\r\nHost: a\r\n${own}\r\n`)).responses[0]!;

test.each([
  'GET /',
  'GET /v1/none',
  'GET /V1/PETS',
  'GET /v1/pets/',
  'GET /v1/pets/1/2',
  'GET /v1/pets;x',
  'OPTIONS *',
  'PUT /none',
])('404 route_not_found: %s has no route, counts, and reaches nobody', async (line) => {
  const before = Number((await ask('GET /v1/pets')).header('x-ratelimit-remaining'));
  const seen = upstream.requests.length;
  const answer = await ask(line);
  expect(answer.status).toBe(404);
  expect(answer.json()).toEqual({ code: 'route_not_found', message: expect.any(String), status: 404 });
  expect(answer.header('connection')).not.toBe('close');
  expect(Number(answer.header('x-ratelimit-remaining'))).toBe(before - 1);
  expect(upstream.requests).toHaveLength(seen);
});

test('404 route_not_found: a long path is repeated in part only', async () => {
  const answer = await ask(`GET /${'a'.repeat(4000)}`);
  expect(answer.status).toBe(404);
  expect(answer.body.length).toBeLessThan(500);
});

test('without a key an unknown path is a missing key: what routes there are is not told to strangers', async () => {
  for (const path of ['/v1/none', '/v1/pets', '/v1/%70ets']) {
    expect((await ask(`GET ${path}`, '')).json(), path).toMatchObject({ code: 'missing_api_key', status: 401 });
  }
});
