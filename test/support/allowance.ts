import { type Allowance, type BanRule, WINDOW_MS, WINDOWS, type WindowName } from '../../src/admit/plan.ts';
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
export function allowance(limits: Partial<Record<WindowName, number>>, bans: Partial<BanRule> | null = {}): Allowance {
  return {
    plan: 'test',
    limits: WINDOWS.filter((window) => limits[window] !== undefined).map((window) => ({
      window,
      lengthMs: WINDOW_MS[window],
      limit: limits[window]!,
    })),
    unlimited: [],
    bans: bans === null ? null : { ...BANS, ...bans },
  };
}
