import { chmodSync, closeSync, constants, lstatSync, mkdirSync, openSync, type Stats, unlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Failure } from '../../failure.ts';
import { openingFailure } from './database.ts';
import { insistOnOwner } from './own-files.ts';

// The Unix socket on which the gateway that owns an embedded store does what commands ask for: `run/gateway.sock` in the data folder.

const [FOLDER, NAME] = ['run', 'gateway.sock'];
/** A path of a socket has at most 107 bytes on Linux, and 103 elsewhere. */
const MAX_PATH_BYTES = 103;

/** The path of the socket, by which the system finds it until `close`. */
interface SocketPath {
  readonly path: string;
  close(): void;
}

/**
 * Prepares the place of the socket of the gateway that owns the store, and removes the socket that an earlier gateway left there. The
 * caller holds the lock of the owner.
 *
 * Attack: another user has put a link or a socket there, so that commands send it their secrets. So the folder has mode 700, and this
 * function refuses a folder or a socket that is another user's or of another kind.
 * @throws Failure `store_unavailable`; errors of the file system unchanged
 */
export function socketToMake(dataFolder: string) {
  const folder = join(dataFolder, FOLDER);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  insistOn(folder, 'folder', lstatSync(folder));
  chmodSync(folder, 0o700);
  const path = join(folder, NAME);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined) {
    insistOn(path, 'socket', found);
    unlinkSync(path);
  }
  const socket = shortened(folder);
  /** Lets this user alone connect, once something listens there. */
  const closeToOthers = () => chmodSync(socket.path, 0o600);
  return { ...socket, closeToOthers };
}

/**
 * Finds the socket of the gateway that owns the store. That gateway may have ended and left it behind.
 * @returns null if there is none
 * @throws Failure `store_unavailable` for what another user has put there, and where this user may not look
 */
export function socketOfOwner(dataFolder: string): SocketPath | null {
  const folder = join(dataFolder, FOLDER);
  const ofFolder = lookedAt(folder);
  if (ofFolder === undefined) return null;
  insistOn(folder, 'folder', ofFolder);
  const found = lookedAt(join(folder, NAME));
  if (found === undefined) return null;
  insistOn(join(folder, NAME), 'socket', found);
  return shortened(folder);
}

/** @returns undefined if nothing is there @throws Failure `store_unavailable` if this user may not look */
function lookedAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw openingFailure(error, path);
  }
}

/** Whether a gateway listens on the socket of the owner. @throws Failure as `socketOfOwner` */
export async function ownerListens(dataFolder: string): Promise<boolean> {
  const found = socketOfOwner(dataFolder);
  if (found === null) return false;
  const connection = connect(found.path);
  try {
    return await new Promise((resolve) => {
      connection.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
  } finally {
    connection.destroy();
    found.close();
  }
}

function insistOn(path: string, what: 'folder' | 'socket', found: Stats): void {
  if (!(what === 'folder' ? found.isDirectory() : found.isSocket())) {
    throw new Failure(
      'store_unavailable',
      `${path} is no ${what}, so Tollgate does not use it. Remove it, or name another folder in TOLLGATE_DATA.`,
    );
  }
  insistOnOwner(path, found);
}

/** If the path is too long for a socket, returns one that leads through the open folder. */
function shortened(folder: string): SocketPath {
  const path = join(folder, NAME);
  if (Buffer.byteLength(path) <= MAX_PATH_BYTES) return { path, close: () => {} };
  const opened = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${opened}/${NAME}`, close: () => closeSync(opened) };
}
