import { hash } from 'node:crypto';
import { statSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { Failure } from '../../failure.ts';
import { isHeldByAnother, openingFailure } from './database.ts';
import { ensureFolder, ensureOwnFile } from './own-files.ts';
import { ownerListens } from './owner-socket.ts';

/** The hold of this process on the store: a gateway has it as long as it runs, a command while it changes something. */
export interface StoreOwner {
  /**
   * Checks that the lock is still there. If another process has deleted or replaced its file, makes the file and locks it again.
   * @throws Failure `store_owned` if another process has locked it meanwhile, `store_unavailable` if this process cannot make the file
   */
  insist(): void;
  release(): void;
}

/** A command owns a store for milliseconds, a gateway that stops for some seconds more. */
const RELEASED_WITHIN_MS = 5_000;
const AGAIN_MS = 50;

/**
 * Repeats `attempt`, for at least some seconds, until it returns a value. It counts attempts, because a process that stood still
 * meanwhile has not tried.
 * @param withinMs milliseconds
 * @returns null if each attempt returned null
 */
export async function untilReleased<T>(
  attempt: () => Promise<T | null>,
  withinMs = RELEASED_WITHIN_MS,
): Promise<T | null> {
  for (let left = Math.ceil(withinMs / AGAIN_MS); ; left--) {
    const value = await attempt();
    if (value !== null || left === 0) return value;
    await delay(AGAIN_MS);
  }
}

/**
 * `ownStore` for a gateway that starts, which waits for a command that owns the store. Another gateway listens on the socket of the owner.
 * @throws Failure `store_owned`, at once if another gateway listens; `store_unavailable`
 */
export async function ownStoreSoon(dataFolder: string, withinMs?: number): Promise<StoreOwner> {
  const attempt = async () => {
    const owner = await ownStoreIfFree(dataFolder);
    if (owner === null && (await ownerListens(dataFolder))) throw owned(dataFolder, 'Another gateway owns');
    return owner;
  };
  const owner = await untilReleased(attempt, withinMs);
  if (owner === null) throw owned(dataFolder, `${ANOTHER}, and has not released within 5 s,`);
  return owner;
}

/** @returns null while another process owns the store @throws Failure `store_unavailable` if the lock cannot be made */
export function ownStoreIfFree(dataFolder: string): Promise<StoreOwner | null> {
  return ownStore(dataFolder).catch((error) => {
    if (error instanceof Failure && error.code === 'store_owned') return null;
    throw error;
  });
}

/**
 * Makes this process the only one that changes an embedded store, until `release` or the end of the process. The operating system
 * releases what the process holds when it ends, so a crash leaves nothing behind. The process holds three things:
 *
 * - The folder, in `OWNED`. The locks of a file belong to the process, not to a connection: two gateways of the library in
 *   one process would both get them, and the second one, when it closes the file, would release those of the first.
 * - On Linux an abstract socket, named by the database file. Attack: an operator deletes `owner.lock` while a gateway runs, and
 *   a second gateway makes and locks a new one. This name has no file. Its scope is the network namespace, so it does not
 *   replace the lock, which containers on one volume share.
 * - The lock on `owner.lock`.
 * @throws Failure `store_owned` if another process owns the store, `store_unavailable` if the lock cannot be made
 */
export async function ownStore(dataFolder: string): Promise<StoreOwner> {
  const database = prepared(dataFolder);
  const folder = identityOf(dataFolder)!;
  if (OWNED.has(folder)) throw owned(dataFolder, ANOTHER);
  OWNED.add(folder);
  let name: Server | null = null;
  try {
    name = await takeName(database, dataFolder);
    let lock = lockFile(dataFolder);
    const held = name;
    return {
      insist: () => {
        if (lock.isInPlace()) return;
        // The process keeps the lock it has until it has another, because the file may come back.
        const next = lockFile(dataFolder);
        lock.release();
        lock = next;
      },
      release: () => {
        lock.release();
        held?.close();
        OWNED.delete(folder);
      },
    };
  } catch (error) {
    name?.close();
    OWNED.delete(folder);
    throw error;
  }
}

/** The folders that this process owns, by device and inode. */
const OWNED = new Set<string>();

function prepared(dataFolder: string): string {
  const file = join(dataFolder, 'tollgate.db');
  try {
    ensureFolder(dataFolder);
    return ensureOwnFile(file);
  } catch (error) {
    throw openingFailure(error, file);
  }
}

/** Device and inode; null if there is no such file. */
function identityOf(file: string): string | null {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev} ${found.ino}`;
}

/** Listens on an abstract socket. @returns null if the system has none, or refuses it */
function takeName(database: string, dataFolder: string): Promise<Server | null> {
  if (process.platform !== 'linux') return Promise.resolve(null);
  const { dev, ino, birthtimeNs } = statSync(database, { bigint: true });
  // Other users cannot see the file, and so cannot take the name first.
  const path = `\0tollgate-${hash('sha256', `${dev} ${ino} ${birthtimeNs}`)}`;
  const server = createServer((socket) => socket.destroy()).unref();
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') reject(owned(dataFolder, ANOTHER, error));
      else resolve(null);
    });
    server.listen({ path }, () => resolve(server));
  });
}

function lockFile(dataFolder: string) {
  const file = join(dataFolder, 'owner.lock');
  let lock: DatabaseSync | null = null;
  try {
    ensureOwnFile(file);
    lock = new DatabaseSync(file);
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock?.close();
    throw isHeldByAnother(error) ? owned(dataFolder, ANOTHER, error) : unlockable(file, error);
  }
  const held = lock;
  const identity = identityOf(file);
  return {
    isInPlace: () => identityOf(file) === identity,
    release: () => {
      held.exec('ROLLBACK');
      held.close();
    },
  };
}

function unlockable(file: string, cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new Failure(
    'store_unavailable',
    `${file} cannot be locked: ${reason}. TOLLGATE_DATA must name a folder that this user may write.`,
    cause,
  );
}

const ANOTHER = 'Another gateway or command owns';

function owned(dataFolder: string, who: string, cause?: unknown): Failure {
  return new Failure(
    'store_owned',
    `${who} the embedded store in ${dataFolder}. Stop it, give this one a folder of its own with TOLLGATE_DATA, or let both share a Redis with REDIS_URL.`,
    cause,
  );
}
