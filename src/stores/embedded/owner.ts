import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Failure } from '../../failure.ts';

/**
 * Makes this process the one gateway of an embedded store, until `release` or its end, however it ends: the lock is
 * one that the operating system holds for an open file, so no crash leaves one behind.
 * @throws Failure `store_owned` when another gateway owns it
 */
export function ownStore(dataFolder: string): { release(): void } {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  let lock: DatabaseSync | null = null;
  try {
    lock = new DatabaseSync(join(dataFolder, 'owner.lock'));
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (cause) {
    lock?.close();
    throw new Failure(
      'store_owned',
      `Another gateway owns the embedded store in ${dataFolder}. Stop it, give this one a folder of its own with TOLLGATE_DATA, or let both share a Redis with REDIS_URL.`,
      cause,
    );
  }
  const held = lock;
  return {
    release: () => {
      held.exec('ROLLBACK');
      held.close();
    },
  };
}
