import { describe, expect, test } from 'vitest';
import { budgetOf } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { lift } from '../../src/engine/operator-changes.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance, alsoCharging } from '../support/allowance.ts';

const T0 = 1_800_000_000_000;
const plan = allowance({ second: 1, minute: 5 }, { after: 1, withinMs: 60_000, firstMs: 1_000, forgetMs: 500 });
const fixed = (used: number, endsInMs: number) => ({ used, endsAtMs: T0 + endsInMs });
const present = (state: Partial<AccountState>, atMs = T0, of = plan) =>
  decide([{ ...UNSEEN, ...state }], of, atMs, 1, 0).accounts[0];

describe('what has ended is gone at its very end, and not before', () => {
  test('a window', () => {
    const windows = { second: fixed(1, 1_000) };
    expect(present({ windows }, T0 + 999).windows).toEqual(windows);
    expect(present({ windows }, T0 + 1_000).windows).toEqual({});
  });

  test('the strikes', () => {
    const strikes = { count: 2, endsAtMs: T0 + 100 };
    expect(present({ strikes }, T0 + 99).strikes).toBe(strikes);
    expect(present({ strikes }, T0 + 100).strikes).toBeUndefined();
    expect(present({ strikes }, T0, { ...plan, bans: null }).strikes).toBeUndefined();
  });

  test('the memory of a ban', () => {
    const ban = { number: 3, untilMs: T0, window: 'second' } as const;
    expect(present({ ban }, T0).ban).toBe(ban);
    expect(present({ ban }, T0 + 499).ban).toBe(ban);
    expect(present({ ban }, T0 + 500).ban).toBeUndefined();
    // Without a rule nobody knows how long it is remembered: it stays.
    expect(present({ ban }, T0 - 5, { ...plan, bans: null }).ban).toBe(ban);
  });

  test('a top-up', () => {
    const topUps = { second: { amount: 2, untilMs: T0 + 50 } };
    expect(decide([{ ...UNSEEN, topUps }], plan, T0 + 49, 1, 9).admitted).toBe(3);
    expect(decide([{ ...UNSEEN, topUps }], plan, T0 + 50, 1, 9).admitted).toBe(1);
    expect(present({ topUps }, T0 + 49).topUps).toEqual(topUps);
    expect('topUps' in present({ topUps }, T0 + 50)).toBe(false);
    expect('topUps' in present({})).toBe(false);
  });
});

test('a request that takes nothing of a unit in advance is admitted as long as something of it is left', () => {
  const tokens = budgetOf({ unit: 'tokens', limits: [windowLimit('minute', 5)] });
  const metered = alsoCharging(allowance({ minute: 9 }), [tokens]);
  const admitted = (used: number) =>
    decide([UNSEEN, { windows: { minute: fixed(used, 900) } }], metered, T0, 1, 2, undefined, { tokens: 0 });
  expect(admitted(4)).toMatchObject({ admitted: 2, accounts: [{ windows: { minute: { used: 2 } } }, {}] });
  expect(admitted(5)).toMatchObject({ admitted: 0, accounts: [{ strikes: { count: 2 } }, {}] });
});

test('strikes end `within` after the first of them', () => {
  const hourly = allowance({ hour: 1 }, { after: 9, withinMs: 60_000 });
  const first = decide([UNSEEN], hourly, T0, 1, 2).accounts[0];
  expect(first.strikes).toEqual({ count: 1, endsAtMs: T0 + 60_000 });
  expect(decide([first], hourly, T0 + 30_000, 1, 2).accounts[0].strikes).toEqual({ count: 3, endsAtMs: T0 + 60_000 });
});

describe('the window of a ban', () => {
  const banned = (windows: AccountState['windows']) =>
    decide([{ ...UNSEEN, windows }], plan, T0, 1, 1).accounts[0].ban?.window;
  test('is the one that refuses for longer', () => {
    expect(banned({ second: fixed(1, 900), minute: fixed(5, 800) })).toBe('second');
    expect(banned({ second: fixed(1, 900), minute: fixed(5, 901) })).toBe('minute');
  });
  test('is of equals the longer one', () => {
    expect(banned({ second: fixed(1, 900), minute: fixed(5, 900) })).toBe('minute');
  });
  test('is none with room for the request', () => {
    expect(banned({ second: fixed(1, 900), minute: fixed(4, 50_000) })).toBe('second');
    expect(banned({ second: fixed(1, 900) })).toBe('second');
  });
});

test('a ban is lifted while it is in force, and only then', () => {
  const strikes = { count: 2, endsAtMs: T0 + 9 };
  const state: AccountState = { ...UNSEEN, strikes, ban: { number: 2, untilMs: T0 + 10, window: 'second' } };
  expect(lift(state, T0 + 9)).toEqual({ ...UNSEEN, ban: { number: 1, untilMs: T0 + 9, window: 'second' } });
  const ofGroup: AccountState = { ...state, ban: { ...state.ban!, budget: 'search' } };
  expect(lift(ofGroup, T0 + 9).ban).toMatchObject({ number: 1, budget: 'search' });
  expect(lift(state, T0 + 10)).toBe(state);
  expect(lift({ ...UNSEEN, strikes }, T0)).toEqual({ ...UNSEEN, strikes });
});

describe('a store keeps', () => {
  const sliding = allowance({ minute: 5 }, null, { minute: { slices: 4 } });
  const finer = allowance({ minute: 5 }, null, { minute: { slices: 5 } });
  const slices = decide([UNSEEN], sliding, T0, 1, 5).accounts[0];

  test('windows that the plan does not count, and of those that it counts the outcome', () => {
    const before: AccountState = { ...UNSEEN, windows: { day: fixed(7, 90_000), second: fixed(1, 10) } };
    const decision = decide([before], plan, T0 + 5, 1, 1);
    expect(accountsAfter([before], decision, plan)[0].windows).toEqual({ day: fixed(7, 90_000), second: fixed(1, 10) });
    const later = decide([before], plan, T0 + 10, 1, 1);
    expect(accountsAfter([before], later, plan)[0].windows).toEqual({
      ...later.accounts[0].windows,
      day: fixed(7, 90_000),
    });
  });

  test('the budget of a ban that its own plan does not count, and not that of a ban that was forgotten', () => {
    const before: AccountState = { ...UNSEEN, ban: { number: 1, untilMs: T0, window: 'second', budget: 'search' } };
    const kept = decide([before], plan, T0 - 1, 1, 1);
    expect(kept.accounts[0].ban).not.toHaveProperty('budget');
    // The same object: what is another one is written again by each request.
    expect(accountsAfter([before], kept, plan)[0].ban).toBe(before.ban);
    const imposed = decide([before], plan, T0 + 500, 1, 2);
    expect(imposed.accounts[0].ban).toEqual({ number: 1, untilMs: T0 + 1_500, window: 'second' });
    expect(accountsAfter([before], imposed, plan)[0].ban).toEqual(imposed.accounts[0].ban);
  });

  test('the outcome itself if there is nothing beside it', () => {
    const decision = decide([UNSEEN], plan, T0, 1, 1);
    expect(accountsAfter([UNSEEN], decision, plan)[0]).toBe(decision.accounts[0]);
  });

  test('slices in their old form until something is counted in the new one', () => {
    const refused = decide([slices], finer, T0 + 10, 1, 1);
    expect(refused.admitted).toBe(0);
    expect(accountsAfter([slices], refused, finer)[0].windows).toEqual(slices.windows);
    const roomy = allowance({ minute: 6 }, null, { minute: { slices: 5 } });
    const admitted = decide([slices], roomy, T0 + 10, 1, 1);
    expect(accountsAfter([slices], admitted, roomy)[0].windows).toEqual(admitted.accounts[0].windows);
    // Slices of the same form, and those that have all left, are as the outcome says.
    const same = decide([slices], sliding, T0 + 10, 1, 1);
    expect(accountsAfter([slices], same, sliding)[0]).toBe(same.accounts[0]);
    const closed = allowance({ minute: 0 }, null, { minute: { slices: 5 } });
    const gone = decide([slices], closed, T0 + 75_000, 1, 1);
    expect(accountsAfter([slices], gone, finer)[0].windows).toEqual({});
  });

  test('top-ups in force, also of windows that the plan does not count', () => {
    const topUps = { day: { amount: 1, untilMs: T0 + 10 }, second: { amount: 2, untilMs: T0 + 20 } };
    const before: AccountState = { ...UNSEEN, topUps };
    const kept = (atMs: number) => accountsAfter([before], decide([before], plan, atMs, 1, 1), plan)[0].topUps;
    expect(kept(T0 + 9)).toEqual(topUps);
    expect(kept(T0 + 10)).toEqual({ second: topUps.second });
    expect(kept(T0 + 20)).toBeUndefined();
  });
});
