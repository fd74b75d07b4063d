import type { Allowance, BanRule } from '../../src/admit/plan.ts';
import { WINDOWS, type WindowForm, type WindowName, windowLimit } from '../../src/admit/windows.ts';
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
  return {
    plan: 'test',
    limits: WINDOWS.flatMap((window) => {
      const limit = limits[window];
      return limit === undefined ? [] : [windowLimit(window, limit, forms[window])];
    }),
    unlimited: [],
    bans: bans === null ? null : { ...BANS, ...bans },
  };
}
