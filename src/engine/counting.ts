import type { SliceCounts, WindowCount } from '../model/account.ts';
import type { WindowName } from '../model/values.ts';
import type { Draft, Limit, WindowCounts } from './types.ts';

/** The part of a count that still counts, and by how much the clock was set back according to it, milliseconds. */
interface PresentCount {
  readonly count?: WindowCount;
  readonly backMs: number;
}

/** How long a window lasts, milliseconds; of a month the longest. */
export const WINDOW_MS: Readonly<Record<WindowName, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
  month: 2_678_400_000,
};

/** When a window ends that opens at `nowMs`. */
export function endIfOpened(limit: Limit, nowMs: number): number {
  if (limit.instants !== undefined) {
    for (const instant of limit.instants) if (nowMs < instant) return instant;
  }
  return nowMs + limit.lengthMs + (limit.slices === undefined ? 0 : boundary(1, limit.lengthMs, limit.slices));
}

/**
 * The part of a count that still counts at `nowMs` under a limit, whose kind may have changed since. If the clock was set back, the
 * count moves back by `backMs`, so that it lasts no longer than a window that opens now.
 *
 * A fixed count becomes one slice of the present, because the time of each request in it is unknown. The slices of a sliding count
 * become one count that ends when the oldest of them leaves, which is no later than any Retry-After has promised.
 */
export function presentCount(count: WindowCount | undefined, limit: Limit, nowMs: number): PresentCount {
  if (count === undefined || nowMs >= count.endsAtMs) return { backMs: 0 };
  const { lengthMs } = limit;
  if (limit.slices !== undefined) {
    if (count.slices === undefined) {
      return { count: oneSlice(limit, nowMs, count.used), backMs: Math.max(count.endsAtMs - nowMs - lengthMs, 0) };
    }
    const present = presentSlices(count, count.slices, lengthMs, nowMs);
    if (present.count === undefined || count.slices.per === limit.slices) return present;
    return { count: oneSlice(limit, nowMs, present.count.used), backMs: present.backMs };
  }
  const latestMs = endIfOpened(limit, nowMs);
  if (count.slices === undefined) {
    const backMs = Math.max(count.endsAtMs - latestMs, 0);
    return { count: backMs === 0 ? count : { used: count.used, endsAtMs: latestMs }, backMs };
  }
  const present = presentSlices(count, count.slices, lengthMs, nowMs);
  const sliced = present.count;
  if (sliced === undefined) return present;
  const oldestMs = leavesAtMs(sliced.slices!, 0, lengthMs);
  return { count: { used: sliced.used, endsAtMs: Math.min(oldestMs, latestMs) }, backMs: present.backMs };
}

/** The count after `spent` more at `nowMs`. @param count a present one; undefined if the window is not open */
export function countIn(count: WindowCount | undefined, limit: Limit, nowMs: number, spent: number): WindowCount {
  if (limit.slices !== undefined) return countInSlices(count, limit, nowMs, spent);
  if (count === undefined) return { used: spent, endsAtMs: endIfOpened(limit, nowMs) };
  return { used: count.used + spent, endsAtMs: count.endsAtMs };
}

function countInSlices(count: WindowCount | undefined, limit: Limit, nowMs: number, spent: number): WindowCount {
  if (count?.slices === undefined) return oneSlice(limit, nowMs, spent);
  const { per, startsAtMs, first, counts } = count.slices;
  // The last slice that has begun.
  const at = Math.ceil(((nowMs - startsAtMs + 1) * per) / limit.lengthMs) - 1 - first;
  const counted = copyFrom(counts, 0);
  while (counted.length <= at) counted.push(0);
  counted[at] = counted[at]! + spent;
  return slicedCount({ per, startsAtMs, first, counts: counted }, limit.lengthMs);
}

/**
 * Where a count has the requests that the store counted last: when they cease to count, Unix milliseconds. It stays the same while the count is
 * open, unless an operator sets the clock back or changes the kind of the window.
 */
export function placeOf(count: WindowCount): number {
  return count.endsAtMs;
}

/**
 * The count after the store has taken an amount out of it at its place (`placeOf`); the same object if that place is gone, so that the store gives
 * nothing back twice or in another time. Undefined if the window has then counted nothing.
 * @param count a present one
 */
export function givenBack(count: WindowCount, limit: Limit, place: number, amount: number): WindowCount | undefined {
  if (count.slices === undefined) {
    if (count.endsAtMs !== place) return count;
    return { used: Math.max(count.used - amount, 0), endsAtMs: place };
  }
  const { per, startsAtMs, first, counts } = count.slices;
  let at = -1;
  for (let i = 0; i < counts.length; i++) if (leavesAtMs(count.slices, i, limit.lengthMs) === place) at = i;
  if (at < 0) return count;
  const left = copyFrom(counts, 0);
  left[at] = Math.max(left[at]! - amount, 0);
  while (left.length > 0 && left[left.length - 1] === 0) left.pop();
  if (left.length === 0) return undefined;
  let gone = 0;
  while (left[gone] === 0) gone++;
  return withoutFirst({ per, startsAtMs, first, counts: left }, gone, limit.lengthMs);
}

/**
 * The first instant at which a request of `cost` fits, if the store counts nothing else: for a sliding window when enough slices
 * have left, for others the end of the window. If it never fits, when the window is empty.
 */
export function fitsAtMs(count: WindowCount, limit: Pick<Limit, 'lengthMs' | 'limit' | 'topUp'>, cost: number): number {
  const { slices } = count;
  if (slices === undefined) return count.endsAtMs;
  let used = count.used;
  for (let i = 0; i < slices.counts.length; i++) {
    const left = slices.counts[i]!;
    if (left > 0) {
      const atMs = leavesAtMs(slices, i, limit.lengthMs);
      used -= left;
      const hasTopUpEnded = limit.topUp !== undefined && atMs >= limit.topUp.untilMs;
      if (used + cost <= limit.limit - (hasTopUpEnded ? limit.topUp!.amount : 0)) return atMs;
    }
  }
  return count.endsAtMs;
}

/** When the next part of a count ceases to count: the oldest slice of a sliding window, or the whole count of another window. */
export function nextEndMs(count: WindowCount, lengthMs: number): number {
  return count.slices === undefined ? count.endsAtMs : leavesAtMs(count.slices, 0, lengthMs);
}

/** Slices as a store keeps them, with the total and the end of the count. */
export function slicedCount(slices: SliceCounts, lengthMs: number): WindowCount {
  let used = 0;
  for (const count of slices.counts) used += count;
  return { used, endsAtMs: leavesAtMs(slices, slices.counts.length - 1, lengthMs), slices };
}

/** The windows without one of them. */
export function withoutWindow(windows: WindowCounts, gone: WindowName): Draft<WindowCounts> {
  const left: Draft<WindowCounts> = {};
  for (const name in windows) {
    const window = name as WindowName;
    if (window !== gone) left[window] = windows[window]!;
  }
  return left;
}

export function copyOfWindows(windows: WindowCounts): Draft<WindowCounts> {
  const copy: Draft<WindowCounts> = {};
  for (const name in windows) copy[name as WindowName] = windows[name as WindowName]!;
  return copy;
}

/** A count whose only slice begins now. */
function oneSlice(limit: Limit, nowMs: number, used: number): WindowCount {
  return slicedCount({ per: limit.slices!, startsAtMs: nowMs, first: 0, counts: [used] }, limit.lengthMs);
}

/**
 * The part of some slices that still counts at `nowMs`: the same count if all of it does. If the clock was set back to before the last
 * slice, that one begins now.
 */
function presentSlices(count: WindowCount, slices: SliceCounts, lengthMs: number, nowMs: number): PresentCount {
  const { per, first, counts } = slices;
  const size = counts.length;
  const backMs = Math.max(slices.startsAtMs + boundary(first + size - 1, lengthMs, per) - nowMs, 0);
  const moved = backMs === 0 ? slices : { per, startsAtMs: slices.startsAtMs - backMs, first, counts };
  const gone = goneBy(moved, lengthMs, nowMs);
  if (gone === size) return { backMs };
  if (gone === 0 && backMs === 0) return { count, backMs };
  return { count: withoutFirst(moved, gone, lengthMs), backMs };
}

/** The part of a sliding count that still counts after `atMs`, which may be in the future; undefined if none does. */
export function leavingAfter(count: WindowCount, lengthMs: number, atMs: number): WindowCount | undefined {
  const slices = count.slices!;
  const gone = goneBy(slices, lengthMs, atMs);
  return gone === slices.counts.length ? undefined : withoutFirst(slices, gone, lengthMs);
}

/** How many of the first slices are empty or have left at `atMs`. */
function goneBy(slices: SliceCounts, lengthMs: number, atMs: number): number {
  const { counts } = slices;
  let gone = 0;
  while (gone < counts.length && (counts[gone] === 0 || leavesAtMs(slices, gone, lengthMs) <= atMs)) gone++;
  return gone;
}

/** The count without its first slices. Slice 0 of its grid moves by whole lengths, so that the number of the first one stays below `per`. */
function withoutFirst(slices: SliceCounts, gone: number, lengthMs: number): WindowCount {
  const { per, counts } = slices;
  const number = slices.first + gone;
  const first = number % per;
  const startsAtMs = slices.startsAtMs + ((number - first) / per) * lengthMs;
  return slicedCount({ per, startsAtMs, first, counts: copyFrom(counts, gone) }, lengthMs);
}

function copyFrom(counts: readonly number[], first: number): number[] {
  const copy: number[] = [];
  for (let i = first; i < counts.length; i++) copy.push(counts[i]!);
  return copy;
}

/** When the slice at `i` of `counts` leaves. */
function leavesAtMs(slices: SliceCounts, i: number, lengthMs: number): number {
  return slices.startsAtMs + lengthMs + boundary(slices.first + i + 1, lengthMs, slices.per);
}

/** When slice `index` begins, milliseconds after slice 0. */
function boundary(index: number, lengthMs: number, per: number): number {
  return Math.floor((index * lengthMs) / per);
}
