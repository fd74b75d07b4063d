import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  bucketsOf,
  expanded,
  type History,
  packed,
  recordAdmitted,
  recordLate,
  recordRefused,
} from '../../src/admit/history.ts';
import { HISTORY_LUA } from '../../src/stores/redis/decision-call.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { LATE_MS } from '../support/room.ts';

/** Far in the future: Redis expires keys by its own clock. */
const FIRST_HOUR = Math.floor(4_000_000_000_000 / 3_600_000);

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
  redis.defineCommand('testAdmitted', {
    lua: `${HISTORY_LUA}\nrecordAdmitted(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]))`,
    numberOfKeys: 1,
  });
  redis.defineCommand('testLate', {
    lua: `${HISTORY_LUA}\nhistory().broughtLate(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))`,
    numberOfKeys: 1,
  });
  redis.defineCommand('testRefused', {
    lua: `${HISTORY_LUA}\nhistory().refused(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))`,
    numberOfKeys: 1,
  });
});
afterAll(() => redis.disconnect());

interface Scripted {
  testAdmitted(key: string, hour: number, cost: number): Promise<null>;
  testLate(key: string, hour: number, cost: number, present: number): Promise<null>;
  testRefused(key: string, hour: number, refused: number, banned: number): Promise<null>;
}

const hours = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(0, 0, 0, 1, 1, 2, 5) },
  { weight: 3, arbitrary: fc.integer({ min: -60, max: 60 }) },
  { weight: 1, arbitrary: fc.integer({ min: -2_500, max: 2_500 }) },
);
const amount = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 2 ** 31 }));
const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('admitted' as const), afterHours: hours, cost: amount }),
    fc.record({
      kind: fc.constant('late' as const),
      afterHours: hours,
      byHours: fc.oneof(fc.nat(3), fc.integer({ min: -3, max: 2_300 })),
      cost: fc.oneof(
        amount,
        amount.map((given) => -given),
      ),
    }),
    fc.record({ kind: fc.constant('refused' as const), afterHours: hours, refused: amount, banned: amount }),
  ),
  { minLength: 1, maxLength: 40 },
);

test('a large value of another program in the place of a history does not hold up the server', async () => {
  const key = 'tg:h:{large}';
  await redis.set(key, 'x'.repeat(100_000_000));
  const beganMs = performance.now();
  for (let i = 0; i < 100; i++) {
    await (redis as Redis & Scripted).testAdmitted(key, FIRST_HOUR, 1);
    await (redis as Redis & Scripted).testRefused(key, FIRST_HOUR, 1, 1);
  }
  expect(performance.now() - beganMs).toBeLessThan(LATE_MS);
  expect(await redis.getrange(key, 0, 999)).toBe('x'.repeat(1_000));
  await redis.del(key);
});

test('history.ts and history.lua keep the same bytes of every history', async () => {
  const scripted = redis as Redis & Scripted;
  let run = 0;
  await fc.assert(
    fc.asyncProperty(steps, async (history) => {
      const key = `tg:h:{twin${run++}}`;
      let kept: History | null = null;
      let hour = FIRST_HOUR;
      for (const step of history) {
        hour += step.afterHours;
        if (step.kind === 'admitted') {
          kept = recordAdmitted(kept, hour, step.cost);
          await scripted.testAdmitted(key, hour, step.cost);
        } else if (step.kind === 'late') {
          kept = recordLate(kept, hour - step.byHours, step.cost, hour);
          await scripted.testLate(key, hour - step.byHours, step.cost, hour);
        } else {
          kept = recordRefused(kept, hour, step.refused, step.banned);
          await scripted.testRefused(key, hour, step.refused, step.banned);
        }
      }
      const stored = await redis.getBuffer(key);
      expect(stored === null ? kept : stored.equals(kept!)).toBe(stored === null ? null : true);
      if (stored !== null) expect(await redis.pttl(key)).toBeGreaterThan(0);
    }),
    { seed: 20261122, numRuns: 300 },
  );
});

describe('a history', () => {
  const AT = FIRST_HOUR - (FIRST_HOUR % 24);
  const ms = (hour: number) => hour * 3_600_000;
  const kept = (...uses: [hour: number, cost: number][]) =>
    uses.reduce<History | null>((history, [hour, cost]) => recordAdmitted(history, AT + hour, cost), null)!;

  test('has each hour of the last 48 and each day of the last 92, and their sums agree', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ pause: fc.nat(3), cost: fc.integer({ min: 1, max: 1_000_000 }) }), { maxLength: 300 }),
        (uses) => {
          let history: History | null = null;
          let hour = AT;
          const byHour = new Map<number, number>();
          for (const { pause, cost } of uses) {
            hour += pause;
            history = recordAdmitted(history, hour, cost);
            byHour.set(hour, (byHour.get(hour) ?? 0) + cost);
          }
          if (history === null) return;
          const inHours = [...byHour].filter(([one]) => one > hour - 48).map(([one, cost]) => [ms(one), cost]);
          expect(bucketsOf(history, 'hour', ms(hour)).map(({ atMs, admitted }) => [atMs, admitted])).toEqual(inHours);
          const total = [...byHour.values()].reduce((sum, cost) => sum + cost, 0);
          expect(bucketsOf(history, 'day', ms(hour)).reduce((sum, { admitted }) => sum + admitted, 0)).toBe(total);
        },
      ),
      { seed: 20261122, numRuns: 500 },
    );
  });

  test('takes late usage into the hour in which it happened, and shows nothing that the clock has not reached', () => {
    const history = kept([0, 5], [3, 7], [1, 2]);
    expect(bucketsOf(history, 'hour', ms(AT + 3)).map(({ admitted }) => admitted)).toEqual([5, 2, 7]);
    expect(bucketsOf(history, 'hour', ms(AT + 1)).map(({ admitted }) => admitted)).toEqual([5, 2]);
  });

  test('forgets what is older, also if nobody called for months', () => {
    expect(bucketsOf(kept([0, 5], [48, 1]), 'hour', ms(AT + 48)).map(({ admitted }) => admitted)).toEqual([1]);
    expect(bucketsOf(kept([0, 5], [91 * 24, 1]), 'day', ms(AT + 91 * 24)).map(({ admitted }) => admitted)).toEqual([
      5, 1,
    ]);
    expect(bucketsOf(kept([0, 5], [92 * 24, 1]), 'day', ms(AT + 92 * 24)).map(({ admitted }) => admitted)).toEqual([1]);
    expect(bucketsOf(kept([0, 5]), 'day', ms(AT + 92 * 24))).toEqual([]);
  });

  test('begins anew if the clock was set back by more than it keeps', () => {
    expect(bucketsOf(kept([1_000, 5], [0, 1]), 'hour', ms(AT)).map(({ admitted }) => admitted)).toEqual([1]);
  });

  test('tells refusals of the present hour exactly and those before within 7 %', () => {
    let history = recordRefused(null, AT, 1_000, 3);
    expect(bucketsOf(history, 'hour', ms(AT))).toEqual([{ atMs: ms(AT), admitted: 0, refused: 1_000, banned: 3 }]);
    history = recordRefused(history, AT + 24, 0, 1);
    const [before] = bucketsOf(history, 'hour', ms(AT + 24));
    expect(before!.banned).toBe(3);
    expect(Math.abs(before!.refused - 1_000)).toBeLessThan(70);
    const [yesterday, today] = bucketsOf(history, 'day', ms(AT + 24));
    expect(yesterday!.refused).toBe(before!.refused);
    expect(today).toMatchObject({ refused: 0, banned: 1 });
  });

  test('packs every count into a byte from which it is known within 7 %', () => {
    for (let count = 0; count < 2 ** 32; count = Math.floor(count * 1.013) + 1) {
      const byte = packed(count);
      expect(byte).toBeLessThan(256);
      expect(Math.abs(expanded(byte) - count)).toBeLessThanOrEqual(count * 0.07);
    }
  });
});

test('the history of one consumer takes at most 1.2 KB in Redis, its name and all', async () => {
  const key = 'tg:h:{key_0123456789abcdef0123}';
  for (let hour = FIRST_HOUR; hour < FIRST_HOUR + 92 * 24; hour += 5) {
    await (redis as Redis & Scripted).testAdmitted(key, hour, 123_456_789);
    await (redis as Redis & Scripted).testRefused(key, hour, 100_000, 100_000);
  }
  expect(await redisCommand((await testRedis()).url, 'MEMORY', 'USAGE', key)).toBeLessThanOrEqual(1_200);
});
