import { DAYS_KEPT, HOURS_KEPT } from '../engine/history-form.ts';
import { inUnit, shadowIdOf } from './account-id.ts';
import { bucketsOf, type Step } from './history.ts';
import type { HistoryStore, ReadHistory } from './history-store.ts';

/** The usage of one consumer, as `GET /usage?history`, the admin API and commands show it. */
export interface HistoryReport {
  readonly step: Step;
  /** What `admitted` counts, such as `tokens`; absent for the cost of requests. */
  readonly unit?: string;
  /** Oldest first. Hours and days without requests are left out. */
  readonly buckets: readonly ReportedBucket[];
}

/** One hour or day. */
interface ReportedBucket {
  /** When it begins: `2026-11-22T05:00:00Z`. */
  readonly at: string;
  /** The cost of the requests that were admitted; in a unit of its own, what they paid after settlement. */
  readonly admitted: number;
  /** About how many requests were refused for a limit; 0 in a unit of its own. */
  readonly refused: number;
  /** About how many requests were refused for a ban; 0 in a unit of its own. */
  readonly banned: number;
}

/** The time from `fromMs` to just before `toMs`, Unix milliseconds. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The length of a step in milliseconds. */
export const STEP_MS: Readonly<Record<Step, number>> = { hour: 3_600_000, day: 86_400_000 };
/** The store keeps this many hours and days, the present one included. */
export const STEPS_KEPT: Readonly<Record<Step, number>> = { hour: HOURS_KEPT, day: DAYS_KEPT };

const ALL: Span = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

/**
 * Reads the histories of a consumer. While its plan has `enforce: false`, the store counts its requests under the id of its shadow;
 * so both histories belong to it, and their sum is its usage.
 * @param unit null for the cost of requests
 * @throws Failure `store_unavailable`
 */
export function readHistories(
  store: Pick<HistoryStore, 'of'>,
  consumerId: string,
  unit: string | null = null,
): Promise<readonly (ReadHistory | null)[]> {
  const ids = [consumerId, shadowIdOf(consumerId)];
  return Promise.all(ids.map((id) => store.of(historyIn(id, unit))));
}

/** The id of the history of an account in a unit. @param unit null for the cost of requests */
export function historyIn(accountId: string, unit: string | null): string {
  return unit === null ? accountId : inUnit(accountId, unit);
}

/** Names the history of the cost of requests, beside the units of plans. */
export const REQUESTS = 'requests';

/**
 * Reads the name of the unit of a history.
 * @param text null if the request names none
 * @param units the units of the plans
 * @param name how the sender knows the value: `unit`, `--unit`
 * @returns null for the cost of requests; or a sentence with what is wrong
 */
export function askedUnit(
  text: string | null,
  units: readonly string[],
  name = 'unit',
): { readonly unit: string | null } | { readonly fault: string } {
  if (text === null || text === REQUESTS) return { unit: null };
  if (units.includes(text)) return { unit: text };
  return { fault: `${name} must be one of: ${[REQUESTS, ...units].join(', ')}.` };
}

/**
 * The sum of histories, hour by hour or day by day, of the buckets that overlap with the span.
 * @param unit the unit that they count; null for the cost of requests
 */
export function historyReport(
  histories: readonly (ReadHistory | null)[],
  step: Step,
  { fromMs, toMs }: Span = ALL,
  unit: string | null = null,
): HistoryReport {
  const sums = new Map<number, Omit<ReportedBucket, 'at'>>();
  for (const read of histories) {
    if (read === null) continue;
    for (const { atMs, admitted, refused, banned } of bucketsOf(read.history, step, read.nowMs)) {
      if (atMs + STEP_MS[step] <= fromMs || atMs >= toMs) continue;
      const sum = sums.get(atMs) ?? { admitted: 0, refused: 0, banned: 0 };
      sums.set(atMs, {
        admitted: sum.admitted + admitted,
        refused: sum.refused + refused,
        banned: sum.banned + banned,
      });
    }
  }
  const buckets = [...sums].sort(([a], [b]) => a - b).map(([atMs, sum]) => ({ at: instantText(atMs), ...sum }));
  return { step, ...(unit === null ? {} : { unit }), buckets };
}

/** A whole second as `2026-11-22T05:00:00Z`. */
export function instantText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
