import type { DatabaseSync } from 'node:sqlite';
import type { Listed } from '../../model/record.ts';
import {
  type Authorship,
  authorshipText,
  KEPT_TEXT_BYTES,
  KEPT_VERSIONS,
  type KeptVersion,
  keptVersion,
  type PlansHistory,
  type PlansVersion,
} from '../../operations/plans/plans-history-store.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering } from './database.ts';

/** The versions of plans.yaml in the embedded store, one row each. */
export class EmbeddedPlansHistory implements PlansHistory {
  readonly #db: DatabaseSync;
  readonly #writes: AcknowledgedWrites;

  constructor({ db }: { readonly db: DatabaseSync }) {
    this.#db = db;
    this.#writes = new AcknowledgedWrites(db);
    // This constructor creates the table, not a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(`CREATE TABLE IF NOT EXISTS plans_history (
        number INTEGER PRIMARY KEY, version TEXT NOT NULL, since_ms INTEGER NOT NULL, actor TEXT NOT NULL, text TEXT NOT NULL
      ) STRICT;
      CREATE TABLE IF NOT EXISTS plans_claim (number INTEGER PRIMARY KEY, actor TEXT NOT NULL) STRICT`),
    );
  }

  async claim(number: number, of: Authorship): Promise<void> {
    const actor = authorshipText(of);
    await this.#writes.write(() => {
      this.#db.exec('DELETE FROM plans_claim');
      this.#db.prepare('INSERT INTO plans_claim VALUES (?, ?)').run(number, actor);
      this.#db.prepare('UPDATE plans_history SET actor = ? WHERE number = ?').run(actor, number);
    });
  }

  async add({ number, version, sinceMs, ...of }: PlansVersion, text: string): Promise<void> {
    await this.#writes.write(() => {
      const before = this.#db
        .prepare('SELECT number, version FROM plans_history WHERE number <= ? ORDER BY number DESC LIMIT 1')
        .get(number);
      if (before?.number === number || before?.version === version) return;
      const claim = this.#db.prepare('SELECT actor FROM plans_claim WHERE number = ?').get(number);
      this.#db
        .prepare('INSERT INTO plans_history VALUES (?, ?, ?, ?, ?)')
        .run(number, version, sinceMs, String(claim?.actor ?? authorshipText(of)), text);
      this.#trim();
    });
  }

  /** Removes the oldest rows beyond the maximum, and those whose text does not fit beside the newer ones. */
  #trim(): void {
    this.#db
      .prepare(
        `DELETE FROM plans_history WHERE number IN (SELECT number FROM (
          SELECT number, row_number() OVER newest AS place, sum(octet_length(text)) OVER newest AS bytes
          FROM plans_history WINDOW newest AS (ORDER BY number DESC)
        ) WHERE place > ? OR (place > 1 AND bytes > ?))`,
      )
      .run(KEPT_VERSIONS, KEPT_TEXT_BYTES);
  }

  async list(): Promise<readonly Listed<KeptVersion>[]> {
    // Node throws an error at an integer that is not a safe one, and the whole list would fail.
    const rows = answering(() =>
      this.#db
        .prepare(
          'SELECT number, version, CAST(since_ms AS REAL) AS since_ms, actor FROM plans_history ORDER BY number DESC',
        )
        .all(),
    );
    return rows.map(({ number, version, since_ms, actor }) => {
      const kept = { number: Number(number), version: String(version), sinceMs: Number(since_ms) };
      return keptVersion(kept, String(actor), `number ${number} of the table plans_history of tollgate.db`);
    });
  }

  async text(number: number): Promise<string | null> {
    const row = answering(() => this.#db.prepare('SELECT text FROM plans_history WHERE number = ?').get(number));
    return row === undefined ? null : String(row.text);
  }
}
