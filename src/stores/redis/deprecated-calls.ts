import {
  type Called,
  calledOn,
  type DeprecatedCalls,
  KEPT_DAYS,
  MAX_CONSUMERS,
  OTHERS,
} from '../../operations/deprecated-calls.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { pagesOf } from './string-values.ts';

/** KEYS: hash. ARGV: the maximum of fields, the field for further consumers, seconds to live, then consumers and calls in turn. */
const ADD = new LuaScript<number>(`
local fields = redis.call('HLEN', KEYS[1])
for i = 4, #ARGV, 2 do
  local field = ARGV[i]
  if redis.call('HEXISTS', KEYS[1], field) == 0 then
    if fields >= tonumber(ARGV[1]) then field = ARGV[2] else fields = fields + 1 end
  end
  redis.call('HINCRBY', KEYS[1], field, ARGV[i + 1])
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return fields`);

const LIVES_SECONDS = KEPT_DAYS * 86_400;
/** Maximum consumers in one script call, and the page size of a scan. */
const CONSUMERS_AT_A_TIME = 1_000;

/** One hash for each day and route, with a field for each consumer. */
export class RedisDeprecatedCalls implements DeprecatedCalls {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async add(day: string, route: string, calls: ReadonlyMap<string, number>): Promise<void> {
    const key = keyspace.deprecatedCalls(day, route);
    const all = [...calls];
    for (let from = 0; from < all.length; from += CONSUMERS_AT_A_TIME) {
      const args = all.slice(from, from + CONSUMERS_AT_A_TIME).flat();
      const call = () => ADD.run(this.#redis, [key], MAX_CONSUMERS, OTHERS, LIVES_SECONDS, ...args);
      await this.#circuit.run(call, key);
    }
  }

  async of(days: readonly string[], route: string): Promise<ReadonlyMap<string, Called>> {
    const found = new Map<string, Called>();
    for (const day of [...days].sort()) {
      const key = keyspace.deprecatedCalls(day, route);
      // `#fieldsOf` returns a map, because a scan may return a field twice.
      for (const [consumerId, calls] of await this.#fieldsOf(key)) {
        found.set(consumerId, { calls: (found.get(consumerId)?.calls ?? 0) + calls, lastDay: day });
      }
    }
    return found;
  }

  async ofConsumer(days: readonly string[], route: string, consumerId: string): Promise<Called | null> {
    const counts = await Promise.all(
      days.map(async (day) => {
        const key = keyspace.deprecatedCalls(day, route);
        return { day, calls: Number(await this.#circuit.read(() => this.#redis.hget(key, consumerId), key)) };
      }),
    );
    return calledOn(counts);
  }

  /** Reads page by page, because neither Redis nor this process does anything else while it handles an answer. */
  async #fieldsOf(key: string): Promise<ReadonlyMap<string, number>> {
    const fields = new Map<string, number>();
    const scan = (at: string) => this.#redis.hscan(key, at, 'COUNT', CONSUMERS_AT_A_TIME);
    for await (const flat of pagesOf((at) => this.#circuit.read(() => scan(at), key))) {
      for (let i = 0; i < flat.length; i += 2) fields.set(flat[i]!, Number(flat[i + 1]));
    }
    return fields;
  }
}
