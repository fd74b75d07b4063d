import { type AttemptCounter, FailedAttempts } from '../identify/failed-attempts.ts';
import { type AdminResponse, errorResponse } from './response.ts';

/** Secrets of no key that one person may look up in a minute. */
export const MISSES_PER_MINUTE = 10;
/** The same for an address. It is higher, because people behind one proxy have one address. */
export const MISSES_PER_ADDRESS = 60;

interface FindBudgetOptions {
  readonly newCounter: () => AttemptCounter;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/**
 * The look-ups of secrets that belong to no key, by person and by address.
 *
 * Attack: a viewer guesses the secrets of imported keys, which may be short, by thousands of look-ups a second.
 * Callers who guess have a budget; a look-up past it is refused before the store is asked, and everything else stays possible.
 */
export class FindBudget {
  readonly #persons: FailedAttempts;
  readonly #addresses: FailedAttempts;
  readonly #nowMs: () => number;

  constructor({ newCounter, monotonicMs, nowMs }: FindBudgetOptions) {
    const clocks = { monotonicMs, wallMs: nowMs };
    this.#persons = new FailedAttempts({
      ...clocks,
      counter: newCounter(),
      limit: () => MISSES_PER_MINUTE,
      keyOf: (person) => person,
    });
    this.#addresses = new FailedAttempts({ ...clocks, counter: newCounter(), limit: () => MISSES_PER_ADDRESS });
    this.#nowMs = nowMs;
  }

  /**
   * @param person as `personOf` has it
   * @returns the response that refuses a look-up; null while the budget lasts
   */
  refusalOf(person: string, address: string): AdminResponse | null {
    const budgets = [this.#persons.peek(person), this.#addresses.peek(address)];
    const spent = budgets.filter(({ allowed }) => !allowed).map(({ resetAtMs }) => resetAtMs);
    if (spent.length === 0) return null;
    const seconds = Math.max(1, Math.ceil((Math.max(...spent) - this.#nowMs()) / 1000));
    const message = `Too many secrets of no key were looked up. Retry after ${seconds} s.`;
    return errorResponse('too_many_failed_attempts', message, { 'Retry-After': String(seconds) });
  }

  /** Counts a look-up that found no key. */
  async miss(person: string, address: string): Promise<void> {
    await Promise.all([this.#persons.fail(person), this.#addresses.fail(address)]);
  }
}
