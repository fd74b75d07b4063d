import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RetryBudget } from '../../../src/forward/upstream/retry-budget.ts';

/** How many of so many retries the budget allows, each of a consumer of its own. */
function taken(budget: RetryBudget, tries: number, nowMs: number): number {
  let count = 0;
  for (let i = 0; i < tries; i++) if (budget.take(nowMs, {})) count++;
  return count;
}

test.each([
  ['no request', 0, 20],
  ['a hundred', 100, 20],
  ['two hundred', 200, 40],
  ['a thousand', 1_000, 200],
])('after %s there are as many retries as a fifth, and at least twenty', (_what, requests, most) => {
  const budget = new RetryBudget();
  for (let i = 0; i < requests; i++) budget.countRequest(5_000 + i);
  expect(taken(budget, 2_000, 6_500)).toBe(most);
});

test('what is older than ten seconds counts no more, of the requests as of the retries', () => {
  const budget = new RetryBudget();
  for (let i = 0; i < 200; i++) budget.countRequest(1_000);
  expect(taken(budget, 50, 1_000)).toBe(40);
  expect(taken(budget, 50, 10_999)).toBe(0);
  expect(taken(budget, 50, 11_000)).toBe(20);
  expect(taken(budget, 50, 1_000_000)).toBe(20);
});

test('one consumer has at most half of the retries that the others leave (reliability 196)', () => {
  const budget = new RetryBudget();
  const [greedy, other] = [{}, {}];
  const takenBy = (consumer: object, nowMs: number) =>
    Array.from({ length: 100 }, () => budget.take(nowMs, consumer)).filter(Boolean).length;
  expect([takenBy(greedy, 1_000), takenBy(greedy, 9_000), takenBy(other, 9_000), takenBy({}, 9_000)]).toEqual([
    10, 0, 5, 2,
  ]);
  expect([takenBy(greedy, 11_000), takenBy(other, 11_000)]).toEqual([6, 1]);
});

test('at no time are there more retries in ten seconds than the budget of those seconds (reliability 181)', () => {
  const steps = fc.array(
    fc.record({ waitMs: fc.integer({ min: 0, max: 4_000 }), requests: fc.nat(60), retries: fc.nat(40) }),
  );
  fc.assert(
    fc.property(steps, (all) => {
      const budget = new RetryBudget();
      const requests: number[] = [];
      const retries: number[] = [];
      let nowMs = 123_456;
      for (const step of all) {
        nowMs += step.waitMs;
        const since = (Math.floor(nowMs / 1_000) - 9) * 1_000;
        const recent = (times: readonly number[]) => times.filter((ms) => ms >= since).length;
        for (let i = 0; i < step.requests; i++) {
          budget.countRequest(nowMs);
          requests.push(nowMs);
        }
        for (let i = 0; i < step.retries; i++) {
          const isAllowed = recent(retries) < Math.max(20, Math.floor(recent(requests) / 5));
          // Each of a consumer of its own.
          expect(budget.take(nowMs, {})).toBe(isAllowed);
          if (isAllowed) retries.push(nowMs);
        }
      }
    }),
  );
});
