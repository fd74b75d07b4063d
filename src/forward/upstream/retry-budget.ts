/**
 * How a retry ended: `answered` with a response that is no failure, `failed`, or `abandoned` because the client left.
 * `over_budget`: an attempt failed and was not retried, because the budget was used up.
 */
export type RetryOutcome = 'answered' | 'failed' | 'abandoned' | 'over_budget';

const SECOND_MS = 1_000;
const SECONDS = 10;
/** Retries for each request that may be retried, over the last seconds. */
const MOST_PER_REQUEST = 0.2;
/** Retries that are always allowed over the last seconds, so that an upstream with few requests has retries too. */
const ALWAYS_ALLOWED = 10;

/**
 * Bounds the retries to one upstream over the last ten seconds: a fifth of the requests that may be retried, or ten if
 * that is more.
 *
 * Attack: a service is overloaded and answers every request with 503. With three attempts for each request the gateway
 * would triple its load, and the service would never recover. (Finagle and Linkerd bound retries in the same way.)
 */
export class RetryBudget {
  /** By second, modulo SECONDS. */
  readonly #requests = new Array<number>(SECONDS).fill(0);
  readonly #retries = new Array<number>(SECONDS).fill(0);
  #recentRequests = 0;
  #recentRetries = 0;
  /** The second that is being counted. */
  #second = 0;

  /** Counts a request that may be retried. @param nowMs monotonic milliseconds */
  countRequest(nowMs: number): void {
    this.#requests[this.#slotAt(nowMs)]!++;
    this.#recentRequests++;
  }

  /** Takes room for one retry. @param nowMs monotonic milliseconds @returns false if the budget is used up */
  take(nowMs: number): boolean {
    const slot = this.#slotAt(nowMs);
    if (this.#recentRetries >= Math.max(ALWAYS_ALLOWED, Math.floor(this.#recentRequests * MOST_PER_REQUEST))) {
      return false;
    }
    this.#retries[slot]!++;
    this.#recentRetries++;
    return true;
  }

  /** Forgets what is older than ten seconds. @returns the slot of the present second */
  #slotAt(nowMs: number): number {
    const second = Math.floor(nowMs / SECOND_MS);
    for (let i = Math.min(second - this.#second, SECONDS); i > 0; i--) {
      const slot = (second - i + 1) % SECONDS;
      this.#recentRequests -= this.#requests[slot]!;
      this.#recentRetries -= this.#retries[slot]!;
      this.#requests[slot] = 0;
      this.#retries[slot] = 0;
    }
    this.#second = Math.max(this.#second, second);
    return this.#second % SECONDS;
  }
}
