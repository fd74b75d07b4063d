import type { WindowName } from '../model/values.ts';
import type { AccountState } from './decide.ts';
import { countIn, givenBack, placeOf, presentCount, type WindowCount, type WindowLimit } from './windows.ts';

/** One window in which a request was counted. */
export interface SettledWindow {
  readonly of: WindowLimit;
  /** Where the request was counted (`placeOf`). */
  readonly placeMs: number;
}

/** The windows of a budget in which a request has just been counted. @param counts after it */
export function settledWindows(limits: readonly WindowLimit[], counts: AccountState['windows']): SettledWindow[] {
  // A window that is not open has counted nothing.
  return limits.map((of) => ({ of, placeMs: counts[of.window] === undefined ? 0 : placeOf(counts[of.window]!) }));
}

/**
 * The account after a request was settled. What it took in advance and did not use returns to the windows and slices in which
 * it was counted, as far as they are open. What it used besides is counted now, even beyond the limit. Pure; its twin is
 * stores/redis/settle.lua.
 * @param delta what to add; negative to give back
 * @param nowMs the store's clock, Unix milliseconds
 */
export function settled(
  state: AccountState,
  delta: number,
  windows: readonly SettledWindow[],
  nowMs: number,
): AccountState {
  const counts: Partial<Record<WindowName, WindowCount>> = { ...state.windows };
  for (const { of, placeMs } of windows) {
    const before = state.windows[of.window];
    const present = presentCount(before, of, nowMs).count;
    if (delta > 0) counts[of.window] = countIn(present, of, nowMs, delta);
    else if (present !== undefined && before?.slices?.per === of.slices) {
      const after = givenBack(present, of, placeMs, -delta);
      if (after === undefined) delete counts[of.window];
      else if (after !== present) counts[of.window] = after;
    }
  }
  return { ...state, windows: counts };
}
