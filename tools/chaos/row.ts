/** What a scenario showed: one row of the report. */
export interface Row {
  readonly scenario: string;
  readonly about: string;
  /** What clients got, by label, most frequent first. */
  readonly answers: readonly (readonly [label: string, count: number])[];
  readonly longestWaitMs: number;
  /** What a request may wait here at most. */
  readonly waitAllowedMs: number;
  readonly quotas: readonly Quota[];
  readonly bans: 'kept' | 'lost' | 'not tried';
  /** From the end of the fault; null where it was not normal again in time. */
  readonly normalAfterMs: number | null;
  /** Entries in Redis that would stay for ever. */
  readonly leftovers: readonly string[];
  /** Further numbers, as sentences. */
  readonly notes: readonly string[];
  /** Every bound that was broken, as a sentence. None: all held. */
  readonly broken: readonly string[];
  readonly tookMs: number;
}

/** How one key fared against its limit. */
export interface Quota {
  readonly key: string;
  readonly limit: number;
  readonly admitted: number;
  /** The written bounds for what is admitted. */
  readonly least: number;
  readonly most: number;
  /** What Redis has counted afterwards, less what was admitted; null where Redis has forgotten. */
  readonly countedMore: number | null;
}
