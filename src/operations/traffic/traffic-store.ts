/** A table of the names of a day, or the record of a minute or an hour (traffic-record.ts). */
export type TrafficPart = 'names' | 'minute' | 'hour';

/** Where a record is: `at` is the number of its day, minute or hour since 1970, UTC. */
export interface TrafficPlace {
  readonly part: TrafficPart;
  readonly at: number;
}

/** A record in place of another one. */
export interface TrafficSwap extends TrafficPlace {
  /** What was read there; null if nothing was. */
  readonly before: Uint8Array | null;
  readonly after: Uint8Array;
}

/** Traffic over time in the store, without what is in it. Implemented by stores/embedded and stores/redis. */
export interface TrafficStore {
  /** Reads the records of these places; null for a place that has no record. @throws Failure `store_unavailable` */
  read(places: readonly TrafficPlace[]): Promise<readonly (Uint8Array | null)[]>;
  /**
   * Writes all of these records or none, and removes those that are kept no longer.
   * @returns false if another gateway has changed one of them since it was read
   * @throws Failure `store_unavailable`
   */
  swap(swaps: readonly TrafficSwap[]): Promise<boolean>;
}

export const PART_MS: Readonly<Record<TrafficPart, number>> = { names: 86_400_000, minute: 60_000, hour: 3_600_000 };

/** How long records are kept: minutes for 48 hours, hours and the names of a day for 92 days, and until the last of the span is over. */
export const KEPT_MS: Readonly<Record<TrafficPart, number>> = {
  names: 94 * 86_400_000,
  minute: 49 * 3_600_000,
  hour: 93 * 86_400_000,
};
