import type { CertificateStore, Lease, RecordChange } from '../../certificates/certificate-store.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { FOREIGN, Values } from './string-values.ts';

/** KEYS[1] the lease. ARGV[1] the holder; [2] the length of the lease in milliseconds. */
const LEASE = new LuaScript<number>(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`);

/**
 * KEYS[1] the lease; [2..] the records. ARGV[1] the holder; then for each record its text, empty to remove it, and its lifetime in
 * milliseconds, 0 for no end.
 */
const WRITE = new LuaScript<number>(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for i = 2, #KEYS do
  local text, kept = ARGV[2 * i - 2], tonumber(ARGV[2 * i - 1])
  if text == '' then redis.call('DEL', KEYS[i])
  elseif kept > 0 then redis.call('SET', KEYS[i], text, 'PX', kept)
  else redis.call('SET', KEYS[i], text) end
end
return 1`);

/** The records of ACME in Redis, all in one slot of a cluster. The caller seals those with private keys. */
export class RedisCertificateStore implements CertificateStore {
  readonly isShared = true;
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #values: Values;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
    this.#values = new Values(redis);
  }

  async read(name: string): Promise<string | null> {
    const key = keyspace.certificates(name);
    const value = await this.#circuit.run(() => this.#values.get(key), key);
    // The reader takes an empty text for an unreadable record, such as a value of another type.
    return value === FOREIGN ? '' : value;
  }

  async lease({ name, holder }: Lease, forMs: number): Promise<boolean> {
    const key = keyspace.certificates(name);
    return (await this.#circuit.run(() => LEASE.run(this.#redis, [key], holder, forMs), key)) === 1;
  }

  async release(lease: Lease): Promise<void> {
    await this.write(lease, [{ name: lease.name, text: null, keptMs: null }]);
  }

  async write({ name, holder }: Lease, changes: readonly RecordChange[]): Promise<boolean> {
    const keys = [name, ...changes.map((change) => change.name)].map(keyspace.certificates);
    const texts = changes.flatMap(({ text, keptMs }) => [text ?? '', Math.ceil(keptMs ?? 0)]);
    const call = () => WRITE.run(this.#redis, keys, holder, ...texts);
    return (await this.#circuit.run(call, keys[0])) === 1;
  }
}
