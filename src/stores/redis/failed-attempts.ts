import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import type { AttemptCounter } from '../../identify/failed-attempts.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls } from './shards.ts';

const MINUTE_S = 60;

/**
 * Failed authentications across all gateways; while Redis is away, each counts alone in its memory.
 *
 * rate-limiter-flexible does the counting. Its block in memory stays off, because that table has no bound; the caller
 * has a bounded one and drops from the insurance (`forget`) what leaves it.
 */
export class RedisAttemptCounter implements AttemptCounter {
  readonly #insurance: RateLimiterMemory;
  readonly #limiter: RateLimiterRedis;

  constructor({ redis, circuit }: { readonly redis: RedisClient; readonly circuit: Calls }) {
    const options = { points: 1, duration: MINUTE_S, keyPrefix: keyspace.failedAttemptsPrefix };
    this.#insurance = new RateLimiterMemory(options);
    this.#limiter = new RateLimiterRedis({
      ...options,
      storeClient: withDeadlines(redis, circuit),
      insuranceLimiter: this.#insurance,
    });
  }

  async add(address: string) {
    const { consumedPoints, msBeforeNext } = await this.#limiter.penalty(address);
    return { count: consumedPoints, endsInMs: msBeforeNext };
  }

  forget(address: string): void {
    void this.#insurance.delete(address);
  }
}

interface Scripted {
  rlflxIncr(args: readonly string[]): Promise<[number, number]>;
}

/**
 * What the limiter sees of the client: the one script it defines and runs, under the circuit's deadline. A call that is
 * given up goes to the insurance like any other failure.
 */
function withDeadlines(redis: RedisClient, circuit: Calls) {
  return {
    defineCommand: (name: string, definition: { lua: string; numberOfKeys: number }) =>
      redis.defineCommand(name, definition),
    rlflxIncr: async (args: readonly string[]) => {
      const name = args[0]!;
      const counted = await circuit.run(() => (redis as RedisClient & Scripted).rlflxIncr(args), name);
      // Redis keeps the moment at which a name expires: where its clock is set back by hours, that is hours away.
      if (counted[1] > MINUTE_S * 1_000) {
        await circuit.run(() => redis.expire(name, MINUTE_S), name);
      }
      return counted;
    },
  };
}
