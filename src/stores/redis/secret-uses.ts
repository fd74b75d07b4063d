import {
  MAX_USES_OF_KEY,
  type SecretUse,
  type SecretUseStore,
  USES_KEPT_DAYS,
} from '../../identify/secret-use-store.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { holdWrites, nullIfForeign } from './string-values.ts';

/**
 * KEYS: hashes. ARGV: seconds to live, most fields, then for each hash: secret, day, how many secrets the key has, and those. Another
 * program's value under one of the names stays.
 */
const NOTE = new LuaScript<null>(`
local at = 3
for _, name in ipairs(KEYS) do
  local secret, day, secrets = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local added = redis.pcall('HSET', name, secret, day)
  if type(added) == 'number' then
    if added > 0 and redis.call('HLEN', name) > tonumber(ARGV[2]) then
      local kept = {}
      for i = at + 3, at + 2 + secrets do
        local noted = redis.call('HGET', name, ARGV[i])
        if noted then
          kept[#kept + 1] = ARGV[i]
          kept[#kept + 1] = noted
        end
      end
      redis.call('DEL', name)
      if #kept > 0 then redis.call('HSET', name, unpack(kept)) end
    end
    redis.call('EXPIRE', name, ARGV[1])
  elseif not string.find(added.err, 'WRONGTYPE', 1, true) then
    return added
  end
  at = at + 3 + secrets
end`);

/** Hashes in one call: Redis executes nothing else meanwhile. */
const MAX_AT_ONCE = 100;

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
    // In a cluster each hash is in a slot of its own.
    const most = this.#redis instanceof ClusterClient ? 1 : MAX_AT_ONCE;
    const held = holdWrites(this.#redis);
    const noted: Promise<null>[] = [];
    for (let i = 0; i < uses.length; i += most) noted.push(this.#note(uses.slice(i, i + most)));
    held.release();
    await Promise.all(noted);
  }

  #note(uses: readonly SecretUse[]): Promise<null> {
    const names = uses.map(({ keyId }) => keyspace.secretUses(keyId));
    const args = uses.flatMap(({ secret, day, present }) => [secret, day, present.length, ...present]);
    const call = () => NOTE.run(this.#redis, names, LIVES_SECONDS, MAX_USES_OF_KEY, ...args);
    return this.#circuit.run(call, names[0]);
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
