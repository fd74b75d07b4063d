import { describe, expect, test } from 'vitest';
import {
  type AccountChange,
  changed,
  changeWords,
  resetUsage,
  toppedUp,
  undoTopUp,
} from '../../src/admit/account-changes.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { slicedCount } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { resetUsage as engineReset, MAX_TOP_UP_NOTES } from '../../src/engine/operator-changes.ts';
import type { AccountState } from '../../src/engine/types.ts';
import type { WindowCount } from '../../src/model/account.ts';
import { MAX_LIMIT } from '../../src/model/plan.ts';
import { allowance } from '../support/allowance.ts';

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
    const change = { kind: 'top-up', of: minute, amount: MAX_LIMIT - 12 } as const;
    const once = changed(UNSEEN, change, T0);
    expect(changed(once, change, T0).topUps?.minute?.amount).toBe(MAX_LIMIT - 10);
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
    const most = MAX_LIMIT - 10 - 4;
    expect(toppedUp(before, minute, most, T0).topUp.amount).toBe(most + 4);
    expect(() => toppedUp(before, minute, most + 1, T0)).toThrow(`Add at most ${most}.`);
    expect(() => toppedUp(UNSEEN, windowLimit('minute', MAX_LIMIT + 1), 1, T0)).toThrow('Add at most 0.');
  });
});

describe('a top-up with an end of its own', () => {
  const untilMs = T0 + 500_000;
  const owned =
    (amount: number, id: string) =>
    (state: AccountState, atMs = T0, endMs = untilMs) =>
      toppedUp(state, minute, amount, atMs, { id, untilMs: endMs, reason: 'why' }).state;
  const first = owned(5, 'one')(UNSEEN);

  test('opens no window, and counts for each that begins until then', () => {
    expect(first.windows).toEqual({});
    const admitted = (atMs: number) => decide([first], allowance({ minute: 10 }), atMs, 1, 99).admitted;
    expect([T0, untilMs - 1, untilMs].map(admitted)).toEqual([15, 15, 10]);
  });

  test('keeps it: another one with the same end adds to it, and one with another end is refused', () => {
    const both = owned(3, 'two')(first, T0 + 9);
    expect(both.topUps).toEqual({ minute: { amount: 8, untilMs } });
    expect(both.topUpNotes).toEqual([
      { id: 'one', window: 'minute', amount: 5, untilMs, hasOwnEnd: true, atMs: T0, reason: 'why' },
      { id: 'two', window: 'minute', amount: 3, untilMs, hasOwnEnd: true, atMs: T0 + 9, reason: 'why' },
    ]);
    const message = `A top-up of 5 until ${new Date(untilMs).toISOString()} is in force: undo it, or give the same end.`;
    expect(() => owned(3, 'two')(first, T0, untilMs + 1)).toThrow(message);
    expect(() => toppedUp(first, minute, 3, T0, { id: 'two' })).toThrow(message);
    expect(() => toppedUp(first, minute, 3, untilMs, { id: 'two' })).not.toThrow();
    const ofWindow = toppedUp(UNSEEN, minute, 5, T0, { id: 'one' }).state;
    expect(() => owned(3, 'two')(ofWindow)).toThrow(/undo it, or give the same end/);
    expect(owned(3, 'two')(ofWindow, T0, T0 + 60_000).topUps?.minute?.amount).toBe(8);
  });

  test('that an earlier version has made is extended by one without an end, as then', () => {
    const earlier: AccountState = { ...UNSEEN, topUps: { minute: { amount: 2, untilMs: T0 + 9 } } };
    const { state } = toppedUp(earlier, sliding, 5, T0, { id: 'one' });
    expect(state.topUps).toEqual({ minute: { amount: 7, untilMs: T0 + 60_000 } });
    expect(state.topUpNotes).toMatchObject([{ id: 'one', amount: 5, untilMs: T0 + 60_000, hasOwnEnd: false }]);
  });

  test('is refused if the end has passed', () => {
    expect(() => owned(1, 'one')(UNSEEN, untilMs)).toThrow(/has already passed/);
  });

  test('counts after fifty others of its window, but is not known by its id any more, and its end is kept', () => {
    let state = toppedUp(first, windowLimit('day', 9), 1, T0, { id: 'day' }).state;
    for (let i = 1; i <= MAX_TOP_UP_NOTES; i++) {
      state = toppedUp(state, windowLimit('minute', 10), 1, untilMs - 60_000, { id: `${i}` }).state;
    }
    expect(state.topUps?.minute).toEqual({ amount: 5 + MAX_TOP_UP_NOTES, untilMs });
    const ofMinute = state.topUpNotes!.filter(({ window }) => window === 'minute');
    expect([ofMinute.length, ofMinute[0]?.id, state.topUpNotes?.length]).toEqual([50, '1', 51]);
    expect(() => toppedUp(state, minute, 1, untilMs - 1, { id: 'sliding' })).not.toThrow();
    expect(() => toppedUp(state, sliding, 1, untilMs - 1, { id: 'sliding' })).toThrow(/give the same end/);
  });

  test('is still there after a decision that is kept', () => {
    const plan = allowance({ minute: 10 });
    const [after] = accountsAfter([first], decide([first], plan, T0 + 1, 1, 2), plan);
    expect(after.topUpNotes).toEqual(first.topUpNotes);
    expect(accountsAfter([first], decide([first], plan, untilMs, 1, 2), plan)[0]).not.toHaveProperty('topUpNotes');
  });
});

describe('a top-up that is undone', () => {
  const make = (state: AccountState, id: string, amount: number) => toppedUp(state, minute, amount, T0, { id }).state;
  const both = make(make(UNSEEN, 'one', 5), 'two', 3);

  test('is taken back by its id, the others stay, and what was counted stays', () => {
    const used = { ...both, windows: { minute: { used: 17, endsAtMs: T0 + 60_000 } } };
    const { undone, state } = undoTopUp(used, 'minute', 'one', T0 + 1);
    expect(undone).toEqual({ amount: 5, left: 3, untilMs: T0 + 60_000 });
    expect(state).toMatchObject({ windows: used.windows, topUps: { minute: { amount: 3 } } });
    expect(state.topUpNotes?.map(({ id }) => id)).toEqual(['two']);
    expect(decide([state], allowance({ minute: 10 }), T0 + 2, 1, 1).admitted).toBe(0);
  });

  test('is taken back with another one that has its id, which a day later is free again', () => {
    const { undone, state } = undoTopUp(make(both, 'one', 2), 'minute', 'one', T0);
    expect([undone.amount, undone.left, state.topUpNotes?.length]).toEqual([7, 3, 1]);
  });

  test('is taken back with all others of its window, those of an earlier version too, and of no other window', () => {
    const day = { amount: 9, untilMs: T0 + 99_000 };
    const before = { ...both, topUps: { day, minute: { amount: 80, untilMs: T0 + 60_000 } } };
    const { undone, state } = undoTopUp(before, 'minute', null, T0);
    expect(undone).toMatchObject({ amount: 80, left: 0 });
    expect(state.topUps).toEqual({ day });
    expect(state.topUpNotes).toBeUndefined();
    expect(undoTopUp(state, 'day', null, T0).state).toEqual({ ...UNSEEN, windows: both.windows });
  });

  test('is gone: neither a second time, nor after its end, nor under another id or window', () => {
    for (const [window, id, atMs] of [
      ['minute', 'one', T0 + 60_000],
      ['minute', null, T0 + 60_000],
      ['minute', 'none', T0],
      ['hour', 'one', T0],
      ['hour', null, T0],
    ] as const) {
      expect(() => undoTopUp(both, window, id, atMs)).toThrow('No such top-up is in force');
    }
    const undo = { kind: 'undo-top-up', window: 'minute', id: 'one' } as const;
    const once = changed(both, undo, T0);
    expect(changed(once, undo, T0)).toBe(once);
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
      strikes: undefined,
    });
  });

  test('takes what is counted in slices away as a whole', () => {
    const { reset, state } = resetUsage(withMinute(slices), ['minute'], T0 + 74_999);
    expect(reset.used).toEqual({ minute: 3 });
    expect(state.windows).toEqual({});
  });

  test('that is repeated after a failover leaves what counts for longer than the first one took away (reliability 155)', () => {
    const windows = { minute: { used: 4, endsAtMs: T0 + 60_000 }, hour: { used: 5, endsAtMs: T0 + 3_600_000 } };
    const first = engineReset({ ...UNSEEN, windows }, ['minute', 'hour'], T0);
    expect(first.endsAtMs).toBe(T0 + 3_600_000);
    const again = engineReset({ ...UNSEEN, windows }, ['minute', 'hour'], T0 + 1, T0 + 60_000);
    expect(again.state.windows).toEqual({ minute: { used: 0, endsAtMs: T0 + 60_000 }, hour: windows.hour });
    const sliced = slicedCount({ per: 4, startsAtMs: T0, first: 0, counts: [3, 0, 2] }, 60_000);
    expect(engineReset(withMinute(sliced), ['minute'], T0 + 40_000).endsAtMs).toBe(T0 + 105_000);
    const left = engineReset(withMinute(sliced), ['minute'], T0 + 40_000, T0 + 75_000).state.windows.minute;
    expect(left).toEqual(slicedCount({ per: 4, startsAtMs: T0, first: 2, counts: [2] }, 60_000));
    const none = engineReset(withMinute(sliced), ['minute'], T0 + 40_000, T0 + 105_000).state.windows;
    expect(none).toEqual({});
  });

  test('leaves a window that has ended as it is, and tells of nothing that has ended', () => {
    const { reset, state } = resetUsage(before, ['hour'], T0 + 100);
    expect(reset.used).toEqual({ hour: 0 });
    expect(state.windows.hour).toEqual(before.windows.hour);
    expect(resetUsage(before, [], T0 + 999).reset.strikes).toBe(3);
    expect(resetUsage(before, [], T0 + 1_000).reset.strikes).toBe(0);
  });

  test('is one of three changes', () => {
    const { ban: gone, windows } = changed(before, { kind: 'lift' }, T0);
    expect([gone, windows]).toEqual([undefined, before.windows]);
    expect(changed(before, { kind: 'top-up', of: minute, amount: 5 }, T0).topUps?.minute?.amount).toBe(6);
    expect(changed(before, { kind: 'reset', windows: ['minute'] }, T0)).toEqual(
      resetUsage(before, ['minute'], T0).state,
    );
  });
});

const ban = (untilMs: number) => ({ number: 1, untilMs, window: 'minute' }) as const;

test.each<[string, AccountState['ban'], number, boolean]>([
  ['is in force', undefined, T0 + 1, true],
  ['has ended', undefined, T0, false],
  ['ends later than that of the account', ban(T0 + 5), T0 + 6, true],
  ['ends with that of the account', ban(T0 + 5), T0 + 5, false],
  ['ends before that of the account', ban(T0 + 5), T0 + 4, false],
])(
  'a ban of another account is taken over if it does not end before: one that %s',
  (_what, before, untilMs, isTaken) => {
    const state = { ...UNSEEN, ban: before };
    const carried = { ...ban(untilMs), number: 2 };
    const after = changed(state, { kind: 'ban', ban: carried }, T0);
    expect(after).toEqual(isTaken ? { ...state, ban: carried } : state);
  },
);

test.each<[AccountChange, string]>([
  [{ kind: 'lift' }, 'lift'],
  [{ kind: 'ban', ban: ban(T0) }, 'ban'],
  [{ kind: 'reset', windows: ['minute', 'day'] }, 'reset minute day'],
  [{ kind: 'undo-top-up', window: 'day', id: 'a' }, 'undo-top-up day a'],
  [{ kind: 'undo-top-up', window: 'day', id: null }, 'undo-top-up day all'],
  [{ kind: 'top-up', of: minute, amount: 5 }, 'top-up minute 5'],
  [{ kind: 'top-up', of: minute, amount: 5, terms: { id: 'a', reason: '' } }, 'top-up minute 5'],
  [
    { kind: 'top-up', of: minute, amount: 5, terms: { id: 'a', untilMs: T0, reason: 'a b' } },
    `top-up minute 5 until ${T0} =a%20b`,
  ],
])('a repetition of %j is known by %j', (change, words) => {
  expect(changeWords(change)).toBe(words);
});
