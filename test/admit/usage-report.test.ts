import { expect, test } from 'vitest';
import { type Allowance, budgetOf } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { usageReport } from '../../src/admit/usage-report.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance, alsoCharging, withOwn } from '../support/allowance.ts';

const T0 = 1_800_000_000_000;
const seconds = T0 / 1_000;
const plan = withOwn(allowance({ minute: 10, day: 100 }), {
  unlimited: [{ window: 'hour', lengthMs: 3_600_000 }],
});
const present = (state: Partial<AccountState>, of = plan, nowMs = T0, others: readonly AccountState[] = []) =>
  decide([{ ...UNSEEN, ...state }, ...others], of, nowMs, 1, 0);

test('windows are reported shortest first, and their ends in whole seconds, rounded up', () => {
  const { windows, ...rest } = usageReport(
    'key_1',
    plan,
    present({ windows: { minute: { used: 4, endsAtMs: T0 + 1_001 } } }),
    null,
  );
  expect(Object.entries(windows)).toEqual([
    ['minute', { limit: 10, used: 4, remaining: 6, resetAt: seconds + 2 }],
    ['hour', { limit: 'unlimited', used: 0, remaining: 'unlimited', resetAt: seconds }],
    ['day', { limit: 100, used: 0, remaining: 100, resetAt: seconds + 86_400 }],
  ]);
  expect(rest).toEqual({ id: 'key_1', plan: 'test', strikes: 0, ban: null });
});

test('a limit that was lowered leaves nothing, and a top-up adds to it', () => {
  const windows = { minute: { used: 12, endsAtMs: T0 + 5_000 } };
  expect(usageReport('a', plan, present({ windows }), null).windows.minute).toMatchObject({ limit: 10, remaining: 0 });
  const topUps = { minute: { amount: 5, untilMs: T0 + 5_000 } };
  expect(usageReport('a', plan, present({ windows, topUps }), null).windows.minute).toMatchObject({
    limit: 15,
    remaining: 3,
  });
});

test('strikes, and a ban while it is in force, are reported', () => {
  const ban = { number: 2, untilMs: T0 + 1_500, window: 'minute' } as const;
  const state = { strikes: { count: 3, endsAtMs: T0 + 9_000 }, ban };
  expect(usageReport('a', plan, present(state), null)).toMatchObject({
    strikes: 3,
    ban: { number: 2, until: seconds + 2 },
  });
  expect(usageReport('a', plan, present(state, plan, T0 + 1_499), null).ban).not.toBeNull();
  expect(usageReport('a', plan, present(state, plan, T0 + 1_500), null).ban).toBeNull();
});

test('the shadow is reported if the plan has one and its state is known', () => {
  const withShadow = { ...plan, shadow: allowance({ second: 1 }) };
  const shadow = present({ windows: { second: { used: 1, endsAtMs: T0 + 500 } } }, withShadow.shadow);
  expect(usageReport('a', withShadow, present({}), shadow).shadow).toEqual({
    windows: { second: { limit: 1, used: 1, remaining: 0, resetAt: seconds + 1 } },
    strikes: 0,
    ban: null,
  });
  expect(usageReport('a', withShadow, present({}), null)).not.toHaveProperty('shadow');
  expect(usageReport('a', plan, present({}), shadow)).not.toHaveProperty('shadow');
});

const CUSTOMERS = alsoCharging(plan, [
  budgetOf({ scope: 'customer', limits: [windowLimit('hour', 50)], inFlight: 9 }),
  budgetOf({ scope: 'customer', unit: 'tokens', limits: [windowLimit('minute', 500)] }),
]);

test('the windows of a customer and of a unit follow under their names, and what is not counted yet is unused', () => {
  const open = { ...UNSEEN, windows: { hour: { used: 7, endsAtMs: T0 + 9_000 } } };
  const { windows } = usageReport('a', CUSTOMERS, present({}, CUSTOMERS, T0, [open]), null);
  expect(Object.keys(windows)).toEqual(['minute', 'hour', 'day', 'customer-hour', 'customer-tokens-minute']);
  expect(windows['customer-hour']).toEqual({ limit: 50, used: 7, remaining: 43, resetAt: seconds + 9 });
  expect(windows['customer-tokens-minute']).toEqual({
    ...{ limit: 500, used: 0, remaining: 500, resetAt: seconds + 60, unit: 'tokens' },
  });
});

test('strikes and bans of a customer are those of its account', () => {
  const [strikes, ofCustomer] = [1, 4].map((count) => ({ count, endsAtMs: T0 + 9_000 }));
  const others = [{ ...UNSEEN, strikes: ofCustomer! }];
  const asked = (of: Allowance) => usageReport('a', of, present({ strikes: strikes! }, of, T0, others), null);
  expect(asked({ ...CUSTOMERS, bansIn: 1 }).strikes).toBe(4);
  expect(asked(CUSTOMERS).strikes).toBe(1);
});

test('what is in flight is reported by the name of its limit, where there is one', () => {
  const inFlight = (of: Allowance, counts: readonly number[]) =>
    usageReport('a', of, { ...present({}, of), inFlight: counts }, null).inFlight;
  expect(inFlight(withOwn(CUSTOMERS, { inFlight: 3 }), [2, 5, -1])).toEqual({
    'in-flight': { limit: 3, used: 2 },
    'customer-in-flight': { limit: 9, used: 5 },
  });
  expect(inFlight(CUSTOMERS, [-1, 5, -1])).toEqual({ 'customer-in-flight': { limit: 9, used: 5 } });
  const bounded = withOwn(plan, { inFlight: 3 });
  expect(inFlight(bounded, [-1])).toEqual({ 'in-flight': { limit: 3, used: 0 } });
  expect(usageReport('a', bounded, present({}), null)).not.toHaveProperty('inFlight');
});
