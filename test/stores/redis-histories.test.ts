import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { History } from '../../src/admit/history.ts';
import { recordAdmitted, recordLate, recordRefused } from '../../src/stores/embedded/history-costs.ts';
import { REFUSALS_LUA } from '../../src/stores/redis/engine-lua.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { SETTLE, settlementOf } from '../../src/stores/redis/settlement-calls.ts';
import { setClock, T0, twinLedger, withClock } from '../admit/twin-ledger.ts';
import { allowance } from '../support/allowance.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { LATE_MS, ROOM } from '../support/room.ts';
import { SEED, tries } from '../support/sample.ts';

/*
 * The histories that the scripts write. Hours move by src/engine/history-moves.ts in both stores; how costs and refusals are added differs.
 */

const HOUR_MS = 3_600_000;
const FIRST_HOUR = Math.floor(T0 / HOUR_MS);
const PLAN = { ...allowance({ day: 1e15 }), history: 'admitted' as const };

let redis: Redis;
let scripts: ReturnType<typeof scriptsOn>;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
  scripts = scriptsOn(redis);
});
afterAll(() => redis.disconnect());

/** The scripts of a decision, a settlement and refusals, each at an hour of the store. */
function scriptsOn(redis: Redis) {
  const ledger = twinLedger(redis);
  const [settle, refuse] = [withClock(SETTLE.lua), withClock(`${REFUSALS_LUA}return refusals_script()\n`)];
  return {
    async admitted(id: string, hour: number, cost: number) {
      setClock(redis, hour * HOUR_MS);
      await ledger.decide([{ consumerId: id, allowance: PLAN, cost, n: 1 }]);
    },
    async late(id: string, hour: number, delta: number, present: number) {
      setClock(redis, present * HOUR_MS);
      const settlement = settlementOf({ delta, hour, isRecorded: false, windows: [] }, present * HOUR_MS);
      expect(await redis.eval(settle, 2, keyspace.account(`${id}%t`), keyspace.history(id), settlement)).toBe(0);
    },
    async refused(id: string, hour: number, refused: number, banned: number) {
      setClock(redis, hour * HOUR_MS);
      expect(await redis.eval(refuse, 1, keyspace.history(id), refused, banned)).toBe(0);
    },
  };
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

test(
  'Redis keeps the same bytes of every history as the embedded store',
  async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (history) => {
        const id = `history${run++}`;
        let kept: History | null = null;
        let hour = FIRST_HOUR;
        for (const step of history) {
          hour += step.afterHours;
          if (step.kind === 'admitted') {
            kept = recordAdmitted(kept, hour * HOUR_MS, step.cost);
            await scripts.admitted(id, hour, step.cost);
          } else if (step.kind === 'late') {
            kept = recordLate(kept, hour - step.byHours, step.cost, hour);
            await scripts.late(id, hour - step.byHours, step.cost, hour);
          } else {
            kept = recordRefused(kept, hour * HOUR_MS, step.refused, step.banned);
            await scripts.refused(id, hour, step.refused, step.banned);
          }
        }
        const stored = await redis.getBuffer(keyspace.history(id));
        expect(stored === null ? kept : stored.equals(kept!)).toBe(stored === null ? null : true);
        if (stored !== null) expect(await redis.pttl(keyspace.history(id))).toBeGreaterThan(0);
      }),
      { seed: SEED, numRuns: tries(300, 2_000) },
    );
  },
  120_000 * ROOM,
);

test('a large value of another program in the place of a history does not hold up the server', async () => {
  const key = keyspace.history('large');
  await redis.set(key, 'x'.repeat(100_000_000));
  const beganMs = performance.now();
  for (let i = 0; i < 100; i++) {
    await scripts.admitted('large', FIRST_HOUR, 1);
    await scripts.refused('large', FIRST_HOUR, 1, 1);
  }
  expect(performance.now() - beganMs).toBeLessThan(LATE_MS);
  expect(await redis.getrange(key, 0, 999)).toBe('x'.repeat(1_000));
  await redis.del(key);
});

test('the history of one consumer takes at most 1.2 KB in Redis, its name and all', async () => {
  const id = 'key_0123456789abcdef0123';
  for (let hour = FIRST_HOUR; hour < FIRST_HOUR + 92 * 24; hour += 5) {
    await scripts.admitted(id, hour, 123_456_789);
    await scripts.refused(id, hour, 100_000, 100_000);
  }
  const bytes = await redisCommand((await testRedis()).url, 'MEMORY', 'USAGE', keyspace.history(id));
  expect(bytes).toBeLessThanOrEqual(1_200);
});
