import type { RedisClient } from './connection.ts';
import { TurnWrites } from './one-write.ts';

/** In the place of a value of another type: it is somebody else's. */
export const FOREIGN = Symbol('foreign');

/** A string in Redis; null where there is none. */
export type Value = string | null | typeof FOREIGN;

/** Reads strings one by one; all that are read in one turn of the event loop leave in one write. */
export class Values {
  readonly #redis: RedisClient;
  readonly #writes: TurnWrites;

  constructor(redis: RedisClient) {
    this.#redis = redis;
    this.#writes = new TurnWrites(redis);
  }

  get(name: string): Promise<Value> {
    this.#writes.join();
    return this.#redis.get(name).catch((error: Error) => {
      if (error.message.startsWith('WRONGTYPE')) return FOREIGN;
      throw error;
    });
  }
}
