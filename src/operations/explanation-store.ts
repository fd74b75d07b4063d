/**
 * Why requests were refused or failed, for a day, so that a restart of the gateways loses no explanation of the first refusal of a key in
 * a window, and of failures. Implemented by stores/embedded and stores/redis; test/contracts/explanation-store.ts tests both.
 */
export interface ExplanationStore {
  /**
   * Keeps explanations. Of each hour at most `MAX_OF_HOUR` are kept, and of a request id the first: nothing that is kept is pushed out.
   * @throws Failure `store_unavailable`
   */
  keep(explanations: readonly Explanation[]): Promise<void>;
  /** The texts of a request id of the last day, at most one of each hour. @param nowMs Unix milliseconds @throws Failure `store_unavailable` */
  of(requestId: string, nowMs: number): Promise<readonly string[]>;
}

export interface Explanation {
  readonly requestId: string;
  /** When the request ended, Unix milliseconds. */
  readonly atMs: number;
  /** JSON of at most `MAX_EXPLANATION` characters. */
  readonly text: string;
}

/** With texts of a kilobyte, as they usually are, a day of them takes 10 MB. */
export const MAX_OF_HOUR = 400;
export const MAX_EXPLANATION = 8_192;
export const HOUR_MS = 3_600_000;
/** Beside the present hour. */
export const HOURS_KEPT = 24;

/** The number of the hour since 1970. */
export function hourOf(ms: number): number {
  return Math.floor(ms / HOUR_MS);
}

/** The hours of which explanations are kept, the present one first. */
export function keptHours(nowMs: number): readonly number[] {
  return Array.from({ length: HOURS_KEPT + 1 }, (_, i) => hourOf(nowMs) - i);
}
