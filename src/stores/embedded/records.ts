import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
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
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering, isOfStore } from './database.ts';

/** A part of the list of records. */
interface Part<T> {
  readonly found: readonly { readonly record: Listed<T>; readonly place: number }[];
  readonly searched: number;
  readonly cursor: string | null;
}

/** Selects records of a list: a condition of SQL, and the values of its `?`. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly string[];
}

const ALL: readonly Condition[] = [{ sql: 'TRUE', values: [] }];
/** True unless the record is a tombstone. A damaged record is not a tombstone. */
const IS_THERE = "CASE WHEN json_valid(record) THEN json_type(record, '$.deletedAtMs') END IS NULL";

/** A table of records as JSON: `id`, `created_at_ms` and `record`. */
export class RecordTable<T extends StoredRecord> {
  readonly #db: DatabaseSync;
  readonly #name: string;
  readonly #form: RecordForm<T>;
  readonly #byId: StatementSync;

  /** @param name the name of the table @param read parses a record; it throws Failure `store_corrupt` */
  constructor(db: DatabaseSync, name: 'keys' | 'customers', read: (text: string) => T) {
    this.#db = db;
    this.#name = name;
    this.#form = { read, placeOf: (id) => `the row ${id} of the table ${name} in tollgate.db` };
    this.#byId = db.prepare(`SELECT record FROM ${name} WHERE id = ?`);
  }

  /** The record, or its tombstone. @throws UnreadableRecord */
  get(id: string): T | null {
    const row = this.#byId.get(id);
    return row === undefined ? null : this.read(id, String(row.record));
  }

  /** @throws UnreadableRecord */
  read(id: string, text: string): T {
    return insistedRecord(text, id, this.#form);
  }

  has(id: string): boolean {
    return this.#byId.get(id) !== undefined;
  }

  /** The records after the one with the id `cursor`. @throws Failure `refused` for an unknown cursor */
  list(
    { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
    where: readonly Condition[] = ALL,
  ): { readonly records: readonly Listed<T>[]; readonly cursor: string | null } {
    // One row more than the limit shows whether there is another page.
    const there = where.map(({ sql, values }) => ({ sql: `${sql} AND ${IS_THERE}`, values }));
    const rows = this.#after(cursor, there, limit + 1);
    const page = rows.slice(0, limit);
    const records = page.map(({ id, record }) => listedRecord(String(record), String(id), this.#form));
    return { records, cursor: rows.length > limit ? String(page.at(-1)!.id) : null };
  }

  /** Looks at the next `most` records, and parses those whose text passes `mayMatch`, or does not look like a record. @throws Failure `refused` */
  scan(most: number, cursor: string | null, mayMatch: (record: string) => boolean, where = ALL): Part<T> {
    // One row more shows whether there is another part.
    const rows = this.#after(cursor, where, most + 1);
    const part = rows.slice(0, most);
    const found = part.flatMap((row, i) => {
      const [id, text] = [String(row.id), String(row.record)];
      if (looksLikeRecord(text, id) && !mayMatch(text)) return [];
      const record = listedRecord(text, id, this.#form);
      return isReadable(record) && record.deletedAtMs !== undefined ? [] : [{ record, place: i + 1 }];
    });
    return { found, searched: part.length, cursor: rows.length > most ? String(part.at(-1)!.id) : null };
  }

  /** The caller has a transaction open, and has seen in it that the id is free. */
  insert(record: T): void {
    const { id, createdAtMs } = record;
    this.#db.prepare(`INSERT INTO ${this.#name} VALUES (?, ?, ?)`).run(id, createdAtMs, JSON.stringify(record));
  }

  /** The caller has a transaction open. */
  replace(record: T): void {
    this.#db.prepare(`UPDATE ${this.#name} SET record = ? WHERE id = ?`).run(JSON.stringify(record), record.id);
  }

  /** Finds the rows for which one of the conditions is true; the caller passes conditions that exclude each other. */
  #after(cursor: string | null, where: readonly Condition[], most: number) {
    const last = this.#positionOf(cursor);
    const parts = where.map(
      ({ sql }) => `SELECT id, record, created_at_ms FROM ${this.#name} WHERE (created_at_ms, id) > (?, ?) AND ${sql}`,
    );
    return this.#db
      .prepare(`${parts.join(' UNION ALL ')} ORDER BY created_at_ms, id LIMIT ?`)
      .all(...where.flatMap(({ values }) => [last.createdAtMs, last.id, ...values]), most);
  }

  #positionOf(cursor: string | null): { readonly createdAtMs: number; readonly id: string } {
    if (cursor === null) return { createdAtMs: Number.MIN_SAFE_INTEGER, id: '' };
    const row = this.#db.prepare(`SELECT created_at_ms FROM ${this.#name} WHERE id = ?`).get(cursor);
    if (row === undefined) throw new Failure('refused', 'Unknown cursor.');
    return { createdAtMs: Number(row.created_at_ms), id: cursor };
  }
}

export interface EmbeddedRecordsOptions {
  readonly db: DatabaseSync;
  /** Called with each change, as soon as it is in force. */
  readonly onChange?: (change: StoreChange) => void;
  /** Called in each change. Throws unless this process owns the store. */
  readonly insistOnOwner?: () => void;
  /** Called with the error of each change that the store could not write and so has not made. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/** The members in which the two kinds of records differ. */
interface RecordKind<T> {
  readonly kind: 'key' | 'customer';
  /** @throws Failure `store_corrupt` */
  readonly read: (text: string) => T;
  /** Called in the transaction that has written a record. @throws Failure `refused` to undo it */
  readonly onWritten?: (record: T, isNew: boolean) => void;
}

/** Records of one kind. The owner of the store makes each change in one transaction: of the record, and of the index that leads to it. */
export class EmbeddedRecords<T extends StoredRecord> implements RecordStore<T> {
  readonly table: RecordTable<T>;
  readonly #writes: AcknowledgedWrites;
  readonly #options: EmbeddedRecordsOptions;
  readonly #kind: RecordKind<T>;

  constructor(options: EmbeddedRecordsOptions, kind: RecordKind<T>) {
    this.table = new RecordTable(options.db, `${kind.kind}s`, kind.read);
    this.#writes = new AcknowledgedWrites(options.db);
    this.#options = options;
    this.#kind = kind;
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<T | null> {
    const record = answering(() => this.table.get(id));
    return record?.deletedAtMs === undefined || evenDeleted ? record : null;
  }

  async list(
    page: { readonly limit: number; readonly cursor: string | null },
    where?: readonly Condition[],
  ): Promise<RecordPage<T>> {
    return answering(() => this.table.list(page, where));
  }

  async create(record: T): Promise<Durability> {
    await this.#changeOf(record.id, () => {
      this.insert(record);
      return record;
    });
    return DURABLE;
  }

  async update(id: string, change: (record: T) => T): Promise<RecordUpdate<T> | null> {
    const changed = await this.#replace(id, (record) => (record.deletedAtMs === undefined ? change(record) : null));
    return changed === null ? null : { record: changed.next, durability: DURABLE };
  }

  async delete(id: string, bury: (record: T) => T): Promise<RecordDeletion<T> | null> {
    const changed = await this.#replace(id, bury);
    return changed === null ? null : { before: changed.before, durability: DURABLE };
  }

  /** Adds a record; the caller has a transaction open. @throws Failure `refused` if the id is taken */
  insert(record: T): void {
    const { kind, onWritten } = this.#kind;
    if (this.table.has(record.id)) throw new Failure('refused', `There is already a ${kind} with this id.`);
    this.table.insert(record);
    onWritten?.(record, true);
  }

  /** @param made called with the commit: the change is in force, also if it cannot be acknowledged */
  change<R>(work: () => R, made?: (value: R) => void): Promise<R> {
    return this.write(() => {
      this.#options.insistOnOwner?.();
      return work();
    }, made);
  }

  /** Makes a change that a process may also make without owning the store. */
  async write<R>(work: () => R, made?: (value: R) => void): Promise<R> {
    try {
      return await this.#writes.write(work, made);
    } catch (error) {
      if (isOfStore(error)) this.#options.onFailedWrite?.(error);
      throw error;
    }
  }

  /** @param change returns null to change nothing @returns null if there is no such record or nothing was changed */
  #replace(id: string, change: (record: T) => T | null) {
    return this.#changeOf(id, () => {
      const before = this.table.get(id);
      const next = before === null ? null : change(before);
      if (before === null || next === null) return null;
      this.table.replace(next);
      this.#kind.onWritten?.(next, false);
      return { before, next };
    });
  }

  /** @param work returns null if it has changed nothing */
  #changeOf<R>(id: string, work: () => R): Promise<R> {
    return this.change(work, (made) => {
      if (made !== null) this.#options.onChange?.({ kind: this.#kind.kind, keyId: id });
    });
  }
}
