import { type Allowance, type Budget, charging, plainAllowance } from '../../src/admit/allowance.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import type { BanRule, WindowForm } from '../../src/model/plan.ts';
import { WINDOWS, type WindowName } from '../../src/model/values.ts';
/** The ban rule of the contract's example. */
export const BANS: BanRule = {
  after: 10,
  withinMs: 60_000,
  firstMs: 60_000,
  factor: 2,
  longestMs: 86_400_000,
  forgetMs: 86_400_000,
};

/** An allowance of finite limits, for tests. */
export function allowance(
  limits: Partial<Record<WindowName, number>>,
  bans: Partial<BanRule> | null = {},
  forms: Partial<Record<WindowName, WindowForm>> = {},
): Allowance {
  const windows = WINDOWS.flatMap((window) => {
    const limit = limits[window];
    return limit === undefined ? [] : [windowLimit(window, limit, forms[window])];
  });
  return { ...plainAllowance('test', windows), bans: bans === null ? null : { ...BANS, ...bans } };
}

/** The same allowance with these budgets behind its own. */
export function alsoCharging(one: Allowance, others: readonly Budget[]): Allowance {
  return charging(one, [one.budgets[0], ...others]);
}

/** The same allowance with other members of its own budget. */
export function withOwn(one: Allowance, own: Partial<Budget>): Allowance {
  const [first, ...others] = one.budgets;
  return charging(one, [{ ...first, ...own }, ...others]);
}
