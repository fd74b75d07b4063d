import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resetUsage, toppedUp } from '../../src/admit/account-changes.ts';
import { type AccountState, decide, type Outcome, stateAfter, UNSEEN } from '../../src/admit/decide.ts';
import type { Allowance } from '../../src/admit/plan.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { histories, historiesWithChanges } from '../support/histories.ts';
import { testRedis } from '../support/redis.ts';
import { ROOM } from '../support/room.ts';
import { setClock, T0, twinLedger } from './twin-ledger.ts';

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
});

afterAll(() => redis.disconnect());

test(
  'decide and decide.lua give the same verdicts and states to every history',
  async () => {
    const ledger = twinLedger(redis);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(histories, async (steps) => {
        const consumerId = `twin${run++}`;
        let nowMs = T0;
        let state: AccountState = UNSEEN;
        for (const { afterMs, plan, cost, n } of steps) {
          nowMs += afterMs;
          await setClock(redis, nowMs);
          const [told] = await ledger.decide([{ consumerId, allowance: plan, cost, n }]);
          const expected = decide(state, plan, nowMs, cost, n);
          expect(told).toEqual(expected);
          if (n > 0) state = afterwards(state, plan, expected);
        }
        if ((await redis.exists(keyspace.account(consumerId))) === 1) {
          expect(await redis.pttl(keyspace.account(consumerId))).toBeGreaterThan(0);
        }
      }),
      { seed: 20260103, numRuns: 400 },
    );
  },
  120_000 * ROOM,
);

test(
  'one call decides what is asked of many consumers, under several plans, as so many calls would (reliability 112)',
  async () => {
    const ledger = twinLedger(redis);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(histories, fc.integer({ min: 1, max: 4 }), async (steps, consumers) => {
        run++;
        await setClock(redis, T0);
        await redis.set(keyspace.account(`foreign${run}`), 'not a hash');
        const names = ['foreign', ...Array.from({ length: consumers }, (_, i) => `one${i}`)];
        const asks = steps.map(({ plan, cost, n }, i) => {
          return { consumerId: `${names[i % names.length]}${run}`, allowance: plan, cost, n };
        });
        const states = new Map<string, AccountState>();
        const expected = asks.map(({ consumerId, allowance, cost, n }) => {
          if (consumerId.startsWith('foreign')) return null;
          const state = states.get(consumerId) ?? UNSEEN;
          const outcome = decide(state, allowance, T0, cost, n);
          if (n > 0) states.set(consumerId, afterwards(state, allowance, outcome));
          return outcome;
        });
        expect(await ledger.decide(asks)).toEqual(expected);
      }),
      { seed: 20261121, numRuns: 200 },
    );
  },
  120_000 * ROOM,
);

test(
  'top-ups and resets between decisions do the same in both',
  async () => {
    const ledger = twinLedger(redis);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(historiesWithChanges, async (steps) => {
        const consumerId = `changed${run++}`;
        let nowMs = T0;
        let state: AccountState = UNSEEN;
        for (const [i, { afterMs, plan, cost, n, change }] of steps.entries()) {
          nowMs += afterMs;
          await setClock(redis, nowMs);
          if (change?.kind === 'top-up') {
            for (const of of plan.limits.slice(0, 2)) {
              const { topUp, state: next } = toppedUp(state, of, change.amount, nowMs);
              state = next;
              const told = await ledger.topUp(consumerId, of, change.amount, `${i} ${of.window}`);
              expect(told).toMatchObject({ kind: 'made', value: topUp });
            }
          } else if (change?.kind === 'reset') {
            const { reset, state: next } = resetUsage(state, change.windows, nowMs);
            state = next;
            const told = await ledger.resetUsage(consumerId, change.windows, String(i));
            expect(told).toMatchObject({ kind: 'made', value: reset });
          }
          const [told] = await ledger.decide([{ consumerId, allowance: plan, cost, n }]);
          const expected = decide(state, plan, nowMs, cost, n);
          expect(told).toEqual(expected);
          if (n > 0) state = afterwards(state, plan, expected);
        }
        if ((await redis.exists(keyspace.account(consumerId))) === 1) {
          expect(await redis.pttl(keyspace.account(consumerId))).toBeGreaterThan(0);
        }
      }),
      { seed: 20261123, numRuns: 300 },
    );
  },
  120_000 * ROOM,
);

/** Redis keeps top-ups that have ended, and never reads them. */
function afterwards(before: AccountState, plan: Allowance, outcome: Outcome): AccountState {
  return { ...stateAfter(before, outcome, plan), ...(before.topUps === undefined ? {} : { topUps: before.topUps }) };
}
