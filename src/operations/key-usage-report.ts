import { banLengthMs, type Outcome } from '../admit/decide.ts';
import { formText } from '../admit/form-text.ts';
import type { Allowance, Plan } from '../admit/plan.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import { WINDOWS, withTopUps } from '../admit/windows.ts';

type WindowUsage = UsageReport['windows'][string];

/** What operators see of a consumer's usage: that of `GET /usage`, the kinds of its windows, top-ups, and its ladder of bans. */
export interface KeyUsageReport extends Omit<UsageReport, 'windows'> {
  readonly windows: Readonly<
    Record<
      string,
      WindowUsage & {
        /** The kind of the window in words. */
        readonly form: string;
        /** What was added to its limit; `until` in Unix seconds. */
        readonly topUp: { readonly amount: number; readonly until: number } | null;
      }
    >
  >;
  /** The number of the last ban that is not forgotten; 0 without one. */
  readonly rung: number;
  /** How long the next ban would last; null if the plan has no bans. */
  readonly nextBanSeconds: number | null;
}

/**
 * @param report the usage as `GET /usage` reports it
 * @param plan the plan of the consumer, which has the kinds of its windows
 */
export function keyUsageReport(
  report: UsageReport,
  plan: Plan | undefined,
  allowance: Allowance,
  { nowMs, state }: Outcome,
): KeyUsageReport {
  const toppedUp = new Map(withTopUps(allowance.limits, state.topUps, nowMs).map((of) => [of.window, of.topUp]));
  const windows = WINDOWS.flatMap((window) => {
    const usage = report.windows[window];
    if (usage === undefined) return [];
    const topUp = toppedUp.get(window);
    const added = topUp === undefined ? null : { amount: topUp.amount, until: Math.ceil(topUp.untilMs / 1000) };
    return [[window, { ...usage, form: formText(window, plan?.forms?.[window]), topUp: added }] as const];
  });
  const rung = state.ban?.number ?? 0;
  const { bans } = allowance;
  const nextBanSeconds = bans === null ? null : Math.ceil(banLengthMs(bans, rung + 1) / 1000);
  return { ...report, windows: Object.fromEntries(windows), rung, nextBanSeconds };
}
