import { z } from 'zod';
import { banLengthMs, type Outcome } from '../admit/decide.ts';
import { formText } from '../admit/form-text.ts';
import type { Allowance, Plan } from '../admit/plan.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import { WINDOWS, withTopUps } from '../admit/windows.ts';
import { count, type DeepReadonly, limit, standingBan, unixSeconds } from './values.ts';

const standingWindow = z
  .strictObject({
    limit,
    used: count,
    remaining: limit,
    resetAt: z.int().describe('When the window ends; of a sliding window, when its oldest slice leaves. Unix seconds.'),
  })
  .meta({ id: 'StandingWindow' });

const standing = z
  .strictObject({ windows: z.record(z.string(), standingWindow), strikes: count, ban: standingBan })
  .meta({ id: 'Standing' });

/** What operators see of a consumer's usage: that of `GET /usage`, the kinds of its windows, top-ups, and its ladder of bans. */
export const keyUsage = z
  .strictObject({
    id: z.string(),
    plan: z.string(),
    windows: z.record(
      z.string(),
      standingWindow.extend({
        form: z.string().describe('The kind of the window: `fixed`, `sliding, 12 slices`, `calendar, Europe/Berlin`.'),
        topUp: z
          .strictObject({ amount: count.min(1), until: unixSeconds })
          .nullable()
          .describe('What was added to the limit, which includes it.'),
      }),
    ),
    strikes: count,
    ban: standingBan,
    rung: count.describe('The number of the last ban that is not forgotten; 0 without one.'),
    nextBanSeconds: count.nullable().describe('How long the next ban would last; null if the plan has no bans.'),
    shadow: standing
      .optional()
      .describe('The state under the limits that the plan only watches; absent if it has none.'),
  })
  .meta({
    id: 'KeyUsage',
    examples: [
      {
        id: 'key_UxYtRgTgI9u8kkw8',
        plan: 'pro',
        windows: {
          minute: { limit: 300, used: 300, remaining: 0, resetAt: 1795322533, form: 'fixed', topUp: null },
        },
        strikes: 2,
        ban: null,
        rung: 1,
        nextBanSeconds: 600,
      },
    ],
  });
export type KeyUsageReport = DeepReadonly<z.output<typeof keyUsage>>;

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
