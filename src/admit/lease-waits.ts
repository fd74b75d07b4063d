import { type Batch, isAlike } from './batch.ts';

interface LeaseWaitsOptions {
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Called with requests about which the store is to be asked again. */
  readonly onReady: (batches: readonly Batch[]) => void;
}

/** Maximum requests of this process that wait. Further ones are refused if they do not fit. */
const MAX_WAITING = 1_000;
/** The first pause before the store is asked again, milliseconds; each further one is twice as long, up to the last. */
const FIRST_PAUSE_MS = 2;
const LAST_PAUSE_MS = 32;

/**
 * Requests that do not fit, while other gateways hold units that they may not use. The store has called these units back, and is
 * asked again in growing pauses, so that no request is refused as long as some unit is left.
 */
export class LeaseWaits {
  readonly #options: LeaseWaitsOptions;
  readonly #batches = new Set<Batch>();
  #waiting = 0;

  constructor(options: LeaseWaitsOptions) {
    this.#options = options;
  }

  /** Whether requests are to be refused if they do not fit, because they have waited long enough, or too many wait. */
  isOver({ wait }: Batch): boolean {
    if (this.#waiting >= MAX_WAITING) return true;
    return wait !== undefined && this.#options.monotonicMs() >= wait.untilMs;
  }

  /** @param forMs how long units may be on their way back */
  add(batch: Batch, forMs: number): void {
    this.#waiting += batch.waiting.length;
    for (const other of this.#batches) {
      if (!isAlike(other, batch)) continue;
      other.waiting.push(...batch.waiting);
      return;
    }
    const nowMs = this.#options.monotonicMs();
    const { untilMs = nowMs + forMs, againInMs = FIRST_PAUSE_MS } = batch.wait ?? {};
    batch.wait = { untilMs, againInMs: Math.min(2 * againInMs, LAST_PAUSE_MS) };
    this.#batches.add(batch);
    setTimeout(() => this.#askAgain(batch), Math.min(againInMs, Math.max(untilMs - nowMs, 0)));
  }

  #askAgain(batch: Batch): void {
    this.#batches.delete(batch);
    this.#waiting -= batch.waiting.length;
    this.#options.onReady([batch]);
  }
}
