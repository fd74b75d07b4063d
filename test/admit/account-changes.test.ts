import { describe, expect, test } from 'vitest';
import { changed, resetUsage, toppedUp } from '../../src/admit/account-changes.ts';
import { type AccountState, UNSEEN } from '../../src/admit/decide.ts';
import { UNBOUNDED } from '../../src/admit/plan.ts';
import { type WindowCount, windowLimit } from '../../src/admit/windows.ts';

const T0 = 1_800_000_000_000;
const minute = windowLimit('minute', 10);
const sliding = windowLimit('minute', 10, { slices: 4 });
const slices: WindowCount = {
  used: 3,
  endsAtMs: T0 + 75_000,
  slices: { per: 4, startsAtMs: T0, first: 0, counts: [3] },
};
const withMinute = (count: WindowCount): AccountState => ({ ...UNSEEN, windows: { minute: count } });

describe('a top-up', () => {
  test('that was acknowledged is bounded by the largest limit, and one that is asked for is refused', () => {
    const change = { kind: 'top-up', of: minute, amount: UNBOUNDED - 12 } as const;
    const once = changed(UNSEEN, change, T0);
    expect(changed(once, change, T0).topUps?.minute?.amount).toBe(UNBOUNDED - 10);
    expect(() => toppedUp(once, minute, change.amount, T0)).toThrow(/Add at most 2\.$/);
  });

  test('opens a fixed window that is not open, and lasts as long as that', () => {
    const { topUp, state } = toppedUp(UNSEEN, minute, 5, T0);
    expect(topUp).toEqual({ amount: 5, untilMs: T0 + 60_000 });
    expect(state).toEqual({
      ...UNSEEN,
      windows: { minute: { used: 0, endsAtMs: T0 + 60_000 } },
      topUps: { minute: topUp },
    });
  });

  test('lasts as long as the open window, whose count stays', () => {
    const open = { used: 4, endsAtMs: T0 + 1_000 };
    const { topUp, state } = toppedUp(withMinute(open), minute, 5, T0);
    expect(topUp.untilMs).toBe(T0 + 1_000);
    expect(state.windows.minute).toEqual(open);
    expect(toppedUp(withMinute(open), minute, 5, T0 + 1_000).state.windows.minute).toEqual({
      used: 0,
      endsAtMs: T0 + 61_000,
    });
  });

  test('of a sliding window lasts for its length and leaves the count alone', () => {
    const { topUp, state } = toppedUp(withMinute(slices), sliding, 5, T0 + 10);
    expect(topUp.untilMs).toBe(T0 + 60_010);
    expect(state.windows.minute).toBe(slices);
    expect(toppedUp(UNSEEN, sliding, 5, T0).state.windows).toEqual({});
  });

  test('adds to the one before and keeps the later end, until that has ended', () => {
    const day = { amount: 9, untilMs: T0 + 5 };
    const before: AccountState = { ...UNSEEN, topUps: { minute: { amount: 2, untilMs: T0 + 90_000 }, day } };
    const added = toppedUp(before, minute, 5, T0);
    expect(added.state.topUps).toEqual({ minute: { amount: 7, untilMs: T0 + 90_000 }, day });
    // The day's has ended by then, and is forgotten.
    expect(toppedUp(before, minute, 5, T0 + 5).state.topUps).toEqual({ minute: { amount: 7, untilMs: T0 + 90_000 } });
    expect(toppedUp(before, minute, 5, T0 + 90_000).topUp).toEqual({ amount: 5, untilMs: T0 + 150_000 });
  });

  test('may make the limit the largest that there is, and no larger', () => {
    const before: AccountState = { ...UNSEEN, topUps: { minute: { amount: 4, untilMs: T0 + 1 } } };
    const most = UNBOUNDED - 10 - 4;
    expect(toppedUp(before, minute, most, T0).topUp.amount).toBe(most + 4);
    expect(() => toppedUp(before, minute, most + 1, T0)).toThrow(`Add at most ${most}.`);
    expect(() => toppedUp(UNSEEN, windowLimit('minute', UNBOUNDED + 1), 1, T0)).toThrow('Add at most 0.');
  });
});

describe('a reset', () => {
  const strikes = { count: 3, endsAtMs: T0 + 1_000 };
  const ban = { number: 1, untilMs: T0 + 9_000, window: 'minute' } as const;
  const before: AccountState = {
    windows: { second: slices, minute: { used: 4, endsAtMs: T0 + 60_000 }, hour: { used: 8, endsAtMs: T0 + 100 } },
    strikes,
    ban,
    topUps: { minute: { amount: 1, untilMs: T0 + 60_000 } },
  };

  test('keeps the end of a fixed window, other windows, the ban and the top-ups, and clears the strikes', () => {
    const { reset, state } = resetUsage(before, ['minute', 'day'], T0);
    expect(reset).toEqual({ used: { minute: 4, day: 0 }, strikes: 3 });
    expect(state).toEqual({
      ...before,
      windows: { ...before.windows, minute: { used: 0, endsAtMs: T0 + 60_000 } },
      strikes: { count: 0, endsAtMs: 0 },
    });
  });

  test('takes what is counted in slices away as a whole', () => {
    const { reset, state } = resetUsage(withMinute(slices), ['minute'], T0 + 74_999);
    expect(reset.used).toEqual({ minute: 3 });
    expect(state.windows).toEqual({});
  });

  test('leaves a window that has ended as it is, and tells of nothing that has ended', () => {
    const { reset, state } = resetUsage(before, ['hour'], T0 + 100);
    expect(reset.used).toEqual({ hour: 0 });
    expect(state.windows.hour).toEqual(before.windows.hour);
    expect(resetUsage(before, [], T0 + 999).reset.strikes).toBe(3);
    expect(resetUsage(before, [], T0 + 1_000).reset.strikes).toBe(0);
  });

  test('is one of three changes', () => {
    expect(changed(before, { kind: 'lift' }, T0)).toMatchObject({ ban: null, windows: before.windows });
    expect(changed(before, { kind: 'top-up', of: minute, amount: 5 }, T0).topUps?.minute?.amount).toBe(6);
    expect(changed(before, { kind: 'reset', windows: ['minute'] }, T0)).toEqual(
      resetUsage(before, ['minute'], T0).state,
    );
  });
});
