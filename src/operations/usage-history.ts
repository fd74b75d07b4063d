import { accountsOf, CUSTOMER, partsOfAccount, withoutShadow } from '../admit/account-id.ts';
import type { Step } from '../admit/history.ts';
import {
  type HistoryReport,
  historyIn,
  historyReport,
  type ReportedBucket,
  readHistories,
  type Span,
  STEP_MS,
  STEPS_KEPT,
} from '../admit/history-report.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import { unitNamesIn } from '../admit/plan.ts';
import { isTokenHolder, TOKEN_HOLDER } from '../identify/api-key.ts';
import { isReadable, orUnreadable, type StoredKey, type UnreadableRecord } from '../model/record.ts';
import { CUSTOMERS, everyRecord, KEYS, type OperatorStore, recordOf } from './operator-store.ts';
import { PAST_RULE, pastFrom } from './values.ts';

/** Which hours or days of a history an operator asks for. */
export interface AskedSpan extends Span {
  readonly step: Step;
}

/**
 * Reads what an operator asks for. Null is a value that was not given: the step is then `hour`, `from` as early as it is
 * kept, and `to` the present.
 * @param nameOf how the operator knows a value: `from` is `--from` on a command line
 * @param nowMs Unix milliseconds
 * @returns the span, or a sentence with what is wrong
 */
export function spanFrom(
  { from, to, step }: Readonly<Record<'from' | 'to' | 'step', string | null>>,
  nowMs: number,
  nameOf: (value: string) => string = (value) => value,
): AskedSpan | { readonly fault: string } {
  if (step !== null && step !== 'hour' && step !== 'day') return { fault: `${nameOf('step')} must be hour or day.` };
  const unit: Step = step ?? 'hour';
  const keptFromMs = nowMs - STEPS_KEPT[unit] * STEP_MS[unit];
  const fromMs = from === null ? keptFromMs : pastFrom(from, nowMs);
  // Without an end: the store's clock may be ahead of ours.
  const toMs = to === null ? Number.POSITIVE_INFINITY : pastFrom(to, nowMs);
  if (fromMs === null) return { fault: `${nameOf('from')} ${PAST_RULE}.` };
  if (toMs === null) return { fault: `${nameOf('to')} ${PAST_RULE}.` };
  if (fromMs < keptFromMs) {
    const other = unit === 'hour' ? `, or ask for days (${nameOf('step')} day)` : '';
    return {
      fault: `${nameOf('from')} is too early: ${unit}s are kept for the last ${STEPS_KEPT[unit]}. Give a later time${other}.`,
    };
  }
  if (fromMs > nowMs) return { fault: `${nameOf('from')} is in the future.` };
  if (fromMs > toMs) return { fault: `${nameOf('from')} is later than ${nameOf('to')}.` };
  return { step: unit, fromMs, toMs };
}

/** What a consumer used in one hour or day, for billing. */
export interface UsageRecord extends ReportedBucket {
  /**
   * The same each time that this hour or day of this consumer is exported: `key_1/2026-11-22T05:00:00Z` for an hour,
   * `key_1/2026-11-22` for a day; with the customer in front while the key belongs to one, and `key_1%tokens/2026-11-22` in a unit.
   */
  readonly id: string;
  readonly consumer: string;
  /** Name, owner and present plan of the key; null for a token caller. */
  readonly name: string | null;
  readonly owner: string | null;
  readonly plan: string | null;
  /** The customer to whom the key belonged at the time; null without one. */
  readonly customer: string | null;
  readonly step: Step;
  /** What `admitted` counts, such as `tokens`; absent for the cost of requests. */
  readonly unit?: string;
}

/** Consumers whose histories are read together. */
const READ_AT_ONCE = 100;

/**
 * Yields what every consumer used by hour or by day, also in each unit of the plans in force: each key, revoked ones included, oldest
 * first, then each token caller. It reads some consumers at a time, so that the whole is never in memory.
 * @param of only this key, which may be revoked, or token caller, and only what was used under this customer; null for all
 * @param onUnreadable called with each record or history that cannot be read: what the key used is left out, the plan of the customer's keys is null
 * @throws Failure `store_unavailable`; `not_found` at the first step, if there is no such key or customer
 */
export async function* usageRecords(
  store: OperatorStore,
  span: AskedSpan,
  of: { readonly key: string | null; readonly customer: string | null },
  onUnreadable: (record: UnreadableRecord) => void,
): AsyncGenerator<readonly UsageRecord[]> {
  // A deleted customer still has a bill, as long as its keys are there.
  if (of.customer !== null && (await orUnreadable(store.customers.get(of.customer, { evenDeleted: true }))) === null)
    CUSTOMERS.unknown(of.customer);
  const units = unitNamesIn(store.plans());
  const consumers =
    of.key === null ? everyConsumer(store, onUnreadable) : [await consumerOf(of.key, store, onUnreadable)];
  for await (const some of inGroups(consumers)) {
    const records = await recordsOf(some, store.history, span, units, onUnreadable);
    yield of.customer === null ? records : records.filter(({ customer }) => customer === of.customer);
  }
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

/** Every key, then every token caller. `onUnreadable` is called once for each record. */
async function* everyConsumer(store: OperatorStore, onUnreadable: OnUnreadable): AsyncGenerator<Consumer> {
  const told = new Set<string>();
  const once = (record: UnreadableRecord) => {
    if (!told.has(record.id)) onUnreadable(record);
    told.add(record.id);
  };
  for await (const key of everyRecord(store.keys)) {
    if (isReadable(key)) yield await withPlan(key, store, once);
    else once(key);
  }
  yield* tokenHolders(store.history);
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

async function* tokenHolders(store: Pick<HistoryStore, 'consumerIds'>): AsyncGenerator<Consumer> {
  const seen = new Set<string>();
  // The account of a token caller with a customer begins with the id of the customer.
  for (const prefix of [TOKEN_HOLDER, CUSTOMER]) {
    for await (const id of store.consumerIds(prefix)) {
      // While a plan is not enforced, the history is that of the shadow.
      const accountId = withoutShadow(id);
      const { consumerId, unit } = partsOfAccount(accountId);
      // Who has a history in a unit has one of requests, too.
      if (consumerId === null || unit !== null || !isTokenHolder(consumerId) || seen.has(accountId)) continue;
      seen.add(accountId);
      yield withoutKey(accountId);
    }
  }
}

async function* inGroups<T>(all: AsyncIterable<T> | Iterable<T>): AsyncGenerator<readonly T[]> {
  let group: T[] = [];
  for await (const one of all) {
    group.push(one);
    if (group.length < READ_AT_ONCE) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}
