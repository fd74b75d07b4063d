import type { CountedWindow } from '../../src/admit/verdict.ts';
import type { WindowLimit } from '../../src/admit/windows.ts';

/** The windows of limits of which this much is left, without top-ups. */
export function countedWindowsOf(limits: readonly WindowLimit[], left: readonly number[]): readonly CountedWindow[] {
  return limits.map(({ window, name = window, lengthMs, limit }, i) => {
    const remaining = left[i] ?? 0;
    return { window, name, lengthMs, limit, unit: null, needed: 1, used: limit - remaining, remaining, resetAtMs: 0 };
  });
}
