import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';
import type { PepperStore } from '../../identify/pepper-record.ts';
import { answering, transaction, whenFree } from './database.ts';
import { insistOnOwnFile } from './own-files.ts';

/** The file of the embedded store's own pepper, beside the database, mode 600. Neither is useful without the other. */
const FILE = 'tollgate.pepper';

/** The peppers that exist for a store, newest first, and its own file. This function creates nothing, unlike `peppersOf`. */
function presentPeppers(dataFolder: string, given: readonly string[]) {
  const file = join(dataFolder, FILE);
  const own = readPepper(file);
  return { file, peppers: own === null ? given : [...given, own] };
}

/**
 * The peppers of an embedded store, newest first: those of KEY_PEPPER, then the store's own. This function makes the store's own
 * pepper once, if KEY_PEPPER is not set. It stays in use when an operator sets KEY_PEPPER later, so that no key is lost.
 * @throws Failure `store_corrupt` if the file is damaged, or missing although there are keys and KEY_PEPPER is not set
 */
export function peppersOf(dataFolder: string, db: DatabaseSync, given: readonly string[]): readonly string[] {
  const { file, peppers } = presentPeppers(dataFolder, given);
  if (peppers.length > 0) return peppers;
  insistOnNoKeys(dataFolder, db);
  return [makePepper(file)];
}

/**
 * The same for a command that reads: it makes no pepper. A store without a pepper has no keys, and any pepper works.
 * @throws Failure as `peppersOf`
 */
export function peppersToRead(dataFolder: string, db: DatabaseSync, given: readonly string[]): readonly string[] {
  const { peppers } = presentPeppers(dataFolder, given);
  if (peppers.length > 0) return peppers;
  insistOnNoKeys(dataFolder, db);
  return [newPepper()];
}

function insistOnNoKeys(dataFolder: string, db: DatabaseSync): void {
  if (hasKeys(db)) {
    throw new Failure(
      'store_corrupt',
      `There are keys in ${dataFolder} but ${FILE} is missing, and without it no key works. Restore it, or set KEY_PEPPER again if that is how they were made.`,
    );
  }
}

function newPepper(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * The record of the peppers in the embedded store. This class creates the table, not a migration, so that an earlier version can
 * still open the file.
 */
export class EmbeddedPepperRecord implements PepperStore {
  readonly #db: DatabaseSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    answering(() =>
      db.exec(
        'CREATE TABLE IF NOT EXISTS peppers (one INTEGER PRIMARY KEY CHECK (one = 1), record TEXT NOT NULL) STRICT',
      ),
    );
  }

  async read(): Promise<string | null> {
    const row = answering(() => this.#db.prepare('SELECT record FROM peppers').get());
    return row === undefined ? null : String(row.record);
  }

  async replace(before: string | null, after: string): Promise<boolean> {
    const { changes } = await whenFree(() =>
      answering(() =>
        transaction(this.#db, () =>
          before === null
            ? this.#db.prepare('INSERT INTO peppers VALUES (1, ?) ON CONFLICT DO NOTHING').run(after)
            : this.#db.prepare('UPDATE peppers SET record = ? WHERE record = ?').run(after, before),
        ),
      ),
    );
    return changes === 1;
  }

  async hasKeys(): Promise<boolean> {
    return answering(() => hasKeys(this.#db));
  }
}

function hasKeys(db: DatabaseSync): boolean {
  return db.prepare('SELECT 1 FROM keys LIMIT 1').get() !== undefined;
}

function readPepper(file: string): string | null {
  insistOnOwnFile(file);
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw new Failure('store_unavailable', `${file} cannot be read. This user must own it.`, error);
  }
  if (text.length >= 32) return text;
  throw new Failure('store_corrupt', `${file} does not hold a pepper any more. Restore a copy of it.`);
}

/** Creates the file atomically. If two processes do so at the same time, both use the first file. */
function makePepper(file: string): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${newPepper()}\n`, { flag: 'wx', mode: 0o600, flush: true });
    linkSync(draft, file);
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'EEXIST') {
      throw new Failure('store_unavailable', `${file} cannot be written. Check the folder's permissions.`, error);
    }
  } finally {
    rmSync(draft, { force: true });
  }
  return readPepper(file)!;
}
