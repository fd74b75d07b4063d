import type { DatabaseSync } from 'node:sqlite';
import { type KeyNetworkStore, NETWORKS_KEPT_DAYS, type NetworksSwap } from '../../operations/key-network-store.ts';
import { answering, transaction } from './database.ts';

/** From where keys were called, in the embedded store: a row for each key. */
export class EmbeddedKeyNetworks implements KeyNetworkStore {
  readonly #db: DatabaseSync;
  readonly #wallMs: () => number;
  /** The last day on which the store removed old rows. */
  #cleanedOn = 0;

  constructor({ db, wallMs = Date.now }: { readonly db: DatabaseSync; readonly wallMs?: () => number }) {
    this.#db = db;
    this.#wallMs = wallMs;
    // This constructor creates the table, not a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(
        'CREATE TABLE IF NOT EXISTS key_networks (key_id TEXT PRIMARY KEY, day INTEGER NOT NULL, record TEXT NOT NULL) STRICT, WITHOUT ROWID',
      ),
    );
  }

  async read(keyIds: readonly string[]): Promise<readonly (string | null)[]> {
    return answering(() => keyIds.map((keyId) => this.#recordOf(keyId)));
  }

  async swap(swaps: readonly NetworksSwap[]): Promise<readonly boolean[]> {
    const today = Math.floor(this.#wallMs() / 86_400_000);
    const write = () => {
      const put = this.#db.prepare('INSERT OR REPLACE INTO key_networks VALUES (?, ?, ?)');
      const written = swaps.map(({ keyId, before, after }) => {
        if (this.#recordOf(keyId) !== before) return false;
        put.run(keyId, today, after);
        return true;
      });
      if (this.#cleanedOn !== today) {
        this.#db.prepare('DELETE FROM key_networks WHERE day <= ?').run(today - NETWORKS_KEPT_DAYS);
        this.#cleanedOn = today;
      }
      return written;
    };
    // The counter sends again what the store cannot write now.
    return answering(() => transaction(this.#db, write));
  }

  async forget(keyId: string): Promise<void> {
    answering(() => this.#db.prepare('DELETE FROM key_networks WHERE key_id = ?').run(keyId));
  }

  #recordOf(keyId: string): string | null {
    const row = this.#db.prepare('SELECT record FROM key_networks WHERE key_id = ?').get(keyId);
    return row === undefined ? null : String(row.record);
  }
}
