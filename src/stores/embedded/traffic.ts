import type { DatabaseSync } from 'node:sqlite';
import {
  KEPT_MS,
  PART_MS,
  type TrafficPlace,
  type TrafficStore,
  type TrafficSwap,
} from '../../operations/traffic/traffic-store.ts';
import { answering, transaction } from './database.ts';

/** Traffic over time in the embedded store: a row for each minute, hour and table of names. */
export class EmbeddedTraffic implements TrafficStore {
  readonly #db: DatabaseSync;

  constructor({ db }: { readonly db: DatabaseSync }) {
    this.#db = db;
    // This constructor creates the table, not a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(
        'CREATE TABLE IF NOT EXISTS traffic (part TEXT NOT NULL, at INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (part, at)) STRICT, WITHOUT ROWID',
      ),
    );
  }

  async read(places: readonly TrafficPlace[]): Promise<readonly (Uint8Array | null)[]> {
    return answering(() => places.map((place) => this.#bytesAt(place)));
  }

  async swap(swaps: readonly TrafficSwap[]): Promise<boolean> {
    const write = () => {
      const isSame = ({ before, ...place }: TrafficSwap) => {
        const now = this.#bytesAt(place);
        return before === null || now === null ? before === now : Buffer.compare(before, now) === 0;
      };
      if (!swaps.every(isSame)) return false;
      for (const { part, at, after } of swaps) {
        this.#db.prepare('INSERT OR REPLACE INTO traffic VALUES (?, ?, ?)').run(part, at, after);
        const keptFrom = at - KEPT_MS[part] / PART_MS[part];
        this.#db.prepare('DELETE FROM traffic WHERE part = ? AND at < ?').run(part, keptFrom);
      }
      return true;
    };
    // The counter adds a minute again that the store cannot write now.
    return answering(() => transaction(this.#db, write));
  }

  #bytesAt({ part, at }: TrafficPlace): Uint8Array | null {
    const row = this.#db.prepare('SELECT bytes FROM traffic WHERE part = ? AND at = ?').get(part, at);
    return row === undefined ? null : (row.bytes as Uint8Array);
  }
}
