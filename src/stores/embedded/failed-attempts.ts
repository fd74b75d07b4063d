import { RateLimiterMemory } from 'rate-limiter-flexible';
import type { AttemptCounter } from '../../identify/failed-attempts.ts';

const MINUTE_S = 60;

/** Failed authentications of one gateway that runs alone, in memory. A restart forgets them. */
export class MemoryAttemptCounter implements AttemptCounter {
  /** `points` decides nothing here: what a count means is the caller's to say, since the limit may change. */
  readonly #limiter = new RateLimiterMemory({ points: 1, duration: MINUTE_S, keyPrefix: '' });

  async add(address: string) {
    const { consumedPoints, msBeforeNext } = await this.#limiter.penalty(address);
    return { count: consumedPoints, endsInMs: msBeforeNext };
  }

  forget(address: string): void {
    void this.#limiter.delete(address);
  }
}
