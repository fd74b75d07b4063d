import type { PepperStore } from '../../identify/pepper-record.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls } from './shards.ts';
import { FOREIGN, Values } from './values.ts';

/** Replaces a value if it has not changed since it was read. */
const REPLACE_LUA = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`;

interface Scripted {
  tollgateReplacePepper(key: string, before: string, after: string): Promise<number>;
}

/** The record of the peppers in Redis. */
export class RedisPepperRecord implements PepperStore {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;
  readonly #values: Values;

  constructor({ redis, circuit }: { readonly redis: RedisClient; readonly circuit: Calls }) {
    redis.defineCommand('tollgateReplacePepper', { lua: REPLACE_LUA, numberOfKeys: 1 });
    this.#redis = redis as RedisClient & Scripted;
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
      return (await this.#redis.tollgateReplacePepper(keyspace.peppers, before, after)) === 1;
    }, keyspace.peppers);
  }

  async hasKeys(): Promise<boolean> {
    return (await this.#circuit.run(() => this.#redis.zcard(keyspace.apiKeys), keyspace.apiKeys)) > 0;
  }
}
