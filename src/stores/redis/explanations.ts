import {
  type Explanation,
  type ExplanationStore,
  HOURS_KEPT,
  hourOf,
  keptHours,
  MAX_OF_HOUR,
} from '../../operations/explanation-store.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { nullIfForeign } from './string-values.ts';

/** KEYS: hash. ARGV: most fields, seconds to live, then request ids and texts in turn. Another program's value under the name stays. */
const KEEP = new LuaScript<null>(`
local fields = redis.pcall('HLEN', KEYS[1])
if type(fields) ~= 'number' then
  if string.find(fields.err, 'WRONGTYPE', 1, true) then return false end
  return fields
end
for i = 3, #ARGV, 2 do
  if fields < tonumber(ARGV[1]) and redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    fields = fields + redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[2])`);

const LIVES_SECONDS = (HOURS_KEPT + 1) * 3_600;

/** One hash for each hour, with a field for each request id. */
export class RedisExplanations implements ExplanationStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async keep(explanations: readonly Explanation[]): Promise<void> {
    for (const [hour, ofHour] of Map.groupBy(explanations, ({ atMs }) => hourOf(atMs))) {
      const name = keyspace.explanations(hour);
      const args = ofHour.flatMap(({ requestId, text }) => [requestId, text]);
      await this.#circuit.run(() => KEEP.run(this.#redis, [name], MAX_OF_HOUR, LIVES_SECONDS, ...args), name);
    }
  }

  async of(requestId: string, nowMs: number): Promise<readonly string[]> {
    const found = await Promise.all(
      keptHours(nowMs).map((hour) => {
        const name = keyspace.explanations(hour);
        return this.#circuit.read(() => this.#redis.hget(name, requestId).catch(nullIfForeign), name);
      }),
    );
    return found.filter((text) => text !== null);
  }
}
