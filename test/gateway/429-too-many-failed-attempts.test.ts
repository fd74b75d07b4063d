import { beforeAll, expect, test } from 'vitest';
import { openGateway, PLANS, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS } from '../support/room.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  // Loopback is trusted, so that each test can come from an address of its own.
  gateway = await openGateway({ upstream: upstream.origin, listen: { trustedProxies: '[127.0.0.1]' } });
  ({ key } = await gateway.createKey('free'));
});

const from = (address: string, own?: string, path = '/v1/pets') =>
  gateway.get(path, own, { headers: { 'X-Forwarded-For': address } });

const statuses = async (times: number, address: (i: number) => string) => {
  const all: number[] = [];
  for (let i = 0; i < times; i++) all.push((await from(address(i), i % 2 === 0 ? undefined : 'wrong')).status);
  return all;
};

test('429 too_many_failed_attempts: the 31st failure of a minute from one address is not looked at any more (reliability 49)', async () => {
  expect(await statuses(30, () => '192.0.2.1')).toEqual(Array(30).fill(401));
  const answer = await from('192.0.2.1', 'wrong');
  const retryAfter = Number(answer.headers.get('retry-after'));
  const reset = Number(answer.headers.get('x-ratelimit-reset'));
  expect(answer.status).toBe(429);
  expect(await answer.json()).toEqual({
    code: 'too_many_failed_attempts',
    message: expect.any(String),
    status: 429,
    details: { window: 'minute', limit: 30, resetAt: reset },
  });
  expect(retryAfter).toBeGreaterThanOrEqual(1);
  expect(retryAfter).toBeLessThanOrEqual(60);
  expect(Math.abs(reset - Date.now() / 1000 - retryAfter)).toBeLessThan(LATE_MS / 1000);
  expect(answer.headers.get('x-ratelimit-limit')).toBe('30');
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
  expect(answer.headers.get('ratelimit-policy')).toBe('"failed-authentication";q=30;w=60');
  expect(answer.headers.get('ratelimit')).toMatch(/^"failed-authentication";r=0;t=\d+$/);
  expect(answer.headers.get('www-authenticate')).toBeNull();
});

test('a good key from that very address passes, and is told of its own quota (reliability 49)', async () => {
  await statuses(31, () => '192.0.2.2');
  const answer = await from('192.0.2.2', key);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
});

test('another address has a budget of its own', async () => {
  await statuses(31, () => '192.0.2.3');
  const answer = await from('192.0.2.4');
  expect(answer.status).toBe(401);
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('29');
});

test('addresses of one IPv6 /64 share a budget, those of the next have another', async () => {
  expect((await statuses(31, (i) => `2001:db8:0:1::${i.toString(16)}`)).at(-1)).toBe(429);
  expect((await from('2001:db8:0:1:ffff::1')).status).toBe(429);
  expect((await from('2001:db8:0:2::1')).status).toBe(401);
});

test('an IPv4 address counts the same when it comes mapped into IPv6', async () => {
  await statuses(31, () => '192.0.2.5');
  expect((await from('::ffff:192.0.2.5')).status).toBe(429);
});

test('a request that is malformed costs the address nothing', async () => {
  expect((await from('192.0.2.6', undefined, '/v1//pets')).headers.get('x-ratelimit-remaining')).toBe('30');
  expect((await from('192.0.2.6')).headers.get('x-ratelimit-remaining')).toBe('29');
});

test('without a trusted proxy an X-Forwarded-For buys no new budget (reliability 31, 49)', async () => {
  const plain = await openGateway({ upstream: upstream.origin });
  const left: (string | null)[] = [];
  for (let i = 0; i < 3; i++) {
    const answer = await plain.get('/v1/pets', undefined, { headers: { 'X-Forwarded-For': `192.0.2.${i}` } });
    left.push(answer.headers.get('x-ratelimit-remaining'));
  }
  expect(left).toEqual(['29', '28', '27']);
});

// Attack: an address that is refused anyway keeps its connections, each of which costs one of maxConnections.
test('the connection of an address that has spent its failed attempts ends with the 429; that of a trusted proxy does not (reliability 151)', async () => {
  const plans = PLANS.replace('minute: 30', 'minute: 2');
  const direct = await openGateway({ upstream: upstream.origin, plans });
  const request = 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n';
  for (const field of ['', 'X-High: \xe9\r\n']) {
    const bytes = Buffer.from(request.replace('\r\n\r\n', `\r\n${field}\r\n`).repeat(4), 'latin1');
    const { responses, closed } = await rawExchange(direct.port, bytes, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual(field === '' ? [401, 401, 429] : [429]);
    expect(responses.at(-1)?.header('connection')).toBe('close');
    expect(closed).toBe(true);
  }
  const proxied = await openGateway({ upstream: upstream.origin, plans, listen: { trustedProxies: '[127.0.0.1]' } });
  const { responses } = await rawExchange(proxied.port, request.repeat(4), { until: 4 });
  expect(responses.map(({ status }) => status)).toEqual([401, 401, 429, 429]);
});
