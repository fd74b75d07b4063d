import type { WindowCount } from '../model/account.ts';
import type { WindowName } from '../model/values.ts';
import * as counting from './counting.ts';
import type { Amounts, Decision, Draft, Limit, RuleBudget, WindowCounts } from './types.ts';

/* How much a request charges, whether the windows have room for it, and how they count it. A plain key with fixed windows needs only this file and decide.ts. */

/** How much one request charges a budget. */
export function chargeOf(budget: Pick<RuleBudget, 'unit'>, cost: number, amounts: Amounts | undefined): number {
  const { unit } = budget;
  if (unit === undefined) return cost;
  return amounts?.[unit] ?? 0;
}

/**
 * How much must be left of a limit for a request that charges `charge`: the store admits a request that takes nothing in advance as
 * long as something is left.
 */
export function neededFor(charge: number): number {
  return charge > 1 ? charge : 1;
}

/** Whether an open fixed window is what `presentCount` would return: a quick test, because most windows are. */
export function isPresent(count: WindowCount, limit: Limit, nowMs: number): boolean {
  return (
    limit.slices === undefined &&
    limit.instants === undefined &&
    count.slices === undefined &&
    nowMs < count.endsAtMs &&
    count.endsAtMs <= nowMs + limit.lengthMs
  );
}

/** The counts of an account that have not ended, in the windows that a budget limits. */
export function presentWindows(before: WindowCounts, limits: readonly Limit[], nowMs: number): WindowCounts {
  const windows: Draft<WindowCounts> = {};
  for (const limit of limits) {
    let count = before[limit.window];
    if (count !== undefined) {
      if (!isPresent(count, limit, nowMs)) count = counting.presentCount(count, limit, nowMs).count;
      if (count !== undefined) windows[limit.window] = count;
    }
  }
  return windows;
}

/** The limit that a budget has for a window. */
export function limitOf(budget: RuleBudget, window: WindowName): Limit | undefined {
  for (const limit of budget.limits) if (limit.window === window) return limit;
  return undefined;
}

/**
 * How many of `n` requests fit into all windows of the present accounts.
 * @param returned how much of each account counts as unused; left out: nothing
 */
export function roomFor(
  decision: Decision,
  budgets: readonly RuleBudget[],
  n: number,
  returned?: readonly number[],
): number {
  let room = n;
  for (let i = 0; i < budgets.length; i++) {
    const budget = budgets[i]!;
    const { windows } = decision.accounts[i]!;
    const charge = chargeOf(budget, decision.cost, decision.amounts);
    const unused = returned === undefined ? 0 : returned[i]!;
    for (const limit of budget.limits) {
      const open = windows[limit.window];
      const left = limit.limit - (open === undefined ? 0 : open.used) + unused;
      if (left < room * charge) room = Math.floor(left / charge);
      else if (charge === 0 && left <= 0) room = 0;
    }
  }
  return room < 0 ? 0 : room;
}

/** Counts `spent` in every window of a budget. @param windows present ones, which this changes */
export function count(windows: Draft<WindowCounts>, limits: readonly Limit[], nowMs: number, spent: number): void {
  for (const limit of limits) {
    const before = windows[limit.window];
    const isFixed = limit.slices === undefined && limit.instants === undefined;
    if (before !== undefined && limit.slices === undefined)
      windows[limit.window] = { used: before.used + spent, endsAtMs: before.endsAtMs };
    else if (isFixed) windows[limit.window] = { used: spent, endsAtMs: nowMs + limit.lengthMs };
    else windows[limit.window] = counting.countIn(before, limit, nowMs, spent);
  }
}
