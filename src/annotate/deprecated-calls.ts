/** Who still calls a deprecated route: kept in the store by day, for `tollgate deprecations`. */
export interface DeprecatedCalls {
  /**
   * Adds calls of one day (`2026-11-21`, UTC) to one route (its pattern), by consumer.
   * @throws Failure `store_unavailable`
   */
  add(day: string, route: string, calls: ReadonlyMap<string, number>): Promise<void>;
  /** What there is of these days, by consumer. @throws Failure `store_unavailable` */
  of(days: readonly string[], route: string): Promise<ReadonlyMap<string, Called>>;
}

export interface Called {
  readonly calls: number;
  /** The last of the days with a call. */
  readonly lastDay: string;
}

/** Days that calls are kept for, today among them. */
export const KEPT_DAYS = 92;
/** Consumers told apart in a route and day; the calls of further ones are counted together. */
export const MAX_CONSUMERS = 10_000;
/** Under what those are counted. No consumer's id is like it. */
export const OTHERS = '*others';
/** Under what calls without a key are counted. */
export const NOBODY = '*public';
