import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decide } from '../../src/admit/decision.ts';
import { type Banned, type Refused, verdictOf } from '../../src/admit/verdict.ts';
import { RateLimitFields } from '../../src/annotate/rate-limit.ts';
import { RefusalLines } from '../../src/annotate/refusal-lines.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { allowance } from '../support/allowance.ts';

const NOW_MS = 1_700_000_000_123;

const lines = () => new RefusalLines(new RateLimitFields(true));

test('a response that is used again says what a new one would say', () => {
  let repeated = 0;
  const step = fc.record({ caller: fc.nat(1), waitMs: fc.nat(900), cost: fc.integer({ min: 1, max: 3 }) });
  fc.assert(
    fc.property(
      fc.record({ minute: fc.nat(3), day: fc.nat(6) }),
      fc.array(step, { minLength: 20, maxLength: 60 }),
      (limits, steps) => {
        const rules = allowance(limits, { after: 4, firstMs: 5_000 });
        const kept = lines();
        const states = [UNSEEN, UNSEEN];
        const given = new Set<unknown>();
        let nowMs = NOW_MS;
        for (const { caller, waitMs, cost } of steps) {
          nowMs += waitMs;
          const decision = decide([states[caller]!], rules, nowMs, cost, 1);
          states[caller] = decision.accounts[0];
          const verdict = verdictOf(decision, rules, 0);
          if (verdict.kind !== 'refused' && verdict.kind !== 'banned') continue;
          const response = kept.of(verdict);
          expect(response).toEqual(lines().of(verdict));
          if (given.has(response)) repeated++;
          given.add(response);
        }
      },
    ),
    { numRuns: 100, seed: 20261130 },
  );
  expect(repeated).toBeGreaterThan(100);
});

test('a caller that keeps sending gets the same response until a second of it has passed', () => {
  const rules = allowance({ day: 0 }, null);
  const at = (nowMs: number) => verdictOf(decide([UNSEEN], rules, nowMs, 1, 1), rules, 0) as Refused | Banned;
  const kept = lines();
  const first = kept.of(at(NOW_MS));
  expect(kept.of(at(NOW_MS + 800))).toBe(first);
  expect(kept.of(at(NOW_MS + 1_800))).not.toBe(first);
});
