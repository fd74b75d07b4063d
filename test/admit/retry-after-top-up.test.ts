import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toppedUp } from '../../src/admit/account-changes.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance, withOwn } from '../support/allowance.ts';

test('whoever waits for Retry-After is admitted, also if a top-up ends meanwhile', () => {
  const hour = windowLimit('hour', 10, { slices: 12 });
  const limits = [windowLimit('second', 3), windowLimit('minute', 5), hour];
  const topUpMs = 1_800_000_000_000;
  const requests = fc.array(
    fc.record({
      pauseMs: fc.oneof(fc.nat(2_000), fc.nat(70_000), fc.nat(900_000)),
      n: fc.integer({ min: 1, max: 8 }),
      cost: fc.integer({ min: 1, max: 3 }),
    }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(requests, fc.constantFrom(null, { after: 4, firstMs: 1_800_000 }), (sent, bans) => {
      const rules = withOwn(allowance({ hour: 10 }, bans), { limits });
      let state: AccountState = toppedUp(UNSEEN, hour, 100, topUpMs).state;
      let nowMs = topUpMs;
      const ask = (n: number, cost: number) => {
        const decision = decide([state], rules, nowMs, cost, n);
        [state] = accountsAfter([state], decision, rules);
        return verdictOf(decision, rules, n - 1);
      };
      for (const { pauseMs, n, cost } of sent) {
        nowMs += pauseMs;
        const verdict = ask(n, cost);
        if (verdict.kind === 'admitted' || verdict.kind === 'crowded') continue;
        if (verdict.retryAtMs === null) continue;
        nowMs = verdict.retryAtMs;
        expect(ask(1, cost).kind).toBe('admitted');
      }
    }),
    { numRuns: 500 },
  );
});
