import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  // Room for all the failures of this file; the budget itself is the matter of 429-too-many-failed-attempts.
  gateway = await openGateway({
    upstream: upstream.origin,
    plans: 'plans: { free: { limits: { minute: 60 } } }\nfailed-authentication: { minute: 1000 }',
  });
  ({ key } = await gateway.createKey('free'));
});

const ask = async (authorization: string | null, path = '/v1/pets') => {
  const field = authorization === null ? '' : `Authorization:${authorization}\r\n`;
  const { responses } = await rawExchange(gateway.port, `GET ${path} HTTP/1.1\r\nHost: a\r\n${field}\r\n`);
  return responses[0]!;
};

test.each([
  ['no Authorization', null],
  ['an empty one', ' '],
  ['Basic', ' Basic dXNlcjpwYXNz'],
  ['the key without a scheme', ' tg_live_0000000000000000000000000000000000000'],
  ['a scheme that begins with bearer', ' Bearerx tg_live_00'],
])('401 missing_api_key: %s gets a challenge without an error (reliability 55, 57)', async (_what, authorization) => {
  const answer = await ask(authorization);
  expect(answer.status).toBe(401);
  expect(answer.json()).toEqual({ code: 'missing_api_key', message: expect.any(String), status: 401 });
  expect(answer.header('www-authenticate')).toMatch(/^Bearer realm="[^"]+"$/);
});

test.each([
  ['a wrong checksum', ' Bearer tg_live_00000000000000000000000000000000000000'],
  ['a word', ' Bearer hello'],
  ['nothing after the scheme', ' Bearer'],
  ['a comma list', ' Bearer a, Bearer b'],
  ['quotes', ' Bearer "a"'],
  ['a property of every object', ' Bearer __proto__'],
  ['8 kB', ` Bearer ${'a'.repeat(8192)}`],
  ['a byte that is no ASCII', ' Bearer a\xff'],
])('401 invalid_api_key: %s is told that it is invalid (reliability 55, 56, 57)', async (_what, authorization) => {
  const answer = await ask(authorization);
  expect(answer.status).toBe(401);
  expect(answer.json()).toEqual({ code: 'invalid_api_key', message: expect.any(String), status: 401 });
  expect(answer.header('www-authenticate')).toMatch(/^Bearer realm="[^"]+", error="invalid_token"$/);
});

test('401 expired_api_key: a key is refused from the moment it expires', async () => {
  const expiring = await gateway.createKey('free', '--expires', '3s');
  const expiresBeforeMs = Date.now() + 3_000;
  expect((await ask(` Bearer ${expiring.key}`)).status).toBe(200);
  await delay(Math.max(expiresBeforeMs - Date.now(), 0));
  const answer = await ask(` Bearer ${expiring.key}`);
  expect(answer.status).toBe(401);
  expect(answer.json()).toMatchObject({ code: 'expired_api_key' });
  expect(answer.header('www-authenticate')).toContain('error="invalid_token"');
});

test('401 invalid_api_key: a revoked key is refused within a second of its revocation (reliability 60)', async () => {
  const revoked = await gateway.createKey('free');
  expect((await ask(` Bearer ${revoked.key}`)).status).toBe(200);
  await gateway.command('keys', 'revoke', revoked.id);
  await eventually(async () =>
    expect((await ask(` Bearer ${revoked.key}`)).json()).toMatchObject({ code: 'invalid_api_key' }),
  );
});

test('every failure costs the address one, whatever its kind and its route, and a good key costs it nothing', async () => {
  const left = async (authorization: string | null, path?: string) =>
    Number((await ask(authorization, path)).header('x-ratelimit-remaining'));
  const first = await left(null);
  expect(await left(' Bearer wrong', '/v1/none')).toBe(first - 1);
  await ask(` Bearer ${key}`);
  expect(await left(null)).toBe(first - 2);
});

test('a refused request never reaches the upstream, and its body is not waited for (reliability 58)', async () => {
  const seen = upstream.requests.length;
  const bytes = 'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf';
  const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
  expect(responses[0]?.status).toBe(401);
  expect(responses[0]?.header('connection')).toBe('close');
  expect(closed).toBe(true);
  expect(upstream.requests).toHaveLength(seen);
});

test.each(['bearer', 'BEARER', 'bEaReR  '])('the scheme may be written %j (reliability 55)', async (scheme) => {
  expect((await ask(` ${scheme} ${key}`)).status).toBe(200);
});

test.each([
  [`X-API-Key: KEY`, '', '`X-API-Key`'],
  [`x-api-key: KEY`, '', '`X-API-Key`'],
  [`apikey: KEY`, '?a=1', '`ApiKey`'],
  [`Authorization: KEY`, '', '`Authorization` without `Bearer`'],
  ['Accept: */*', '?a=1&api_key=KEY', '`?api_key=`'],
  ['Accept: */*', '?Access_Token=KEY', '`?access_token=`'],
])(
  'a key in a place that is not read is answered with the name of the place, without the value: %s %s',
  async (field, query, place) => {
    const withKey = (text: string) => text.replace('KEY', key);
    const bytes = `GET /v1/pets${withKey(query)} HTTP/1.1\r\nHost: a\r\n${withKey(field)}\r\n\r\n`;
    const { responses, bytes: received } = await rawExchange(gateway.port, bytes);
    expect(responses[0]!.json()).toEqual({
      code: 'missing_api_key',
      message: `${place} is not read here; send the key as \`Authorization: Bearer <API_KEY>\`.`,
      status: 401,
    });
    expect(received.toString('latin1')).not.toContain(key);
  },
);

test.each(['X-API-Key:', 'X-Request-Id: abc', 'Cookie: api_key=1'])('%s is no key in another place', async (field) => {
  const { responses } = await rawExchange(
    gateway.port,
    `GET /v1/pets?api_key= HTTP/1.1\r\nHost: a\r\n${field}\r\n\r\n`,
  );
  expect(responses[0]!.json()).toMatchObject({ message: expect.stringMatching(/^No API key was sent\./) });
});

test('a key in the query is no key (reliability 51)', async () => {
  expect((await ask(null, `/v1/pets?api_key=${key}&access_token=${key}`)).json()).toMatchObject({
    code: 'missing_api_key',
  });
});
