import { statSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';

const LOOK_EVERY_MS = 5_000;
/** While the store is written without pause, a checkpoint follows this long after the last one, milliseconds. */
const LATEST_MS = 60_000;

/**
 * Moves the content of the write-ahead log (tollgate.db-wal) to tollgate.db: at the start, after five seconds without a write, and
 * once a minute. SQLite by itself does so only after 4 MB of changes, and until then a damaged log, or a copy of tollgate.db alone,
 * lacks every key.
 */
export class Checkpoints {
  readonly #db: DatabaseSync;
  readonly #log: string;
  readonly #timer: NodeJS.Timeout;
  #sizeBefore = 0;
  #writtenMs = 0;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#log = `${db.location()}-wal`;
    this.#move();
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const size = statSync(this.#log, { throwIfNoEntry: false })?.size ?? 0;
    const isQuiet = size === this.#sizeBefore;
    this.#sizeBefore = size;
    this.#writtenMs = size === 0 ? 0 : this.#writtenMs + LOOK_EVERY_MS;
    if (size > 0 && (isQuiet || this.#writtenMs >= LATEST_MS)) this.#move();
  }

  #move(): void {
    try {
      this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      this.#writtenMs = 0;
    } catch {
      // Another process has locked the database, or the disk is full. The next look tries again, and writes report such faults.
    }
  }
}
