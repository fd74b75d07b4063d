import type { DatabaseSync } from 'node:sqlite';
import {
  type AuditRecord,
  type AuditStore,
  KEPT_LOADS,
  type KeptRecord,
  type KeptRefusals,
  type LoadStep,
  MAX_REFUSALS,
  type PutOptions,
  type Refusal,
} from '../../operations/audit-store.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering } from './database.ts';

/** Maximum records that one addition removes after an operator lowered `keep`. The next additions remove the rest. */
const MAX_REMOVED = 1_000;

interface WaitingWrite {
  readonly work: () => number;
  resolve(number: number): void;
  reject(error: unknown): void;
}

interface EmbeddedAuditOptions {
  readonly db: DatabaseSync;
  /** The store's clock: Unix milliseconds. */
  readonly wallMs: () => number;
  /** Called in each write. Throws unless this process owns the store. */
  readonly insistOnOwner?: () => void;
  /** Called with the error of each record that the store could not write. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/**
 * The record of changes in the embedded store. A write waits for the disk, as for keys. Writes of one turn of the event loop share
 * a transaction, because a command that makes thousands of changes would otherwise wait for the disk twice for each of them. This
 * class creates the tables, not a migration, so that an earlier version can still open the file.
 */
export class EmbeddedAudit implements AuditStore {
  readonly places = { records: 'the table audit of tollgate.db', refusals: 'the table audit_refused of tollgate.db' };
  readonly #options: EmbeddedAuditOptions;
  readonly #writes: AcknowledgedWrites;
  /** The writes of this turn. */
  readonly #waiting: WaitingWrite[] = [];
  /** The number of records, and the number of the last added one; null if this process must count them. */
  #counted: { readonly records: number; readonly last: number } | null = null;

  constructor(options: EmbeddedAuditOptions) {
    this.#options = options;
    this.#writes = new AcknowledgedWrites(options.db);
    answering(() =>
      options.db.exec(`CREATE TABLE IF NOT EXISTS audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, at_ms INTEGER NOT NULL,
        revision INTEGER NOT NULL, text TEXT NOT NULL
      ) STRICT;
      CREATE TABLE IF NOT EXISTS audit_refused (
        actor TEXT NOT NULL, action TEXT NOT NULL, minute INTEGER NOT NULL, id TEXT NOT NULL, first_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL, count INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (actor, action, minute)
      ) STRICT;
      CREATE TABLE IF NOT EXISTS audit_loads (
        file TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, PRIMARY KEY (file, number)
      ) STRICT`),
    );
  }

  put(record: AuditRecord, options: PutOptions): Promise<number> {
    return this.#soon(() => this.#write(record, options));
  }

  async remove(id: string): Promise<void> {
    await this.#soon(() => {
      const removed = Number(this.#options.db.prepare('DELETE FROM audit WHERE id = ?').run(id).changes);
      this.#addToCount(-removed);
      return removed;
    });
  }

  async refuse(refusal: Refusal): Promise<void> {
    await this.#soon(() => this.#countRefusal(refusal));
  }

  async exchangeLoad(file: string, { from, to, since }: LoadStep) {
    let [found, known]: [string | null, number | null] = [null, null];
    const number = await this.#soon(() => {
      const { db } = this.#options;
      const last = db.prepare('SELECT number, state FROM audit_loads WHERE file = ? ORDER BY number DESC').get(file);
      found = last === undefined ? null : String(last.state);
      const before = Number(last?.number ?? 0);
      if (since !== null) {
        const same = 'SELECT number FROM audit_loads WHERE file = ? AND state = ? AND number > ? ORDER BY number';
        const row = db.prepare(same).get(file, to, since);
        known = row === undefined ? null : Number(row.number);
      }
      if (known !== null || found === to || (from !== null && found !== null && found !== from)) return before;
      db.prepare('INSERT INTO audit_loads (file, number, state) VALUES (?, ?, ?)').run(file, before + 1, to);
      db.prepare('DELETE FROM audit_loads WHERE file = ? AND number <= ?').run(file, before + 1 - KEPT_LOADS);
      return before + 1;
    });
    return { found, number, known };
  }

  #soon(work: () => number): Promise<number> {
    if (this.#waiting.length === 0) setImmediate(() => void this.#writeWaiting());
    return new Promise((resolve, reject) => this.#waiting.push({ work, resolve, reject }));
  }

  async #writeWaiting(): Promise<void> {
    const waiting = this.#waiting.splice(0);
    try {
      const numbers = await this.#writes.write(() => {
        this.#options.insistOnOwner?.();
        return waiting.map(({ work }) => work());
      });
      for (const [i, { resolve }] of waiting.entries()) resolve(numbers[i]!);
    } catch (error) {
      this.#counted = null;
      for (const { reject } of waiting) {
        this.#options.onFailedWrite?.(error);
        reject(error);
      }
    }
  }

  #write({ id, revision, text }: AuditRecord, { keep }: PutOptions): number {
    const { db, wallMs } = this.#options;
    const there = db.prepare('SELECT number FROM audit WHERE id = ?').get(id);
    if (there !== undefined) {
      db.prepare('UPDATE audit SET text = ?, revision = ? WHERE id = ? AND revision <= ?').run(
        text,
        revision,
        id,
        revision,
      );
      this.#trim(keep);
      return Number(there.number);
    }
    const added = db
      .prepare('INSERT INTO audit (id, at_ms, revision, text) VALUES (?, ?, ?, ?)')
      .run(id, wallMs(), revision, text);
    const number = Number(added.lastInsertRowid);
    if (this.#counted?.last === number - 1) this.#counted = { ...this.#counted, last: number };
    this.#addToCount(1);
    this.#trim(keep);
    return number;
  }

  #addToCount(records: number): void {
    if (this.#counted !== null) this.#counted = { ...this.#counted, records: this.#counted.records + records };
  }

  /**
   * Removes the oldest records beyond `keep`. It counts records and does not compute with their numbers, because removed records
   * leave gaps.
   */
  #trim(keep: number | null): void {
    if (keep === null) return;
    const { db } = this.#options;
    const { first, last } = db
      .prepare(
        "SELECT (SELECT min(number) FROM audit) AS first, (SELECT seq FROM sqlite_sequence WHERE name = 'audit') AS last",
      )
      .get() as { first: number; last: number };
    if (last - first < keep) return;
    // Counting reads the whole index, so it happens again only after another process has added records.
    if (this.#counted?.last !== last) {
      const { records } = db.prepare('SELECT count(*) AS records FROM audit').get() as { records: number };
      this.#counted = { records, last };
    }
    const spare = this.#counted.records - keep;
    if (spare <= 0) return;
    const removed = db
      .prepare('DELETE FROM audit WHERE number IN (SELECT number FROM audit ORDER BY number LIMIT ?)')
      .run(Math.min(spare, MAX_REMOVED)).changes;
    this.#addToCount(-Number(removed));
  }

  #countRefusal({ actor, action, id, text }: Refusal): number {
    const { db, wallMs } = this.#options;
    const nowMs = wallMs();
    db.prepare(
      `INSERT INTO audit_refused (actor, action, minute, id, first_ms, last_ms, count, text) VALUES (?, ?, ?, ?, ?, ?, 1, ?)
       ON CONFLICT DO UPDATE SET last_ms = excluded.last_ms, count = count + 1, text = excluded.text`,
    ).run(actor, action, Math.floor(nowMs / 60_000), id, nowMs, nowMs, text);
    const { entries } = db.prepare('SELECT count(*) AS entries FROM audit_refused').get() as { entries: number };
    if (entries > MAX_REFUSALS) {
      db.exec(`DELETE FROM audit_refused WHERE rowid = (
        SELECT rowid FROM audit_refused
        WHERE actor = (SELECT actor FROM audit_refused GROUP BY actor ORDER BY count(*) DESC, min(minute) LIMIT 1)
        ORDER BY minute LIMIT 1)`);
    }
    return entries;
  }

  // Node throws an error at an integer that is not a safe one, so a damaged time would fail the whole list.
  async refusals(): Promise<readonly KeptRefusals[]> {
    const rows = answering(() =>
      this.#options.db
        .prepare(
          'SELECT id, CAST(first_ms AS REAL) AS first_ms, CAST(last_ms AS REAL) AS last_ms, CAST(count AS REAL) AS count, text FROM audit_refused',
        )
        .all(),
    );
    return rows.map(({ id, first_ms, last_ms, count, text }) => ({
      id: String(id),
      firstMs: Number(first_ms),
      lastMs: Number(last_ms),
      count: Number(count),
      text: String(text),
    }));
  }

  async list({
    limit,
    before,
  }: {
    readonly limit: number;
    readonly before: number | null;
  }): Promise<readonly KeptRecord[]> {
    const rows = answering(() =>
      this.#options.db
        .prepare(
          'SELECT number, id, CAST(at_ms AS REAL) AS at_ms, text FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?',
        )
        .all(before ?? Number.MAX_SAFE_INTEGER, limit),
    );
    return rows.map(({ number, id, at_ms, text }) => ({
      number: Number(number),
      id: String(id),
      atMs: Number(at_ms),
      text: String(text),
    }));
  }
}
