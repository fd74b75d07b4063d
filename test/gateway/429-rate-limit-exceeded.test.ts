import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const PLANS = `
plans:
  small: { limits: { minute: 3, day: 1000 } }
  gentle: { limits: { minute: 3, day: 1000 }, bans: off }
  quick: { limits: { second: 1 }, bans: off }
  closed: { limits: { minute: 0 } }
  enterprise: { limits: { minute: custom, day: custom } }
bans: { after: 10, within: 1m, first: 1m, factor: 2, longest: 24h, forget: 24h }
`;

let gateway: TestGateway;
let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, plans: PLANS });
});

const spend = async (key: string, times: number, path = '/v1/pets') => {
  for (let i = 0; i < times; i++) expect((await gateway.get(path, key)).status).toBe(200);
};

test('429 rate_limit_exceeded: what is beyond the limit is refused and told when to come back', async () => {
  const { key } = await gateway.createKey('small');
  await spend(key, 3);
  const seen = upstream.requests.length;
  const answer = await gateway.get('/v1/pets', key);
  const nowSeconds = Date.now() / 1000;
  const body = (await answer.json()) as { details: { resetAt: number } };
  const retryAfter = Number(answer.headers.get('retry-after'));
  expect(answer.status).toBe(429);
  expect(body).toEqual({
    code: 'rate_limit_exceeded',
    message: expect.stringContaining('3 per minute'),
    status: 429,
    details: { window: 'minute', limit: 3, resetAt: expect.any(Number) },
  });
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(retryAfter).toBeGreaterThanOrEqual(1);
  expect(retryAfter).toBeLessThanOrEqual(60);
  // Waiting that long is always enough.
  expect(nowSeconds + retryAfter).toBeGreaterThanOrEqual(body.details.resetAt - 1.5);
  expect(Number(answer.headers.get('x-ratelimit-reset'))).toBe(body.details.resetAt);
  expect(answer.headers.get('x-ratelimit-limit')).toBe('3');
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
  expect(answer.headers.get('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=997;t=\d+$/);
  expect(upstream.requests).toHaveLength(seen);
});

test('a refused request spends nothing in any window', async () => {
  const { key } = await gateway.createKey('gentle');
  await spend(key, 3);
  for (let i = 0; i < 15; i++) {
    const answer = await gateway.get('/v1/pets', key);
    expect(answer.status).toBe(429);
    expect(await answer.json()).toMatchObject({ code: 'rate_limit_exceeded' });
    expect(answer.headers.get('ratelimit')).toContain('"day";r=997');
  }
});

test('a day that is used up refuses although the minute is free, and says the day', async () => {
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=100', '--limit', 'day=2');
  await spend(key, 2);
  const answer = await gateway.get('/v1/pets', key);
  expect(await answer.json()).toMatchObject({ details: { window: 'day', limit: 2 } });
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(86_000);
  expect(answer.headers.get('x-ratelimit-limit')).toBe('2');
});

test('where two windows refuse, the answer is about the one that resets last', async () => {
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=1', '--limit', 'day=1');
  await spend(key, 1);
  const answer = await gateway.get('/v1/pets', key);
  expect(await answer.json()).toMatchObject({ details: { window: 'day' } });
  expect(Number(answer.headers.get('x-ratelimit-reset'))).toBeGreaterThan(Date.now() / 1000 + 86_000);
});

test('a client that waits for Retry-After is served again', async () => {
  const { key } = await gateway.createKey('quick');
  await spend(key, 1);
  const refused = await gateway.get('/v1/pets', key);
  expect(refused.status).toBe(429);
  await delay(Number(refused.headers.get('retry-after')) * 1000);
  await spend(key, 1);
});

test.each([
  ['a limit of 0', 'closed', '/v1/pets', 0],
  ['a cost above the limit', 'gentle', '/v1/costly', 3],
])('%s refuses everything, says that waiting will not help, and makes no strike', async (_what, plan, path, limit) => {
  const { key } = await gateway.createKey(plan);
  for (let i = 0; i < 12; i++) {
    const answer = await gateway.get(path, key);
    expect(answer.status).toBe(429);
    expect(await answer.json()).toMatchObject({
      code: 'rate_limit_exceeded',
      message: expect.stringContaining('waiting will not help'),
      details: { window: 'minute', limit },
    });
    expect(answer.headers.get('retry-after')).toBeNull();
    expect(answer.headers.get('x-ratelimit-limit')).toBe(String(limit));
  }
});

test('a cost above the limit is refused with the present remaining, and what costs less still passes', async () => {
  const { key } = await gateway.createKey('gentle');
  expect((await gateway.get('/v1/costly', key)).headers.get('x-ratelimit-remaining')).toBe('3');
  await spend(key, 3);
});

test('what is more than is left, but not more than the limit, passes when the window has gone by', async () => {
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=7', '--limit', 'day=100');
  await spend(key, 3);
  const answer = await gateway.get('/v1/costly', key);
  expect(answer.status).toBe(429);
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('4');
  expect(Number(answer.headers.get('retry-after'))).toBeLessThanOrEqual(60);
  await spend(key, 4);
});

test('a refused request whose route is not there is 429: the quota is asked before the route', async () => {
  const { key } = await gateway.createKey('small');
  await spend(key, 3);
  expect((await gateway.get('/v1/none', key)).status).toBe(429);
});

test('a refused request with a body on its way closes the connection after the answer', async () => {
  const { key } = await gateway.createKey('closed');
  const answer = await gateway.get('/v1/pets', key, { method: 'POST', body: 'a'.repeat(200_000) });
  expect(answer.status).toBe(429);
  expect(answer.headers.get('connection')).toBe('close');
});

test('many requests at once are admitted up to the limit, exactly', async () => {
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=20', '--limit', 'day=1000');
  const answers = await Promise.all(Array.from({ length: 25 }, () => gateway.get('/v1/pets', key)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(5);
  const left = answers
    .filter(({ status }) => status === 200)
    .map(({ headers }) => headers.get('x-ratelimit-remaining'));
  expect(new Set(left).size).toBe(20);
});
