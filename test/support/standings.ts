import type { WindowBudget } from '../../src/admit/verdict.ts';
import type { WindowLimit } from '../../src/admit/windows.ts';

/** The standings of limits of which this much is left, without top-ups. */
export function standingsOf(limits: readonly WindowLimit[], left: readonly number[]): readonly WindowBudget[] {
  return limits.map(({ window, name = window, lengthMs, limit }, i) => {
    const remaining = left[i] ?? 0;
    return { window, name, lengthMs, limit, unit: null, needed: 1, used: limit - remaining, remaining, resetAtMs: 0 };
  });
}
