import type { WindowName } from '../model/values.ts';
import * as counting from './counting.ts';
import type { Draft, Limit, WindowCounts } from './types.ts';

/** What a gateway admitted in one window of an account while it could not reach the store. */
export interface LateUsage {
  readonly window: WindowName;
  /** Left out: the window does not slide. */
  readonly slices?: number | undefined;
  readonly isCalendar: boolean;
  /** The cost to add. */
  readonly spent: number;
  /** When the last of it ceases to count, Unix milliseconds. */
  readonly endsAtMs: number;
}

/**
 * The windows of an account with usage that a gateway brings late (contract section 6).
 *
 * It opens no window again that has ended in the store or in the gateway. If both are open and end at different times (the
 * store was emptied, or had no window yet), they become one window that ends with the earlier of them. So a client that waits
 * for the end of either has waited long enough. It counts the cost of a sliding window in the slice of the present.
 * @param shiftMs how much later the store's clock is than the one by which the usage ends
 * @returns also for each part of the usage whether it was added
 */
export function reconciled(
  before: WindowCounts,
  late: readonly LateUsage[],
  nowMs: number,
  shiftMs: number,
): { readonly windows: WindowCounts; readonly added: readonly boolean[] } {
  const windows: Draft<WindowCounts> = counting.copyOfWindows(before);
  const added: boolean[] = [];
  for (const { window, slices, isCalendar, spent, endsAtMs: ends } of late) {
    const lengthMs = counting.WINDOW_MS[window];
    const isFixed = slices === undefined && !isCalendar;
    const endsAtMs = isFixed ? Math.min(ends + shiftMs, nowMs + lengthMs) : ends + shiftMs;
    added.push(endsAtMs > nowMs);
    if (endsAtMs > nowMs) {
      const limit: Limit =
        slices === undefined
          ? { window, lengthMs, limit: 0, instants: [endsAtMs] }
          : { window, lengthMs, limit: 0, slices };
      const present = counting.presentCount(windows[window], limit, nowMs).count;
      windows[window] = counting.countIn(present, limit, nowMs, spent);
    }
  }
  return { windows, added };
}
