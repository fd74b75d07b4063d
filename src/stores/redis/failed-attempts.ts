import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import type { AttemptCounter } from '../../identify/failed-attempts.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls, StoreConnection } from './shards.ts';

const MINUTE_S = 60;

/**
 * Counts failed authentications across all gateways; while Redis is away, each gateway counts in its own memory.
 *
 * rate-limiter-flexible does the counting. Its own `inMemoryBlock` stays off, because that table is not bounded. The caller
 * has a bounded table, and calls `forget` for each address that it evicts, which bounds the insurance limiter too.
 */
export class RedisAttemptCounter implements AttemptCounter {
  readonly #insurance: RateLimiterMemory;
  readonly #limiter: RateLimiterRedis;

  constructor({ redis, circuit }: StoreConnection) {
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
 * The part of the client that the limiter uses: its one script, called under the circuit's deadline. After a timeout the
 * limiter uses the insurance limiter, as after any other failure.
 *
 * Fault: Redis was slow, and its clock had been set back. The script and the repair each had a deadline, so a request waited for both.
 */
function withDeadlines(redis: RedisClient, circuit: Calls) {
  return {
    defineCommand: (name: string, definition: { lua: string; numberOfKeys: number }) =>
      redis.defineCommand(name, definition),
    rlflxIncr: (args: readonly string[]) => {
      const name = args[0]!;
      return circuit.run(async () => {
        const counted = await (redis as RedisClient & Scripted).rlflxIncr(args);
        // Redis stores the time at which a name expires. If its clock was set back by hours, that time is hours away.
        if (counted[1] > MINUTE_S * 1_000) await redis.expire(name, MINUTE_S);
        return counted;
      }, name);
    },
  };
}
