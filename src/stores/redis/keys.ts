import type { Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import type { KeyScan, KeyStore, RecordPage, RecordUpdate, UpdateOptions } from '../../identify/record-store.ts';
import { indexedOf, isReadable, type StoredKey, UnreadableRecord } from '../../model/record.ts';
import type { RedisClient } from './connection.ts';
import type { ChangingConnection } from './durable-writes.ts';
import { API_KEYS } from './key-writes.ts';
import { keyspace } from './keyspace.ts';
import { type LookUps, lookUpsOn } from './look-ups.ts';
import { LuaScript } from './lua-script.ts';
import { Records } from './records.ts';
import type { Calls } from './shards.ts';

/** Sets a value unless there is one. KEYS: its name. ARGV: the value, milliseconds until it expires. Replies the value that is there. */
const RESERVE = new LuaScript<string>(`
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return redis.call('GET', KEYS[1])`);

const NOT_WAITED_FOR: Durability = { kind: 'unknown', final: Promise.resolve('given_up') };

/** API keys in Redis. A pointer from a digest to a key counts only while the record of the key has that digest. */
export class RedisKeys extends Records<StoredKey> implements KeyStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #lookUps: LookUps;
  readonly #lookUpsEvenFull: LookUps;

  constructor(options: ChangingConnection) {
    super(options, API_KEYS);
    const { redis, circuit } = options;
    this.#redis = redis;
    this.#circuit = circuit;
    const { values } = this;
    this.#lookUps = lookUpsOn({ redis, circuit, values, way: 'run' });
    this.#lookUpsEvenFull = lookUpsOn({ redis, circuit, values, way: 'read' });
  }

  async findByDigest(digest: string): Promise<StoredKey | null> {
    const key = await this.#pointed(digest, this.#lookUps);
    return key?.secrets.some((secret) => secret.digest === digest) ? key : null;
  }

  async ownerOf(digest: string, options?: { readonly evenFull: boolean }): Promise<StoredKey | null> {
    const key = await this.#pointed(digest, options?.evenFull ? this.#lookUpsEvenFull : this.#lookUps);
    return key !== null && indexedOf(key).includes(digest) ? key : null;
  }

  /** The key to which the pointer of a digest leads. */
  async #pointed(digest: string, lookUps: LookUps): Promise<StoredKey | null> {
    const record = await lookUps.recordOf(digest);
    return record === null ? null : this.read(record.id, record.text);
  }

  override list({ customer, ...page }: Parameters<KeyStore['list']>[0]): Promise<RecordPage<StoredKey>> {
    return super.list(page, listOf(customer), isOf(customer));
  }

  async scan({ most, cursor, mayMatch, customer }: Parameters<KeyStore['scan']>[0]): Promise<KeyScan> {
    const part = await this.scanOf(most, cursor, mayMatch, listOf(customer));
    const found = part.found.filter(({ record }) => !isReadable(record) || isOf(customer)(record));
    return { ...part, found: found.map(({ record, place }) => ({ key: record, place })) };
  }

  async reserve(name: string, id: string, forMs: number): Promise<string> {
    const key = keyspace.reserved(name);
    return this.#circuit.run(() => RESERVE.run(this.#redis, [key], id, forMs), key);
  }

  async createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'unknown' | 'taken')[]> {
    const stored = await Promise.allSettled(keys.map((key) => this.store(key)));
    return Promise.all(
      stored.map(async (result, i) => {
        if (result.status === 'fulfilled') {
          const { kind } = await this.secureNew(keys[i]!);
          return kind === 'durable' ? 'created' : 'unknown';
        }
        if (result.reason instanceof Failure && result.reason.code === 'refused') return 'taken';
        // Another value has the name of its record, or of a lead to it.
        if (result.reason instanceof UnreadableRecord) return 'taken';
        throw result.reason;
      }),
    );
  }

  override async update(
    id: string,
    change: (key: StoredKey) => StoredKey,
    { isLasting = true }: UpdateOptions = {},
  ): Promise<RecordUpdate<StoredKey> | null> {
    const changed = await this.change(id, (key) => (key.deletedAtMs === undefined ? change(key) : null));
    if (changed === null) return null;
    return { record: changed.next, durability: isLasting ? await changed.secure() : NOT_WAITED_FOR };
  }
}

/** The list of all keys, or of those of a customer. */
function listOf(customer: string | undefined): string | undefined {
  return customer === undefined ? undefined : keyspace.keysOfCustomer(customer);
}

function isOf(customer: string | undefined): (key: StoredKey) => boolean {
  return (key) => customer === undefined || key.customer === customer;
}
