import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { accountIdsOf } from '../../src/admit/account-id.ts';
import { type Allowance, budgetOf } from '../../src/admit/allowance.ts';
import { accountsAfter, decide, settled } from '../../src/admit/decision.ts';
import { placeOf } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { LuaScript } from '../../src/stores/redis/lua-script.ts';
import { SETTLE, settlementOf } from '../../src/stores/redis/settlement-calls.ts';
import { alsoCharging, withOwn } from '../support/allowance.ts';
import { histories } from '../support/histories.ts';
import { testRedis } from '../support/redis.ts';
import { ROOM } from '../support/room.ts';
import { SEED, tries } from '../support/sample.ts';
import { setClock, T0, twinLedger, withClock } from './twin-ledger.ts';

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
});

afterAll(() => redis.disconnect());

/** How each admitted request is settled: after how many steps, and to what. */
const ends = fc.array(fc.record({ after: fc.nat(3), cost: fc.nat(4) }), { minLength: 25, maxLength: 25 });

test(
  'the engine settles in Redis as it does in TypeScript every history of reserves, early, late and after their windows (reliability 288)',
  async () => {
    const ledger = twinLedger(redis);
    const settle = new LuaScript(withClock(SETTLE.lua));
    let run = 0;
    let [givenBack, added] = [0, 0];
    await fc.assert(
      fc.asyncProperty(histories, ends, async (steps, settlements) => {
        const consumerId = `key_settle_${run++}`;
        let state: AccountState = UNSEEN;
        let unit: AccountState = UNSEEN;
        let nowMs = T0;
        const open: {
          readonly at: number;
          readonly delta: number;
          readonly plan: Allowance;
          readonly windows: AccountState['windows'];
        }[] = [];
        for (const [i, { afterMs, plan: base, cost, n }] of steps.entries()) {
          nowMs += afterMs;
          setClock(redis, nowMs);
          const { limits } = base;
          const tokens = budgetOf({ unit: 'tokens', limits });
          const plan: Allowance = { ...alsoCharging(withOwn(base, { limits: [] }), [tokens]), inUnits: ['tokens'] };
          const amounts = { tokens: cost };
          const before = [state, unit];
          const expected = decide(before, plan, nowMs, 1, n, [], amounts);
          const [told] = await ledger.decide([{ consumerId, allowance: plan, cost: 1, amounts, n }]);
          expect(told).toEqual(expected);
          if (n > 0) [state, unit] = accountsAfter(before, expected, plan) as [AccountState, AccountState];
          if (expected.admitted > 0) {
            const { after, cost: real } = settlements[i % settlements.length]!;
            const delta = (real - cost) * expected.admitted;
            if (delta !== 0) open.push({ at: i + after, delta, plan, windows: expected.accounts[1]!.windows });
          }
          for (const { delta, plan: of, windows } of open.filter(({ at }) => at === i)) {
            const settledWindows = of.budgets[1]!.limits.map((limit) => ({
              of: limit,
              placeMs: placeOf(windows[limit.window]!),
            }));
            const after = settled(unit, delta, settledWindows, nowMs);
            if (delta < 0 && JSON.stringify(after) !== JSON.stringify(unit)) givenBack++;
            if (delta > 0) added++;
            unit = after;
            const settlement = settlementOf({ delta, hour: 0, isRecorded: false, windows: settledWindows }, nowMs);
            const [, account] = accountIdsOf(consumerId, of);
            expect(await settle.run(redis, [keyspace.account(account!)], settlement)).toBe(0);
          }
        }
      }),
      { seed: SEED, numRuns: tries(800, 4_000) },
    );
    expect([givenBack > 100, added > 100]).toEqual([true, true]);
  },
  120_000 * ROOM,
);
