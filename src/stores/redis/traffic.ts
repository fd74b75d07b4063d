import { hash } from 'node:crypto';
import {
  KEPT_MS,
  type TrafficPlace,
  type TrafficStore,
  type TrafficSwap,
} from '../../operations/traffic/traffic-store.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';

/**
 * Writes strings if none has changed. KEYS: strings. ARGV: for each the SHA-1 of what was read, empty if it was absent, the new content and
 * the seconds to live.
 */
export const SWAP = new LuaScript<number>(`
for i, key in ipairs(KEYS) do
  local now = redis.call('GET', key)
  if (now and redis.sha1hex(now) or '') ~= ARGV[3 * i - 2] then return 0 end
end
for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[3 * i - 1], 'EX', ARGV[3 * i]) end
return 1`);

/** A string for each minute, hour and table of names. All are in one slot, because a minute and its hour are written together. */
export class RedisTraffic implements TrafficStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async read(places: readonly TrafficPlace[]): Promise<readonly (Uint8Array | null)[]> {
    const names = places.map(nameOf);
    return this.#circuit.read(() => this.#redis.mgetBuffer(...names), names[0]!);
  }

  async swap(swaps: readonly TrafficSwap[]): Promise<boolean> {
    const names = swaps.map(nameOf);
    const args = swaps.flatMap(({ part, before, after }) => [
      before === null ? '' : hash('sha1', before),
      Buffer.from(after),
      KEPT_MS[part] / 1_000,
    ]);
    return (await this.#circuit.run(() => SWAP.run(this.#redis, names, ...args), names[0]!)) === 1;
  }
}

function nameOf({ part, at }: TrafficPlace): string {
  return keyspace.traffic(part, at);
}
