import { writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { startGateway, startReplica } from '../../support/gateway.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';
import { createKey, jsonOf } from './command.ts';
import { expectCountdown, type Fleet, PEPPER, repeat, startFleet } from './fleet.ts';

// Sliding and calendar windows as callers see them: real gateways, a real store, and clients that do not wait.

const HOUR_MS = 3_600_000;

let env: Record<string, string>;
beforeAll(async () => {
  env = { REDIS_URL: (await privateRedis()).url, KEY_PEPPER: PEPPER };
});

async function storeTimeMs(): Promise<number> {
  const [seconds, microseconds] = (await redisCommand(env.REDIS_URL!, 'TIME')) as [string, string];
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** Stops the gateways, and reads off their logs when the store admitted requests of one consumer, Unix milliseconds. */
async function admittedAt({ gateways }: Fleet, consumerId: string): Promise<number[]> {
  await Promise.all(gateways.map(({ process }) => process.stop()));
  return gateways
    .flatMap(({ process }) => process.stdout.split('\n').filter((line) => line.endsWith('"msg":"request"}')))
    .map((line) => JSON.parse(line) as { consumerId: string; judgement: string; decidedAtMs: number })
    .filter((line) => line.consumerId === consumerId && line.judgement === 'admitted')
    .map(({ decidedAtMs }) => decidedAtMs)
    .sort((a, b) => a - b);
}

/** The most admissions in any span of `lengthMs`. @param times sorted */
function mostInAnySpan(times: readonly number[], lengthMs: number): number {
  return Math.max(...times.map((end, i) => i + 1 - times.findIndex((at) => at > end - lengthMs)));
}

test('a sliding window admits its limit and no more in any span of its length, from four gateways at once', async () => {
  const plans = 'plans: { slides: { limits: { second: { limit: 40, window: sliding } }, bans: off } }';
  const fleet = await startFleet(4, { connections: 32, plans, env, more: 'redis: { timeout: 5s }' });
  const { id, key } = await createKey(fleet.gateways[0]!.env, 'slides');
  const send = (n: number) => fleet.send(repeat(n, { key, path: '/v1/pets' }));
  const hammer = async (ms: number) => {
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs) await send(32);
  };
  // A fixed window would be opened by the one request, be filled at its end, and admit as many again in the next.
  for (let round = 0; round < 3; round++) {
    await send(1);
    await delay(850);
    await hammer(500);
    await delay(1_200);
  }
  await hammer(1_500);
  const times = await admittedAt(fleet, id);
  expect(fleet.reached(id)).toBe(times.length);
  expect(mostInAnySpan(times, 1_000)).toBe(40);
});

test('a calendar window admits exactly its limit from four gateways until its hour ends, and all of them say when that is', async () => {
  // In one of the two zones the hour has half an hour left.
  const isLate = (await storeTimeMs()) % HOUR_MS >= HOUR_MS / 2;
  const [zone, offsetMs] = isLate ? ['Asia/Kolkata', HOUR_MS / 2] : ['UTC', 0];
  const plans = `plans: { office: { limits: { hour: { limit: 300, align: calendar, zone: ${zone} }, month: 9000 }, bans: off } }`;
  const fleet = await startFleet(4, { connections: 64, plans, env, more: 'redis: { timeout: 5s }' });
  const { id, key } = await createKey(fleet.gateways[0]!.env, 'office');
  // One at a time at first: each gateway looks into its memory before it asks the store again.
  const early = await createKey(fleet.gateways[0]!.env, 'office');
  for (let round = 0; round < 3; round++) {
    const answers = await fleet.send(repeat(4, { key: early.key, path: '/v1/pets' }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  }
  const answers = await fleet.send(repeat(900, { key, path: '/v1/pets' }));
  const passed = answers.filter(({ status }) => status === 200);
  expect(passed).toHaveLength(300);
  expectCountdown(
    passed.map(({ remaining }) => remaining),
    300,
  );
  expect(fleet.reached(id)).toBe(300);

  const now = await storeTimeMs();
  const endS = ((Math.floor((now + offsetMs) / HOUR_MS) + 1) * HOUR_MS - offsetMs) / 1_000;
  const at = new Date(now);
  const nextMonthS = Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1) / 1_000;
  for (const gateway of fleet.gateways) {
    const { status, headers } = await gateway.get('/v1/pets', key);
    expect(status).toBe(429);
    expect(headers.get('x-ratelimit-reset')).toBe(String(endS));
    expect(headers.get('ratelimit-policy')).toBe('"hour";q=300;w=3600, "month";q=9000;w=2678400');
    const retryAfter = Number(headers.get('retry-after'));
    expect(retryAfter).toBeLessThanOrEqual(endS - Math.floor(now / 1_000));
    expect(retryAfter).toBeGreaterThan(endS - now / 1_000 - 20);
    const usage = (await (await gateway.get('/usage', key)).json()) as { windows: object };
    expect(usage.windows).toEqual({
      hour: { limit: 300, used: 300, remaining: 0, resetAt: endS },
      month: { limit: 9000, used: 300, remaining: 8700, resetAt: nextMonthS },
    });
  }
  expect((await jsonOf(fleet.gateways[0]!.env, 'usage', id)).windows.hour).toMatchObject({ used: 300, resetAt: endS });
});

test('a reload from a fixed window to a sliding one and back loses and forgives nothing, while requests go on', async () => {
  const form = (window: string) =>
    `plans: { plan: { limits: { minute: { limit: 200, window: ${window} } }, bans: off } }`;
  const fleet = await startFleet(2, { connections: 8, plans: form('fixed'), env, more: 'redis: { timeout: 5s }' });
  const { id, key } = await createKey(fleet.gateways[0]!.env, 'plan');
  const remaining: number[] = [];
  const send = async () => {
    for (const answer of await fleet.send(repeat(2, { key, path: '/v1/pets' }))) {
      if (answer.status === 200) remaining.push(answer.remaining);
    }
  };
  const reload = async (window: string, times: number) => {
    await writeFile(fleet.gateways[0]!.env.TOLLGATE_PLANS!, form(window));
    const isDone = () =>
      fleet.gateways.every(({ process }) => process.stdout.split('"msg":"settings and plans in force"').length > times);
    while (!isDone()) await Promise.all([send(), delay(50)]);
    for (let i = 0; i < 5; i++) await send();
  };
  await send();
  await reload('sliding', 1);
  const slid = await fleet.gateways[0]!.get('/v1/pets', key);
  remaining.push(Number(slid.headers.get('x-ratelimit-remaining')));
  await reload('fixed', 2);
  while (remaining.length < 200) await send();
  await send();
  expect(remaining).toHaveLength(200);
  expectCountdown(remaining, 200);
  expect(fleet.reached(id)).toBe(200);
});

test('the embedded store keeps the slices of a sliding window over a restart', async () => {
  const { origin } = await startUpstream();
  const plans = 'plans: { slides: { limits: { minute: { limit: 60, window: sliding, slices: 4 } } } }';
  const first = await startGateway({ upstream: origin, plans });
  const { id, key } = await first.createKey('slides');
  const beforeS = Math.floor(Date.now() / 1_000);
  const told = async (gateway: typeof first) => {
    const { headers } = await gateway.get('/v1/pets', key);
    expect(headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60');
    return [Number(headers.get('x-ratelimit-remaining')), Number(headers.get('x-ratelimit-reset'))] as const;
  };
  const [left, resetS] = await told(first);
  expect(left).toBe(59);
  // The oldest slice leaves one minute after its end, which is 15 s after the first request.
  expect(resetS).toBeGreaterThanOrEqual(beforeS + 75);
  expect(resetS).toBeLessThanOrEqual(Math.ceil(Date.now() / 1_000) + 75);
  await first.process.stop();
  const second = await startReplica(first);
  expect(await told(second)).toEqual([58, resetS]);
  const usage = (await (await second.get('/usage', key)).json()) as object;
  expect(usage).toMatchObject({ id, windows: { minute: { limit: 60, used: 2, remaining: 58, resetAt: resetS } } });
});
