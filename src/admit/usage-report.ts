import type { Outcome } from './decide.ts';
import { type Allowance, WINDOWS } from './plan.ts';

export interface UsageReport extends Standing {
  readonly id: string;
  readonly plan: string;
  /** Where the plan has limits that are only watched: how they stand. */
  readonly shadow?: Standing;
}

interface Standing {
  readonly windows: Readonly<
    Record<string, { limit: number | 'unlimited'; used: number; remaining: number | 'unlimited'; resetAt: number }>
  >;
  readonly strikes: number;
  readonly ban: { readonly number: number; readonly until: number } | null;
}

/**
 * The object of contract section 4, `GET /usage`.
 * @param shadow how the consumer stands under limits that are only watched; null where there are none
 */
export function usageReport(id: string, allowance: Allowance, outcome: Outcome, shadow: Outcome | null): UsageReport {
  const watched = allowance.shadow === undefined || shadow === null ? null : standingOf(allowance.shadow, shadow);
  const report = { id, plan: allowance.plan, ...standingOf(allowance, outcome) };
  return watched === null ? report : { ...report, shadow: watched };
}

function standingOf({ limits, unlimited }: Allowance, { nowMs, state }: Outcome): Standing {
  const counted = limits.map(({ window, lengthMs, limit }) => {
    const { used, endsAtMs } = state.windows[window] ?? { used: 0, endsAtMs: nowMs + lengthMs };
    return [
      window,
      { limit, used, remaining: Math.max(limit - used, 0), resetAt: Math.ceil(endsAtMs / 1000) },
    ] as const;
  });
  const uncounted = unlimited.map(({ window }) => {
    const told = { limit: 'unlimited', used: 0, remaining: 'unlimited', resetAt: Math.ceil(nowMs / 1000) } as const;
    return [window, told] as const;
  });
  const windows = new Map<string, UsageReport['windows'][string]>([...counted, ...uncounted]);
  const { ban } = state;
  return {
    windows: Object.fromEntries(WINDOWS.filter((name) => windows.has(name)).map((name) => [name, windows.get(name)!])),
    strikes: state.strikes.count,
    ban: ban !== null && nowMs < ban.untilMs ? { number: ban.number, until: Math.ceil(ban.untilMs / 1000) } : null,
  };
}
