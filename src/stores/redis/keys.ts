import { randomUUID } from 'node:crypto';
import type { Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import {
  type Deleted,
  digestsOf,
  type KeyPage,
  type KeyScan,
  type KeyStore,
  readStoredKey,
  type StoreChange,
  type StoredKey,
  type Updated,
  type UpdateOptions,
} from '../../identify/key-store.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import type { DurableWrites } from './durable-writes.ts';
import { KeyWrite, REPLACE_LUA } from './key-writes.ts';
import { keyspace } from './keyspace.ts';
import { type LookUps, lookUpsOn } from './look-ups.ts';
import type { Calls } from './shards.ts';
import { FOREIGN, type Value, Values } from './values.ts';

/** The rank that an id would have in the list, for an id that was removed from it. KEYS: index. ARGV: score, id. */
const RANK_LUA = `
redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2])
local rank = redis.call('ZRANK', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[1], ARGV[2])
return rank`;

/** Deletes a value if it is the expected one. */
const DROP_LUA = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

/** Sets a value unless there is one. KEYS: its name. ARGV: the value, milliseconds until it expires. Reply: the value there. */
const RESERVE_LUA = `
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return redis.call('GET', KEYS[1])`;

interface Scripted {
  tollgateReplace(record: string, changes: string, before: string, after: string, change: string): Promise<number>;
  tollgateRank(index: string, score: number, id: string): Promise<number>;
  tollgateDrop(key: string, expected: string): Promise<number>;
  tollgateReserve(key: string, id: string, forMs: number): Promise<string>;
}

interface RedisKeysOptions {
  readonly redis: RedisClient;
  readonly circuit: Calls;
  /** Notifies every gateway. */
  readonly publish: (change: StoreChange) => Promise<void>;
  /** Makes changes durable. */
  readonly writes: DurableWrites;
}

const NOT_WAITED_FOR: Durability = { kind: 'unknown', settled: Promise.resolve('given_up') };

/** Records in one MGET of a search: Redis executes nothing else meanwhile. */
const MAX_RECORDS_AT_ONCE = 250;

/** Attempts of an update that loses races against other writers. More would fail only against an endless writer. */
const MAX_ATTEMPTS = 50;

/**
 * API keys in Redis. The record of a key is authoritative: a pointer from a digest to the key counts only while the record
 * has that digest. No step changes two names atomically, so this works in a cluster too. Pointers are written before the
 * record that needs them and removed after it, so a crash between two steps leaves at most an unused pointer.
 */
export class RedisKeys implements KeyStore {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;
  readonly #values: Values;
  readonly #lookUps: LookUps;
  readonly #publish: (change: StoreChange) => Promise<void>;
  readonly #writes: DurableWrites;

  constructor({ redis, circuit, publish, writes }: RedisKeysOptions) {
    redis.defineCommand('tollgateReplace', { lua: REPLACE_LUA, numberOfKeys: 2 });
    redis.defineCommand('tollgateRank', { lua: RANK_LUA, numberOfKeys: 1 });
    redis.defineCommand('tollgateDrop', { lua: DROP_LUA, numberOfKeys: 1 });
    redis.defineCommand('tollgateReserve', { lua: RESERVE_LUA, numberOfKeys: 1 });
    this.#redis = redis as RedisClient & Scripted;
    this.#values = new Values(redis);
    this.#lookUps = lookUpsOn({ redis, circuit, values: this.#values });
    this.#circuit = circuit;
    this.#publish = publish;
    this.#writes = writes;
  }

  async findByDigest(digest: string): Promise<StoredKey | null> {
    const key = read(await this.#lookUps.recordOf(digest));
    return key?.secrets.some((secret) => secret.digest === digest) ? key : null;
  }

  async ownerOf(digest: string): Promise<StoredKey | null> {
    const key = read(await this.#lookUps.recordOf(digest));
    return key !== null && digestsOf(key).includes(digest) ? key : null;
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<StoredKey | null> {
    const key = read(await this.#record(id));
    return key?.deletedAtMs === undefined || evenDeleted ? key : null;
  }

  async list({ limit, cursor }: { readonly limit: number; readonly cursor: string | null }): Promise<KeyPage> {
    const keys: StoredKey[] = [];
    let from = cursor === null ? 0 : await this.#rankAfter(cursor);
    for (;;) {
      // One id more than the limit shows whether there is another page.
      const ids = await this.#inIndex(() => this.#redis.zrange(keyspace.apiKeys, from, `${from + limit}`));
      const texts = await Promise.all(ids.map((id) => this.#record(id)));
      for (const key of texts.map(readable)) {
        // A deletion that did not finish has left its key in the list.
        if (key === null || key.deletedAtMs !== undefined) continue;
        if (keys.length === limit) return { keys, cursor: keys.at(-1)!.id };
        keys.push(key);
      }
      if (ids.length <= limit) return { keys, cursor: null };
      // Keys before this position may have been deleted meanwhile, so the index is looked up again.
      from = await this.#rankAfter(ids.at(-1)!);
    }
  }

  async scan({ most, cursor, mayMatch }: Parameters<KeyStore['scan']>[0]): Promise<KeyScan> {
    const from = cursor === null ? 0 : await this.#rankAfter(cursor);
    // One id more shows whether there is another part.
    const ids = await this.#inIndex(() => this.#redis.zrange(keyspace.apiKeys, from, `${from + most}`));
    const part = ids.slice(0, most);
    const texts = await this.#records(part);
    const found = texts.flatMap((text, i) => {
      const key = typeof text === 'string' && mayMatch(text) ? readable(text) : null;
      return key === null || key.deletedAtMs !== undefined ? [] : [{ key, place: i + 1 }];
    });
    return { found, searched: part.length, cursor: ids.length > most ? part.at(-1)! : null };
  }

  async create(key: StoredKey): Promise<Durability> {
    await this.#store(key);
    // The notification may fail: gateways ask about unknown secrets again within a second anyway.
    await this.#publish({ kind: 'key', keyId: key.id }).catch(() => {});
    return this.#settle(null, key, '');
  }

  async reserve(name: string, id: string, forMs: number): Promise<string> {
    const key = keyspace.reserved(name);
    return this.#circuit.run(() => this.#redis.tollgateReserve(key, id, forMs), key);
  }

  async createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'unknown' | 'taken')[]> {
    const stored = await Promise.allSettled(keys.map((key) => this.#store(key)));
    return Promise.all(
      stored.map(async (result, i) => {
        if (result.status === 'fulfilled') {
          const { kind } = await this.#settle(null, keys[i]!, '');
          return kind === 'durable' ? 'created' : 'unknown';
        }
        if (result.reason instanceof Failure && result.reason.code === 'refused') return 'taken';
        throw result.reason;
      }),
    );
  }

  async update(
    id: string,
    change: (key: StoredKey) => StoredKey,
    { isLasting = true }: UpdateOptions = {},
  ): Promise<Updated | null> {
    const changed = await this.#change(id, (key) => (key.deletedAtMs === undefined ? change(key) : null));
    if (changed === null) return null;
    const { before, next, text, name } = changed;
    return { key: next, durability: isLasting ? await this.#settle(before, next, text, name) : NOT_WAITED_FOR };
  }

  /** Replaces the record first: from then on the key is deleted, even if its removal from the list fails. */
  async delete(id: string, bury: (key: StoredKey) => StoredKey): Promise<Deleted | null> {
    const changed = await this.#change(id, bury);
    if (changed === null) return null;
    const { before, next, text, name } = changed;
    await this.#inIndex(() => this.#redis.zrem(keyspace.apiKeys, id));
    return { before, durability: await this.#settle(before, next, text, name) };
  }

  /**
   * Replaces a record and notifies every gateway.
   * @param change returns null to change nothing
   * @returns the key before, its text, the key after, and the id of the change; null if there is no such key or nothing
   *   was changed
   */
  async #change(id: string, change: (key: StoredKey) => StoredKey | null) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = await this.#record(id);
      const key = read(before);
      if (key === null || typeof before !== 'string') return null;
      const next = change(key);
      if (next === null) return null;
      const name = randomUUID();
      if (!(await this.#replace(before, key, next, name))) continue;
      // Published even if nothing changed: a caller that repeats a change after a failed notification repeats that too.
      await this.#publish({ kind: 'key', keyId: id });
      return { before: key, text: before, next, name };
    }
    throw new Failure('store_unavailable', `Key ${id} is being changed by others all the time. Try again.`);
  }

  #settle(
    before: StoredKey | null,
    after: StoredKey,
    textBefore: string,
    change: string = randomUUID(),
  ): Promise<Durability> {
    const announce = () => this.#publish({ kind: 'key', keyId: after.id });
    const textAfter = before === after ? textBefore : JSON.stringify(after);
    const texts = { before: textBefore, after: textAfter };
    return this.#writes.settle(new KeyWrite({ before, after, texts, change, announce }));
  }

  async #store(key: StoredKey): Promise<void> {
    if ((await this.get(key.id, { evenDeleted: true })) !== null) throw taken('id');
    try {
      await this.#pointAndSet(key);
    } catch (error) {
      // Two concurrent creations of one id, as with one Idempotency-Key, have different digests. The pointers of the loser
      // are removed, or they would stay for ever. After a call without an answer the record may exist, so they stay.
      if (error instanceof Failure && error.code === 'refused') await this.#removePointers(key).catch(() => {});
      throw error;
    }
  }

  async #pointAndSet(key: StoredKey): Promise<void> {
    const text = JSON.stringify(key);
    for (const digest of digestsOf(key)) {
      if (!(await this.#point(digest, key.id))) throw taken('secret');
    }
    await this.#inIndex(() => this.#redis.zadd(keyspace.apiKeys, key.createdAtMs, key.id));
    const name = keyspace.apiKey(key.id);
    const stored = await this.#circuit.run(() => this.#redis.set(name, text, 'NX'), name);
    if (stored === null) throw taken('id');
  }

  /** Removes the pointers of a refused creation, except those that the record with its id needs. */
  async #removePointers(refused: StoredKey): Promise<void> {
    const stored = await this.get(refused.id, { evenDeleted: true });
    const needless = stored === null ? digestsOf(refused) : digestsOnlyIn(refused, stored);
    for (const digest of needless) await this.#unpoint(digest, refused.id);
  }

  /** @returns false if another writer has changed the record meanwhile */
  async #replace(before: string, key: StoredKey, next: StoredKey, change: string): Promise<boolean> {
    const after = JSON.stringify(next);
    if (after === before) return true;
    const added = digestsOnlyIn(next, key);
    for (const digest of added) {
      if (!(await this.#point(digest, key.id))) throw taken('secret');
    }
    const name = keyspace.apiKey(key.id);
    const replace = () => this.#redis.tollgateReplace(name, keyspace.changesTo(key.id), before, after, change);
    if ((await this.#circuit.run(replace, name)) === 0) return false;
    // Written again: a concurrent change that removed the same digest may have removed the pointer.
    for (const digest of added) await this.#point(digest, key.id);
    for (const digest of digestsOnlyIn(key, next)) await this.#unpoint(digest, key.id);
    return true;
  }

  /** @returns false if the digest belongs to another key */
  async #point(digest: string, id: string): Promise<boolean> {
    const name = keyspace.digest(digest);
    return this.#circuit.run(async () => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if ((await this.#redis.set(name, id, 'NX')) !== null) return true;
        const owner = await this.#values.get(name);
        // Null: another writer removed it between the two commands.
        if (owner !== null) return owner === id;
      }
      throw new Failure(
        'store_unavailable',
        'This secret is being added and removed by others all the time. Try again.',
      );
    }, name);
  }

  async #unpoint(digest: string, id: string): Promise<void> {
    const name = keyspace.digest(digest);
    await this.#circuit.run(() => this.#redis.tollgateDrop(name, id), name);
    const key = await this.get(id, { evenDeleted: true });
    // Another writer has added the digest again, and may have relied on the pointer that was just removed.
    if (key !== null && digestsOf(key).includes(digest)) await this.#point(digest, id);
  }

  async #rankAfter(cursor: string): Promise<number> {
    const rank = await this.#inIndex(() => this.#redis.zrank(keyspace.apiKeys, cursor));
    if (rank !== null) return rank + 1;
    const key = await this.get(cursor, { evenDeleted: true });
    if (key === null) throw new Failure('refused', 'Unknown cursor.');
    return this.#inIndex(() => this.#redis.tollgateRank(keyspace.apiKeys, key.createdAtMs, cursor));
  }

  #record(id: string): Promise<Value> {
    const name = keyspace.apiKey(id);
    return this.#circuit.run(() => this.#values.get(name), name);
  }

  /** The records of many keys. A value of another type is null as well. */
  async #records(ids: readonly string[]): Promise<readonly Value[]> {
    const redis = this.#redis;
    if (redis instanceof ClusterClient) return Promise.all(ids.map((id) => this.#record(id)));
    const groups: string[][] = [];
    for (let i = 0; i < ids.length; i += MAX_RECORDS_AT_ONCE) {
      groups.push(ids.slice(i, i + MAX_RECORDS_AT_ONCE).map(keyspace.apiKey));
    }
    const texts = await this.#circuit.run(() => Promise.all(groups.map((names) => redis.mget(names))));
    return texts.flat();
  }

  #inIndex<T>(call: () => Promise<T>): Promise<T> {
    return this.#circuit.run(call, keyspace.apiKeys);
  }
}

/** @throws Failure `store_corrupt` for a foreign value: this key fails, and the others are not affected */
function read(text: Value): StoredKey | null {
  return text === null ? null : readStoredKey(text === FOREIGN ? '' : text);
}

/** For lists, which leave out ids without a record (the creation has not finished) or with a damaged one. */
function readable(text: Value): StoredKey | null {
  try {
    return read(text);
  } catch {
    return null;
  }
}

function digestsOnlyIn(key: StoredKey, other: StoredKey): string[] {
  const others = new Set(digestsOf(other));
  return digestsOf(key).filter((digest) => !others.has(digest));
}

function taken(what: 'id' | 'secret'): Failure {
  return new Failure('refused', `There is already a key with this ${what}.`);
}
