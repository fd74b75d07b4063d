import { chmodSync, closeSync, lstatSync, mkdirSync, openSync, type Stats } from 'node:fs';
import { Failure } from '../../failure.ts';

/**
 * Makes the data folder if it does not exist, for this user alone.
 *
 * Attack: another user has prepared the folder, with links in the place of Tollgate's files. A command that root runs there would
 * write to files of root's, or make them readable. So the folder must belong to this user, or to root, because root makes the
 * folders of volumes; and no file of Tollgate in it may be a link.
 * @throws Failure `store_unavailable` for a folder of another user; errors of the file system unchanged
 */
export function ensureFolder(dataFolder: string): void {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  // The folder may be a link, and the link must not be another user's either.
  for (const path of [dataFolder, `${dataFolder}/.`]) insistOnOwner(path, lstatSync(path));
}

/**
 * Makes an empty file if it does not exist, and lets only this user read it: SQLite would create it readable to all users. It does
 * not open an existing file, because closing it would release all locks that this process has on it.
 * @throws Failure `store_unavailable` if it is a link, not a file, or another user's; errors of the file system unchanged
 */
export function ensureOwnFile(file: string): string {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'EEXIST') throw error;
  }
  insistOnOwnFile(file);
  chmodSync(file, 0o600);
  return file;
}

/** @throws Failure `store_unavailable` if the path has a link, something else than a file, or another user's file */
export function insistOnOwnFile(file: string): void {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isFile()) {
    throw new Failure(
      'store_unavailable',
      `${file} is ${found.isSymbolicLink() ? 'a link' : 'not a file'}, so Tollgate does not open it. Put the file itself there, or name another folder in TOLLGATE_DATA.`,
    );
  }
  insistOnOwner(file, found);
}

export function insistOnOwner(path: string, { uid }: Stats): void {
  // Windows has no ids of users.
  const own = process.getuid?.() ?? uid;
  if (uid === own || uid === 0) return;
  throw new Failure(
    'store_unavailable',
    `${path} belongs to the user with the id ${uid}, and this is ${own}. Run Tollgate as that user, make this user the owner (chown), or name another folder in TOLLGATE_DATA.`,
  );
}
