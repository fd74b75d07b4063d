import type { Replayed } from './tally.ts';
import { type Counts, Tally } from './tally.ts';

/** A stretch of time and what became of its requests. */
export interface Bucket {
  /** Unix milliseconds. */
  readonly fromMs: number;
  readonly counts: Counts;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS_MS = [1, 2, 5, 10, 15, 30]
  .flatMap((n) => [n * SECOND, n * MINUTE])
  .concat([HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY])
  .sort((a, b) => a - b);
const MOST_BUCKETS = 120;

/** Counts by time, in stretches of a round length: at most about 120 of them. */
export class Timeline {
  readonly stepMs: number;
  readonly #fromMs: number;
  readonly #tally: Tally;

  constructor(firstAtMs: number, lastAtMs: number) {
    const spanMs = Math.max(lastAtMs - firstAtMs, 1);
    this.stepMs = STEPS_MS.find((step) => spanMs / step <= MOST_BUCKETS) ?? Math.ceil(spanMs / MOST_BUCKETS);
    this.#fromMs = Math.floor(firstAtMs / this.stepMs) * this.stepMs;
    this.#tally = new Tally(Math.floor((lastAtMs - this.#fromMs) / this.stepMs) + 1);
  }

  add(atMs: number, replayed: Replayed): void {
    this.#tally.add(Math.floor((atMs - this.#fromMs) / this.stepMs), replayed);
  }

  buckets(): Bucket[] {
    return Array.from({ length: this.#tally.size }, (_, i) => ({
      fromMs: this.#fromMs + i * this.stepMs,
      counts: this.#tally.of(i),
    }));
  }
}
