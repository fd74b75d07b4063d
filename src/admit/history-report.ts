import { shadowIdOf } from './account-id.ts';
import { bucketsOf, DAYS_KEPT, HOURS_KEPT, type Step } from './history.ts';
import type { HistoryStore, ReadHistory } from './history-store.ts';

/** What one consumer has used, as `GET /usage?history`, the admin API and commands show it. */
export interface HistoryReport {
  readonly step: Step;
  /** Oldest first. An hour or day in which nothing happened is left out. */
  readonly buckets: readonly ReportedBucket[];
}

/** One hour or day. */
export interface ReportedBucket {
  /** When it begins: `2026-11-22T05:00:00Z`. */
  readonly at: string;
  /** The cost of the requests that were admitted. */
  readonly admitted: number;
  /** About how many requests were refused for a limit. */
  readonly refused: number;
  /** About how many requests were refused for a ban. */
  readonly banned: number;
}

/** The time from `fromMs` to just before `toMs`, Unix milliseconds. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The length of a step in milliseconds. */
export const STEP_MS: Readonly<Record<Step, number>> = { hour: 3_600_000, day: 86_400_000 };
/** How many hours and days are kept, the present one included. */
export const STEPS_KEPT: Readonly<Record<Step, number>> = { hour: HOURS_KEPT, day: DAYS_KEPT };

const ALL: Span = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

/**
 * What the store keeps of a consumer. While its plan has `enforce: false`, its requests are counted under the id of its
 * shadow; so both histories belong to it, and their sum is what it has used.
 * @throws Failure `store_unavailable`
 */
export function readHistories(
  store: Pick<HistoryStore, 'of'>,
  consumerId: string,
): Promise<readonly (ReadHistory | null)[]> {
  return Promise.all([store.of(consumerId), store.of(shadowIdOf(consumerId))]);
}

/** The sum of histories, hour by hour or day by day, as far as it overlaps with the span. */
export function historyReport(
  histories: readonly (ReadHistory | null)[],
  step: Step,
  { fromMs, toMs }: Span = ALL,
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
  return { step, buckets };
}

/** A whole second as `2026-11-22T05:00:00Z`. */
export function instantText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
