import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';

/** Where the embedded store's own pepper lies: beside the database, 600. A copy of one without the other opens nothing. */
const FILE = 'tollgate.pepper';

/**
 * The peppers of an embedded store, newest first: those of KEY_PEPPER, and the store's own. The own one is made once,
 * when there is no other; it stays good when KEY_PEPPER is set later, so that no key is lost by setting it.
 * @throws Failure `store_corrupt` when it is gone or unreadable although there are keys that were made with it
 */
export function peppersOf(dataFolder: string, db: DatabaseSync, given: readonly string[]): readonly string[] {
  const file = join(dataFolder, FILE);
  const own = readPepper(file);
  if (own !== null) return [...given, own];
  if (given.length > 0) return given;
  if (db.prepare('SELECT 1 FROM keys LIMIT 1').get() !== undefined) {
    throw new Failure(
      'store_corrupt',
      `There are keys in ${dataFolder} but ${FILE} is missing, without which none of them works. Restore it, or set KEY_PEPPER again if that is how they were made.`,
    );
  }
  return [makePepper(file)];
}

function readPepper(file: string): string | null {
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

/** Complete or not there at all, and when two processes make one at the same time both use the first. */
function makePepper(file: string): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${randomBytes(32).toString('base64url')}\n`, { flag: 'wx', mode: 0o600, flush: true });
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
