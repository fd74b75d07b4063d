import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Allowance } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { type Verdict, verdictOf } from '../../src/admit/verdict.ts';
import { limitAt } from '../../src/admit/windows.ts';
import { endIfOpened } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { banLengthMs } from '../../src/engine/refusing.ts';
import type { AccountState, Decision } from '../../src/engine/types.ts';
import type { WindowName } from '../../src/model/values.ts';
import { histories, historiesOfOnePlan } from '../support/histories.ts';
import { SEED, tries } from '../support/sample.ts';

const T0 = 1_800_000_000_000;

test('n requests decided at once are judged as n single ones, and leave the same state', () => {
  fc.assert(
    fc.property(histories, (steps) => {
      let nowMs = T0;
      let state: AccountState = UNSEEN;
      for (const { afterMs, plan, cost, n } of steps) {
        nowMs += afterMs;
        const batch = decide([state], plan, nowMs, cost, n);
        const together = Array.from({ length: n }, (_, i) => verdictOf(batch, plan, i));
        let single = decide([state], plan, nowMs, cost, 0).accounts[0];
        const apart = Array.from({ length: n }, () => {
          const decision = decide([single], plan, nowMs, cost, 1);
          single = decision.accounts[0];
          return verdictOf(decision, plan, 0);
        });
        expect(together.map(({ kind }) => kind)).toEqual(apart.map(({ kind }) => kind));
        expect(together.map(({ windows }) => windows)).toEqual(apart.map(({ windows }) => windows));
        const strikeOf = (verdict: Verdict) => ('strike' in verdict ? verdict.strike : null);
        expect(together.map(strikeOf)).toEqual(apart.map(strikeOf));
        expect(batch.accounts[0]).toEqual(single);
        state = batch.accounts[0];
      }
    }),
    { seed: SEED, numRuns: tries(700, 10_000) },
  );
});

test('no history admits more than a limit in a window, nor spends anything on a refusal', () => {
  fc.assert(
    fc.property(histories, (steps) => {
      let nowMs = T0;
      let state: AccountState = UNSEEN;
      for (const { afterMs, plan, cost, n } of steps) {
        nowMs += afterMs;
        const before = decide([state], plan, nowMs, cost, 0).accounts[0];
        const decision = decide([state], plan, nowMs, cost, n);
        for (const { window, limit } of plan.limits) {
          const used = decision.accounts[0].windows[window]?.used ?? 0;
          const usedBefore = before.windows[window]?.used ?? 0;
          expect(used - usedBefore).toBe(decision.admitted * cost);
          if (decision.admitted > 0) expect(used).toBeLessThanOrEqual(limit);
        }
        state = decision.accounts[0];
      }
    }),
    { seed: SEED, numRuns: tries(700, 10_000) },
  );
});

test('however the clock is set, nothing lasts longer than its own length from then on, and no open window loses a count', () => {
  let setBack = 0;
  fc.assert(
    fc.property(historiesOfOnePlan, (steps) => {
      let nowMs = T0;
      let state: AccountState = UNSEEN;
      for (const { afterMs, plan, cost, n } of steps) {
        nowMs += afterMs;
        const decision = decide([state], plan, nowMs, cost, n);
        for (const limit of plan.limits) {
          const before = state.windows[limit.window];
          const after = decision.accounts[0].windows[limit.window];
          // The slices of a second have 83 or 84 ms.
          const latestMs = endIfOpened(limitAt(limit, nowMs), nowMs) + (limit.slices === undefined ? 0 : 1);
          if (after !== undefined) expect(after.endsAtMs).toBeLessThanOrEqual(latestMs);
          if (before !== undefined && nowMs < before.endsAtMs && limit.slices === undefined) {
            const endsAtMs = Math.min(before.endsAtMs, latestMs);
            expect(after).toEqual({ used: before.used + decision.admitted * cost, endsAtMs });
            if (endsAtMs < before.endsAtMs) setBack++;
          } else if (before === undefined && after !== undefined)
            expect(after.endsAtMs).toBe(endIfOpened(limitAt(limit, nowMs), nowMs));
        }
        holdToTheRule(state, decision, plan);
        state = decision.accounts[0];
      }
    }),
    { seed: 20260104, numRuns: 3_000 },
  );
  expect(setBack).toBeGreaterThan(1_000);
});

/** What a ban rule says of the ban and the strikes that a decision leaves. A decision about no request leaves the ban as it is. */
function holdToTheRule(before: AccountState, decision: Decision, plan: Allowance): void {
  if (plan.bans === null) return;
  const { nowMs, n, admitted, bannedFrom, accounts } = decision;
  const { ban, strikes } = accounts[0];
  if (ban !== undefined && n > 0) expect(ban.untilMs - nowMs).toBeLessThanOrEqual(banLengthMs(plan.bans, ban.number));
  if (before.ban !== undefined && nowMs < before.ban.untilMs) {
    expect(ban).toMatchObject({ number: before.ban.number, window: before.ban.window });
    const latestMs = n === 0 ? before.ban.untilMs : nowMs + banLengthMs(plan.bans, before.ban.number);
    expect(ban?.untilMs).toBe(Math.min(before.ban.untilMs, latestMs));
    expect({ admitted, bannedFrom }).toEqual({ admitted: 0, bannedFrom: 0 });
  }
  if (strikes !== undefined) expect(strikes.endsAtMs - nowMs).toBeLessThanOrEqual(plan.bans.withinMs);
}

test('however the clock is set, strikes are over when a window that refused since the first of them is', () => {
  fc.assert(
    fc.property(historiesOfOnePlan, (steps) => {
      let nowMs = T0;
      let state: AccountState = UNSEEN;
      let refusing = new Set<WindowName>();
      for (const { afterMs, plan, cost, n } of steps) {
        nowMs += afterMs;
        const present = decide([state], plan, nowMs, cost, 0).accounts[0];
        if (present.strikes === undefined) refusing = new Set();
        for (const window of refusing) {
          expect(present.strikes!.endsAtMs).toBeLessThanOrEqual(present.windows[window]?.endsAtMs ?? nowMs);
        }
        [state] = decide([state], plan, nowMs, cost, n).accounts;
        if ((state.strikes?.count ?? 0) > (present.strikes?.count ?? 0)) refusing.add(refusingLast(state, plan, cost));
      }
    }),
    { seed: SEED, numRuns: tries(1_000, 10_000) },
  );
});

function refusingLast({ windows }: AccountState, plan: Allowance, cost: number): WindowName {
  const full = plan.limits.filter(({ window, limit }) => limit - (windows[window]?.used ?? 0) < cost);
  const lastFirst = full.toSorted((a, b) => windows[b.window]!.endsAtMs - windows[a.window]!.endsAtMs);
  return lastFirst[0]!.window;
}
