import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bucketsOf } from '../../src/admit/history.ts';
import { Circuit } from '../../src/stores/redis/circuit.ts';
import { DECIDE_LUA } from '../../src/stores/redis/decision-call.ts';
import type { DurableWrites } from '../../src/stores/redis/durable-writes.ts';
import { RedisHistory } from '../../src/stores/redis/history.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { allowance } from '../support/allowance.ts';
import { atEnd } from '../support/endings.ts';
import { privateRedis } from '../support/private-redis.ts';

const DAY_MS = 86_400_000;
const NOON_MS = Date.UTC(2026, 10, 20, 12);
const CLOCK_LINE = 'local time=redis.call("TIME")';
const plan = { ...allowance({ day: 1_000_000 }), history: 'admitted' as const };

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await privateRedis()).url, { lazyConnect: true });
  await redis.connect();
});
afterAll(() => redis.disconnect());

/** A ledger whose store's clock is `storeMs`, of a gateway whose own clock is `ownMs`. */
function ledgerAt(clock: { storeMs: number; ownMs: number }) {
  const circuit = new Circuit({ timeoutMs: 5_000, failures: 3, probeEveryMs: 100, probe: () => redis.ping() });
  atEnd(() => circuit.close());
  expect(DECIDE_LUA.split(CLOCK_LINE)).toHaveLength(2);
  const decideLua = DECIDE_LUA.replace(
    CLOCK_LINE,
    "local ms = redis.call('GET', 'tg:test:history-clock')\nlocal time = { math.floor(ms / 1000), ms % 1000 * 1000 }",
  );
  const ledger = new RedisLedger({
    redis,
    circuit,
    publish: async () => {},
    writes: null as unknown as DurableWrites,
    wallMs: () => clock.ownMs,
    decideLua,
  });
  const history = new RedisHistory({ redis, circuit, wallMs: () => clock.ownMs });
  return {
    admit: async (id: string) => {
      await redis.set('tg:test:history-clock', clock.storeMs);
      await ledger.decide([{ consumerId: id, allowance: plan, cost: 1, n: 10 }]);
    },
    daysOf: async (id: string) => {
      const read = await history.of(id);
      return bucketsOf(read!.history, 'day', clock.ownMs).map(({ admitted }) => admitted);
    },
  };
}

test.each([
  ['three days behind', -3 * DAY_MS],
  ['200 days ahead', 200 * DAY_MS],
])('a store whose clock is %s for one request empties no history (reliability 250)', async (what, wrongMs) => {
  const clock = { storeMs: NOON_MS, ownMs: NOON_MS };
  const { admit, daysOf } = ledgerAt(clock);
  const id = `history ${what}`;
  for (let day = 0; day < 6; day++) {
    clock.storeMs = clock.ownMs = NOON_MS + day * DAY_MS;
    await admit(id);
  }
  expect(await daysOf(id)).toEqual([10, 10, 10, 10, 10, 10]);
  clock.storeMs += wrongMs;
  await admit(id);
  clock.storeMs = clock.ownMs;
  expect((await daysOf(id)).slice(0, 6)).toEqual([10, 10, 10, 10, 10, 10]);
  // With the right time it is recorded again.
  await admit(id);
  expect((await daysOf(id)).at(-1)).toBe(20);
});

test('a store whose clock is less than an hour off records as ever (reliability 250)', async () => {
  const clock = { storeMs: NOON_MS, ownMs: NOON_MS + 59 * 60_000 };
  const { admit, daysOf } = ledgerAt(clock);
  await admit('history near');
  expect(await daysOf('history near')).toEqual([10]);
});
