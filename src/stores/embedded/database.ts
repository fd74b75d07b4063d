import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { Failure } from '../../failure.ts';
import { UnreadableRecord } from '../../model/record.ts';
import { ensureFolder, ensureOwnFile, insistOnOwnFile } from './own-files.ts';

/**
 * The migration to each version of the schema. Append, never edit: existing databases have run them. accounts.ts, audit.ts,
 * customers.ts and pepper.ts create their own tables. Earlier versions read and write `changes`, and this one does neither.
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

const FILE = 'tollgate.db';

/**
 * A gateway that owns the store adds this to the version of the schema.
 *
 * Fault: a command of an earlier version, which asks no gateway, lifts a ban beside it. The command said that it was done, and the
 * gateway did not notice. Earlier versions refuse a database whose version they do not know.
 */
const OWNED = 1_000_000;

/** `Toll`: identifies the file as Tollgate's, so that Tollgate never changes another program's database. */
const APPLICATION_ID = 0x546f6c6c;
/** Gateway and commands use the file at the same time. Each locks it for milliseconds. */
export const BUSY_TIMEOUT_MS = 2_000;
/** Pause before the next attempt while another process blocks the database. */
const AGAIN_MS = 20;
/** SQLITE_BUSY */
const HELD_BY_ANOTHER = 5;

/**
 * Opens the embedded store's database, `tollgate.db` in the data folder, and creates both if they do not exist. Only the
 * user who runs Tollgate can read them (folder 700, files 600). Several processes may have the database open.
 * @throws Failure `store_corrupt` if the file is damaged, another program's or of a later version; `store_unavailable` if
 *   it cannot be opened
 */
export function openDatabase(dataFolder: string): DatabaseSync {
  const file = join(dataFolder, FILE);
  let db: DatabaseSync | null = null;
  try {
    ensureFolder(dataFolder);
    // The files that SQLite adds beside this one get its mode.
    ensureOwnFile(file);
    for (const suffix of ['-wal', '-shm']) insistOnOwnFile(file + suffix);
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

/** True if the data folder has a store. It creates nothing. @throws Failure `store_unavailable` if this user may not look */
export function hasDatabase(dataFolder: string): boolean {
  const file = join(dataFolder, FILE);
  try {
    return statSync(file, { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
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

/** Runs `work`. @throws Failure `store_corrupt` or `store_unavailable` for errors of SQLite; other errors unchanged */
export function answering<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!isOfSqlite(error)) throw error;
    if (isDamage(error)) throw damaged('tollgate.db', error);
    const advice = isOfDisk(error) ? ` ${ROOM}` : '';
    throw new Failure(
      'store_unavailable',
      `The embedded store does not do what was asked: ${error.message}.${advice}`,
      error,
    );
  }
}

/**
 * From now on this connection never waits for another process that has locked the database. Attack: an operator suspends an import
 * (Ctrl-Z) in the middle of a transaction. SQLite would wait for it and hold up the event loop with all requests.
 */
export function neverWait(db: DatabaseSync): void {
  db.exec('PRAGMA busy_timeout = 0');
}

/** Ends `neverWait`, for a process that serves no requests any more. */
export function waitAgain(db: DatabaseSync): void {
  db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
}

/**
 * Repeats an attempt that failed because another process has locked the database, for at least two seconds, without holding up the
 * event loop. It counts attempts, because a process that stood still meanwhile has not tried.
 * @throws what the last attempt threw
 */
export async function whenFree<T>(attempt: () => T): Promise<T> {
  for (let left = BUSY_TIMEOUT_MS / AGAIN_MS; ; left--) {
    try {
      return attempt();
    } catch (error) {
      if (!isHeldByAnother(error) || left <= 0) throw error;
    }
    await delay(AGAIN_MS);
  }
}

/** True if SQLite, or `answering`, threw the error because another process has locked the database. */
export function isHeldByAnother(error: unknown): boolean {
  const thrown = error instanceof Failure ? error.cause : error;
  return thrown instanceof Error && 'errcode' in thrown && (Number(thrown.errcode) & 0xff) === HELD_BY_ANOTHER;
}

/**
 * True if a change failed because of the store, and not because a rule refused it.
 *
 * Fault: an operator changed one unreadable record. The gateway took that for a failed write, and the store for away
 * for every caller.
 */
export function isOfStore(error: unknown): boolean {
  if (error instanceof UnreadableRecord) return false;
  return error instanceof Failure && (error.code === 'store_unavailable' || error.code === 'store_corrupt');
}

/** Marks the database as that of a gateway. This also tests whether the database accepts writes. */
export function markOwned(db: DatabaseSync): void {
  transaction(db, () => db.exec(`PRAGMA user_version = ${MIGRATIONS.length + OWNED}`));
}

/**
 * Lets earlier versions use the database again. If it accepts no writes, they cannot use it until this version has started and
 * stopped once more.
 */
export function unmarkOwned(db: DatabaseSync): void {
  try {
    transaction(db, () => db.exec(`PRAGMA user_version = ${MIGRATIONS.length}`));
  } catch {
    // The end of the gateway does not depend on this mark.
  }
}

function migrate(db: DatabaseSync, file: string): void {
  const version = numberOf(db, 'user_version') % OWNED;
  if (numberOf(db, 'application_id') !== APPLICATION_ID && !isEmpty(db)) {
    throw new Failure(
      'store_corrupt',
      `${file} is a database, but not one of Tollgate's. Name another folder in TOLLGATE_DATA.`,
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

/** The Failure for an error of the opening of the store. */
export function openingFailure(error: unknown, file: string): Failure {
  if (error instanceof Failure) return error;
  if (isOfSqlite(error) && isDamage(error)) return damaged(file, error);
  const reason = error instanceof Error ? error.message : String(error);
  const advice = isOfDisk(error) ? ROOM : 'TOLLGATE_DATA must name a folder that this user may write.';
  return new Failure('store_unavailable', `${file} cannot be opened: ${reason}. ${advice}`, error);
}

/** The Failure for an error of reading from an open store, if it shows that the file is damaged; any other error unchanged. */
export function damageIn(error: unknown, dataFolder: string): unknown {
  return isOfSqlite(error) && isDamage(error) ? damaged(join(dataFolder, 'tollgate.db'), error) : error;
}

function isOfSqlite(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === 'ERR_SQLITE_ERROR';
}

/** SQLITE_CORRUPT or SQLITE_NOTADB. SQLite may find damage long after the opening, when it first reads the page. */
function isDamage(error: Error): boolean {
  return 'errcode' in error && [11, 26].includes(Number(error.errcode) & 0xff);
}

const ROOM = 'Make room on its disk: `tollgate doctor` says how much is free.';

/** SQLITE_FULL, or SQLITE_IOERR, by which SQLite also reports a disk that is full. */
function isOfDisk(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && error.code === 'ENOSPC') return true;
  return 'errcode' in error && [10, 13].includes(Number(error.errcode) & 0xff);
}

function damaged(file: string, cause: Error): Failure {
  return new Failure(
    'store_corrupt',
    `${file} is broken or not a database. Restore a copy of the data folder, or move the file away to start with an empty store.`,
    cause,
  );
}
