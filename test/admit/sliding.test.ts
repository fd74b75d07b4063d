import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Allowance } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import type { Refused } from '../../src/admit/verdict.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { WINDOW_MS } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState, Decision } from '../../src/engine/types.ts';
import { allowance, withOwn } from '../support/allowance.ts';

const T0 = 1_800_000_000_123;

const asked = fc.record({
  afterMs: fc.oneof(
    fc.integer({ min: 0, max: 400 }),
    fc.integer({ min: 0, max: 9_000 }),
    fc.constantFrom(0, 4_999, 5_000, 5_001, 59_999, 60_000, 65_000),
  ),
  cost: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 8 }) }),
  n: fc.integer({ min: 1, max: 12 }),
});
const histories = fc.record({
  slices: fc.integer({ min: 4, max: 30 }),
  minute: fc.integer({ min: 1, max: 40 }),
  second: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  steps: fc.array(asked, { minLength: 1, maxLength: 60 }),
});

const planOf = ({ slices, minute, second }: { slices: number; minute: number; second: number | undefined }) =>
  allowance({ minute, ...(second === undefined ? {} : { second }) }, null, { minute: { slices }, second: { slices } });

/** When a refused request may be sent again. Its cost is within the limits. */
const retryAt = (decision: Decision, plan: Allowance, index: number) => {
  return (verdictOf(decision, plan, index) as Refused).retryAtMs!;
};

describe('a sliding window', () => {
  // The judge keeps every admission and adds up each span on its own: nothing of the slices is in it.
  test('admits no more than its limit in any span of its length, wherever the span begins', () => {
    fc.assert(
      fc.property(histories, (history) => {
        const plan = planOf(history);
        const log: { atMs: number; cost: number }[] = [];
        let state: AccountState = UNSEEN;
        let nowMs = T0;
        for (const { afterMs, cost, n } of history.steps) {
          nowMs += afterMs;
          const decision = decide([state], plan, nowMs, cost, n);
          state = decision.accounts[0];
          if (decision.admitted > 0) log.push({ atMs: nowMs, cost: cost * decision.admitted });
          for (const { lengthMs, limit } of plan.limits) {
            const inSpan = log.filter(({ atMs }) => atMs > nowMs - lengthMs);
            expect(inSpan.reduce((sum, one) => sum + one.cost, 0)).toBeLessThanOrEqual(limit);
          }
        }
      }),
      { seed: 20261122, numRuns: 10_000 },
    );
  });

  test('tells a refused client the first instant at which it is admitted', () => {
    fc.assert(
      fc.property(histories, (history) => {
        const plan = planOf(history);
        let state: AccountState = UNSEEN;
        let nowMs = T0;
        for (const { afterMs, cost, n } of history.steps) {
          nowMs += afterMs;
          const decision = decide([state], plan, nowMs, cost, n);
          state = decision.accounts[0];
          if (decision.admitted === n || plan.limits.some(({ limit }) => limit < cost)) continue;
          const retryAtMs = retryAt(decision, plan, n - 1);
          expect(retryAtMs).toBeGreaterThan(nowMs);
          expect(decide([state], plan, retryAtMs, cost, 1).admitted).toBe(1);
          expect(decide([state], plan, retryAtMs - 1, cost, 1).admitted).toBe(0);
        }
      }),
      { seed: 20261122, numRuns: 3_000 },
    );
  });

  test('begins the strikes anew at that instant, so that a client that waits is never banned', () => {
    fc.assert(
      fc.property(histories, (history) => {
        const { limits } = planOf(history);
        const plan = withOwn(allowance({ minute: 1 }, { after: 2, withinMs: 600_000 }), { limits });
        let state: AccountState = UNSEEN;
        let nowMs = T0;
        for (const { cost } of history.steps) {
          if (limits.some(({ limit }) => limit < cost)) continue;
          const decision = decide([state], plan, nowMs, cost, 1);
          state = decision.accounts[0];
          expect(state.ban).toBeUndefined();
          if (decision.admitted === 0) nowMs = retryAt(decision, plan, 0);
        }
      }),
      { seed: 20261122, numRuns: 3_000 },
    );
  });

  test('admits all its limit at once after quiet, and at an even pace below k / (k + 1) of it every request', () => {
    for (const slices of [4, 7, 12, 30]) {
      for (const limit of [1, 59, 60, 1_000]) {
        const plan = allowance({ minute: limit }, null, { minute: { slices } });
        expect(decide([UNSEEN], plan, T0, 1, limit + 1).admitted).toBe(limit);
        const pauseMs = (WINDOW_MS.minute * (slices + 1)) / (slices * limit) + 1;
        let state: AccountState = UNSEEN;
        for (let i = 0; i < 3 * limit; i++) {
          const decision = decide([state], plan, Math.floor(T0 + i * pauseMs), 1, 1);
          expect(decision.admitted, `${slices} slices, ${limit}, request ${i}`).toBe(1);
          state = decision.accounts[0];
        }
      }
    }
  });

  test('keeps at most one count more than it has slices', () => {
    const plan = allowance({ minute: 100_000 }, null, { minute: { slices: 12 } });
    let state: AccountState = UNSEEN;
    for (let i = 0; i < 500; i++) {
      [state] = decide([state], plan, T0 + i * 777, 1, 1).accounts;
      expect(state.windows.minute!.slices!.counts.length).toBeLessThanOrEqual(13);
    }
  });
});

describe('a reload', () => {
  const fixed = allowance({ minute: 10 });
  const sliding = allowance({ minute: 10 }, {}, { minute: { slices: 12 } });

  test('from a fixed to a sliding window takes the old count along as one slice, which stays where it is', () => {
    const before = decide([UNSEEN], fixed, T0, 1, 7).accounts[0];
    const first = decide([before], sliding, T0 + 30_000, 1, 1);
    expect(first.accounts[0].windows.minute).toMatchObject({
      used: 8,
      slices: { startsAtMs: T0 + 30_000, counts: [8] },
    });
    // A refusal keeps it, too: the time that a client was told does not move away from it.
    const refused = decide([before], sliding, T0 + 30_000, 8, 1);
    const retryAtMs = retryAt(refused, sliding, 0);
    expect(decide(refused.accounts, sliding, retryAtMs, 8, 1).admitted).toBe(1);
  });

  test('from a sliding to a fixed window takes the sum along, until the oldest slice would have left', () => {
    let [state] = decide([UNSEEN], sliding, T0, 1, 3).accounts;
    [state] = decide([state], sliding, T0 + 20_000, 1, 4).accounts;
    const { windows } = decide([state], fixed, T0 + 30_000, 1, 1).accounts[0];
    expect(windows.minute).toEqual({ used: 8, endsAtMs: T0 + 65_000 });
  });

  test('that only one of two gateways has made lets a client that polls both recover', () => {
    const kinds = [sliding, allowance({ minute: 10 }, null, { minute: { slices: 20 } }), { ...fixed, bans: null }];
    for (const other of kinds) {
      let state: AccountState = UNSEEN;
      let admitted = 0;
      for (let second = 0; second < 600; second++) {
        const plan = second % 2 === 0 ? { ...sliding, bans: null } : other;
        const decision = decide([state], plan, T0 + second * 1_000, 1, 1);
        [state] = accountsAfter([state], decision, plan);
        admitted += decision.admitted;
      }
      expect(admitted).toBeGreaterThan(50);
    }
  });

  test('to another number of slices takes the sum along as one slice', () => {
    const finer = allowance({ minute: 10 }, {}, { minute: { slices: 30 } });
    const [state] = decide([UNSEEN], sliding, T0, 1, 3).accounts;
    const { windows } = decide([state], finer, T0 + 30_000, 1, 1).accounts[0];
    expect(windows.minute!.slices).toEqual({ per: 30, startsAtMs: T0 + 30_000, first: 0, counts: [4] });
  });
});
