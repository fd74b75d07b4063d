import { IDEMPOTENT } from '../http1/request-line.ts';
import type { ForwardRequest } from './request-body.ts';
import type { RetryBudget, RetryOutcome } from './upstream/retry-budget.ts';

/** When a failed attempt of a request is followed by another one (`retries` of a route). */
export interface RetryRules {
  /** Maximum number of attempts, the first one included. */
  readonly attempts: number;
  /** Whether an attempt has failed if no connection can be opened, or if it breaks before the head of the response. */
  readonly onConnection: boolean;
  /** The statuses of responses that are failures. */
  readonly onStatus: readonly number[];
  /** How long an attempt may take to receive the head of its response; null if only the deadline of all of them counts. */
  readonly attemptTimeoutMs: number | null;
}

/** The attempts of one request that may be retried. Times are monotonic milliseconds. */
export class Retries {
  readonly #rules: RetryRules;
  readonly #budget: RetryBudget;
  readonly #consumer: object;
  readonly #onRetry: (outcome: RetryOutcome) => void;
  #attempts = 1;
  /** When all attempts together are late. */
  #deadlineAtMs = Number.POSITIVE_INFINITY;
  #isAnswered = false;
  #isOverBudget = false;

  private constructor(
    rules: RetryRules,
    budget: RetryBudget,
    consumer: object,
    onRetry: (outcome: RetryOutcome) => void,
  ) {
    this.#rules = rules;
    this.#budget = budget;
    this.#consumer = consumer;
    this.#onRetry = onRetry;
  }

  /**
   * @param consumer the same object for all requests of a consumer
   * @param onRetry called with the outcome of each retry
   * @returns null if the request must not be sent twice, or cannot because its body is forwarded as it arrives
   */
  static of(
    rules: RetryRules,
    { method, body }: ForwardRequest,
    budget: RetryBudget,
    consumer: object,
    nowMs: number,
    onRetry: (outcome: RetryOutcome) => void,
  ): Retries | null {
    if (!IDEMPOTENT.has(method) || (body !== null && body.framing !== 'whole')) return null;
    budget.countRequest(nowMs);
    return new Retries(rules, budget, consumer, onRetry);
  }

  /** The number of the present attempt, from 1. */
  get attempts(): number {
    return this.#attempts;
  }

  /** Whether an attempt that failed was the last one because the budget was used up. */
  get isOverBudget(): boolean {
    return this.#isOverBudget;
  }

  get onConnection(): boolean {
    return this.#rules.onConnection;
  }

  isFailure(status: number): boolean {
    return this.#rules.onStatus.includes(status);
  }

  /**
   * Begins an attempt. The deadline of all attempts begins with the first and stays.
   * @param responseTimeoutMs how long all attempts together may take
   * @returns how long this attempt may take to receive the head of its response, in milliseconds
   */
  begin(nowMs: number, responseTimeoutMs: number): number {
    if (this.#attempts === 1) this.#deadlineAtMs = nowMs + responseTimeoutMs;
    return Math.ceil(Math.min(this.#deadlineAtMs - nowMs, this.#rules.attemptTimeoutMs ?? Number.POSITIVE_INFINITY));
  }

  /** Takes another attempt after one that failed. @returns false if no attempt is left */
  take(nowMs: number): boolean {
    if (this.#attempts >= this.#rules.attempts || nowMs >= this.#deadlineAtMs) return false;
    if (!this.#budget.take(nowMs, this.#consumer)) {
      this.#isOverBudget = true;
      this.#onRetry('over_budget');
      return false;
    }
    if (this.#attempts > 1) this.#onRetry('failed');
    this.#attempts++;
    return true;
  }

  /** The response of the present attempt is not a failure. */
  answered(): void {
    this.#isAnswered = true;
  }

  /** The request has ended. @param isClientGone whether the client ended it */
  ended(isClientGone: boolean): void {
    if (this.#attempts === 1) return;
    this.#onRetry(this.#isAnswered ? 'answered' : isClientGone ? 'abandoned' : 'failed');
  }
}
