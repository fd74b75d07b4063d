import type { DatabaseSync } from 'node:sqlite';
import {
  type Explanation,
  type ExplanationStore,
  HOURS_KEPT,
  hourOf,
  keptHours,
  MAX_OF_HOUR,
} from '../../operations/explanation-store.ts';
import { answering, transaction } from './database.ts';

/** Why requests were refused or failed, in the embedded store: a row for each hour and request id. */
export class EmbeddedExplanations implements ExplanationStore {
  readonly #db: DatabaseSync;

  constructor({ db }: { readonly db: DatabaseSync }) {
    this.#db = db;
    // This constructor creates the table, not a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(
        'CREATE TABLE IF NOT EXISTS explanations (hour INTEGER NOT NULL, request_id TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (hour, request_id)) STRICT, WITHOUT ROWID',
      ),
    );
  }

  async keep(explanations: readonly Explanation[]): Promise<void> {
    // A transaction that does not wait for the disk: all requests would wait with it.
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      answering(() => transaction(this.#db, () => this.#insert(explanations)));
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
  }

  async of(requestId: string, nowMs: number): Promise<readonly string[]> {
    const rows = this.#db.prepare('SELECT text FROM explanations WHERE hour = ? AND request_id = ?');
    return answering(() => keptHours(nowMs).flatMap((hour) => rows.all(hour, requestId))).map(({ text }) =>
      String(text),
    );
  }

  #insert(explanations: readonly Explanation[]): void {
    const insert = this.#db.prepare(
      `INSERT INTO explanations SELECT ?1, ?2, ?3
       WHERE (SELECT count(*) FROM explanations WHERE hour = ?1) < ${MAX_OF_HOUR} ON CONFLICT DO NOTHING`,
    );
    for (const { requestId, atMs, text } of explanations) insert.run(hourOf(atMs), requestId, text);
    const latest = Math.max(...explanations.map(({ atMs }) => hourOf(atMs)));
    this.#db.prepare('DELETE FROM explanations WHERE hour < ?').run(latest - HOURS_KEPT);
  }
}
