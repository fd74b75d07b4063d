import { describe, expect, test } from 'vitest';
import { type Allowance, type Budget, budgetOf } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { sameAmounts, type Verdict, verdictOf, verdictOnBudgets, verdictsOf } from '../../src/admit/verdict.ts';
import { slicedCount } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState, Decision } from '../../src/engine/types.ts';
import { allowance, alsoCharging, withOwn } from '../support/allowance.ts';

const T0 = 1_800_000_000_000;
const plan = allowance({ minute: 5, hour: 8 }, null);
const used = (count: number, endsInMs: number) => ({ used: count, endsAtMs: T0 + endsInMs });
const stateOf = (state: Partial<AccountState>): AccountState => ({ ...UNSEEN, ...state });
/** The verdict on the only request. */
const verdict = (of: Allowance, state: Partial<AccountState>, cost = 1): Verdict =>
  verdictOf(decide([stateOf(state)], of, T0, cost, 1), of, 0);

describe('of requests that are decided together', () => {
  test('each sees the budget after itself', () => {
    const decision = decide([UNSEEN], plan, T0, 2, 3);
    const remaining = [0, 1, 2].map((i) => verdictOf(decision, plan, i).windows.map((window) => window.remaining));
    expect(remaining).toEqual([
      [3, 6],
      [1, 4],
      [1, 4],
    ]);
    expect([0, 1, 2].map((i) => verdictOf(decision, plan, i).kind)).toEqual(['admitted', 'admitted', 'refused']);
  });

  test('each is told which strike it was', () => {
    const strikes = (of: Allowance, state: Partial<AccountState>, n: number, cost = 1) => {
      const decision = decide([stateOf(state)], of, T0, cost, n);
      return Array.from({ length: n }, (_, i) => verdictOf(decision, of, i)).map((one) =>
        !('strike' in one)
          ? one.kind
          : `${one.kind} ${one.strike}${one.kind === 'banned' && one.imposed ? ' imposed' : ''}`,
      );
    };
    const banning = allowance({ minute: 1 }, { after: 3 });
    expect(strikes(banning, {}, 3)).toEqual(['admitted', 'refused 1', 'refused 2']);
    expect(strikes(banning, {}, 6)).toEqual([
      ...['admitted', 'refused 1', 'refused 2', 'banned 3 imposed', 'banned null', 'banned null'],
    ]);
    const before = { windows: { minute: used(1, 60_000) }, strikes: { count: 1, endsAtMs: T0 + 9 } };
    expect(strikes(banning, before, 1)).toEqual(['refused 2']);
    expect(strikes(banning, before, 2)).toEqual(['refused 2', 'banned 3 imposed']);
    // A rule that was made stricter since: the first request is the last strike.
    expect(
      strikes(allowance({ minute: 1 }, { after: 1 }), { ...before, strikes: { count: 9, endsAtMs: T0 + 9 } }, 2),
    ).toEqual([...['banned 1 imposed', 'banned null']]);
    expect(strikes(banning, { ban: { number: 1, untilMs: T0 + 5, window: 'minute' } }, 1)).toEqual(['banned null']);
    // No strikes without bans, nor for a cost that never fits.
    expect(strikes(allowance({ minute: 1 }, null), before, 1)).toEqual(['refused null']);
    expect(strikes(banning, before, 1, 2)).toEqual(['refused null']);
  });
});

describe('the binding window of an admitted request', () => {
  const binding = (minute: number, hour: number, minuteEnds = 60_000, hourEnds = 3_600_000) =>
    verdict(plan, { windows: { minute: used(minute, minuteEnds), hour: used(hour, hourEnds) } }).binding?.window;
  test('has the fewest requests left', () => {
    expect(binding(3, 5)).toBe('minute');
    expect(binding(2, 6)).toBe('hour');
  });
  test('resets last of equals, and is the longer one if they reset together', () => {
    expect(binding(2, 5, 50, 49)).toBe('minute');
    expect(binding(2, 5, 49, 50)).toBe('hour');
    expect(binding(2, 5, 50, 50)).toBe('hour');
  });
  test('is none without limits', () => {
    expect(verdictOnBudgets([UNSEEN], allowance({}, null), T0, 0)).toMatchObject({ binding: null, windows: [] });
  });
});

describe('a refusal', () => {
  test('is to be retried when the last window that refuses has ended; that one is binding', () => {
    const windows = { minute: used(5, 50_000), hour: used(8, 40_000) };
    expect(verdict(plan, { windows })).toMatchObject({
      kind: 'refused',
      retryAtMs: T0 + 50_000,
      binding: { window: 'minute' },
    });
    const longer = { minute: used(5, 50_000), hour: used(8, 50_000) };
    expect(verdict(plan, { windows: longer })).toMatchObject({ retryAtMs: T0 + 50_000, binding: { window: 'hour' } });
    // An hour with room to the last is not waited for.
    const roomy = { minute: used(5, 50_000), hour: used(7, 3_000_000) };
    expect(verdict(plan, { windows: roomy })).toMatchObject({ retryAtMs: T0 + 50_000, binding: { window: 'minute' } });
  });

  test('for a limit below the cost is by the smallest such limit, and waiting does not help', () => {
    const windows = { minute: used(1, 10), hour: used(8, 20) };
    expect(verdict(plan, { windows }, 6)).toMatchObject({ retryAtMs: null, binding: { window: 'minute' } });
    expect(verdict(plan, { windows }, 5)).toMatchObject({ retryAtMs: T0 + 20, binding: { window: 'hour' } });
    expect(verdict(plan, {}, 9)).toMatchObject({ retryAtMs: null, binding: { window: 'minute' } });
  });

  test('by a sliding window ends when enough has left, and else tells when the next part leaves', () => {
    const sliding = allowance({ minute: 10 }, null, { minute: { slices: 4 } });
    const windows = { minute: slicedCount({ per: 4, startsAtMs: T0 - 20_000, first: 0, counts: [2, 7] }, 60_000) };
    const resetOf = (cost: number) => verdict(sliding, { windows }, cost).windows[0]!.resetAtMs - T0;
    expect([resetOf(1), resetOf(2), resetOf(3), resetOf(4)]).toEqual([55_000, 55_000, 55_000, 70_000]);
  });
});

describe('a ban', () => {
  const banned = (windows: AccountState['windows'], cost = 1, window: 'minute' | 'day' = 'minute', of = plan) =>
    verdict({ ...of, bans: allowance({}).bans }, { windows, ban: { number: 1, untilMs: T0 + 30_000, window } }, cost);

  test('is waited for, and the windows that refuse after it', () => {
    expect(banned({})).toMatchObject({ kind: 'banned', retryAtMs: T0 + 30_000 });
    expect(banned({ minute: used(5, 20_000) })).toMatchObject({ retryAtMs: T0 + 30_000 });
    expect(banned({ minute: used(5, 40_000) })).toMatchObject({ retryAtMs: T0 + 40_000 });
    expect(banned({ minute: used(4, 40_000) })).toMatchObject({ retryAtMs: T0 + 30_000 });
    expect(banned({ minute: used(0, 40_000) }, 6)).toMatchObject({ retryAtMs: T0 + 30_000 });
    expect(banned({ minute: used(0, 40_000) }, 5)).toMatchObject({ retryAtMs: T0 + 30_000 });
  });

  test('is told with its window, which resets no earlier', () => {
    const binding = {
      window: 'minute',
      name: 'minute',
      lengthMs: 60_000,
      limit: 5,
      unit: null,
      needed: 1,
      remaining: 0,
    };
    expect(banned({ minute: used(5, 40_000) }).binding).toEqual({ ...binding, used: 5, resetAtMs: T0 + 40_000 });
    expect(banned({ minute: used(4, 40_000) }).binding).toEqual({ ...binding, used: 4, resetAtMs: T0 + 30_000 });
    expect(banned({ minute: used(5, 20_000) }).binding).toEqual({ ...binding, used: 5, resetAtMs: T0 + 30_000 });
    expect(banned({ hour: used(8, 90_000) }).binding).toEqual({ ...binding, used: 0, resetAtMs: T0 + 90_000 });
    expect(banned({}, 1, 'day').binding).toEqual({
      window: 'day',
      name: 'day',
      lengthMs: 86_400_000,
      limit: 0,
      unit: null,
      needed: 1,
      used: 0,
      remaining: 0,
      resetAtMs: T0 + 30_000,
    });
  });
});

describe('Retry-After beyond the end of a top-up', () => {
  // A sliding hour of 10 with 10 more, of which 14 are used; and a minute that refuses.
  const of = allowance({ minute: 5, hour: 10 }, null, { hour: { slices: 4 } });
  const hour = slicedCount({ per: 4, startsAtMs: T0 - 3_600_000, first: 0, counts: [2, 4, 8] }, 3_600_000);
  const retryIn = (topUpMs: number, cost = 1, count = hour, minute = 5) => {
    const topUps = { hour: { amount: 10, untilMs: T0 + topUpMs } };
    const one = verdict(of, { windows: { minute: used(minute, 50_000), hour: count }, topUps }, cost);
    return 'retryAtMs' in one && one.retryAtMs !== null ? one.retryAtMs - T0 : null;
  };
  const few = slicedCount({ per: 4, startsAtMs: T0 - 3_600_000, first: 0, counts: [2, 4, 3] }, 3_600_000);

  test('is when the request fits without it', () => {
    expect(retryIn(40_000)).toBe(1_800_000);
    expect(retryIn(50_000)).toBe(1_800_000);
    expect(retryIn(50_001)).toBe(50_000);
  });

  test('is left as it is if the request fits without it already, or never', () => {
    expect(retryIn(40_000, 1, few)).toBe(50_000);
    expect(retryIn(40_000, 2, few)).toBe(900_000);
    expect(retryIn(40_000, 5)).toBe(1_800_000 + 900_000);
  });
});

test('an outcome without a ban in force is a refusal, whatever its index', () => {
  const decision: Decision = { ...decide([UNSEEN], plan, T0, 1, 0), n: 1, admitted: 0, bannedFrom: 0 };
  expect(verdictOf(decision, plan, 0).kind).toBe('refused');
});

test('beside too many in flight a request is told the smallest limit that is reached, and whose it is', () => {
  const customer = { scope: 'customer', limits: [] } as const;
  const of = alsoCharging(withOwn(plan, { inFlight: 3 }), [
    budgetOf({ ...customer, inFlight: 2 }),
    budgetOf({ ...customer, unit: 'tokens' }),
  ]);
  const crowded = (inFlight: readonly number[]) => {
    const outcome = { ...decide([UNSEEN], of, T0, 1, 1), admitted: 0, isCrowded: true as const, inFlight };
    const found = verdictOf(outcome, of, 0);
    return found.kind === 'crowded' ? [found.limit, found.scope] : found.kind;
  };
  expect(crowded([3, 1, -1])).toEqual([3, 'key']);
  expect(crowded([2, 2, -1])).toEqual([2, 'customer']);
  expect(crowded([4, 2, -1])).toEqual([2, 'customer']);
});

test.each([
  [undefined, undefined, true],
  [undefined, {}, false],
  [{}, undefined, false],
  [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
  [{ a: 1 }, { a: 2 }, false],
  [{ a: 1, b: 2 }, { a: 1 }, false],
  [{ a: 1 }, { a: 1, b: 2 }, false],
])('%j and %j take the same of units: %s', (one, other, isSame) => {
  expect(sameAmounts(one, other)).toBe(isSame);
});

describe('of budgets in units', () => {
  const tokens = budgetOf({ unit: 'tokens', limits: allowance({ minute: 500 }).limits });
  const ofRequests = budgetOf({ group: 'search', limits: allowance({ hour: 3 }).limits });
  const of = (limits: Allowance['limits'], ...others: readonly Budget[]): Allowance => ({
    ...alsoCharging(withOwn(plan, { limits }), others),
    inUnits: ['tokens'],
  });
  const decided = (allowed: Allowance) => decide([], allowed, T0, 1, 1, undefined, { tokens: 499 });

  test('a request is told of requests first, although fewer of a unit are left', () => {
    const binding = (allowed: Allowance) => verdictOf(decided(allowed), allowed, 0).binding?.unit;
    expect(binding(of(plan.limits, tokens))).toBeNull();
    expect(binding(of([], tokens, ofRequests))).toBeNull();
    expect(binding(of([], tokens))).toBe('tokens');
  });

  test('what was taken is settled in the windows of units alone, if it was admitted', () => {
    const allowed = of(plan.limits, ofRequests, tokens);
    const decision = decided(allowed);
    const reserved = (differently: Partial<Decision>) => {
      const verdict = verdictsOf({ ...decision, ...differently }, allowed)(0);
      return verdict.kind === 'admitted' ? verdict.reservation : verdict.kind;
    };
    expect(reserved({})).toMatchObject({
      ...{ amounts: { tokens: 499 }, isCertain: true },
      windows: [[], [], [{ of: tokens.limits[0], placeMs: T0 + 60_000 }]],
    });
    expect(reserved({ isUncertain: true })).toMatchObject({ isCertain: false });
    expect(reserved({ admitted: 0 })).toBe('refused');
  });
});
