import { z } from 'zod';
import { historyReport, readHistories } from '../admit/history-report.ts';
import { type ReportedWindow, usageReport } from '../admit/usage-report.ts';
import { isReadable, type StoredCustomer, type UnreadableRecord } from '../model/record.ts';
import { count, type LimitName, limitName, time, WINDOWS } from '../model/values.ts';
import { customer, customerReport } from './customer-report.ts';
import { allowanceOfOwner } from './key-report.ts';
import { unixSeconds } from './operation-values.ts';
import { everyRecord, type OperatorStore } from './operator-store.ts';
import { unreadableCounts } from './refused-now.ts';

/** Customers that are looked at for one answer. */
const MAX_LOOKED_AT = 10_000;
const READ_AT_ONCE = 50;
const MAX_COUNTED_KEYS = 100;
const DAY_MS = 86_400_000;
const WEEK_DAYS = 7;

const use = z.strictObject({
  window: limitName,
  used: count,
  limit: z.union([count, z.literal('unlimited')]).describe('With what operators have added.'),
  share: z.number().min(0).nullable().describe('Used of the limit, 1 for all of it; null without a limit.'),
  resetAt: unixSeconds,
  runsOutAt: time
    .nullable()
    .describe(
      'When nothing is left at the pace of the last seven days, if that is before the window ends. Only of a week and a month of requests.',
    ),
});

export const customerByUse = customer
  .extend({
    use: use.nullable().describe('Null if the customer has no such window, or its plan is unknown.'),
    trend: z
      .strictObject({
        last7Days: count.describe('The cost of the requests that were admitted, today included (UTC).'),
        before: count.describe('In the seven days before.'),
      })
      .nullable()
      .describe('Null if `usage.history` is off.'),
    keys: count.max(MAX_COUNTED_KEYS).describe(`Its keys that are not revoked; counted up to ${MAX_COUNTED_KEYS}.`),
  })
  .meta({ id: 'CustomerByUse', description: 'A customer, with what its keys have used together.' });

interface Asked {
  /** Null: the longest window in which the customer has a limit. */
  readonly window: LimitName | null;
  /** Only those that have used this share of it, from 0 to 1. */
  readonly above: number;
  readonly most: number;
  readonly keepsHistory: boolean;
}

interface Found {
  readonly record: StoredCustomer;
  readonly use: z.output<typeof use> | null;
}

/**
 * The customers that have used most of a limit that their keys share, those with the largest share first.
 * @throws Failure `store_unavailable`
 */
export async function customersByUse(store: OperatorStore, asked: Asked) {
  const unreadable: UnreadableRecord[] = [];
  const found: Found[] = [];
  let searched = 0;
  let some: StoredCustomer[] = [];
  const look = async () => {
    const uses = await Promise.all(some.map((record) => useOf(store, record, asked.window)));
    for (const [i, one] of uses.entries()) {
      if (one === 'unreadable') unreadable.push(unreadableCounts(some[i]!.id));
      else if ((one?.share ?? 0) >= asked.above) found.push({ record: some[i]!, use: one });
    }
    some = [];
  };
  for await (const record of everyRecord(store.customers)) {
    if (searched === MAX_LOOKED_AT) break;
    searched++;
    if (isReadable(record)) some.push(record);
    else unreadable.push(record);
    if (some.length === READ_AT_ONCE) await look();
  }
  await look();
  const rank = ({ use: one }: Found) => one?.share ?? (one === null ? -2 : -1);
  found.sort((a, b) => rank(b) - rank(a) || (b.use?.used ?? 0) - (a.use?.used ?? 0));
  const rows = [];
  for (let from = 0; from < Math.min(found.length, asked.most); from += READ_AT_ONCE) {
    const page = found.slice(from, Math.min(from + READ_AT_ONCE, asked.most));
    rows.push(...(await Promise.all(page.map((one) => rowOf(store, one, asked.keepsHistory)))));
  }
  return { customers: rows, matching: found.length, searched, isWhole: searched < MAX_LOOKED_AT, unreadable };
}

async function useOf(store: OperatorStore, record: StoredCustomer, named: LimitName | null) {
  const plans = store.plans();
  const allowance = allowanceOfOwner({ limits: record.limits, limitsOfCustomer: null }, record.plan, plans);
  if (allowance === null) return null;
  const decision = await store.ledger.present(record.id, allowance);
  if (decision === null) return 'unreadable';
  const { windows } = usageReport(record.id, allowance, decision, null);
  const longest = WINDOWS.findLast((one) => windows[one] !== undefined && windows[one].limit !== 'unlimited');
  const window = named ?? longest ?? WINDOWS.findLast((one) => windows[one] !== undefined);
  const reported = window === undefined ? undefined : windows[window];
  if (reported === undefined) return null;
  const { limit, used, resetAt } = reported;
  return { window: window as LimitName, limit, used, share: shareOf(reported), resetAt, runsOutAt: null };
}

function shareOf({ limit, used }: ReportedWindow): number | null {
  if (limit === 'unlimited') return null;
  return limit === 0 ? 1 : used / limit;
}

async function rowOf(store: OperatorStore, { record, use: found }: Found, keepsHistory: boolean) {
  const nowMs = store.nowMs();
  const [histories, { records }] = await Promise.all([
    keepsHistory ? readHistories(store.history, record.id).catch(() => null) : null,
    store.keys.list({ customer: record.id, limit: MAX_COUNTED_KEYS, cursor: null }),
  ]);
  const trend = histories === null ? null : trendOf(histories, nowMs);
  const keys = records.filter((key) => isReadable(key) && key.revokedAtMs === null).length;
  const ends = found === null || trend === null ? null : runsOutAt(found, trend.last7Days, nowMs);
  return {
    ...customerReport(record, store.plans(), nowMs),
    use: found === null ? null : { ...found, runsOutAt: ends },
    trend,
    keys,
  };
}

function trendOf(histories: Parameters<typeof historyReport>[0], nowMs: number) {
  const today = Math.floor(nowMs / DAY_MS);
  const admittedIn = (fromDay: number) => {
    const span = { fromMs: fromDay * DAY_MS, toMs: (fromDay + WEEK_DAYS) * DAY_MS };
    return historyReport(histories, 'day', span).buckets.reduce((sum, { admitted }) => sum + admitted, 0);
  };
  return { last7Days: admittedIn(today - WEEK_DAYS + 1), before: admittedIn(today - 2 * WEEK_DAYS + 1) };
}

function runsOutAt(
  { window, limit, used, resetAt }: z.output<typeof use>,
  last7Days: number,
  nowMs: number,
): string | null {
  if ((window !== 'week' && window !== 'month') || limit === 'unlimited' || last7Days === 0) return null;
  const atMs = nowMs + (Math.max(limit - used, 0) / (last7Days / WEEK_DAYS)) * DAY_MS;
  return atMs < resetAt * 1_000 ? new Date(atMs).toISOString() : null;
}
