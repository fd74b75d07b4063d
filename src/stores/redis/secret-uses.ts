import {
  MAX_USES_OF_KEY,
  type SecretUse,
  type SecretUseStore,
  USES_KEPT_DAYS,
} from '../../identify/secret-use-store.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { holdWrites, nullIfForeign } from './string-values.ts';

/** KEYS: hash. ARGV: secret, day, seconds to live, most fields, then the secrets that the key has. */
const NOTE = new LuaScript<number>(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then
  local kept = {}
  for i = 5, #ARGV do
    local day = redis.call('HGET', KEYS[1], ARGV[i])
    if day then
      kept[#kept + 1] = ARGV[i]
      kept[#kept + 1] = day
    end
  end
  redis.call('DEL', KEYS[1])
  if #kept > 0 then redis.call('HSET', KEYS[1], unpack(kept)) end
end
return redis.call('EXPIRE', KEYS[1], ARGV[3])`);

const LIVES_SECONDS = USES_KEPT_DAYS * 86_400;

/** One hash for each key, with a field for each secret. */
export class RedisSecretUses implements SecretUseStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async note(uses: readonly SecretUse[]): Promise<void> {
    const held = holdWrites(this.#redis);
    const noted = uses.map(({ keyId, secret, day, present }) => {
      const name = keyspace.secretUses(keyId);
      const args = [secret, day, LIVES_SECONDS, MAX_USES_OF_KEY, ...present];
      return this.#circuit.run(() => NOTE.run(this.#redis, [name], ...args).catch(nullIfForeign), name);
    });
    held.release();
    await Promise.all(noted);
  }

  async of(keyId: string, secrets: readonly string[]): Promise<readonly (string | null)[]> {
    if (secrets.length === 0) return [];
    const name = keyspace.secretUses(keyId);
    const days = await this.#circuit.read(() => this.#redis.hmget(name, ...secrets).catch(nullIfForeign), name);
    return days ?? secrets.map(() => null);
  }

  async forget(keyId: string): Promise<void> {
    const name = keyspace.secretUses(keyId);
    await this.#circuit.run(() => this.#redis.del(name), name);
  }
}
