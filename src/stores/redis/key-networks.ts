import { hash } from 'node:crypto';
import { type KeyNetworkStore, NETWORKS_KEPT_DAYS, type NetworksSwap } from '../../operations/key-network-store.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { holdWrites, nullIfForeign } from './string-values.ts';
import { SWAP } from './traffic.ts';

const LIVES_SECONDS = NETWORKS_KEPT_DAYS * 86_400;

/** A string for each key. */
export class RedisKeyNetworks implements KeyNetworkStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  read(keyIds: readonly string[]): Promise<readonly (string | null)[]> {
    return this.#each(keyIds, (keyId) => {
      const name = keyspace.keyNetworks(keyId);
      return this.#circuit.read(() => this.#redis.get(name).catch(nullIfForeign), name);
    });
  }

  swap(swaps: readonly NetworksSwap[]): Promise<readonly boolean[]> {
    return this.#each(swaps, async ({ keyId, before, after }) => {
      const name = keyspace.keyNetworks(keyId);
      const sha = before === null ? '' : hash('sha1', before);
      const call = () => SWAP.run(this.#redis, [name], sha, after, LIVES_SECONDS).catch(nullIfForeign);
      // Another program's value stays, and what was counted for this key is dropped.
      return (await this.#circuit.run(call, name)) !== 0;
    });
  }

  async forget(keyId: string): Promise<void> {
    const name = keyspace.keyNetworks(keyId);
    await this.#circuit.run(() => this.#redis.del(name), name);
  }

  /** In a cluster each string is in a slot of its own. */
  #each<T, R>(all: readonly T[], call: (one: T) => Promise<R>): Promise<R[]> {
    const held = holdWrites(this.#redis);
    const called = all.map(call);
    held.release();
    return Promise.all(called);
  }
}
