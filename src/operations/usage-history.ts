import { z } from 'zod';
import { accountsOf, CUSTOMER, partsOfAccount, withoutShadow } from '../admit/account-id.ts';
import { unitNamesIn } from '../admit/allowance.ts';
import type { Step } from '../admit/history.ts';
import {
  type HistoryReport,
  historyIn,
  historyReport,
  readHistories,
  type Span,
  STEP_MS,
  STEPS_KEPT,
} from '../admit/history-report.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import { isTokenHolder, TOKEN_HOLDER } from '../identify/api-key.ts';
import { byReadability, isReadable, orUnreadable, type StoredKey, type UnreadableRecord } from '../model/record.ts';
import { count, type DeepReadonly, time } from '../model/values.ts';
import { PAST_RULE, pastFrom } from './operation-values.ts';
import { CUSTOMERS, KEYS, type OperatorStore, recordOf } from './operator-store.ts';

/** Which hours or days of a history an operator asks for. */
export interface AskedSpan extends Span {
  readonly step: Step;
}

/**
 * Reads what an operator asks for. Null is a value that was not given: the step is then `hour`, `from` as early as it is
 * kept, and `to` the present.
 * @param nameOf how the operator knows a value: `from` is `--from` on a command line
 * @param nowMs Unix milliseconds
 * @param graceMs how much earlier than what is kept it may begin, because it was read before
 * @returns the span, or a sentence with what is wrong
 */
export function spanFrom(
  { from, to, step }: Readonly<Record<'from' | 'to' | 'step', string | null>>,
  nowMs: number,
  nameOf: (value: string) => string = (value) => value,
  graceMs = 0,
): AskedSpan | { readonly fault: string } {
  if (step !== null && step !== 'hour' && step !== 'day') return { fault: `${nameOf('step')} must be hour or day.` };
  const unit: Step = step ?? 'hour';
  const keptFromMs = nowMs - STEPS_KEPT[unit] * STEP_MS[unit];
  const fromMs = from === null ? keptFromMs : pastFrom(from, nowMs);
  // Without an end: the store's clock may be ahead of ours.
  const toMs = to === null ? Number.POSITIVE_INFINITY : pastFrom(to, nowMs);
  if (fromMs === null) return { fault: `${nameOf('from')} ${PAST_RULE}.` };
  if (toMs === null) return { fault: `${nameOf('to')} ${PAST_RULE}.` };
  if (fromMs < keptFromMs - graceMs) {
    const other = unit === 'hour' ? `, or ask for days (${nameOf('step')} day)` : '';
    return {
      fault: `${nameOf('from')} is too early: ${unit}s are kept for the last ${STEPS_KEPT[unit]}. Give a later time${other}.`,
    };
  }
  if (fromMs > nowMs) return { fault: `${nameOf('from')} is in the future.` };
  if (fromMs > toMs) return { fault: `${nameOf('from')} is later than ${nameOf('to')}.` };
  return { step: unit, fromMs, toMs };
}

export const usageRecord = z
  .strictObject({
    id: z
      .string()
      .describe(
        'The same each time that this hour or day of this consumer is exported: `key_1/2026-11-22T05:00:00Z` for an hour, `key_1/2026-11-22` ' +
          'for a day; with the customer in front while the key belongs to one, and `key_1%tokens/2026-11-22` in a unit.',
      ),
    consumer: z.string().describe('The key, or the caller with tokens.'),
    name: z.string().nullable().describe('Of the key; null for a caller with tokens.'),
    owner: z.string().nullable(),
    plan: z
      .string()
      .nullable()
      .describe('The present plan of the key; null for a caller with tokens, or if it cannot be read.'),
    step: z.enum(['hour', 'day']),
    at: time.describe('When the hour or day begins, UTC.'),
    admitted: count,
    refused: count,
    banned: count,
    customer: z.string().nullable().describe('To whom the key belonged at the time.'),
    unit: z.string().optional().describe('What `admitted` counts, such as `tokens`; absent for the cost of requests.'),
  })
  .meta({ id: 'UsageRecord' });

/** What a consumer used in one hour or day, for billing. */
export type UsageRecord = DeepReadonly<z.output<typeof usageRecord>>;

/** The most consumers on a page: each may have 92 days, under several accounts and in several units. */
export const MAX_EXPORTED = 250;
/** Consumers whose histories are read together. */
const READ_AT_ONCE = 100;

/**
 * Reads what a page of consumers used by hour or by day, also in each unit of the plans in force: each key, revoked ones included, oldest
 * first, then each token caller.
 * @param of only this key, which may be revoked, or token caller, and only what was used under this customer; null for all
 * @param page at most this many consumers, after those of the page with this cursor
 * @returns also each record or history that cannot be read: what the key used is left out, the plan of the customer's keys is null
 * @throws Failure `store_unavailable`; `not_found` if there is no such key or customer; `refused` for an unknown cursor
 */
export async function usagePage(
  store: OperatorStore,
  span: AskedSpan,
  of: { readonly key: string | null; readonly customer: string | null },
  page: { readonly limit: number; readonly cursor: string | null },
) {
  // A deleted customer still has a bill, as long as its keys are there.
  if (of.customer !== null && (await orUnreadable(store.customers.get(of.customer, { evenDeleted: true }))) === null)
    CUSTOMERS.unknown(of.customer);
  const unreadable = new Map<string, UnreadableRecord>();
  const onUnreadable = (record: UnreadableRecord) => unreadable.set(record.id, record);
  const units = unitNamesIn(store.plans());
  const { consumers, cursor } =
    of.key === null
      ? await consumersOf(page, store, onUnreadable)
      : { consumers: [await consumerOf(of.key, store, onUnreadable)], cursor: null };
  const records: UsageRecord[] = [];
  for (let from = 0; from < consumers.length; from += READ_AT_ONCE) {
    const some = consumers.slice(from, from + READ_AT_ONCE);
    records.push(...(await recordsOf(some, store.history, span, units, onUnreadable)));
  }
  const wanted = of.customer === null ? records : records.filter(({ customer }) => customer === of.customer);
  return { records: wanted, unreadable: [...unreadable.values()], cursor };
}

type Consumer = Pick<UsageRecord, 'name' | 'owner' | 'plan'> & Parameters<typeof accountsOf>[0];

/** A token caller, of whom the store has the id alone. */
function withoutKey(id: string): Consumer {
  return { id, name: null, owner: null, plan: null };
}

/** Whether an id is that of a caller with tokens, or of its account with a customer. */
export function isTokenCaller(id: string): boolean {
  const { consumerId } = partsOfAccount(id);
  return consumerId !== null && isTokenHolder(consumerId);
}

type OnUnreadable = (record: UnreadableRecord) => void;

async function consumerOf(id: string, store: OperatorStore, onUnreadable: OnUnreadable): Promise<Consumer> {
  return isTokenCaller(id) ? withoutKey(id) : withPlan(await recordOf(KEYS, store, id), store, onUnreadable);
}

/** Begins the cursor of a page of token callers; after it comes the last one of the page before. */
const TOKENS = 'tokens:';

/** A page of every key, then every token caller. */
async function consumersOf(
  { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
  store: OperatorStore,
  onUnreadable: OnUnreadable,
): Promise<{ readonly consumers: readonly Consumer[]; readonly cursor: string | null }> {
  if (cursor?.startsWith(TOKENS)) {
    const after = cursor.slice(TOKENS.length);
    const left = (await tokenCallers(store.history, after !== '')).filter((id) => id > after).toSorted();
    const ids = left.slice(0, limit);
    return { consumers: ids.map(withoutKey), cursor: left.length > limit ? `${TOKENS}${ids.at(-1)}` : null };
  }
  const page = await store.keys.list({ limit, cursor });
  const { readable, unreadable } = byReadability(page.records);
  for (const key of unreadable) onUnreadable(key);
  const consumers = await Promise.all(readable.map((key) => withPlan(key, store, onUnreadable)));
  return { consumers, cursor: page.cursor ?? TOKENS };
}

/** The key with the plan that it has: that of its customer, if it has one; null if that cannot be read. */
async function withPlan(key: StoredKey, { customers }: OperatorStore, onUnreadable: OnUnreadable): Promise<Consumer> {
  const customer = key.customer === undefined ? null : await orUnreadable(customers.get(key.customer));
  if (customer === null) return key;
  if (isReadable(customer)) return { ...key, plan: customer.plan };
  onUnreadable(customer);
  return { ...key, plan: null };
}

/**
 * What some consumers used by hour or by day: of each account the requests, then the units.
 * @param onUnreadable called with each history that cannot be read, and is left out
 * @throws Failure `store_unavailable`
 */
async function recordsOf(
  consumers: readonly Consumer[],
  store: Pick<HistoryStore, 'of'>,
  span: AskedSpan,
  units: readonly string[],
  onUnreadable: (history: UnreadableRecord) => void,
): Promise<readonly UsageRecord[]> {
  const histories = consumers.flatMap((of) =>
    accountsOf(of).flatMap((accountId) => [null, ...units].map((unit) => ({ accountId, unit, of }))),
  );
  const reports = await Promise.all(
    histories.map(({ accountId, unit }) => orUnreadable(reportOf([accountId], store, span, unit))),
  );
  return histories.flatMap(({ accountId, unit, of: { id: consumer, name, owner, plan } }, i) => {
    const report = reports[i]!;
    if (!isReadable(report)) {
      onUnreadable(report);
      return [];
    }
    return report.buckets.map((bucket) => {
      const id = `${historyIn(accountId, unit)}/${span.step === 'hour' ? bucket.at : bucket.at.slice(0, 10)}`;
      const { customerId: customer } = partsOfAccount(accountId);
      const record = { id, consumer, name, owner, plan, step: span.step, ...bucket, customer };
      return unit === null ? record : { ...record, unit };
    });
  });
}

/**
 * What was counted under some accounts, together.
 * @param unit null for the cost of requests
 * @throws Failure `store_unavailable`
 */
export async function reportOf(
  accountIds: readonly string[],
  store: Pick<HistoryStore, 'of'>,
  span: AskedSpan,
  unit: string | null,
): Promise<HistoryReport> {
  const histories = await Promise.all(accountIds.map((id) => readHistories(store, id, unit)));
  return historyReport(histories.flat(), span.step, span, unit);
}

/** The accounts of the token callers that have a history, in no order. @param again on a page after the first */
async function tokenCallers(store: Pick<HistoryStore, 'consumerIds'>, again: boolean): Promise<readonly string[]> {
  const seen = new Set<string>();
  // The account of a token caller with a customer begins with the id of the customer.
  for (const prefix of [TOKEN_HOLDER, CUSTOMER]) {
    for await (const id of store.consumerIds(prefix, again)) {
      // While a plan is not enforced, the history is that of the shadow.
      const accountId = withoutShadow(id);
      const { consumerId, unit } = partsOfAccount(accountId);
      // Who has a history in a unit has one of requests, too.
      if (consumerId !== null && unit === null && isTokenHolder(consumerId)) seen.add(accountId);
    }
  }
  return [...seen];
}
