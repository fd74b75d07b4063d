import { partsOfAccount } from '../admit/account-id.ts';
import type { Exchange } from '../gateway/exchange.ts';

/** Maximum callers that are counted in one span. Further ones have no budget. */
const CALLERS = 10_000;

/** How much each caller may add in a span of time: the keys of one customer together, and all unknown callers together. */
export class CallerBudget {
  readonly #most: number;
  readonly #spanMs: number;
  readonly #taken = new Map<string, number>();
  #span = Number.NaN;

  constructor(most: number, spanMs: number) {
    this.#most = most;
    this.#spanMs = spanMs;
  }

  /** @returns whether the caller of this request had something left. @param nowMs Unix milliseconds */
  take({ consumerId, accountId }: Pick<Exchange, 'consumerId' | 'accountId'>, nowMs: number): boolean {
    const span = Math.floor(nowMs / this.#spanMs);
    if (span !== this.#span) {
      this.#span = span;
      this.#taken.clear();
    }
    const caller = (accountId == null ? null : partsOfAccount(accountId).customerId) ?? consumerId ?? '';
    const taken = this.#taken.get(caller);
    if (taken === undefined ? this.#taken.size >= CALLERS : taken >= this.#most) return false;
    this.#taken.set(caller, (taken ?? 0) + 1);
    return true;
  }
}
