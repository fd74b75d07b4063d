import { halfOfRest } from '../../io/fair-shares.ts';

/**
 * How a retry ended: `answered` with a response that is not a failure, `failed`, or `abandoned` because the client left.
 * `over_budget`: an attempt failed and was not retried, because the budget was used up.
 */
export type RetryOutcome = 'answered' | 'failed' | 'abandoned' | 'over_budget';

const SECOND_MS = 1_000;
const SECONDS = 10;
/** Retries for each request that may be retried, over the last seconds. */
const MAX_PER_REQUEST = 0.2;
/** Retries that are always allowed over the last seconds, so that an upstream with few requests has retries too. */
const ALWAYS_ALLOWED = 20;

/**
 * Bounds the retries to one upstream over the last ten seconds: a fifth of the requests that may be retried, or twenty if
 * that is more. One consumer has at most half of what the others leave.
 *
 * Attack: a service is overloaded and answers every request with 503. With three attempts for each request the gateway
 * would triple its load, and the service would never recover. (Finagle and Linkerd bound retries in the same way.)
 *
 * Attack: one consumer calls a resource that always fails, and leaves no retries to the others.
 */
export class RetryBudget {
  /** By second, modulo SECONDS. */
  readonly #requests = new Array<number>(SECONDS).fill(0);
  /** The retries of each consumer. */
  readonly #retries = Array.from({ length: SECONDS }, () => new Map<object, number>());
  #recentRequests = 0;
  #recentRetries = 0;
  /** The second that is being counted. */
  #second = 0;

  /** Counts a request that may be retried. @param nowMs monotonic milliseconds */
  countRequest(nowMs: number): void {
    this.#requests[this.#slotAt(nowMs)]!++;
    this.#recentRequests++;
  }

  /**
   * Takes room for one retry.
   * @param nowMs monotonic milliseconds
   * @param consumer the same object for all requests of a consumer
   * @returns false if the budget, or the share of the consumer, is used up
   */
  take(nowMs: number, consumer: object): boolean {
    const retries = this.#retries[this.#slotAt(nowMs)]!;
    const most = Math.max(ALWAYS_ALLOWED, Math.floor(this.#recentRequests * MAX_PER_REQUEST));
    const own = this.#retries.reduce((sum, counts) => sum + (counts.get(consumer) ?? 0), 0);
    if (this.#recentRetries >= most || own >= halfOfRest(most, this.#recentRetries - own)) return false;
    retries.set(consumer, (retries.get(consumer) ?? 0) + 1);
    this.#recentRetries++;
    return true;
  }

  /** Forgets what is older than ten seconds. @returns the slot of the present second */
  #slotAt(nowMs: number): number {
    const second = Math.floor(nowMs / SECOND_MS);
    for (let i = Math.min(second - this.#second, SECONDS); i > 0; i--) {
      const slot = (second - i + 1) % SECONDS;
      this.#recentRequests -= this.#requests[slot]!;
      for (const count of this.#retries[slot]!.values()) this.#recentRetries -= count;
      this.#requests[slot] = 0;
      this.#retries[slot]!.clear();
    }
    this.#second = Math.max(this.#second, second);
    return this.#second % SECONDS;
  }
}
