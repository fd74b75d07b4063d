import { randomUUID } from 'node:crypto';
import type { Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import type {
  RecordDeletion,
  RecordPage,
  RecordStore,
  RecordUpdate,
  StoreChange,
} from '../../identify/record-store.ts';
import {
  insistedRecord,
  isReadable,
  type Listed,
  listedRecord,
  looksLikeRecord,
  type RecordForm,
  type StoredRecord,
} from '../../model/record.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import type { ChangingConnection, DurableWrites } from './durable-writes.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import { type Lead, leadsOnlyIn, REPLACE, type RecordKind, RecordWrite } from './record-writes.ts';
import type { Calls } from './shards.ts';
import { FOREIGN, type Value, Values } from './string-values.ts';

/** Replies the rank that an id would have in the list, for an id that is no longer in it. KEYS: index. ARGV: score, id. */
const RANK = new LuaScript<number>(`
redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2])
local rank = redis.call('ZRANK', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[1], ARGV[2])
return rank`);

/** Deletes a value if it is the expected one. Exported for its test. */
export const DROP = new LuaScript<number>(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`);

/** A record before and after a change, and the call that makes the change durable. */
interface ChangedRecord<T> {
  readonly before: T;
  readonly next: T;
  secure(): Promise<Durability>;
}

/** Records in one MGET: Redis executes nothing else meanwhile. */
const MAX_RECORDS_AT_ONCE = 250;

/** Attempts of an update that loses races against other writers. More would fail only against an endless writer. */
const MAX_ATTEMPTS = 50;

/**
 * The records of one kind in Redis. A record is authoritative: a lead to it counts only while the record has that lead. No step
 * changes two names atomically, so this works in a cluster too. A change writes leads before the record that needs them and removes
 * them after it, so a crash between two steps leaves at most a lead that no reader believes.
 */
export class Records<T extends StoredRecord> implements RecordStore<T> {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #publish: (change: StoreChange) => Promise<void>;
  readonly #writes: DurableWrites;
  readonly #kind: RecordKind<T>;
  readonly #form: RecordForm<T>;
  readonly values: Values;

  constructor({ redis, circuit, publish, writes }: ChangingConnection, kind: RecordKind<T>) {
    this.#redis = redis;
    this.values = new Values(redis);
    this.#circuit = circuit;
    this.#publish = publish;
    this.#writes = writes;
    this.#kind = kind;
    this.#form = { read: kind.read, placeOf: (id) => `${kind.nameOf(id)} in Redis` };
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<T | null> {
    const record = this.read(id, await this.#text(id));
    return record?.deletedAtMs === undefined || evenDeleted ? record : null;
  }

  /**
   * The records after the one with the id `cursor`, in the order of a list.
   * @param index the name of the list; left out: all records of the kind
   * @param isIn leaves out records that a list still has although they have left it; an unreadable one may be in it
   */
  async list(
    { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
    index = this.#kind.index,
    isIn: (record: T) => boolean = () => true,
  ): Promise<RecordPage<T>> {
    const records: Listed<T>[] = [];
    let from = cursor === null ? 0 : await this.#rankAfter(cursor, index);
    for (;;) {
      // One id more than the limit shows whether there is another page.
      const ids = await this.#circuit.read(() => this.#redis.zrange(index, from, `${from + limit}`), index);
      for (const [i, text] of (await this.#texts(ids)).entries()) {
        const record = this.#listed(ids[i]!, text);
        // The creation has not finished, or a deletion that did not finish has left its record in the list.
        if (record === null || (isReadable(record) && (record.deletedAtMs !== undefined || !isIn(record)))) continue;
        if (records.length === limit) return { records, cursor: records.at(-1)!.id };
        records.push(record);
      }
      if (ids.length <= limit) return { records, cursor: null };
      // Records before this position may have been deleted meanwhile, so this looks up the index again.
      from = await this.#rankAfter(ids.at(-1)!, index);
    }
  }

  /** Looks at the next `most` records of a list, and parses those whose text passes `mayMatch`, or does not look like a record. */
  async scanOf(
    most: number,
    cursor: string | null,
    mayMatch: (record: string) => boolean,
    index = this.#kind.index,
  ): Promise<{
    readonly found: readonly { readonly record: Listed<T>; readonly place: number }[];
    readonly searched: number;
    readonly cursor: string | null;
  }> {
    const from = cursor === null ? 0 : await this.#rankAfter(cursor, index);
    // One id more shows whether there is another part.
    const ids = await this.#circuit.read(() => this.#redis.zrange(index, from, `${from + most}`), index);
    const part = ids.slice(0, most);
    const texts = await this.#texts(part);
    const found = texts.flatMap((text, i) => {
      const id = part[i]!;
      if (typeof text === 'string' && looksLikeRecord(text, id) && !mayMatch(text)) return [];
      const record = this.#listed(id, text);
      if (record === null || (isReadable(record) && record.deletedAtMs !== undefined)) return [];
      return [{ record, place: i + 1 }];
    });
    return { found, searched: part.length, cursor: ids.length > most ? part.at(-1)! : null };
  }

  /** Stores a new record and notifies every gateway. @throws Failure `refused` */
  async create(record: T): Promise<Durability> {
    await this.store(record);
    // The notification may fail: gateways ask about unknown keys again within a second anyway.
    await this.#announce(record.id).catch(() => {});
    return this.secureNew(record);
  }

  /** @throws Failure `refused` if another record has its id or a lead of it */
  async store(record: T): Promise<void> {
    if ((await this.get(record.id, { evenDeleted: true })) !== null) throw this.#taken('id');
    try {
      await this.#leadAndSet(record);
    } catch (error) {
      // Two concurrent creations of one id, as with one Idempotency-Key, have different digests. Without this removal, the leads of
      // the loser would stay for ever. After a call without an answer the record may exist, so they stay.
      if (error instanceof Failure && error.code === 'refused') await this.#removeLeads(record).catch(() => {});
      throw error;
    }
  }

  secureNew(record: T): Promise<Durability> {
    return this.#secure(null, record, '');
  }

  async update(id: string, change: (record: T) => T): Promise<RecordUpdate<T> | null> {
    const changed = await this.change(id, (record) => (record.deletedAtMs === undefined ? change(record) : null));
    return changed === null ? null : { record: changed.next, durability: await changed.secure() };
  }

  /** Replaces the record first: the record is then deleted, even if its removal from the list fails. */
  async delete(id: string, bury: (record: T) => T): Promise<RecordDeletion<T> | null> {
    const changed = await this.change(id, bury);
    if (changed === null) return null;
    const { index } = this.#kind;
    await this.#in(index, () => this.#redis.zrem(index, id));
    return { before: changed.before, durability: await changed.secure() };
  }

  /**
   * Replaces a record and notifies every gateway.
   * @param change returns null to change nothing
   * @returns null if there is no such record or the change changed nothing
   */
  async change(id: string, change: (record: T) => T | null): Promise<ChangedRecord<T> | null> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const text = await this.#text(id);
      const before = this.read(id, text);
      if (before === null || typeof text !== 'string') return null;
      const next = change(before);
      if (next === null) return null;
      const name = randomUUID();
      if (!(await this.#replace(text, before, next, name))) continue;
      // Announces even if nothing changed: a caller that repeats a change after a failed notification repeats that too.
      await this.#announce(id);
      return { before, next, secure: () => this.#secure(before, next, text, name) };
    }
    const what = `${this.#kind.noun} ${id}`;
    throw new Failure('store_unavailable', `${what} is being changed by others all the time. Try again.`);
  }

  /** @throws UnreadableRecord */
  read(id: string, text: Value): T | null {
    return text === null ? null : insistedRecord(text === FOREIGN ? null : text, id, this.#form);
  }

  #listed(id: string, text: Value): Listed<T> | null {
    return text === null ? null : listedRecord(text === FOREIGN ? null : text, id, this.#form);
  }

  #secure(before: T | null, after: T, textBefore: string, change: string = randomUUID()): Promise<Durability> {
    const announce = () => this.#announce(after.id);
    const textAfter = before === after ? textBefore : JSON.stringify(after);
    const texts = { before: textBefore, after: textAfter };
    return this.#writes.secure(new RecordWrite({ kind: this.#kind, before, after, texts, change, announce }));
  }

  #announce(id: string): Promise<void> {
    return this.#publish({ kind: this.#kind.change, keyId: id });
  }

  async #leadAndSet(record: T): Promise<void> {
    const { nameOf, leadsTo, index } = this.#kind;
    const text = JSON.stringify(record);
    for (const lead of leadsTo(record)) await this.#insistOnLead(lead, record);
    await this.#in(index, () => this.#redis.zadd(index, record.createdAtMs, record.id));
    const name = nameOf(record.id);
    const stored = await this.#in(name, () => this.#redis.set(name, text, 'NX'));
    if (stored === null) throw this.#taken('id');
  }

  /** Removes the leads of a refused creation, except those that the record with its id needs. */
  async #removeLeads(refused: T): Promise<void> {
    const { leadsTo } = this.#kind;
    const stored = await this.get(refused.id, { evenDeleted: true });
    const needed = stored === null ? [] : leadsTo(stored);
    for (const lead of leadsOnlyIn(leadsTo(refused), needed)) await this.#dropLead(lead, refused);
  }

  /** @returns false if another writer has changed the record meanwhile */
  async #replace(text: string, record: T, next: T, change: string): Promise<boolean> {
    const after = JSON.stringify(next);
    if (after === text) return true;
    const { nameOf, leadsTo } = this.#kind;
    const [leads, nextLeads] = [leadsTo(record), leadsTo(next)];
    const added = leadsOnlyIn(nextLeads, leads);
    for (const lead of added) await this.#insistOnLead(lead, record);
    const name = nameOf(record.id);
    const changes = keyspace.changesTo(record.id);
    const replace = () => REPLACE.run(this.#redis, [name, changes], text, after, change);
    if ((await this.#in(name, replace)) === 0) return false;
    // Writes the leads again: a concurrent change that removed the same lead may have removed it after this one had written it.
    for (const lead of added) await this.#lead(lead, record);
    for (const lead of leadsOnlyIn(leads, nextLeads)) await this.#dropLead(lead, record);
    return true;
  }

  async #insistOnLead(lead: Lead, record: T): Promise<void> {
    if (!(await this.#lead(lead, record))) throw this.#taken(lead.of ?? 'secret');
  }

  /** @returns false if the pointer belongs to another record */
  async #lead({ kind, name }: Lead, { id, createdAtMs }: T): Promise<boolean> {
    if (kind === 'list') {
      await this.#in(name, () => this.#redis.zadd(name, createdAtMs, id));
      return true;
    }
    return this.#in(name, async () => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if ((await this.#redis.set(name, id, 'NX')) !== null) return true;
        const owner = await this.values.get(name);
        // Null: another writer removed it between the two commands.
        if (owner !== null) return owner === id;
      }
      throw new Failure(
        'store_unavailable',
        'This secret is being added and removed by others all the time. Try again.',
      );
    });
  }

  async #dropLead(lead: Lead, { id }: T): Promise<void> {
    const { kind, name } = lead;
    await this.#in<number>(name, () =>
      kind === 'list' ? this.#redis.zrem(name, id) : DROP.run(this.#redis, [name], id),
    );
    const record = await this.get(id, { evenDeleted: true });
    // Another writer has added the lead again, and may have relied on the one that this call just removed.
    if (record !== null && this.#kind.leadsTo(record).some((one) => one.name === name)) await this.#lead(lead, record);
  }

  async #rankAfter(cursor: string, index: string): Promise<number> {
    const rank = await this.#circuit.read(() => this.#redis.zrank(index, cursor), index);
    if (rank !== null) return rank + 1;
    const record = await this.get(cursor, { evenDeleted: true });
    if (record === null) throw new Failure('refused', 'Unknown cursor.');
    return this.#in(index, () => RANK.run(this.#redis, [index], record.createdAtMs, cursor));
  }

  #text(id: string): Promise<Value> {
    const name = this.#kind.nameOf(id);
    return this.#circuit.read(() => this.values.get(name), name);
  }

  /** The texts of many records. */
  async #texts(ids: readonly string[]): Promise<readonly Value[]> {
    const redis = this.#redis;
    if (redis instanceof ClusterClient) return Promise.all(ids.map((id) => this.#text(id)));
    const groups: string[][] = [];
    for (let i = 0; i < ids.length; i += MAX_RECORDS_AT_ONCE) {
      groups.push(ids.slice(i, i + MAX_RECORDS_AT_ONCE).map(this.#kind.nameOf));
    }
    const texts = await this.#circuit.read(() => Promise.all(groups.map((names) => redis.mget(names))));
    // MGET has null for a value of another type as well.
    return Promise.all(texts.flat().map((text, i) => text ?? this.#text(ids[i]!)));
  }

  #in<R>(name: string, call: () => Promise<R>): Promise<R> {
    return this.#circuit.run(call, name);
  }

  #taken(what: 'id' | 'secret' | 'certificate'): Failure {
    return new Failure('refused', `There is already a ${this.#kind.noun.toLowerCase()} with this ${what}.`);
  }
}
