import type { PepperStore } from '../../identify/pepper-record.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { FOREIGN, Values } from './string-values.ts';

/** Replaces a value if it has not changed since it was read. */
const REPLACE = new LuaScript<number>(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`);

/** The record of the peppers in Redis. */
export class RedisPepperRecord implements PepperStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #values: Values;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
    this.#values = new Values(redis);
  }

  async read(): Promise<string | null> {
    const value = await this.#circuit.run(() => this.#values.get(keyspace.peppers), keyspace.peppers);
    // An empty record is unreadable to the caller, as a value of another type should be.
    return value === FOREIGN ? '' : value;
  }

  replace(before: string | null, after: string): Promise<boolean> {
    return this.#circuit.run(async () => {
      if (before === null) return (await this.#redis.set(keyspace.peppers, after, 'NX')) !== null;
      return (await REPLACE.run(this.#redis, [keyspace.peppers], before, after)) === 1;
    }, keyspace.peppers);
  }

  async hasKeys(): Promise<boolean> {
    return (await this.#circuit.run(() => this.#redis.zcard(keyspace.apiKeys), keyspace.apiKeys)) > 0;
  }
}
