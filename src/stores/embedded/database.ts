import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';

/**
 * What made each version of the schema from the one before. Append, never edit: databases out there have run them.
 * Counters have tables of their own (accounts.ts).
 */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE keys (
     id TEXT PRIMARY KEY, created_at_ms INTEGER NOT NULL, record TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX keys_by_creation ON keys (created_at_ms, id);
   CREATE TABLE digests (digest TEXT PRIMARY KEY, key_id TEXT NOT NULL) STRICT, WITHOUT ROWID;
   CREATE TABLE changes (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key_id TEXT, author TEXT NOT NULL) STRICT;`,
  `CREATE TABLE deprecated_calls (
     day TEXT NOT NULL, route TEXT NOT NULL, consumer TEXT NOT NULL, calls INTEGER NOT NULL, PRIMARY KEY (day, route, consumer)
   ) STRICT, WITHOUT ROWID;`,
];

/** `Toll`: marks the file as ours, so that somebody else's database is not taken for a new one. */
const APPLICATION_ID = 0x546f6c6c;
/** Gateway and commands use the file at the same time; each holds it for milliseconds. */
const BUSY_TIMEOUT_MS = 2_000;

/**
 * Opens the embedded store's database, `tollgate.db` in the data folder, and makes both where they are missing. Only the
 * user who runs Tollgate can read them (folder 700, files 600). Several processes may have it open.
 * @throws Failure `store_corrupt` for a file that is broken, not ours or of a later version; `store_unavailable` when
 *   it cannot be opened
 */
export function openDatabase(dataFolder: string): DatabaseSync {
  const file = join(dataFolder, 'tollgate.db');
  let db: DatabaseSync | null = null;
  try {
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    // SQLite would make it readable to all; the files it adds beside it take over this mode.
    closeSync(openSync(file, 'a', 0o600));
    chmodSync(file, 0o600);
    db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    // FULL: a key that was revoked stays revoked, whatever the machine does next.
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    transaction(db, () => migrate(db!, file));
    return db;
  } catch (error) {
    db?.close();
    throw openingFailure(error, file);
  }
}

/** Runs `work` whole or not at all, while no other process writes. */
export function transaction<T>(db: DatabaseSync, work: () => T): T {
  db.exec('BEGIN IMMEDIATE');
  try {
    const value = work();
    db.exec('COMMIT');
    return value;
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Runs `work`; what SQLite throws comes as Failure `store_unavailable`, anything else as it is. */
export function answering<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_SQLITE_ERROR') throw error;
    throw new Failure('store_unavailable', `The embedded store does not do what was asked: ${error.message}.`, error);
  }
}

/** Writes what is there once more, to see whether it can be. */
export function tryWrite(db: DatabaseSync): void {
  transaction(db, () => db.exec(`PRAGMA user_version = ${numberOf(db, 'user_version')}`));
}

/**
 * The files that an open database is written to. Attack: somebody deletes the data folder, or moves it, while the gateway
 * runs; the system goes on writing to files that no later start will find.
 */
export class FilesInPlace {
  readonly #database: string;
  /** By name, as what each was first seen: device and number. */
  readonly #seen = new Map<string, string>();

  constructor(db: DatabaseSync) {
    this.#database = db.location()!;
    this.insist();
  }

  /** @throws Failure `store_unavailable` when one of the files is no longer the one that it was */
  insist(): void {
    for (const file of [this.#database, `${this.#database}-wal`]) {
      const found = statSync(file, { throwIfNoEntry: false });
      const it = found === undefined ? undefined : `${found.dev} ${found.ino}`;
      const seen = this.#seen.get(file) ?? it;
      if (it !== seen) {
        throw new Failure(
          'store_unavailable',
          `${file} has been deleted or replaced while the gateway runs. Put it back where it was; or restore a copy and start the gateway again.`,
        );
      }
      if (it !== undefined) this.#seen.set(file, it);
    }
  }
}

function migrate(db: DatabaseSync, file: string): void {
  const version = numberOf(db, 'user_version');
  if (numberOf(db, 'application_id') !== APPLICATION_ID && !isEmpty(db)) {
    throw new Failure(
      'store_corrupt',
      `${file} is a database, but none of Tollgate's. Name another folder in TOLLGATE_DATA.`,
    );
  }
  if (version > MIGRATIONS.length) {
    throw new Failure(
      'store_corrupt',
      `${file} was written by a later version of Tollgate. Run that version, or restore a copy from before.`,
    );
  }
  if (version === MIGRATIONS.length) return;
  for (const migration of MIGRATIONS.slice(version)) db.exec(migration);
  db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${MIGRATIONS.length}`);
}

function numberOf(db: DatabaseSync, pragma: 'user_version' | 'application_id'): number {
  return Number(db.prepare(`PRAGMA ${pragma}`).get()?.[pragma]);
}

function isEmpty(db: DatabaseSync): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
}

function openingFailure(error: unknown, file: string): Failure {
  if (error instanceof Failure) return error;
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
  // SQLITE_CORRUPT and SQLITE_NOTADB
  if (code === 11 || code === 26) {
    return new Failure(
      'store_corrupt',
      `${file} is broken or no database. Restore a copy of it, or move it away to begin anew.`,
      error,
    );
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new Failure(
    'store_unavailable',
    `${file} cannot be opened: ${reason}. TOLLGATE_DATA must name a folder that this user may write.`,
    error,
  );
}
