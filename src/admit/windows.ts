import type { SliceCounts, StoredAccount, TopUp, WindowCount } from '../model/account.ts';
import { type WindowForm, wholeForm } from '../model/plan.ts';
import type { LimitName, WindowName } from '../model/values.ts';
import { type Calendar, calendarOf } from './calendar.ts';

export type { SliceCounts, TopUp, TopUpNote, WindowCount } from '../model/account.ts';
/** How long a window lasts, milliseconds; of a month the longest. */
export const WINDOW_MS: Readonly<Record<WindowName, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
  month: 2_678_400_000,
};

/**
 * One window of an allowance that is counted. There are three kinds:
 *
 * - A fixed window, with neither `slices` nor `calendar`, opens with the first request that is counted in it.
 * - A sliding window has `slices`. Its grid of slices opens with the first request after quiet. What was counted in a slice
 *   leaves one length after the end of that slice, so no span of that length admits more than the limit.
 * - A calendar window is the period of its calendar that contains the present.
 */
export interface WindowLimit {
  readonly window: WindowName;
  /** Its name in an allowance, if it belongs to a budget with a name: `customer-minute`, `search-minute`. Left out: `window`. */
  readonly name?: LimitName;
  readonly lengthMs: number;
  readonly limit: number;
  /** Into how many slices one length is cut. */
  readonly slices?: number;
  readonly calendar?: Calendar;
}

/** The window with a limit. */
export function windowLimit(window: WindowName, limit: number, form?: WindowForm): WindowLimit {
  const { calendar, ...whole } = wholeForm(window, form);
  const counted = { window, lengthMs: WINDOW_MS[window], limit, ...whole };
  return calendar === undefined ? counted : { ...counted, calendar: calendarOf(calendar) };
}

/** The kind of a counted window, as plans.yaml gives it. */
export function formOf({ slices, calendar }: WindowLimit): WindowForm {
  return {
    ...(slices === undefined ? {} : { slices }),
    ...(calendar === undefined ? {} : { calendar: calendar.form }),
  };
}

export type TopUps = NonNullable<StoredAccount['topUps']>;

/** A limit with what an operator has added to it at present. */
export interface ToppedUpLimit extends WindowLimit {
  readonly topUp?: TopUp;
}

/** The limits at `nowMs`: the same array if no top-up is in force. */
export function withTopUps(limits: readonly WindowLimit[], topUps: TopUps | undefined, nowMs: number) {
  if (topUps === undefined) return limits as readonly ToppedUpLimit[];
  return limits.map((one): ToppedUpLimit => {
    const topUp = topUps[one.window];
    if (topUp === undefined || nowMs >= topUp.untilMs) return one;
    return { ...one, limit: one.limit + topUp.amount, topUp };
  });
}

/** When a window ends that opens at `nowMs`. */
export function endIfOpened(of: WindowLimit, nowMs: number): number {
  if (of.calendar !== undefined) return of.calendar.periodAt(nowMs).endsAtMs;
  return nowMs + of.lengthMs + (of.slices === undefined ? 0 : boundary(1, of.lengthMs, of.slices));
}

/** Whether an open fixed window is what `presentCount` would return: a quick test, because most windows are. */
export function isPresent(count: WindowCount, of: WindowLimit, nowMs: number): boolean {
  const isFixed = of.slices === undefined && of.calendar === undefined && count.slices === undefined;
  return isFixed && nowMs < count.endsAtMs && count.endsAtMs <= nowMs + of.lengthMs;
}

/**
 * The part of a count that still counts at `nowMs` under a limit, whose kind may have changed since. If the clock was set back, the
 * count moves back by `backMs`, so that it lasts no longer than a window that opens now.
 *
 * A fixed count becomes one slice of the present, because the time of each request in it is unknown. The slices of a sliding count
 * become one count that ends when the oldest of them leaves, which is no later than any Retry-After has promised.
 */
export function presentCount(count: WindowCount | undefined, of: WindowLimit, nowMs: number) {
  if (count === undefined || nowMs >= count.endsAtMs) return { count: undefined, backMs: 0 };
  if (of.slices !== undefined) {
    const { slices } = count;
    if (slices === undefined) {
      return { count: oneSlice(of, nowMs, count.used), backMs: Math.max(count.endsAtMs - nowMs - of.lengthMs, 0) };
    }
    const present = presentSlices(slices, of.window, nowMs);
    if (present.count === undefined || slices.per === of.slices) return present;
    return { count: oneSlice(of, nowMs, present.count.used), backMs: present.backMs };
  }
  const latestMs = endIfOpened(of, nowMs);
  if (count.slices === undefined) {
    const backMs = Math.max(count.endsAtMs - latestMs, 0);
    return { count: backMs === 0 ? count : { used: count.used, endsAtMs: latestMs }, backMs };
  }
  const { count: sliced, backMs } = presentSlices(count.slices, of.window, nowMs);
  if (sliced === undefined) return { count: undefined, backMs };
  return { count: { used: sliced.used, endsAtMs: Math.min(oldestLeavesAtMs(sliced, of.window), latestMs) }, backMs };
}

/** The count after `spent` more at `nowMs`. @param count a present one; undefined if the window is not open */
export function countIn(count: WindowCount | undefined, of: WindowLimit, nowMs: number, spent: number): WindowCount {
  if (of.slices === undefined) {
    return { used: (count?.used ?? 0) + spent, endsAtMs: count?.endsAtMs ?? endIfOpened(of, nowMs) };
  }
  if (count?.slices === undefined) return oneSlice(of, nowMs, spent);
  const { per, startsAtMs, first, counts } = count.slices;
  // The last slice that has begun.
  const now = Math.ceil(((nowMs - startsAtMs + 1) * per) / of.lengthMs) - 1;
  const counted = [...counts];
  while (counted.length <= now - first) counted.push(0);
  counted[now - first]! += spent;
  return slicedCount({ per, startsAtMs, first, counts: counted }, of.lengthMs);
}

/**
 * Where a count keeps what was counted last: when that ceases to count, Unix milliseconds. It stays the same while the count is
 * open, unless the clock is set back or the window becomes of another kind.
 */
export function placeOf(count: WindowCount): number {
  return count.endsAtMs;
}

/**
 * The count after some of it was given back at its place (`placeOf`); the same object if that place is gone, so that nothing
 * is given back twice or to somebody else's time. Its twin is `giveBack` in src/stores/redis/windows.lua.
 * @param count a present one
 */
export function givenBack(count: WindowCount, of: WindowLimit, place: number, amount: number): WindowCount | undefined {
  if (count.slices === undefined) {
    return count.endsAtMs === place ? { ...count, used: Math.max(count.used - amount, 0) } : count;
  }
  const { per, startsAtMs, first, counts } = count.slices;
  const at = counts.findIndex((_, i) => startsAtMs + of.lengthMs + boundary(first + i + 1, of.lengthMs, per) === place);
  if (at < 0) return count;
  const left = counts.with(at, Math.max(counts[at]! - amount, 0));
  const last = left.findLastIndex((one) => one > 0);
  if (last < 0) return undefined;
  const gone = left.findIndex((one) => one > 0);
  return withoutFirst({ per, startsAtMs, first, counts: left.slice(0, last + 1) }, gone, of.lengthMs);
}

/**
 * The first instant at which a request of `cost` fits, if nothing else is counted: for a sliding window when enough slices
 * have left, for others the end of the window. If it never fits, when the window is empty. Its twin is `fitsAt` in
 * src/stores/redis/decide.lua.
 */
export function fitsAtMs(count: WindowCount, of: ToppedUpLimit, cost: number): number {
  if (count.slices === undefined) return count.endsAtMs;
  let used = count.used;
  for (const [leavesAtMs, left] of leaving(count.slices, of.lengthMs)) {
    used -= left;
    const hasTopUpEnded = of.topUp !== undefined && leavesAtMs >= of.topUp.untilMs;
    if (used + cost <= of.limit - (hasTopUpEnded ? of.topUp!.amount : 0)) return leavesAtMs;
  }
  return count.endsAtMs;
}

/** When the next part of a count ceases to count: the oldest slice of a sliding window, or the whole count of another window. */
export function nextEndMs(count: WindowCount, window: WindowName): number {
  return count.slices === undefined ? count.endsAtMs : oldestLeavesAtMs(count, window);
}

/** Slices as they are kept, with the total and the end of the count. */
export function slicedCount(slices: SliceCounts, lengthMs: number): WindowCount {
  const { per, startsAtMs, first, counts } = slices;
  let used = 0;
  for (const count of counts) used += count;
  return { used, endsAtMs: startsAtMs + lengthMs + boundary(first + counts.length, lengthMs, per), slices };
}

/** The whole of a count in the slice that begins now. */
function oneSlice(of: WindowLimit, nowMs: number, used: number): WindowCount {
  return slicedCount({ per: of.slices!, startsAtMs: nowMs, first: 0, counts: [used] }, of.lengthMs);
}

/** The part of some slices that still counts at `nowMs`. If the clock was set back to before the last slice, that one begins now. */
function presentSlices(slices: SliceCounts, window: WindowName, nowMs: number) {
  const lengthMs = WINDOW_MS[window];
  const { per, counts } = slices;
  const lastBeganAtMs = slices.startsAtMs + boundary(slices.first + counts.length - 1, lengthMs, per);
  const backMs = Math.max(lastBeganAtMs - nowMs, 0);
  const startsAtMs = slices.startsAtMs - backMs;
  let gone = 0;
  const hasLeft = (i: number) => startsAtMs + lengthMs + boundary(slices.first + i + 1, lengthMs, per) <= nowMs;
  while (gone < counts.length && (counts[gone] === 0 || hasLeft(gone))) gone++;
  if (gone === counts.length) return { count: undefined, backMs };
  return { count: withoutFirst({ ...slices, startsAtMs }, gone, lengthMs), backMs };
}

/** The count without its first slices. Slice 0 of its grid moves by whole lengths, so that the number of the first one stays below `per`. */
function withoutFirst(
  { per, startsAtMs, first: before, counts }: SliceCounts,
  gone: number,
  lengthMs: number,
): WindowCount {
  const first = (before + gone) % per;
  const beginsAtMs = startsAtMs + ((before + gone - first) / per) * lengthMs;
  return slicedCount({ per, startsAtMs: beginsAtMs, first, counts: counts.slice(gone) }, lengthMs);
}

/** The instants at which slices leave, the oldest first, and the count of each. */
function* leaving({ per, startsAtMs, first, counts }: SliceCounts, lengthMs: number): Generator<[number, number]> {
  for (const [i, count] of counts.entries()) {
    if (count > 0) yield [startsAtMs + lengthMs + boundary(first + i + 1, lengthMs, per), count];
  }
}

function oldestLeavesAtMs({ slices }: WindowCount, window: WindowName): number {
  const { per, startsAtMs, first } = slices!;
  return startsAtMs + WINDOW_MS[window] + boundary(first + 1, WINDOW_MS[window], per);
}

/** When slice `index` begins, milliseconds after slice 0. */
function boundary(index: number, lengthMs: number, per: number): number {
  return Math.floor((index * lengthMs) / per);
}
