import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const PLANS = `
plans:
  minutes: { limits: { minute: 2, day: 1000 } }
  hours: { limits: { hour: 2 }, bans: { after: 2, within: 1m, first: 3h, factor: 2, longest: 24h, forget: 24h } }
  seconds: { limits: { second: 1 }, bans: { after: 2, within: 1m, first: 2s, factor: 2, longest: 24h, forget: 24h } }
bans: { after: 3, within: 1m, first: 2s, factor: 2, longest: 24h, forget: 24h }
`;

let gateway: TestGateway;
let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, plans: PLANS });
});

interface Refusal {
  readonly code: string;
  readonly details: { readonly bannedUntil: number; readonly ban: number };
}

const codes = async (key: string, times: number) => {
  const all: string[] = [];
  for (let i = 0; i < times; i++) {
    const answer = await gateway.get('/v1/pets', key);
    all.push(answer.status === 200 ? '200' : ((await answer.json()) as Refusal).code);
  }
  return all;
};

test('the `after`-th strike gets the ban answer, and so do all that follow', async () => {
  const { key } = await gateway.createKey('minutes');
  expect(await codes(key, 7)).toEqual([
    ...['200', '200', 'rate_limit_exceeded', 'rate_limit_exceeded'],
    ...['api_key_banned', 'api_key_banned', 'api_key_banned'],
  ]);
});

test('429 api_key_banned: the answer says until when, which ban it is, and when a request can pass again', async () => {
  const { key } = await gateway.createKey('minutes');
  await codes(key, 4);
  const seen = upstream.requests.length;
  const answer = await gateway.get('/v1/pets', key);
  const nowSeconds = Date.now() / 1000;
  const body = (await answer.json()) as Refusal;
  expect(answer.status).toBe(429);
  expect(body).toEqual({
    code: 'api_key_banned',
    message: expect.any(String),
    status: 429,
    details: { bannedUntil: expect.any(Number), ban: 1 },
  });
  expect(body.details.bannedUntil - nowSeconds).toBeGreaterThan(0.5);
  expect(body.details.bannedUntil - nowSeconds).toBeLessThanOrEqual(3);
  // The minute outlasts the ban of two seconds, so it is the minute that must be waited for.
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(50);
  expect(answer.headers.get('x-ratelimit-limit')).toBe('2');
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
  expect(Number(answer.headers.get('x-ratelimit-reset'))).toBeGreaterThan(nowSeconds + 50);
  expect(answer.headers.get('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=998;t=\d+$/);
  expect(upstream.requests).toHaveLength(seen);
});

test('where the ban outlasts the window, Retry-After and the reset are those of the ban', async () => {
  const { key } = await gateway.createKey('hours');
  expect(await codes(key, 4)).toEqual(['200', '200', 'rate_limit_exceeded', 'api_key_banned']);
  const answer = await gateway.get('/v1/pets', key);
  const { details } = (await answer.json()) as Refusal;
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(3 * 3600 - 10);
  expect(Number(answer.headers.get('retry-after'))).toBeLessThanOrEqual(3 * 3600);
  expect(Number(answer.headers.get('x-ratelimit-reset'))).toBe(details.bannedUntil);
});

test('requests during a ban do not lengthen it, and after Retry-After the key is served again', async () => {
  const { key } = await gateway.createKey('seconds');
  await codes(key, 3);
  const first = await gateway.get('/v1/pets', key);
  const { details, code } = (await first.json()) as Refusal;
  expect(code).toBe('api_key_banned');
  for (let i = 0; i < 10; i++) {
    const during = await gateway.get('/v1/pets', key);
    expect(((await during.json()) as Refusal).details).toEqual(details);
  }
  await delay(Number(first.headers.get('retry-after')) * 1000);
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
});

test('the next ban is the second, and longer', async () => {
  const { key } = await gateway.createKey('seconds');
  await codes(key, 3);
  const first = await gateway.get('/v1/pets', key);
  await delay(Number(first.headers.get('retry-after')) * 1000);
  await codes(key, 3);
  const second = await gateway.get('/v1/pets', key);
  expect(((await second.json()) as Refusal).details.ban).toBe(2);
  expect(Number(second.headers.get('retry-after'))).toBeGreaterThanOrEqual(3);
});

test('a ban is of the key alone: another key of the same plan and address is served', async () => {
  const { key } = await gateway.createKey('minutes');
  const other = await gateway.createKey('minutes');
  await codes(key, 5);
  expect((await gateway.get('/v1/pets', other.key)).status).toBe(200);
});

test('a banned key learns nothing about routes, and its malformed requests are still 400', async () => {
  const { key } = await gateway.createKey('minutes');
  await codes(key, 5);
  expect((await gateway.get('/v1/none', key)).status).toBe(429);
  expect((await gateway.get('/v1//none', key)).status).toBe(400);
});
