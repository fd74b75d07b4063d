import type { DatabaseSync } from 'node:sqlite';
import type { AuditRecord, AuditStore, KeptRecord, PutOptions } from '../../operations/audit-store.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering } from './database.ts';

/** Most records that one addition removes after `keep` was lowered. The next additions remove the rest. */
const MOST_REMOVED = 1_000;

interface WaitingWrite {
  readonly record: AuditRecord;
  readonly options: PutOptions;
  resolve(number: number): void;
  reject(error: unknown): void;
}

export interface EmbeddedAuditOptions {
  readonly db: DatabaseSync;
  /** The store's clock: Unix milliseconds. */
  readonly wallMs: () => number;
  /** Called with the error of each record that could not be written. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/**
 * The record of changes in the embedded store. A write waits for the disk, as for keys. Writes of one turn of the event loop share a
 * transaction, because a command that makes thousands of changes would otherwise wait for the disk twice for each of them. The
 * table is not created by a migration, so that an earlier version can still open the file.
 */
export class EmbeddedAudit implements AuditStore {
  readonly #options: EmbeddedAuditOptions;
  readonly #writes: AcknowledgedWrites;
  /** The writes of this turn. */
  readonly #waiting: WaitingWrite[] = [];

  constructor(options: EmbeddedAuditOptions) {
    this.#options = options;
    this.#writes = new AcknowledgedWrites(options.db);
    answering(() =>
      options.db.exec(`CREATE TABLE IF NOT EXISTS audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, at_ms INTEGER NOT NULL,
        revision INTEGER NOT NULL, text TEXT NOT NULL
      ) STRICT`),
    );
  }

  put(record: AuditRecord, options: PutOptions): Promise<number> {
    if (this.#waiting.length === 0) setImmediate(() => void this.#writeWaiting());
    return new Promise((resolve, reject) => this.#waiting.push({ record, options, resolve, reject }));
  }

  async #writeWaiting(): Promise<void> {
    const waiting = this.#waiting.splice(0);
    try {
      const numbers = await this.#writes.write(() =>
        waiting.map(({ record, options }) => this.#write(record, options)),
      );
      for (const [i, { resolve }] of waiting.entries()) resolve(numbers[i]!);
    } catch (error) {
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
      return Number(there.number);
    }
    const added = db
      .prepare('INSERT INTO audit (id, at_ms, revision, text) VALUES (?, ?, ?, ?)')
      .run(id, wallMs(), revision, text);
    const number = Number(added.lastInsertRowid);
    db.prepare(
      'DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE number <= ? ORDER BY number LIMIT ?)',
    ).run(number - keep, MOST_REMOVED);
    return number;
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
        .prepare('SELECT number, id, at_ms, text FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?')
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
