import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { HANDSHAKE, openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// `keys.from`: a key in another header field or in the query (contract section 5).

const KEYS = 'keys: { from: [authorization, { header: X-API-Key }, { query: api_key }] }';
const ROUTES = `
  - { path: '/v1/pets/**', methods: [GET, POST], upstream: store }
  - { path: '/moved/**', methods: [GET], redirect: { to: 'https://api.example.com/**' } }
  - { path: '/open/**', methods: [GET], upstream: store, auth: none, limits: { minute: 100 } }
  - { path: '/rewritten/**', methods: [GET], upstream: store, rewrite: { stripPrefix: /rewritten } }
`;

let upstream: Upstream;
let gateway: TestGateway;
let one: { id: string; key: string };
let other: { id: string; key: string };

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    more: `${KEYS}\ncors: { origins: ['https://app.example.com'] }`,
  });
  [one, other] = [await gateway.createKey('endless'), await gateway.createKey('endless')];
});

async function ask(target: string, fields = '') {
  const before = upstream.requests.length;
  const { responses, bytes } = await rawExchange(gateway.port, `GET ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  return { response: responses.at(-1)!, text: bytes.toString('latin1'), seen: upstream.requests[before] };
}

describe('a key', () => {
  test('works in each place, and neither its field nor its parameter reaches the service (reliability 178)', async () => {
    const { key, id } = one;
    for (const [target, fields, url] of [
      ['/v1/pets/7?a=%5f&b', `Authorization: Bearer ${key}\r\n`, '/v1/pets/7?a=%5f&b'],
      ['/v1/pets/7?a=%5f&b', `X-API-Key: ${key}\r\n`, '/v1/pets/7?a=%5f&b'],
      ['/v1/pets/7?a=%5f&b', `x-api-KEY: ${key}\r\nX-Other: 1\r\n`, '/v1/pets/7?a=%5f&b'],
      [`/v1/pets/7?a=%5f&api_key=${key}&b`, '', '/v1/pets/7?a=%5f&b'],
      [`/v1/pets/7?api%5Fkey=${key}`, '', '/v1/pets/7'],
      [`/rewritten/v1?api_key=${key}&x`, '', '/v1?x'],
    ] as const) {
      const { response, seen } = await ask(target, fields);
      expect(response.status, target).toBe(200);
      expect(seen!.url).toBe(url);
      expect(seen!.values('x-consumer-id')).toEqual([id]);
      expect(JSON.stringify(seen!.rawHeaders)).not.toMatch(/tg_live|x-api-key/i);
    }
  });

  test('in the Referer of a page that was asked for with it does not reach the service (reliability 195)', async () => {
    for (const [url, passed] of [
      [`https://a/v1/pets?x=1&api_key=${one.key}&y`, 'https://a/v1/pets?x=1&y'],
      [`https://a/v1/pets?api%5Fkey=${one.key}#top`, 'https://a/v1/pets#top'],
      ['https://a/v1/pets?x=%5f&&y', 'https://a/v1/pets?x=%5f&&y'],
    ] as const) {
      const { seen } = await ask('/v1/pets/7', `X-API-Key: ${one.key}\r\nreferer: ${url}\r\n`);
      expect(seen!.values('referer')).toEqual([passed]);
    }
  });

  test('beside another one is 400, equal or not, and nothing is counted or forwarded (reliability 178)', async () => {
    for (const [target, fields] of [
      ['/v1/pets/7', `Authorization: Bearer ${one.key}\r\nX-API-Key: ${other.key}\r\n`],
      ['/v1/pets/7', `Authorization: Bearer ${one.key}\r\nX-API-Key: ${one.key}\r\n`],
      ['/v1/pets/7', `X-API-Key: ${one.key}\r\nX-Api-Key: ${other.key}\r\n`],
      [`/v1/pets/7?api_key=${one.key}`, `X-API-Key: ${other.key}\r\n`],
      [`/v1/pets/7?api_key=${one.key}&api%5fkey=${other.key}`, ''],
      [`/open/7?api_key=${one.key}&api_key=${other.key}`, ''],
    ] as const) {
      const { response, text, seen } = await ask(target, fields);
      expect(response.status).toBe(400);
      expect(text).toContain('"code":"invalid_request"');
      expect(text).not.toContain('tg_live');
      expect(seen).toBeUndefined();
    }
  });

  test('under another spelling of the name is 400, and is in no Location, Referer and log line (reliability 206)', async () => {
    for (const name of ['API_KEY', 'api.key', 'api+key', 'api_key[]', 'api_key%00', 'x=1;api_key']) {
      for (const path of ['/v1/pets/7', '/open/7', '/moved/7']) {
        const { response, text, seen } = await ask(`${path}?${name}=${one.key}`, `X-API-Key: ${one.key}\r\n`);
        expect([response.status, seen], `${path}?${name}`).toEqual([400, undefined]);
        expect(text).not.toContain(one.key);
      }
      const { seen } = await ask(
        '/v1/pets/7',
        `X-API-Key: ${one.key}\r\nReferer: https://a/b?y=1&${name}=${one.key}\r\n`,
      );
      expect(seen!.values('referer')).toEqual(['https://a/b?y=1']);
    }
    await ask('/v1/pets/last', `X-API-Key: ${one.key}\r\n`);
    await eventually(() => expect(gateway.process.stdout).toContain('/v1/pets/last'));
    expect(gateway.process.stdout + gateway.process.stderr).not.toContain(one.key);
  });

  test('of another caller on the same connection, with the same fields, is that of the other caller', async () => {
    const before = upstream.requests.length;
    const line = (query: string) => `GET /v1/pets/7${query} HTTP/1.1\r\nHost: a\r\n\r\n`;
    const parts = [one, other, one].map(({ key }) => line(`?api_key=${key}`));
    const { responses } = await rawExchange(gateway.port, [...parts, line('')], { until: 4, pauseMs: 20 });
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 401]);
    const ids = upstream.requests.slice(before).flatMap((request) => request.values('x-consumer-id'));
    expect(ids).toEqual([one.id, other.id, one.id]);
  });

  test('that is missing or wrong is 401, and the message names the places', async () => {
    const { response } = await ask('/v1/pets/7', 'X-API-Key:\r\n');
    expect(response.status).toBe(401);
    expect(JSON.parse(response.body.toString())).toMatchObject({
      code: 'missing_api_key',
      message:
        'No API key was sent. Send one as `Authorization: Bearer <API_KEY>` or `X-API-Key: <API_KEY>` or `?api_key=<API_KEY>`.',
    });
    const wrong = await ask('/v1/pets/7?api_key=a%20b');
    expect(wrong.text).toContain('"code":"invalid_api_key"');
    expect(wrong.seen).toBeUndefined();
  });

  test('is taken from the query of a redirect and of a route without keys, and for GET /usage (reliability 178)', async () => {
    const moved = await ask(`/moved/a?x=1&api_key=${one.key}&y`);
    expect(moved.response.header('location')).toBe('https://api.example.com/a?x=1&y');
    const open = await ask(`/open/a?api_key=${one.key}&y`, `X-API-Key:\r\n`);
    expect(open.seen!.url).toBe('/open/a?y');
    expect(open.seen!.values('x-api-key')).toEqual([]);
    const usage = await ask(`/usage?api_key=${one.key}`);
    expect(JSON.parse(usage.response.body.toString())).toMatchObject({ id: one.id });
  });

  test('is in no log line (reliability 178)', async () => {
    await ask(`/nowhere?api_key=${one.key}`);
    await ask(`/nowhere?api_key=${one.key}`, `X-API-Key: ${one.key}\r\n`);
    await eventually(() => expect(gateway.process.stdout).toContain('"path":"/nowhere"'));
    expect(gateway.process.stdout + gateway.process.stderr).not.toContain(one.key);
  });
});

test('a preflight lets pages set the field', async () => {
  const { response } = await rawExchange(
    gateway.port,
    'OPTIONS /v1/pets/7 HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example.com\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: x-api-key\r\n\r\n',
  ).then(({ responses }) => ({ response: responses[0]! }));
  expect(response.header('access-control-allow-headers')).toBe('Authorization, Content-Type, X-Request-Id, X-API-Key');
});

test('over HTTP/2 a key in a place that is not read is answered with the name of the place', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin });
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const answer = await askHttp2(session, { path: '/v1/pets/1', headers: { 'x-api-key': one.key } });
  expect(JSON.parse(answer.body.toString())).toEqual({
    code: 'missing_api_key',
    message: '`X-API-Key` is not read here; send the key as `Authorization: Bearer <API_KEY>`.',
    status: 401,
  });
});

test('over HTTP/2 and for a WebSocket it is the same', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, routes: ROUTES, more: KEYS });
  const own = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  expect((await askHttp2(session, { path: '/v1/pets/1', headers: { 'x-api-key': own.key } })).status).toBe(200);
  expect(upstream.requests.at(-1)!.values('x-api-key')).toEqual([]);
  expect((await askHttp2(session, { path: `/v1/pets/1?api_key=${own.key}&a` })).status).toBe(200);
  expect(upstream.requests.at(-1)!.url).toBe('/v1/pets/1?a');
  const both = await askHttp2(session, { path: `/v1/pets/1?api_key=${own.key}`, headers: { 'x-api-key': own.key } });
  expect(both.status).toBe(400);

  const service = await startWebSocketUpstream();
  const live = await openGateway({
    upstream: service.origin,
    routes: '\n  - { path: /v1/live, methods: [GET], upstream: store, websocket: true }',
    more: KEYS,
  });
  const caller = await live.createKey('endless');
  const bytes = `GET /v1/live?api_key=${caller.key}&room=1 HTTP/1.1\r\nHost: a\r\n${HANDSHAKE}\r\n`;
  const { bytes: answer } = await rawExchange(live.port, bytes, { forMs: 500, until: 'closed' });
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1\.1 101 /);
  expect(service.asked.at(-1)!.url).toBe('/v1/live?room=1');
  const opened = await openWebSocket(live, caller.key, '/v1/live');
  expect(opened.answer.statusCode).toBe(101);
});

test('without `authorization` in the list, that field is not read, and is not forwarded either', async () => {
  const alone = await openGateway({ upstream: upstream.origin, more: 'keys: { from: [{ header: X-API-Key }] }' });
  const { key } = await alone.createKey('endless');
  const wrongPlace = await alone.get('/v1/pets', key);
  expect([wrongPlace.status, await wrongPlace.json()]).toEqual([
    401,
    {
      code: 'missing_api_key',
      message: '`Authorization` is not read here; send the key as `X-API-Key: <API_KEY>`.',
      status: 401,
    },
  ]);
  const answer = await alone.get('/v1/pets', key, { headers: { 'X-API-Key': key } });
  expect(answer.status).toBe(200);
  expect(upstream.requests.at(-1)!.values('authorization')).toEqual([]);
});
