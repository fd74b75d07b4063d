import { expect, test } from 'vitest';
import { settled, settledWindows } from '../../src/admit/decision.ts';
import { type WindowLimit, windowLimit } from '../../src/admit/windows.ts';
import { placeOf, slicedCount } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import type { WindowCount } from '../../src/model/account.ts';

const T0 = 1_800_000_000_000;
const minute = windowLimit('minute', 10);
const sliding = windowLimit('minute', 10, { slices: 4 });
const fixed = (used: number, endsAtMs = T0 + 9_000): WindowCount => ({ used, endsAtMs });
/** The second of them begins at T0. */
const slices = (...counts: readonly number[]) =>
  slicedCount({ per: 4, startsAtMs: T0 - 15_000, first: 0, counts }, 60_000);
const stateOf = (count: WindowCount | undefined): AccountState => ({
  ...UNSEEN,
  windows: count === undefined ? {} : { minute: count },
});

/** What is settled at T0, and where it was counted. */
test.each<[string, WindowLimit, WindowCount | undefined, number, number, WindowCount | undefined]>([
  ['more is counted, even beyond the limit', minute, fixed(9), T0 + 9_000, 5, fixed(14)],
  ['more opens a window that has ended', minute, fixed(9, T0), T0, 5, fixed(5, T0 + 60_000)],
  ['more opens one that was never open', minute, undefined, T0, 5, fixed(5, T0 + 60_000)],
  ['nothing opens no window', minute, undefined, T0, 0, undefined],
  ['less is given back where it was counted', minute, fixed(9), T0 + 9_000, -5, fixed(4)],
  ['no more than all is given back', minute, fixed(3), T0 + 9_000, -5, fixed(0)],
  ['a later window keeps its count', minute, fixed(9), T0 + 8_000, -5, fixed(9)],
  ['a window that is not open stays so', minute, undefined, T0 + 9_000, -5, undefined],
  ['more is counted in the present slice', sliding, slices(3), T0, 2, slices(3, 2)],
  ['less is given back to its slice', sliding, slices(3, 2), placeOf(slices(3)), -2, slices(1, 2)],
  ['the last of it closes the window', sliding, slices(3), placeOf(slices(3)), -3, undefined],
  ['a slice that has left keeps its neighbours', sliding, slices(3, 2), T0, -2, slices(3, 2)],
  ['a window that has become sliding keeps its count', sliding, fixed(9), T0 + 9_000, -5, fixed(9)],
])('%s', (_what, of, before, placeMs, delta, after) => {
  const { windows, ...rest } = settled(stateOf(before), delta, [{ of, placeMs }], T0);
  expect(windows).toEqual(after === undefined ? {} : { minute: after });
  const { windows: _, ...untouched } = UNSEEN;
  expect(rest).toEqual(untouched);
});

test('a request is settled where it was counted, and nowhere in a window that is not open', () => {
  const hour = windowLimit('hour', 10);
  expect(settledWindows([minute, hour], { minute: fixed(1) })).toEqual([
    { of: minute, placeMs: T0 + 9_000 },
    { of: hour, placeMs: 0 },
  ]);
});
