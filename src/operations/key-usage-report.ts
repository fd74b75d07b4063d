import { z } from 'zod';
import type { Allowance } from '../admit/allowance.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import { formOf, type ToppedUpLimit, withTopUps } from '../admit/windows.ts';
import { banLengthMs } from '../engine/refusing.ts';
import type { Decision } from '../engine/types.ts';
import type { TopUpNote } from '../model/account.ts';
import { formText, limit, type Plan } from '../model/plan.ts';
import { count, type DeepReadonly, type LimitName, windowOf } from '../model/values.ts';
import { standingBan, topUpId, unixSeconds } from './operation-values.ts';

const standingWindow = z
  .strictObject({
    limit,
    used: count,
    remaining: limit,
    resetAt: z.int().describe('When the window ends; of a sliding window, when its oldest slice leaves. Unix seconds.'),
    unit: z.string().optional().describe('What it counts, such as `tokens`; absent for requests.'),
  })
  .meta({ id: 'StandingWindow' });

const standing = z
  .strictObject({ windows: z.record(z.string(), standingWindow), strikes: count, ban: standingBan })
  .meta({ id: 'Standing' });

const topUpPart = z
  .strictObject({
    id: topUpId,
    amount: count.min(1),
    reason: z.string().nullable().describe('What the operator gave; null without one.'),
    at: unixSeconds.describe('When it was made, Unix seconds.'),
  })
  .describe(
    'One top-up. Those that an earlier version of Tollgate made are missing, and of a window all but the last 50: their amounts are in `amount` of the whole.',
  )
  .meta({ id: 'TopUpPart' });

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
          .strictObject({ amount: count.min(1), until: unixSeconds, parts: z.array(topUpPart) })
          .nullable()
          .describe('What was added to the limit, which includes it: all of its top-ups together, which end together.'),
      }),
    ),
    inFlight: z
      .record(z.string(), z.strictObject({ limit: count, used: count }))
      .optional()
      .describe('How many requests are in flight, by the name of the limit; absent if any number may be.'),
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
    description:
      'What `GET /usage` shows the holder of a key, with the kinds of its windows, top-ups and the ladder of bans.',
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
 * @param plan the plan, which has the kinds of windows without a limit
 * @param notes the top-ups of each account, in the order of the budgets
 */
export function keyUsageReport(
  report: UsageReport,
  plan: Plan | undefined,
  allowance: Allowance,
  { nowMs, accounts }: Decision,
  notes: readonly (readonly TopUpNote[])[],
): KeyUsageReport {
  const known = new Map<string, ToppedUpLimit & { readonly notes: readonly TopUpNote[] }>();
  for (const [i, { limits }] of allowance.budgets.entries()) {
    for (const of of withTopUps(limits, accounts[i]!.topUps, nowMs)) {
      known.set(of.name ?? of.window, { ...of, notes: notes[i] ?? [] });
    }
  }
  const windows = Object.entries(report.windows).map(([name, usage]) => {
    const of = known.get(name);
    const topUp = of?.topUp;
    const window = windowOf(name as LimitName);
    const parts = of?.notes.filter((note) => note.window === window && nowMs < note.untilMs).map(partOf) ?? [];
    const added = topUp === undefined ? null : { amount: topUp.amount, until: Math.ceil(topUp.untilMs / 1000), parts };
    return [
      name,
      { ...usage, form: formText(window, of === undefined ? plan?.forms?.[window] : formOf(of)), topUp: added },
    ] as const;
  });
  const { bans, bansIn } = allowance;
  const rung = accounts[bansIn]!.ban?.number ?? 0;
  const nextBanSeconds = bans === null ? null : Math.ceil(banLengthMs(bans, rung + 1) / 1000);
  return { ...report, windows: Object.fromEntries(windows), rung, nextBanSeconds };
}

function partOf({ id, amount, reason, atMs }: TopUpNote) {
  return { id, amount, reason: reason === '' ? null : reason, at: Math.floor(atMs / 1000) };
}
