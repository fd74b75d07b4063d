import type { DatabaseSync } from 'node:sqlite';
import {
  MAX_USES_OF_KEY,
  type SecretUse,
  type SecretUseStore,
  USES_KEPT_DAYS,
} from '../../identify/secret-use-store.ts';
import { answering, transaction } from './database.ts';

/** The last uses of secrets in the embedded store: a row for each key and secret. */
export class EmbeddedSecretUses implements SecretUseStore {
  readonly #db: DatabaseSync;
  /** The last day on which the store removed old rows. */
  #cleanedOn = '';

  constructor({ db }: { readonly db: DatabaseSync }) {
    this.#db = db;
    // This constructor creates the table, not a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(
        'CREATE TABLE IF NOT EXISTS secret_uses (key_id TEXT NOT NULL, secret TEXT NOT NULL, day TEXT NOT NULL, PRIMARY KEY (key_id, secret)) STRICT, WITHOUT ROWID',
      ),
    );
  }

  async note(uses: readonly SecretUse[]): Promise<void> {
    const write = () => {
      for (const use of uses) this.#note(use);
    };
    // The caller sends uses again that the store cannot write now.
    answering(() => transaction(this.#db, write));
  }

  async of(keyId: string, secrets: readonly string[]): Promise<readonly (string | null)[]> {
    const dayOf = this.#db.prepare('SELECT day FROM secret_uses WHERE key_id = ? AND secret = ?');
    return answering(() =>
      secrets.map((secret) => {
        const row = dayOf.get(keyId, secret);
        return row === undefined ? null : String(row.day);
      }),
    );
  }

  async forget(keyId: string): Promise<void> {
    answering(() => this.#db.prepare('DELETE FROM secret_uses WHERE key_id = ?').run(keyId));
  }

  #note({ keyId, secret, day, present }: SecretUse): void {
    this.#db
      .prepare('INSERT INTO secret_uses VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET day = excluded.day')
      .run(keyId, secret, day);
    const { n } = this.#db.prepare('SELECT count(*) AS n FROM secret_uses WHERE key_id = ?').get(keyId)!;
    if (Number(n) > MAX_USES_OF_KEY) {
      this.#db
        .prepare('DELETE FROM secret_uses WHERE key_id = ? AND secret NOT IN (SELECT value FROM json_each(?))')
        .run(keyId, JSON.stringify(present));
    }
    if (this.#cleanedOn === day) return;
    this.#db.prepare(`DELETE FROM secret_uses WHERE day <= date(?, '-${USES_KEPT_DAYS} days')`).run(day);
    this.#cleanedOn = day;
  }
}
