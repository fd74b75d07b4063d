import { halfOfRest } from '../io/fair-shares.ts';
import { type Batch, isAlike, join } from './batch.ts';

interface LeaseWaitsOptions {
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Called with requests when the gateway must ask the store about them again. */
  readonly onReady: (batches: readonly Batch[]) => void;
}

/**
 * Maximum requests of one consumer, and of all, that wait in this process. The store refuses further ones if they do not fit. One
 * consumer gets at most half of the places that the others leave, so that ten of them do not take all.
 */
const MAX_WAITING = 1_000;
const MAX_WAITING_OF_ALL = 10_000;
/** The first pause before the gateway asks the store again, milliseconds. Each further pause is twice as long, up to the last. */
const FIRST_PAUSE_MS = 2;
const LAST_PAUSE_MS = 32;

/**
 * Keeps requests that do not fit while other gateways hold units that they may not use. The store has recalled these units. The
 * gateway asks the store again in growing pauses, so that it refuses no request while some unit is left.
 */
export class LeaseWaits {
  readonly #options: LeaseWaitsOptions;
  /** By consumer. */
  readonly #batches = new Map<string, Batch[]>();
  /** The number of waiting requests of each consumer. */
  readonly #waiting = new Map<string, number>();
  /**
   * The number of all waiting requests; for reading only. It is a field, so that requests call nothing here as long
   * as no request waits.
   */
  all = 0;

  constructor(options: LeaseWaitsOptions) {
    this.#options = options;
  }

  /** True if the store must refuse requests that do not fit, because they have waited long enough, or because too many wait. */
  isOver({ consumerId, wait }: Batch): boolean {
    const own = this.#of(consumerId);
    const most = Math.min(MAX_WAITING, halfOfRest(MAX_WAITING_OF_ALL, this.all - own));
    if (this.all >= MAX_WAITING_OF_ALL || own >= most) return true;
    return wait !== undefined && this.#options.monotonicMs() >= wait.untilMs;
  }

  /** @param forMs other gateways may return units within this time */
  add(batch: Batch, forMs: number): void {
    this.#count(batch, batch.waiting.length);
    const waiting = this.#batches.get(batch.consumerId) ?? [];
    const same = waiting.find((other) => isAlike(other, batch));
    if (same !== undefined) {
      join(same, batch);
      return;
    }
    const nowMs = this.#options.monotonicMs();
    const { untilMs = nowMs + forMs, againInMs = FIRST_PAUSE_MS } = batch.wait ?? {};
    batch.wait = { untilMs, againInMs: Math.min(2 * againInMs, LAST_PAUSE_MS) };
    this.#batches.set(batch.consumerId, [...waiting, batch]);
    setTimeout(() => this.#askAgain(batch), Math.min(againInMs, Math.max(untilMs - nowMs, 0)));
  }

  #askAgain(batch: Batch): void {
    const left = this.#batches.get(batch.consumerId)!.filter((other) => other !== batch);
    if (left.length === 0) this.#batches.delete(batch.consumerId);
    else this.#batches.set(batch.consumerId, left);
    this.#count(batch, -batch.waiting.length);
    this.#options.onReady([batch]);
  }

  #of(consumerId: string): number {
    return this.#waiting.get(consumerId) ?? 0;
  }

  #count({ consumerId }: Batch, more: number): void {
    this.all += more;
    const waiting = this.#of(consumerId) + more;
    if (waiting === 0) this.#waiting.delete(consumerId);
    else this.#waiting.set(consumerId, waiting);
  }
}
