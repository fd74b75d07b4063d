import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { type PrivateRedis, privateRedis, redisCommand } from '../../support/redis.ts';
import { createKey, jsonOf } from './command.ts';
import { type Answer, expectCountdown, type Fleet, PEPPER, repeat, shuffled, startFleet } from './fleet.ts';

/**
 * Four real gateways on one real Redis, and clients that pay no heed to Retry-After: what contract section 3 says of
 * numbers holds to the last request.
 */
const PLANS = `
plans:
  exact: { limits: { minute: 500, day: 100000 }, bans: off }
  daily: { limits: { minute: 400, day: 250 }, bans: off }
  costly: { limits: { minute: 503 }, bans: off }
  wide: { limits: { minute: 1000000 } }
  strict: { limits: { minute: 30 }, bans: { after: 25, first: 1s, factor: 2 } }
bans: { after: 10, within: 1m, first: 1m, factor: 2, longest: 24h, forget: 24h }
`;

let redis: PrivateRedis;
let fleet: Fleet;

beforeAll(async () => {
  redis = await privateRedis();
  const env = { REDIS_URL: redis.url, KEY_PEPPER: PEPPER };
  // A busy machine must not make this a test of the outage policy.
  fleet = await startFleet(4, { connections: 160, plans: PLANS, env, more: 'redis: { timeout: 5s }' });
});

const keyOn = (plan: string) => createKey(fleet.gateways[0]!.env, plan);
const of = (answers: readonly Answer[], { key }: { key: string }) => answers.filter((answer) => answer.key === key);
const remainingOf = (answers: readonly Answer[]) => answers.map(({ remaining }) => remaining);
const admitted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200);

const usageOf = (id: string) => jsonOf(fleet.gateways[1]!.env, 'usage', id);

test('every key gets exactly its limit, from four gateways at once, and refused requests spend nothing (reliability 128, 129, 130)', async () => {
  const keys = await Promise.all(['exact', 'exact', 'daily', 'costly'].map(keyOn));
  const [one, two, daily, costly] = keys as [(typeof keys)[0], (typeof keys)[0], (typeof keys)[0], (typeof keys)[0]];
  const cheap = '/v1/pets';
  const answers = await fleet.send(
    shuffled(
      [
        ...repeat(1_500, { key: one.key, path: cheap }),
        ...repeat(1_500, { key: two.key, path: cheap }),
        ...repeat(1_500, { key: daily.key, path: cheap }),
        ...repeat(90, { key: costly.key, path: '/v1/costly' }),
        ...repeat(900, { key: costly.key, path: cheap }),
      ],
      20260401,
    ),
  );
  expect(new Set(answers.map(({ code }) => code))).toEqual(new Set([null, 'rate_limit_exceeded']));

  for (const [key, limit, window] of [
    [one, 500, 'minute'],
    [two, 500, 'minute'],
    [daily, 250, 'day'],
  ] as const) {
    const passed = admitted(of(answers, key));
    expect(passed).toHaveLength(limit);
    expectCountdown(remainingOf(passed), limit);
    expect(fleet.reached(key.id)).toBe(limit);
    const { windows, strikes, ban } = await usageOf(key.id);
    expect(windows[window]).toMatchObject({ limit, used: limit, remaining: 0 });
    // Counted in every window or in none.
    expect(windows.minute.used).toBe(limit);
    expect(windows.day.used).toBe(limit);
    expect({ strikes, ban }).toEqual({ strikes: 0, ban: null });
    const refused = of(answers, key).filter(({ status }) => status === 429);
    for (const { remaining, retryAfter, details } of refused) {
      expect(remaining).toBe(0);
      expect(details.window).toBe(window);
      expect(retryAfter).toBeGreaterThan(window === 'day' ? 86_000 : 30);
      expect(retryAfter).toBeLessThanOrEqual(window === 'day' ? 86_400 : 60);
    }
  }

  const passed = admitted(of(answers, costly));
  const { windows } = await usageOf(costly.id);
  // A cost of 5 that does not fit leaves room for costs of 1, so the whole limit is used, to the last request.
  expect(windows.minute).toMatchObject({ limit: 503, used: 503, remaining: 0 });
  expect(fleet.reached(costly.id)).toBe(passed.length);
  const costs = passed.map(({ path }) => (path === '/v1/costly' ? 5 : 1));
  expect(costs.reduce<number>((sum, cost) => sum + cost, 0)).toBe(503);
});

test('a ban begins at exactly its strike, counted over all gateways, and the next one is twice as long (reliability 134)', async () => {
  const { id, key } = await keyOn('strict');
  const hammer = () => fleet.send(repeat(400, { key, path: '/v1/pets' }));
  const timeMs = async () => {
    const [seconds, microseconds] = (await redisCommand(redis.url, 'TIME')) as [string, string];
    return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  };
  const endMs = async () => Number(await redisCommand(redis.url, 'HGET', keyspace.account(id), 'B'));
  let passedBefore = 30;
  for (const [ban, lengthMs] of [
    [1, 1_000],
    [2, 2_000],
  ] as const) {
    const [beforeMs, answers, afterMs] = [await timeMs(), await hammer(), await timeMs()];
    expect(admitted(answers)).toHaveLength(passedBefore);
    expect(answers.filter(({ code }) => code === 'rate_limit_exceeded')).toHaveLength(24);
    const banned = answers.filter(({ code }) => code === 'api_key_banned');
    expect(banned).toHaveLength(400 - passedBefore - 24);
    const untilMs = await endMs();
    expect(untilMs - lengthMs).toBeGreaterThanOrEqual(beforeMs);
    expect(untilMs - lengthMs).toBeLessThanOrEqual(afterMs);
    const told = new Set(banned.map(({ details }) => JSON.stringify(details)));
    expect([...told]).toEqual([JSON.stringify({ bannedUntil: Math.ceil(untilMs / 1_000), ban })]);
    // The window that refused outlasts the ban, and Retry-After says so.
    for (const { retryAfter, remaining } of banned) {
      expect(retryAfter).toBeGreaterThan(lengthMs / 1_000);
      expect(remaining).toBe(0);
    }
    passedBefore = 0;
    await delay(Math.max(untilMs - (await timeMs()), 0) + 2);
  }
  expect((await usageOf(id)).windows.minute.used).toBe(30);
  expect(fleet.reached(id)).toBe(30);
});

test('under load Redis is sent far fewer commands than there are requests', async () => {
  const keys = await Promise.all(['wide', 'wide', 'wide'].map(keyOn));
  const calls = async () => {
    const text = String(await redisCommand(redis.url, 'INFO', 'commandstats'));
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(text)?.[1] ?? 0);
  };
  // Each gateway learns of the keys first.
  await fleet.send(keys.flatMap(({ key }) => repeat(8, { key, path: '/v1/pets' })));
  const before = await calls();
  const requests = keys.flatMap(({ key }) => repeat(1_000, { key, path: '/v1/pets' }));
  const answers = await fleet.send(shuffled(requests, 20260402));
  expect(admitted(answers)).toHaveLength(3_000);
  expect((await calls()) - before).toBeLessThan(3_000 / 2);
});
