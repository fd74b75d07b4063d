import { z } from 'zod';
import type { Durability } from '../admit/ledger.ts';
import type { Allowance } from '../admit/plan.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import { WINDOWS, type WindowLimit, type WindowName } from '../admit/windows.ts';
import { Failure } from '../failure.ts';
import { count, type DeepReadonly, standingBan, unixSeconds, windowName } from './values.ts';

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
export const topUpReport = z
  .strictObject({
    id: z.string(),
    window: windowName,
    amount: count.min(1),
    limit: count.describe('The limit of the window with all that was added to it.'),
    until: z.int().nullable().describe('Unix seconds; null if the top-up has ended.'),
  })
  .meta({
    id: 'TopUp',
    examples: [{ id: 'key_UxYtRgTgI9u8kkw8', window: 'day', amount: 500, limit: 1500, until: 1795322533 }],
  });
export type TopUpReport = Readonly<z.output<typeof topUpReport>>;

/** A reset as commands and the admin API show it. */
export const resetReport = z
  .strictObject({
    id: z.string(),
    windows: z.array(windowName).describe('The windows that were reset, shortest first.'),
    ban: standingBan,
  })
  .meta({ id: 'Reset', examples: [{ id: 'key_UxYtRgTgI9u8kkw8', windows: ['minute', 'day'], ban: null }] });
export type ResetReport = DeepReadonly<z.output<typeof resetReport>>;

export const spentReport = z
  .array(z.strictObject({ window: windowName, resetAt: unixSeconds }))
  .nullable()
  .describe(
    'The windows with nothing left, which still refuse. Null if they are not known, as of a caller with tokens.',
  )
  .meta({ id: 'Spent' });
/** A window with nothing left. */
export type SpentWindow = Readonly<NonNullable<z.output<typeof spentReport>>[number]>;

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
