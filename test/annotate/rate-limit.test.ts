import fc from 'fast-check';
import { parseList } from 'structured-headers';
import { expect, test } from 'vitest';
import { decide } from '../../src/admit/decision.ts';
import { type Verdict, verdictOf } from '../../src/admit/verdict.ts';
import { RateLimitFields, retryAfterSeconds } from '../../src/annotate/rate-limit.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { responseLinesOf } from '../../src/http1/fields.ts';
import { allowance, withOwn } from '../support/allowance.ts';

const NOW_MS = 1_700_000_000_123;

const fieldsOf = (raw: readonly string[]) =>
  new Map(raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1] as string] as const] : [])));

test('Retry-After is whole seconds, rounded up, at least 1', () => {
  expect([0, -5_000, 1, 999, 1_000, 1_001, 59_999.5].map((ms) => retryAfterSeconds(NOW_MS + ms, NOW_MS))).toEqual([
    1, 1, 1, 1, 1, 2, 60,
  ]);
});

test('a reset is told in Unix seconds, rounded up, so that it is never told too early', () => {
  const told = new RateLimitFields(true).ofBudget({ limit: 30, remaining: 7, resetAtMs: NOW_MS + 1 }, NOW_MS);
  expect(fieldsOf(told)).toEqual(
    new Map([
      ['X-RateLimit-Limit', '30'],
      ['X-RateLimit-Remaining', '7'],
      ['X-RateLimit-Reset', '1700000001'],
      ['RateLimit-Policy', '"failed-authentication";q=30;w=60'],
      ['RateLimit', '"failed-authentication";r=7;t=1'],
    ]),
  );
});

test('a budget that is already over is told with a time of 0, not with a negative one', () => {
  const told = new RateLimitFields(true).ofBudget({ limit: 30, remaining: 30, resetAtMs: NOW_MS - 5_000 }, NOW_MS);
  expect(fieldsOf(told).get('RateLimit')).toBe('"failed-authentication";r=30;t=0');
});

test('whatever is decided, the fields are well formed, name every window, and stay between 0 and the limit (reliability 133)', () => {
  fc.assert(
    fc.property(
      fc.record({ minute: fc.nat(20), day: fc.nat(40) }),
      fc.array(
        fc.record({ waitMs: fc.nat(40_000), cost: fc.integer({ min: 1, max: 5 }), n: fc.integer({ min: 1, max: 15 }) }),
        {
          minLength: 1,
          maxLength: 12,
        },
      ),
      (limits, steps) => {
        const rules = allowance(limits);
        const told = new RateLimitFields(true);
        let state = UNSEEN;
        let nowMs = NOW_MS;
        for (const { waitMs, cost, n } of steps) {
          nowMs += waitMs;
          const decision = decide([state], rules, nowMs, cost, n);
          state = decision.accounts[0];
          for (let i = 0; i < n; i++) {
            const verdict = verdictOf(decision, rules, i);
            expectSound(fieldsOf(told.ofVerdict(verdict)), limits, nowMs);
            expectSameAsLines(told, verdict);
          }
        }
      },
    ),
    { numRuns: 100, seed: 20261121 },
  );
});

test.each([
  ['without the draft', false, allowance({ minute: 5 })],
  ['without any limit', true, allowance({})],
  [
    'where a window is unlimited',
    true,
    withOwn(allowance({ minute: 5 }), { unlimited: [{ window: 'day', lengthMs: 86_400_000 }] }),
  ],
] as const)('lines and fields are the same %s', (_, draft, rules) => {
  expectSameAsLines(new RateLimitFields(draft), verdictOf(decide([UNSEEN], rules, NOW_MS + 1, 1, 1), rules, 0));
});

function expectSameAsLines(told: RateLimitFields, verdict: Verdict): void {
  expect(told.linesOfVerdict(verdict)).toBe(responseLinesOf(told.ofVerdict(verdict)));
}

function expectSound(fields: Map<string, string>, limits: Record<string, number>, nowMs: number): void {
  const [limit, remaining, reset] = ['Limit', 'Remaining', 'Reset'].map((name) =>
    Number(fields.get(`X-RateLimit-${name}`)),
  );
  expect(remaining).toBeGreaterThanOrEqual(0);
  expect(remaining).toBeLessThanOrEqual(limit!);
  expect(reset).toBeGreaterThanOrEqual(Math.floor(nowMs / 1000));
  const states = parseList(fields.get('RateLimit') as string);
  const policies = parseList(fields.get('RateLimit-Policy') as string);
  expect(states.map(([name]) => name)).toEqual(Object.keys(limits));
  for (const [i, [name, parameters]] of states.entries()) {
    const quota = limits[name as string]!;
    expect(policies[i]?.[1].get('q')).toBe(quota);
    expect(parameters.get('r')).toBeGreaterThanOrEqual(0);
    expect(parameters.get('r')).toBeLessThanOrEqual(quota);
    expect(parameters.get('t')).toBeGreaterThanOrEqual(0);
  }
}

test('without the draft only the X- fields are there', () => {
  const told = new RateLimitFields(false).ofBudget({ limit: 30, remaining: 7, resetAtMs: NOW_MS }, NOW_MS);
  expect([...fieldsOf(told).keys()]).toEqual(['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']);
});
