import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';
import {
  insistedRecord,
  isReadable,
  type Listed,
  listedRecord,
  looksLikeRecord,
  type RecordForm,
} from '../../identify/stored-record.ts';

/** What every record has. */
export interface StoredRecord {
  readonly id: string;
  readonly createdAtMs: number;
  /** Of a tombstone; absent for other records. */
  readonly deletedAtMs?: number;
}

/** A part of the list of records. */
interface Part<T> {
  readonly found: readonly { readonly record: Listed<T>; readonly place: number }[];
  readonly searched: number;
  readonly cursor: string | null;
}

/** Which records of a list are read: a condition of SQL, and what is put in the place of its `?`. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly string[];
}

const ALL: readonly Condition[] = [{ sql: 'TRUE', values: [] }];
/** True for records that are no tombstone. A damaged record is none. */
const IS_THERE = "CASE WHEN json_valid(record) THEN json_type(record, '$.deletedAtMs') END IS NULL";

/** A table of records as JSON: `id`, `created_at_ms` and `record`. */
export class RecordTable<T extends StoredRecord> {
  readonly #db: DatabaseSync;
  readonly #name: string;
  readonly #form: RecordForm<T>;
  readonly #byId: StatementSync;

  /** @param name that of the table @param read throws Failure `store_corrupt` */
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

  /** Only in a transaction. The caller has seen that the id is free. */
  insert(record: T): void {
    const { id, createdAtMs } = record;
    this.#db.prepare(`INSERT INTO ${this.#name} VALUES (?, ?, ?)`).run(id, createdAtMs, JSON.stringify(record));
  }

  /** Only in a transaction. */
  replace(record: T): void {
    this.#db.prepare(`UPDATE ${this.#name} SET record = ? WHERE id = ?`).run(JSON.stringify(record), record.id);
  }

  /** The rows for which one of the conditions is true; no row may have two of them. */
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
