import type { Outcome } from './decide.ts';
import type { Allowance } from './plan.ts';
import { endIfOpened, nextEndMs, WINDOWS, withTopUps } from './windows.ts';

export interface UsageReport extends ReportedState {
  readonly id: string;
  readonly plan: string;
  /** The state under the plan's shadow limits; left out if it has none. */
  readonly shadow?: ReportedState;
}

export interface ReportedWindow {
  readonly limit: number | 'unlimited';
  readonly used: number;
  readonly remaining: number | 'unlimited';
  /** Unix seconds. */
  readonly resetAt: number;
}

interface ReportedState {
  readonly windows: Readonly<Record<string, ReportedWindow>>;
  readonly strikes: number;
  readonly ban: { readonly number: number; readonly until: number } | null;
}

/**
 * The object of contract section 4, `GET /usage`.
 * @param shadow the state under the plan's shadow limits; null if there are none
 */
export function usageReport(id: string, allowance: Allowance, outcome: Outcome, shadow: Outcome | null): UsageReport {
  const report = { id, plan: allowance.plan, ...stateOf(allowance, outcome) };
  if (allowance.shadow === undefined || shadow === null) return report;
  return { ...report, shadow: stateOf(allowance.shadow, shadow) };
}

function stateOf({ limits, unlimited }: Allowance, { nowMs, state }: Outcome): ReportedState {
  const counted = withTopUps(limits, state.topUps, nowMs).map((of) => {
    const { window, limit } = of;
    const open = state.windows[window];
    const used = open?.used ?? 0;
    const resetAtMs = open === undefined ? endIfOpened(of, nowMs) : nextEndMs(open, window);
    return [
      window,
      { limit, used, remaining: Math.max(limit - used, 0), resetAt: Math.ceil(resetAtMs / 1000) },
    ] as const;
  });
  const uncounted = unlimited.map(({ window }) => {
    const usage = { limit: 'unlimited', used: 0, remaining: 'unlimited', resetAt: Math.ceil(nowMs / 1000) } as const;
    return [window, usage] as const;
  });
  const windows = new Map<string, UsageReport['windows'][string]>([...counted, ...uncounted]);
  const { ban } = state;
  return {
    windows: Object.fromEntries(WINDOWS.filter((name) => windows.has(name)).map((name) => [name, windows.get(name)!])),
    strikes: state.strikes.count,
    ban: ban !== null && nowMs < ban.untilMs ? { number: ban.number, until: Math.ceil(ban.untilMs / 1000) } : null,
  };
}
