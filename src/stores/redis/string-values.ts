import type { Redis } from 'ioredis';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';

/** Stands for a value that is not a string: another program has written it. */
export const FOREIGN = Symbol('foreign');

/** A string in Redis; null if there is none. */
export type Value = string | null | typeof FOREIGN;

/** Reads strings one by one. It sends the commands of one turn of the event loop in one socket write. */
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

/**
 * Returns null for an error about a foreign value, because the circuit would take the error for a failure of the store. A script's
 * error may begin with other words.
 */
export function nullIfForeign(error: Error): null {
  if (error.message.includes('WRONGTYPE')) return null;
  throw error;
}

/**
 * Holds back commands until `release`, so that each connection sends them in one socket write. The caller must release them
 * in the same turn of the event loop, or at its end.
 */
export function holdWrites(redis: RedisClient): { release(): void } {
  const streams = connectionsOf(redis).map(({ stream }) => stream);
  for (const stream of streams) stream?.cork();
  return {
    release: () => {
      for (const stream of streams) stream?.uncork();
    },
  };
}

/** The pages of a SCAN. */
export async function* pagesOf(scan: (cursor: string) => Promise<[cursor: string, page: string[]]>) {
  let cursor = '0';
  do {
    const [next, page] = await scan(cursor);
    yield page;
    cursor = next;
  } while (cursor !== '0');
}

/** Combines all commands of one turn of the event loop into one socket write for each connection. */
class TurnWrites {
  readonly #redis: RedisClient;
  #isHeld = false;

  constructor(redis: RedisClient) {
    this.#redis = redis;
  }

  /** Call this before each command. */
  join(): void {
    if (this.#isHeld) return;
    this.#isHeld = true;
    const held = holdWrites(this.#redis);
    setImmediate(() => {
      this.#isHeld = false;
      held.release();
    });
  }
}

/** The connection to the server, or those to each primary of a cluster. */
export function connectionsOf(redis: RedisClient): readonly Redis[] {
  return redis instanceof ClusterClient ? redis.nodes('master') : [redis];
}
