import { describe, expect, test } from 'vitest';
import { limitAt, windowLimit } from '../../src/admit/windows.ts';
import { isPresent } from '../../src/engine/charging.ts';
import { endIfOpened, fitsAtMs, presentCount, slicedCount } from '../../src/engine/counting.ts';
import type { Limit } from '../../src/engine/types.ts';
import { budgetOf, isLimitName, windowOf } from '../../src/model/values.ts';

const T0 = 1_800_000_000_000;

const present = (...of: Parameters<typeof windowLimit>) => limitAt(windowLimit(...of), T0);

// A minute of 4 slices: the 8 leave at 75 s, the 6 at 90 s.
const count = slicedCount({ per: 4, startsAtMs: T0, first: 0, counts: [8, 6] }, 60_000);
const minute10 = present('minute', 10, { slices: 4 });
const until = (seconds: number): Limit => ({
  ...minute10,
  limit: 15,
  topUp: { amount: 5, untilMs: T0 + seconds * 1_000 },
});

test.each<[string, Limit, number, number]>([
  ['without a top-up when the slices that are in the way have left', minute10, 4, 75],
  ['without a top-up later if it costs more', minute10, 5, 90],
  ['with a top-up that outlasts the slice at its limit', until(75.001), 9, 75],
  [
    'with a top-up that ends as the slice leaves, which is one moment too early, at the limit of the plan',
    until(75),
    4,
    75,
  ],
  ['and no earlier if the limit of the plan is too small for it then', until(75), 5, 90],
  ['and no earlier either if the top-up has ended long before', until(60), 5, 90],
  ['if it never fits, when the window is empty', minute10, 11, 90],
])('a request fits into a sliding window %s', (_, limit, cost, afterSeconds) => {
  expect(fitsAtMs(count, limit, cost)).toBe(T0 + afterSeconds * 1_000);
});

describe('a fixed window', () => {
  const fixed = present('minute', 10);
  const endingIn = (ms: number) => ({ used: 3, endsAtMs: T0 + ms });

  test('is present until its end, unless it lasts longer than its length', () => {
    expect([0, 1, 60_000, 60_001].map((ms) => isPresent(endingIn(ms), fixed, T0))).toEqual([false, true, true, false]);
    expect(isPresent(endingIn(1), minute10, T0)).toBe(false);
    expect(isPresent({ ...endingIn(1), slices: count.slices! }, fixed, T0)).toBe(false);
    expect(isPresent(endingIn(1), present('month', 10), T0)).toBe(false);
  });

  test('ends no later than one that opens now; the strikes move back with it', () => {
    expect(presentCount(endingIn(0), fixed, T0)).toEqual({ count: undefined, backMs: 0 });
    expect(presentCount(endingIn(60_000), fixed, T0)).toEqual({ count: endingIn(60_000), backMs: 0 });
    expect(presentCount(endingIn(60_007), fixed, T0)).toEqual({ count: endingIn(60_000), backMs: 7 });
  });

  test('becomes one slice of a sliding window that begins now', () => {
    const slices = { per: 4, startsAtMs: T0, first: 0, counts: [3] };
    expect(presentCount(endingIn(500), minute10, T0)).toEqual({
      count: { used: 3, endsAtMs: T0 + 75_000, slices },
      backMs: 0,
    });
    expect(presentCount(endingIn(60_007), minute10, T0).backMs).toBe(7);
  });
});

describe('a sliding window', () => {
  test('that opens now ends a slice later than its length', () => {
    const february = Date.parse('2026-02-05T00:00:00Z');
    expect(endIfOpened(minute10, T0)).toBe(T0 + 75_000);
    expect(endIfOpened(present('minute', 10), T0)).toBe(T0 + 60_000);
    expect(endIfOpened(limitAt(windowLimit('month', 10), february), february)).toBe(Date.parse('2026-03-01T00:00:00Z'));
  });

  test('loses each slice at its moment', () => {
    const usedAt = (ms: number) => presentCount(count, minute10, T0 + ms).count?.used;
    expect([74_999, 75_000, 89_999, 90_000].map(usedAt)).toEqual([14, 6, 6, undefined]);
  });

  test('becomes a fixed one that ends when its oldest slice leaves', () => {
    const fixed = present('minute', 10);
    expect(presentCount(count, fixed, T0 + 20_000)).toEqual({ count: { used: 14, endsAtMs: T0 + 75_000 }, backMs: 0 });
    expect(presentCount(count, fixed, T0 + 90_000)).toEqual({ count: undefined, backMs: 0 });
  });

  test('of another number of slices becomes one slice, of what is left', () => {
    const finer = present('minute', 10, { slices: 5 });
    const slices = { per: 5, startsAtMs: T0 + 75_000, first: 0, counts: [6] };
    expect(presentCount(count, finer, T0 + 75_000).count).toEqual({ used: 6, endsAtMs: T0 + 147_000, slices });
    const later = slicedCount({ per: 4, startsAtMs: T0, first: 0, counts: [0, 2] }, 60_000);
    expect(presentCount(later, finer, T0 + 90_000)).toEqual({ count: undefined, backMs: 0 });
  });

  test('moves back with a clock that was set back before its last slice', () => {
    const { count: moved, backMs } = presentCount(count, minute10, T0 + 14_000);
    expect(backMs).toBe(1_000);
    expect(moved).toEqual({
      ...count,
      endsAtMs: count.endsAtMs - 1_000,
      slices: { ...count.slices, startsAtMs: T0 - 1_000 },
    });
  });
});

test('a month is a calendar month unless another calendar is said', () => {
  expect(windowLimit('month', 1).calendar?.form).toEqual({ unit: 'month', zone: 'UTC', anchor: 1 });
  expect(windowLimit('month', 1, { calendar: { unit: 'month', zone: 'UTC', anchor: 3 } }).calendar?.form.anchor).toBe(
    3,
  );
  expect(windowLimit('day', 1)).toEqual({ window: 'day', lengthMs: 86_400_000, limit: 1 });
});

test.each([
  ['minute', 'minute', null],
  ['customer-search-minute', 'minute', 'customer-search'],
  [`${'a'.repeat(80)}-day`, 'day', 'a'.repeat(80)],
  ['a-b', null, null],
  ['-minute', null, null],
  ['Search-minute', null, null],
  ['minutes', null, null],
  ['minute-a', null, null],
  [`${'a'.repeat(81)}-day`, null, null],
])('%s is the name of a window: of %s, in the budget %s', (name, window, budget) => {
  expect(isLimitName(name)).toBe(window !== null);
  if (isLimitName(name)) expect([windowOf(name), budgetOf(name)]).toEqual([window, budget]);
});
