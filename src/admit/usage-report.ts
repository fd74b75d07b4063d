import { endIfOpened, nextEndMs } from '../engine/counting.ts';
import type { AccountState, Decision } from '../engine/types.ts';
import { WINDOWS } from '../model/values.ts';
import type { Allowance, Budget } from './allowance.ts';
import { banInForce } from './decision.ts';
import { limitAt, withTopUps } from './windows.ts';

export interface UsageReport extends ReportedState {
  readonly id: string;
  readonly plan: string;
  /** The state of the plan's shadow limits; left out if it has none. */
  readonly shadow?: ReportedState;
}

export interface ReportedWindow {
  readonly limit: number | 'unlimited';
  readonly used: number;
  readonly remaining: number | 'unlimited';
  /** Unix seconds. */
  readonly resetAt: number;
  /** The unit that it counts, such as `tokens`; absent for the cost of requests. */
  readonly unit?: string;
}

interface ReportedState {
  readonly windows: Readonly<Record<string, ReportedWindow>>;
  readonly strikes: number;
  readonly ban: { readonly number: number; readonly until: number } | null;
  /** The requests in flight, by the name of the limit; left out if no limit bounds them. */
  readonly inFlight?: Readonly<Record<string, { readonly limit: number; readonly used: number }>>;
}

/**
 * The body of the response to `GET /usage` (contract section 4).
 * @param id the consumer, or the customer
 * @param shadow the state of the plan's shadow limits; null if there are none
 */
export function usageReport(
  id: string,
  allowance: Allowance,
  decision: Decision,
  shadow: Decision | null,
): UsageReport {
  const report = { id, plan: allowance.plan, ...stateOf(allowance, decision) };
  if (allowance.shadow === undefined || shadow === null) return report;
  return { ...report, shadow: stateOf(allowance.shadow, shadow) };
}

function stateOf(allowance: Allowance, decision: Decision): ReportedState {
  const { budgets, bansIn } = allowance;
  const { nowMs, accounts } = decision;
  const windows = budgets.map((budget, i) => windowsOf(budget, accounts[i]!, nowMs));
  const ban = banInForce(accounts, nowMs);
  return {
    windows: Object.assign({}, ...windows),
    strikes: accounts[bansIn]!.strikes?.count ?? 0,
    ban: ban === null ? null : { number: ban.number, until: Math.ceil(ban.untilMs / 1000) },
    ...inFlightOf(allowance, decision),
  };
}

/** The windows of one budget, shortest first. */
function windowsOf(
  { prefix, limits, unlimited, unit }: Budget,
  { windows, topUps }: AccountState,
  nowMs: number,
): Record<string, ReportedWindow> {
  const found = new Map<string, ReportedWindow>();
  for (const of of withTopUps(limits, topUps, nowMs)) {
    const { window, limit } = of;
    const open = windows[window];
    const used = open?.used ?? 0;
    const resetAtMs = open === undefined ? endIfOpened(limitAt(of, nowMs), nowMs) : nextEndMs(open, of.lengthMs);
    found.set(window, { limit, used, remaining: Math.max(limit - used, 0), resetAt: Math.ceil(resetAtMs / 1000) });
  }
  for (const { window } of unlimited) {
    found.set(window, { limit: 'unlimited', used: 0, remaining: 'unlimited', resetAt: Math.ceil(nowMs / 1000) });
  }
  const ofUnit = unit === undefined ? {} : { unit };
  const names = WINDOWS.filter((window) => found.has(window));
  return Object.fromEntries(names.map((window) => [`${prefix}${window}`, { ...found.get(window)!, ...ofUnit }]));
}

function inFlightOf({ budgets }: Allowance, { inFlight }: Decision): Pick<ReportedState, 'inFlight'> {
  if (inFlight === undefined) return {};
  const bounded = budgets.flatMap(({ prefix, inFlight: limit }, i) => {
    return limit === undefined ? [] : [[`${prefix}in-flight`, { limit, used: Math.max(inFlight[i] ?? 0, 0) }] as const];
  });
  return { inFlight: Object.fromEntries(bounded) };
}
