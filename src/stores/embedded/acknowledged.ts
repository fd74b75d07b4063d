import { closeSync, constants, fdatasyncSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';
import { answering, transaction, whenFree } from './database.ts';
import { insistOnOwnFile } from './own-files.ts';

/** Beside tollgate.db: the number of the last write that this store has acknowledged, in two copies on one line. */
const SUFFIX = '.acknowledged';
const DIGITS = 16;
const { O_WRONLY, O_CREAT, O_NOFOLLOW } = constants;

/**
 * The writes of a process to the embedded store. Each is complete or not made, and in the files that the next start finds. Several
 * processes may write to one database.
 *
 * Fault: an operator deletes or moves the data folder while the gateway runs. SQLite continues to write to files that the next
 * start will not find. So the store refuses a write unless all files are in their places before it and after it.
 *
 * Fault: the write-ahead log (tollgate.db-wal) is damaged, cut off or missing after a crash. SQLite opens the database without the
 * writes that the log held, and reports nothing: revoked keys would work again. So each acknowledged write increases a number in
 * the database, and then in a file of its own. `insistOnAcknowledged` compares the two.
 */
export class AcknowledgedWrites {
  readonly #db: DatabaseSync;
  readonly #database: string;
  /** Device and inode of each file when this process first saw it, by name. */
  readonly #seen = new Map<string, string>();

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#database = db.location()!;
    answering(() => createAcknowledged(db));
    this.insist();
  }

  /**
   * Makes a change and acknowledges it. If another process has locked the database, it waits up to two seconds, in which this
   * process continues to serve.
   * @param work called within a transaction, again for each attempt
   * @param made called in the same turn of the event loop as the commit. The change is in force from then on, even if a later
   *   step fails and the store does not acknowledge it
   * @throws Failure `store_unavailable`, also if the files disappeared meanwhile, or if it could not note the number;
   *   `store_corrupt`; what `work` throws
   */
  write<T>(work: () => T, made: (value: T) => void = () => {}): Promise<T> {
    return whenFree(() => {
      this.insist();
      const { value, number } = answering(() =>
        transaction(this.#db, () => ({ value: work(), number: countWrite(this.#db) })),
      );
      made(value);
      this.insist();
      this.#note(number);
      return value;
    });
  }

  /**
   * Writes data that a power cut may undo: at once, without waiting for another process or for the disk. The write has no number,
   * because the disk may keep the number and lose the write.
   * @throws Failure `store_unavailable`, `store_corrupt`; what `work` throws
   */
  writeUnacknowledged<T>(work: () => T): T {
    this.insist();
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      const value = answering(() => transaction(this.#db, work));
      this.insist();
      return value;
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
  }

  #note(number: number): void {
    try {
      noteAcknowledged(this.#database, number);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Failure(
        'store_unavailable',
        `The change was made, but its number could not be written beside the database: ${reason}. Ask for it again.`,
        error,
      );
    }
  }

  /** @throws Failure `store_unavailable` if one of the files was deleted or replaced */
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

/** This function creates the table, not a migration, so that an earlier version can still open the file. */
function createAcknowledged(db: DatabaseSync): void {
  db.exec(
    'CREATE TABLE IF NOT EXISTS acknowledged (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL) STRICT',
  );
}

/**
 * Compares the writes in the database with the acknowledged ones.
 * @param isAccepted true to use an older database all the same; its writes then become the acknowledged ones
 * @returns a warning, or null
 * @throws Failure `store_rolled_back` if the database lacks acknowledged writes
 */
export function insistOnAcknowledged(db: DatabaseSync, isAccepted: boolean): string | null {
  const database = db.location()!;
  const file = database + SUFFIX;
  // Reads the file before the database, because another process may write to both meanwhile.
  const acknowledged = readAcknowledged(file);
  const number = answering(() => {
    createAcknowledged(db);
    return writesOf(db);
  });
  if (acknowledged === null) {
    return number === 0
      ? null
      : `${file} was missing or unreadable, so it is unknown whether the last changes to keys are in ${database}. Check that recently revoked keys are refused.`;
  }
  if (number >= acknowledged) return null;
  const lost = acknowledged - number;
  if (!isAccepted) {
    throw new Failure(
      'store_rolled_back',
      `${database} lacks the last ${lost} writes that were acknowledged: its -wal file was damaged or removed, or the file is an older copy. Keys that were revoked may work in it, and newer keys are missing. Restore the whole folder; or accept the loss with \`tollgate serve --accept-rollback\`.`,
    );
  }
  noteAcknowledged(database, number);
  return `${database} lacks the last ${lost} writes that were acknowledged, and this was accepted. Check which keys are revoked, and which are missing.`;
}

/** Within a transaction. @returns the number of this write */
function countWrite(db: DatabaseSync): number {
  const counted = db.prepare(
    'INSERT INTO acknowledged VALUES (1, 1) ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number',
  );
  return Number(counted.get()!.number);
}

function writesOf(db: DatabaseSync): number {
  return Number(db.prepare('SELECT number FROM acknowledged').get()?.number ?? 0);
}

/**
 * Writes the number over the one before, in one sector: a crash leaves the one or the other. Of two processes that write at the
 * same time, the one with the lower number may be the last; the next write corrects that.
 */
function noteAcknowledged(database: string, number: number): void {
  const file = database + SUFFIX;
  const digits = String(number).padStart(DIGITS, '0');
  const descriptor = openSync(file, O_WRONLY | O_CREAT | O_NOFOLLOW, 0o600);
  try {
    writeSync(descriptor, `${digits} ${digits}\n`, 0, 'latin1');
    fdatasyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** @returns null if the file is missing or damaged */
function readAcknowledged(file: string): number | null {
  insistOnOwnFile(file);
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch {
    return null;
  }
  const [one, other] = text.trim().split(' ');
  return one === other && one?.length === DIGITS && /^\d+$/.test(one) ? Number(one) : null;
}
