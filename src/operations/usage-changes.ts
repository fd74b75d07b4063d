import type { Durability } from '../admit/ledger.ts';
import type { Allowance } from '../admit/plan.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import { WINDOWS, type WindowLimit, type WindowName } from '../admit/windows.ts';
import { Failure } from '../failure.ts';

// Top-ups and resets of what a key has counted, and which quota is spent when a ban is lifted.

/** A top-up as an operator asks for it. */
export interface NewTopUp {
  readonly window: WindowName;
  /** Whole number from 1. */
  readonly amount: number;
}

/** The result of a change that is made once for each id. */
export type UsageChange<T> =
  | MadeUsageChange<T>
  /** Another change was made under this id. */
  | { readonly kind: 'reused' };

export interface MadeUsageChange<T = unknown> {
  readonly kind: 'made' | 'repeated';
  readonly durability: Durability;
  readonly report: T;
  readonly states: States;
}

/** The states for the record of changes; null if nothing was changed. */
interface States {
  readonly before: object | null;
  readonly after: object | null;
}

/** A top-up as commands and the admin API show it. */
export interface TopUpReport extends NewTopUp {
  readonly id: string;
  /** The limit of the window with all that was added to it. */
  readonly limit: number;
  /** Until when, Unix seconds; null if the top-up has ended. */
  readonly until: number | null;
}

/** A reset as commands and the admin API show it. */
export interface ResetReport {
  readonly id: string;
  /** The windows that were reset, shortest first. */
  readonly windows: readonly WindowName[];
  /** The ban that stays in force, its end in Unix seconds; null if there is none. */
  readonly ban: UsageReport['ban'];
}

/** A window with nothing left, its reset in Unix seconds. */
export interface SpentWindow {
  readonly window: WindowName;
  readonly resetAt: number;
}

/** The windows that leave no room for another request, shortest first. */
export function spentWindows({ windows }: UsageReport): readonly SpentWindow[] {
  return WINDOWS.flatMap((window) => {
    const standing = windows[window];
    return standing?.remaining === 0 ? [{ window, resetAt: standing.resetAt }] : [];
  });
}

/**
 * The windows that an operator names, of those that an allowance counts.
 * @param named null: all
 * @throws Failure `refused` if a window is not counted
 */
export function countedWindows(id: string, allowance: Allowance, named: readonly WindowName[] | null) {
  const { limits, plan, unlimited } = allowance;
  const counted = limits.map(({ window }) => window);
  const list = counted.length === 0 ? 'none' : counted.join(', ');
  for (const window of named ?? []) {
    if (counted.includes(window)) continue;
    const why = unlimited.some((one) => one.window === window)
      ? `has no limit for the ${window}`
      : `does not count the ${window}`;
    throw new Failure('refused', `Key ${id} ${why} (plan ${plan}). The windows that it counts: ${list}.`);
  }
  if (counted.length === 0) throw new Failure('refused', `Key ${id} counts no window (plan ${plan}).`);
  return limits.filter(({ window }) => named === null || named.includes(window)) as [WindowLimit, ...WindowLimit[]];
}
