import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';
import { isHeldByAnother } from './database.ts';

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
