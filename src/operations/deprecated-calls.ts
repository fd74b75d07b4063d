/** The calls of deprecated routes in the store, by day, route and consumer. Implemented by stores/embedded and stores/redis. */
export interface DeprecatedCalls {
  /**
   * Adds calls of one day (`2026-11-21`, UTC) to one route (`countedAs` of its deprecation), by consumer.
   * @throws Failure `store_unavailable`
   */
  add(day: string, route: string, calls: ReadonlyMap<string, number>): Promise<void>;
  /** The calls of a route on these days, by consumer. @throws Failure `store_unavailable` */
  of(days: readonly string[], route: string): Promise<ReadonlyMap<string, Called>>;
  /** The calls of one consumer on these days; null if it made no calls. @throws Failure `store_unavailable` */
  ofConsumer(days: readonly string[], route: string, consumerId: string): Promise<Called | null>;
}

export interface Called {
  readonly calls: number;
  /** The last of the days with a call. */
  readonly lastDay: string;
}

/** The sum of one consumer's calls on some days; null if it made no calls. */
export function calledOn(days: readonly { readonly day: string; readonly calls: number }[]): Called | null {
  const called = days.filter(({ calls }) => calls > 0);
  if (called.length === 0) return null;
  return {
    calls: called.reduce((sum, { calls }) => sum + calls, 0),
    lastDay: called.map(({ day }) => day).reduce((a, b) => (a > b ? a : b)),
  };
}

/** How many days calls are kept, today included. */
export const KEPT_DAYS = 92;
/** Consumers that are counted separately for each route and day. */
export const MAX_CONSUMERS = 10_000;
/** Stands for all further consumers. No consumer id begins with `*`. */
export const OTHERS = '*others';
/** Stands for callers without a key. */
export const WITHOUT_KEY = '*public';

const DAY_MS = 86_400_000;

/** @param ms Unix milliseconds */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The last `count` days, the latest first. */
export function lastDays(nowMs: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => dayOf(nowMs - i * DAY_MS));
}
