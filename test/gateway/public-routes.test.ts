import { expect, test } from 'vitest';
import { openGateway, openReplica } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { testRedis } from '../support/redis.ts';
import { startUpstream } from '../support/upstream.ts';

// Routes with `auth: none`: everybody is served, each client address within limits of its own.

const ROUTES = `
  - { path: /v1/pets, methods: [GET, POST], upstream: store }
  - { path: /status, methods: [GET], upstream: store, auth: none, limits: { minute: 3 } }
  - { path: '/docs/**', methods: [GET], upstream: store, auth: none, limits: { minute: 2, day: 10 } }
  - { path: /help, methods: [GET], upstream: store, auth: none, limits: { minute: 3 }, sharedLimits: help }
  - { path: '/help/**', methods: [GET], upstream: store, auth: none, limits: { minute: 3 }, sharedLimits: help }
  - { path: /faq, methods: [GET], upstream: store, auth: none, limits: { minute: 3 }, sharedLimits: faq }
`;
const start = async (env = {}) => {
  const upstream = await startUpstream();
  const gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    listen: { trustedProxies: '[127.0.0.1]' },
    env,
  });
  const from = (address: string, path = '/status', fields = {}, at = gateway) =>
    at.get(path, undefined, { headers: { 'X-Forwarded-For': address, ...fields } });
  return { upstream, gateway, from };
};

test('are served without a key, each address within its limit, each route for itself, and never banned', async () => {
  const { upstream, from } = await start();
  for (const left of ['2', '1', '0']) {
    const answer = await from('192.0.2.1');
    expect([answer.status, answer.headers.get('x-ratelimit-remaining')]).toEqual([200, left]);
    expect(answer.headers.get('ratelimit-policy')).toBe('"minute";q=3;w=60');
  }
  for (let i = 0; i < 20; i++) {
    const answer = await from('192.0.2.1');
    expect(answer.status).toBe(429);
    expect(await answer.json()).toMatchObject({ code: 'rate_limit_exceeded', details: { window: 'minute', limit: 3 } });
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect((await from('192.0.2.2')).status).toBe(200);
  expect((await from('192.0.2.1', '/docs/a')).status).toBe(200);
  expect(upstream.requests.every((request) => request.values('x-consumer-id').length === 0)).toBe(true);
});

test('share the limit of an address if they have the same `sharedLimits`', async () => {
  const { from } = await start();
  for (const [path, left] of [
    ['/help', '2'],
    ['/help/a', '1'],
    ['/help', '0'],
  ] as const) {
    const answer = await from('192.0.2.1', path);
    expect([answer.status, answer.headers.get('x-ratelimit-remaining')]).toEqual([200, left]);
  }
  expect([(await from('192.0.2.1', '/help/b')).status, (await from('192.0.2.1', '/help')).status]).toEqual([429, 429]);
  expect([(await from('192.0.2.1', '/faq')).status, (await from('192.0.2.2', '/help')).status]).toEqual([200, 200]);
});

test('an IPv6 client is counted by its /64, an IPv4-mapped address as the IPv4 address', async () => {
  const { from } = await start();
  for (const last of ['1', '2', '3']) expect((await from(`2001:db8::${last}`)).status).toBe(200);
  expect((await from('2001:db8::4')).status).toBe(429);
  expect((await from('2001:db8:0:1::1')).status).toBe(200);
  for (const address of ['::ffff:192.0.2.7', '192.0.2.7', '192.0.2.7']) expect((await from(address)).status).toBe(200);
  expect((await from('::ffff:192.0.2.7')).status).toBe(429);
});

test('a key that comes along is neither looked at nor passed on', async () => {
  const { upstream, from } = await start();
  expect((await from('192.0.2.1', '/status', { Authorization: 'Bearer tg_live_wrong' })).status).toBe(200);
  expect(upstream.requests[0]?.values('authorization')).toEqual([]);
});

test('Authorization must not come twice here either', async () => {
  const { gateway } = await start();
  const bytes = 'GET /status HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n';
  const { responses } = await rawExchange(gateway.port, bytes, { until: 1 });
  expect(responses.map(({ status }) => status)).toEqual([400]);
});

test('the other routes ask for a key as ever, whatever path leads there', async () => {
  const { from } = await start();
  expect((await from('192.0.2.1', '/v1/pets')).status).toBe(401);
  expect((await from('192.0.2.1', '/unknown')).status).toBe(401);
});

test('an address has one limit across gateways', async () => {
  const redis = await testRedis();
  const { gateway, from } = await start({ REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that is long enough for tests' });
  const other = await openReplica(gateway);
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) statuses.push((await from('192.0.2.1', '/status', {}, i % 2 ? other : gateway)).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
});
