import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';

/**
 * The migration to each version of the schema. Append, never edit: existing databases have run them. accounts.ts, audit.ts
 * and pepper.ts create their own tables.
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

/** `Toll`: identifies the file as Tollgate's, so that another program's database is not changed. */
const APPLICATION_ID = 0x546f6c6c;
/** Gateway and commands use the file at the same time. Each locks it for milliseconds. */
export const BUSY_TIMEOUT_MS = 2_000;
/** SQLITE_BUSY */
const HELD_BY_ANOTHER = 5;

/**
 * Opens the embedded store's database, `tollgate.db` in the data folder, and creates both if they do not exist. Only the
 * user who runs Tollgate can read them (folder 700, files 600). Several processes may have the database open.
 * @throws Failure `store_corrupt` if the file is damaged, another program's or of a later version; `store_unavailable` if
 *   it cannot be opened
 */
export function openDatabase(dataFolder: string): DatabaseSync {
  const file = join(dataFolder, 'tollgate.db');
  let db: DatabaseSync | null = null;
  try {
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    // SQLite would create the file readable to all users. The files that it adds beside this one get the same mode.
    closeSync(openSync(file, 'a', 0o600));
    chmodSync(file, 0o600);
    db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
    // FULL: a revoked key stays revoked even after a power cut.
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    transaction(db, () => migrate(db!, file));
    return db;
  } catch (error) {
    db?.close();
    throw openingFailure(error, file);
  }
}

/** Runs `work` in a transaction that excludes other writers. */
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

/** Runs `work`. @throws Failure `store_unavailable` for errors of SQLite; other errors unchanged */
export function answering<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_SQLITE_ERROR') throw error;
    throw new Failure('store_unavailable', `The embedded store does not do what was asked: ${error.message}.`, error);
  }
}

/**
 * Runs `work`, which fails at once if another process has locked the database. Attack: an import is suspended (Ctrl-Z) in the
 * middle of a transaction; SQLite would wait for it with the event loop, and all requests with that.
 */
export function withoutWaiting<T>(db: DatabaseSync, work: () => T): T {
  db.exec('PRAGMA busy_timeout = 0');
  try {
    return work();
  } finally {
    db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  }
}

/** Whether SQLite, or `answering`, has thrown because another process has locked the database. */
export function isHeldByAnother(error: unknown): boolean {
  const thrown = error instanceof Failure ? error.cause : error;
  return thrown instanceof Error && 'errcode' in thrown && (Number(thrown.errcode) & 0xff) === HELD_BY_ANOTHER;
}

/** Writes an unchanged value, to test whether the database accepts writes. */
export function tryWrite(db: DatabaseSync): void {
  transaction(db, () => db.exec(`PRAGMA user_version = ${numberOf(db, 'user_version')}`));
}

/**
 * Detects that the files of an open database have been deleted or replaced. Fault: an operator deletes or moves the data
 * folder while the gateway runs. SQLite continues to write to files that the next start will not find.
 */
export class FilesInPlace {
  readonly #db: DatabaseSync;
  readonly #database: string;
  /** Device and inode of each file when it was first seen, by name. */
  readonly #seen = new Map<string, string>();

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#database = db.location()!;
    this.insist();
  }

  /**
   * Makes a change that is acknowledged: whole or not at all, and in the files that the next start finds.
   * @throws Failure `store_unavailable`, also where the files went away meanwhile and the change with them; what `work` throws
   */
  write<T>(work: () => T): T {
    this.insist();
    const value = answering(() => transaction(this.#db, work));
    this.insist();
    return value;
  }

  /** @throws Failure `store_unavailable` if one of the files has been deleted or replaced */
  insist(): void {
    for (const file of [this.#database, `${this.#database}-wal`]) {
      const found = statSync(file, { throwIfNoEntry: false });
      const current = found === undefined ? undefined : `${found.dev} ${found.ino}`;
      const seen = this.#seen.get(file) ?? current;
      if (current !== seen) {
        throw new Failure(
          'store_unavailable',
          `${file} has been deleted or replaced while the gateway runs. Put it back where it was; or restore a copy and start the gateway again.`,
        );
      }
      if (current !== undefined) this.#seen.set(file, current);
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

/**
 * Makes this process the only gateway of an embedded store, until `release` or the end of the process. The operating system
 * holds the lock for an open file, so that a crash does not leave it behind.
 * @throws Failure `store_owned` if another gateway owns the store, `store_unavailable` if the lock cannot be made
 */
export function ownStore(dataFolder: string): { release(): void } {
  const file = join(dataFolder, 'owner.lock');
  let lock: DatabaseSync | null = null;
  try {
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    // SQLite would create the file readable to all users.
    closeSync(openSync(file, 'a', 0o600));
    lock = new DatabaseSync(file);
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (cause) {
    lock?.close();
    throw refusal(cause, dataFolder, file);
  }
  const held = lock;
  return {
    release: () => {
      held.exec('ROLLBACK');
      held.close();
    },
  };
}

function refusal(cause: unknown, dataFolder: string, file: string): Failure {
  if (isHeldByAnother(cause)) {
    return new Failure(
      'store_owned',
      `Another gateway owns the embedded store in ${dataFolder}. Stop it, give this one a folder of its own with TOLLGATE_DATA, or let both share a Redis with REDIS_URL.`,
      cause,
    );
  }
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new Failure(
    'store_unavailable',
    `${file} cannot be locked: ${reason}. TOLLGATE_DATA must name a folder that this user may write.`,
    cause,
  );
}
