import type { Redis } from 'ioredis';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';

/**
 * Holds back what is sent until `release`, so that it leaves in one write for each connection instead of one for each
 * command. To be released in the same turn of the event loop, or at its end.
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

/** Lets everything that is sent in one turn of the event loop leave in one write for each connection. */
export class TurnWrites {
  readonly #redis: RedisClient;
  #isHeld = false;

  constructor(redis: RedisClient) {
    this.#redis = redis;
  }

  /** To be called before each command. */
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

function connectionsOf(redis: RedisClient): readonly Redis[] {
  return redis instanceof ClusterClient ? redis.nodes('master') : [redis];
}
