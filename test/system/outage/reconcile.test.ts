import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bucketsOf } from '../../../src/admit/history.ts';
import type { DeferredUsage, DeferredWindow } from '../../../src/admit/ledger.ts';
import { WINDOW_MS } from '../../../src/engine/counting.ts';
import { hourOf } from '../../../src/engine/history-form.ts';
import type { WindowName } from '../../../src/model/values.ts';
import { Circuit } from '../../../src/stores/redis/circuit.ts';
import { DurableWrites } from '../../../src/stores/redis/durable-writes.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { RedisUsageReconciler } from '../../../src/stores/redis/usage-reconciler.ts';
import { allowance } from '../../support/allowance.ts';
import { testRedis } from '../../support/redis.ts';

let redis: Redis;
let reconciler: RedisUsageReconciler;
let ledger: RedisLedger;
let consumers = 0;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
  const circuit = new Circuit({ timeoutMs: 5_000, failures: 3, probeEveryMs: 100, probe: () => redis.ping() });
  reconciler = new RedisUsageReconciler({ redis, circuit });
  const writes = new DurableWrites({ redis, replicas: 0, timeoutMs: 1_000 });
  ledger = new RedisLedger({ redis, circuit, publish: async () => {}, writes });
});

afterAll(() => redis.disconnect());

const plan = allowance({ minute: 50, day: 1_000 });
const owed = (window: WindowName, spent: number, endsAtMs: number): DeferredWindow => {
  return { window, spent, endsAtMs, lengthMs: WINDOW_MS[window] };
};

async function nowMs(): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** A consumer of its own with `n` requests counted in Redis, and what it owes brought there. */
async function consumer(n: number) {
  const consumerId = `backlogSize${consumers++}`;
  const windowsNow = async () => (await ledger.present(consumerId, plan))!.accounts[0].windows;
  if (n > 0) await ledger.decide([{ consumerId, allowance: plan, cost: 1, n }]);
  const bring = async (windows: DeferredUsage['windows'], ownNowMs: number | null = null) =>
    (await reconciler.reconcile([{ consumerId, windows, ownNowMs }]))[0];
  const lives = () => redis.pttl(keyspace.account(consumerId));
  return { consumerId, windowsNow, bring, lives };
}

describe('what a gateway admitted alone', () => {
  test('is added to the windows that it was counted in, which end when they would have (reliability 144)', async () => {
    const { windowsNow, bring } = await consumer(10);
    const { minute, day } = await windowsNow();
    expect(await bring([owed('minute', 5, minute!.endsAtMs), owed('day', 5, day!.endsAtMs)])).toEqual({
      kind: 'added',
      added: ['minute', 'day'],
    });
    expect(await windowsNow()).toEqual({ minute: { ...minute, used: 15 }, day: { ...day, used: 15 } });
  });

  test('in a window that has ended is not added to the next one (reliability 144)', async () => {
    const { windowsNow, bring } = await consumer(10);
    const before = await windowsNow();
    const present = await nowMs();
    expect(await bring([owed('minute', 5, present - 1), owed('day', 5, before.day!.endsAtMs)])).toEqual({
      kind: 'added',
      added: ['day'],
    });
    expect(await windowsNow()).toEqual({ ...before, day: { ...before.day, used: 15 } });
  });

  test('opens the window that Redis has lost or never had, with the end that callers were told, and it expires (reliability 144)', async () => {
    const { windowsNow, bring, lives } = await consumer(0);
    const endsAtMs = (await nowMs()) + 30_000;
    await bring([owed('minute', 7, endsAtMs)]);
    expect(await windowsNow()).toEqual({ minute: { used: 7, endsAtMs } });
    expect(await lives()).toBeGreaterThan(29_000);
    expect(await lives()).toBeLessThanOrEqual(30_000);
  });

  test('joins a window that was opened meanwhile, and both end with the first of them (reliability 144)', async () => {
    for (const differsMs of [-20_000, 20_000]) {
      const { windowsNow, bring } = await consumer(10);
      const { minute, day } = await windowsNow();
      const endsAtMs = Math.min(minute!.endsAtMs + differsMs, (await nowMs()) + 60_000);
      await bring([owed('minute', 5, endsAtMs)]);
      const joined = { used: 15, endsAtMs: Math.min(minute!.endsAtMs, endsAtMs) };
      expect(await windowsNow()).toEqual({ minute: joined, day });
    }
  });

  test('is counted in the slice of the present if the window slides, and not at all if all of it has left', async () => {
    const sliding = allowance({ minute: 10 }, null, { minute: { slices: 12 } });
    const consumerId = `backlogSize${consumers++}`;
    const present = await nowMs();
    // Four requests in the first slice, half a minute ago.
    await redis.hset(keyspace.account(consumerId), { m: Buffer.from([128 + 12, 0, 4]), M: present - 30_000 });
    const bring = (endsAtMs: number) =>
      reconciler.reconcile([{ consumerId, windows: [{ ...owed('minute', 5, endsAtMs), slices: 12 }], ownNowMs: null }]);
    const slices = async () => (await ledger.present(consumerId, sliding))!.accounts[0].windows.minute!.slices;
    expect(await bring(present - 1)).toEqual([{ kind: 'added', added: [] }]);
    expect(await slices()).toMatchObject({ first: 0, counts: [4] });
    expect(await bring(present + 40_000)).toEqual([{ kind: 'added', added: ['minute'] }]);
    expect(await slices()).toEqual({ per: 12, startsAtMs: present - 30_000, first: 0, counts: [4, 0, 0, 0, 0, 0, 5] });
    const [decision] = await ledger.decide([{ consumerId, allowance: sliding, cost: 1, n: 3 }]);
    expect(decision).toMatchObject({ admitted: 1 });
  });

  test('is added to the period of a calendar window, which ends when it would have', async () => {
    const form = { day: { calendar: { unit: 'day', zone: 'Pacific/Kiritimati', anchor: 1 } } } as const;
    const daily = allowance({ day: 10 }, null, form);
    const consumerId = `backlogSize${consumers++}`;
    const [counted] = await ledger.decide([{ consumerId, allowance: daily, cost: 1, n: 4 }]);
    const { endsAtMs } = counted!.accounts[0].windows.day!;
    const { calendar } = daily.limits[0]!;
    const windows = [{ ...owed('day', 5, endsAtMs), calendar: calendar! }];
    expect(await reconciler.reconcile([{ consumerId, windows, ownNowMs: null }])).toEqual([
      { kind: 'added', added: ['day'] },
    ]);
    expect((await ledger.present(consumerId, daily))!.accounts[0].windows.day).toEqual({ used: 9, endsAtMs });
  });

  test('counts beyond the limit, so that nothing more is admitted in that window', async () => {
    const { consumerId, windowsNow, bring } = await consumer(40);
    const { minute } = await windowsNow();
    await bring([owed('minute', 40, minute!.endsAtMs)]);
    const [decision] = await ledger.decide([{ consumerId, allowance: plan, cost: 1, n: 1 }]);
    expect(decision).toMatchObject({ admitted: 0, accounts: [{ windows: { minute: { used: 80 } } }] });
  });

  test('under a clock that is hours off is added as if it had been right', async () => {
    for (const offMs of [-7_200_000, 7_200_000]) {
      const { windowsNow, bring } = await consumer(0);
      const present = await nowMs();
      await bring([owed('minute', 3, present + offMs + 40_000)], present + offMs);
      const { minute } = await windowsNow();
      expect(minute!.used).toBe(3);
      expect(minute!.endsAtMs - present).toBeGreaterThanOrEqual(40_000);
      expect(minute!.endsAtMs - present).toBeLessThan(42_000);
    }
  });

  test('never makes a window longer than its length', async () => {
    const { windowsNow, bring } = await consumer(0);
    await bring([owed('minute', 3, (await nowMs()) + 7_200_000)]);
    expect((await windowsNow()).minute!.endsAtMs).toBeLessThanOrEqual((await nowMs()) + 60_000);
  });

  test('leaves strikes and the ban as they are', async () => {
    const strict = allowance({ minute: 1 }, { after: 2 });
    const consumerId = `backlogSize${consumers++}`;
    const [before] = await ledger.decide([{ consumerId, allowance: strict, cost: 1, n: 3 }]);
    expect(before!.accounts[0].ban).not.toBeNull();
    const { minute } = before!.accounts[0].windows;
    await reconciler.reconcile([{ consumerId, windows: [owed('minute', 1, minute!.endsAtMs)], ownNowMs: null }]);
    const after = await ledger.present(consumerId, strict);
    expect(after!.accounts[0]).toEqual({ ...before!.accounts[0], windows: { minute: { ...minute, used: 2 } } });
  });

  test('is lost where something foreign lies in its place, and that stays as it is', async () => {
    const { consumerId, bring } = await consumer(0);
    await redis.set(keyspace.account(consumerId), 'foreign', 'EX', 100);
    expect(await bring([owed('minute', 1, (await nowMs()) + 1_000)])).toEqual({ kind: 'lost' });
    expect(await redis.get(keyspace.account(consumerId))).toBe('foreign');
  });

  test('that is nothing changes nothing', async () => {
    const { consumerId, bring } = await consumer(0);
    expect(await bring([])).toEqual({ kind: 'added', added: [] });
    expect(await redis.exists(keyspace.account(consumerId))).toBe(0);
  });
});

const HOUR_MS = 3_600_000;

async function daysOf(consumerId: string) {
  const history = await redis.getBuffer(keyspace.history(consumerId));
  return bucketsOf(history!, 'day', await nowMs()).map(({ admitted }) => admitted);
}

describe('the history', () => {
  test('two workers bring what they admitted in an outage of four days, and what was there before stays', async () => {
    const hour = hourOf(await nowMs());
    const consumerId = `history${consumers++}`;
    const bring = (hours: [number, number][]) =>
      reconciler.reconcile([{ consumerId, windows: [], hours: new Map(hours), ownNowMs: null }]);
    await bring([[hour - 240, 5]]);
    for (let worker = 0; worker < 2; worker++) {
      // The earlier hours may come last, after a call that failed.
      await bring([
        [hour, 1],
        [hour - 96, 2],
      ]);
    }
    expect(await daysOf(consumerId)).toEqual([5, 4, 2]);
  });

  test('a gateway whose own clock is days off counts in the present hour of the store', async () => {
    const present = await nowMs();
    const consumerId = `history${consumers++}`;
    await redis.del(keyspace.history(consumerId));
    for (const offMs of [0, 96 * HOUR_MS, -96 * HOUR_MS]) {
      const hours = new Map([[hourOf(present + offMs), 3]]);
      await reconciler.reconcile([{ consumerId, windows: [], hours, ownNowMs: present + offMs }]);
    }
    expect((await daysOf(consumerId)).reduce((sum, one) => sum + one, 0)).toBe(9);
    expect((await daysOf(consumerId)).length).toBeLessThanOrEqual(2);
  });
});
