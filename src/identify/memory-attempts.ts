import { RateLimiterMemory } from 'rate-limiter-flexible';
import type { AttemptCounter } from './failed-attempts.ts';

const MINUTE_S = 60;

/** Counts failed authentications in the memory of this process, with an embedded store and for the admin API. A restart forgets them. */
export class MemoryAttemptCounter implements AttemptCounter {
  /** `points` has no effect here: the caller compares the count with the limit, which may change. */
  readonly #limiter = new RateLimiterMemory({ points: 1, duration: MINUTE_S, keyPrefix: '' });

  async add(address: string) {
    const { consumedPoints, msBeforeNext } = await this.#limiter.penalty(address);
    return { count: consumedPoints, endsInMs: msBeforeNext };
  }

  forget(address: string): void {
    void this.#limiter.delete(address);
  }
}
