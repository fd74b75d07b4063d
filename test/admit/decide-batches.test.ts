import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type AccountState, decide, UNSEEN } from '../../src/admit/decide.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { histories } from '../support/histories.ts';

const T0 = 1_800_000_000_000;

test('n requests decided at once are judged as n single ones, and leave the same state', () => {
  fc.assert(
    fc.property(histories, (steps) => {
      let nowMs = T0;
      let state: AccountState = UNSEEN;
      for (const { afterMs, plan, cost, n } of steps) {
        nowMs += afterMs;
        const batch = decide(state, plan, nowMs, cost, n);
        const together = Array.from({ length: n }, (_, i) => verdictOf(batch, plan, i));
        let single = decide(state, plan, nowMs, cost, 0).state;
        const apart = Array.from({ length: n }, () => {
          const outcome = decide(single, plan, nowMs, cost, 1);
          single = outcome.state;
          return verdictOf(outcome, plan, 0);
        });
        expect(together.map(({ kind }) => kind)).toEqual(apart.map(({ kind }) => kind));
        expect(together.map(({ standings }) => standings)).toEqual(apart.map(({ standings }) => standings));
        expect(batch.state).toEqual(single);
        state = batch.state;
      }
    }),
    { seed: 20260101, numRuns: 2_000 },
  );
});

test('no history admits more than a limit in a window, nor spends anything on a refusal', () => {
  fc.assert(
    fc.property(histories, (steps) => {
      let nowMs = T0;
      let state: AccountState = UNSEEN;
      for (const { afterMs, plan, cost, n } of steps) {
        nowMs += afterMs;
        const before = decide(state, plan, nowMs, cost, 0).state;
        const outcome = decide(state, plan, nowMs, cost, n);
        for (const { window, limit } of plan.limits) {
          const used = outcome.state.windows[window]?.used ?? 0;
          const usedBefore = before.windows[window]?.used ?? 0;
          expect(used - usedBefore).toBe(outcome.admitted * cost);
          if (outcome.admitted > 0) expect(used).toBeLessThanOrEqual(limit);
        }
        state = outcome.state;
      }
    }),
    { seed: 20260102, numRuns: 2_000 },
  );
});
