import { expect, test } from 'vitest';
import { type AccountState, decide, UNSEEN } from '../../src/admit/decide.ts';
import type { Allowance } from '../../src/admit/plan.ts';
import { usageReport } from '../../src/admit/usage-report.ts';
import { allowance } from '../support/allowance.ts';

const T0 = 1_800_000_000_000;
const seconds = T0 / 1_000;
const plan: Allowance = {
  ...allowance({ minute: 10, day: 100 }),
  unlimited: [{ window: 'hour', lengthMs: 3_600_000 }],
};
const present = (state: Partial<AccountState>, of = plan, nowMs = T0) =>
  decide({ ...UNSEEN, ...state }, of, nowMs, 1, 0);

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
  const withShadow: Allowance = { ...plan, shadow: allowance({ second: 1 }) };
  const shadow = present({ windows: { second: { used: 1, endsAtMs: T0 + 500 } } }, withShadow.shadow);
  expect(usageReport('a', withShadow, present({}), shadow).shadow).toEqual({
    windows: { second: { limit: 1, used: 1, remaining: 0, resetAt: seconds + 1 } },
    strikes: 0,
    ban: null,
  });
  expect(usageReport('a', withShadow, present({}), null)).not.toHaveProperty('shadow');
  expect(usageReport('a', plan, present({}), shadow)).not.toHaveProperty('shadow');
});

const CUSTOMERS: Allowance = {
  ...plan,
  further: [
    {
      name: 'customer',
      scope: 'customer',
      group: null,
      limits: allowance({ hour: 50 }).limits,
      unlimited: [],
      inFlight: 9,
    },
    {
      name: 'tokens',
      scope: 'customer',
      group: null,
      limits: allowance({ minute: 500 }).limits,
      unlimited: [],
      unit: 'tokens',
    },
  ],
};

test('the windows of a customer and of a unit follow under their names, and what is not counted yet is unused', () => {
  const open = { ...UNSEEN, windows: { hour: { used: 7, endsAtMs: T0 + 9_000 } } };
  const report = usageReport('a', CUSTOMERS, present({ further: [open, UNSEEN] }, CUSTOMERS), null);
  expect(Object.keys(report.windows)).toEqual(['minute', 'hour', 'day', 'customer-hour', 'tokens-minute']);
  expect(report.windows['customer-hour']).toEqual({ limit: 50, used: 7, remaining: 43, resetAt: seconds + 9 });
  expect(report.windows['tokens-minute']).toEqual({
    ...{ limit: 500, used: 0, remaining: 500, resetAt: seconds + 60, unit: 'tokens' },
  });
  const { further: _, ...state } = present({}, CUSTOMERS).state;
  const unseen = usageReport('a', CUSTOMERS, { ...present({}, CUSTOMERS), state }, null);
  expect(unseen.windows['customer-hour']).toMatchObject({ used: 0, remaining: 50 });
});

test('strikes and bans of a customer are those of its account', () => {
  const ofCustomer = { ...UNSEEN, strikes: { count: 4, endsAtMs: T0 + 9_000 } };
  const strikes = { count: 1, endsAtMs: T0 + 9_000 };
  const asked = (of: Allowance) => usageReport('a', of, present({ strikes, further: [ofCustomer, UNSEEN] }, of), null);
  expect(asked({ ...CUSTOMERS, bansOfCustomer: true }).strikes).toBe(4);
  expect(asked(CUSTOMERS).strikes).toBe(1);
  const { further: _, ...state } = present({ strikes }, CUSTOMERS).state;
  const outcome = { ...present({}, CUSTOMERS), state };
  expect(usageReport('a', { ...CUSTOMERS, bansOfCustomer: true }, outcome, null).strikes).toBe(0);
});

test('what is in flight is reported by the name of its limit, where there is one', () => {
  const inFlight = (of: Allowance, counts: readonly (number | null)[]) =>
    usageReport('a', of, { ...present({}, of), inFlight: counts }, null).inFlight;
  expect(inFlight({ ...CUSTOMERS, inFlight: 3 }, [2, 5, null])).toEqual({
    'in-flight': { limit: 3, used: 2 },
    'customer-in-flight': { limit: 9, used: 5 },
  });
  expect(inFlight(CUSTOMERS, [null, 5, null])).toEqual({ 'customer-in-flight': { limit: 9, used: 5 } });
  expect(inFlight({ ...plan, inFlight: 3 }, [null])).toEqual({ 'in-flight': { limit: 3, used: 0 } });
  expect(usageReport('a', { ...plan, inFlight: 3 }, present({}), null)).not.toHaveProperty('inFlight');
});
