import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { link, mkdir, open, readdir, rm, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../../failure.ts';
import { isWellFormed } from '../../identify/api-key.ts';
import type { AppliedEntry } from '../../model/record.ts';

const PENDING = '.pending';
/** A link is not followed, and a pipe is opened without a writer. Windows has neither. */
const AS_IT_IS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
/** Attempts to prepare a secret while concurrent commands do the same. */
const MAX_ATTEMPTS = 50;

/**
 * The folder to which `tollgate keys apply` writes the secrets of new keys: a file for each, `SET.ENTRY`, that only its owner may
 * read (0600).
 *
 * A secret is on the disk before the store has its key: it is written to `SET.ENTRY.pending`, and renamed when the key exists. A
 * command that was killed in between has left the file, and the next one uses its secret. No file is ever overwritten: each is linked
 * to its name, which fails if the name is taken. So two commands with one folder use the same secret.
 *
 * Attack: somebody else who can write to the folder plants a prepared secret, so that the key gets one that the attacker knows; or a
 * link, or a pipe that is never written to. Only a file that this user has, and no other can read, is taken for a prepared one.
 */
export class SecretFolder {
  readonly #folder: string;
  readonly #names: ReadonlySet<string>;

  private constructor(folder: string, names: ReadonlySet<string>) {
    this.#folder = folder;
    this.#names = names;
  }

  /**
   * Reads which files the folder has. Call it before the store is read: a key whose file is found exists by then, unless the file is
   * of another store.
   * @param folder a missing folder is taken for an empty one; `make` makes it
   * @throws Failure `refused`
   */
  static async read(folder: string): Promise<SecretFolder> {
    return orRefused(folder, async () => {
      const names = await readdir(folder).catch(ifNoFile<string[]>([]));
      return new SecretFolder(folder, new Set(names));
    });
  }

  /** Makes the folder (0700) if it is missing. @throws Failure `refused` */
  async make(): Promise<void> {
    await orRefused(this.#folder, () => mkdir(this.#folder, { recursive: true, mode: 0o700 }));
  }

  /** The file that has, or will have, the secret of an entry's key. */
  fileOf({ set, name }: AppliedEntry): string {
    return join(this.#folder, `${set}.${name}`);
  }

  /** Whether the folder had the secret of an entry's key when it was read. */
  has({ set, name }: AppliedEntry): boolean {
    return this.#names.has(`${set}.${name}`);
  }

  /** Whether an earlier command had prepared a secret for an entry's key when the folder was read. */
  hasPending({ set, name }: AppliedEntry): boolean {
    return this.#names.has(`${set}.${name}${PENDING}`);
  }

  /**
   * Writes the secret of a key that is about to be made.
   * @returns the secret to use: that of an earlier or concurrent command if there is one
   * @throws Failure `refused`
   */
  async prepare(entry: AppliedEntry, secret: string): Promise<string> {
    const file = this.fileOf(entry) + PENDING;
    const draft = `${file}.${randomBytes(6).toString('hex')}.draft`;
    return orRefused(file, async () => {
      try {
        await writeFile(draft, `${secret}\n`, { flag: 'wx', mode: 0o600, flush: true });
        return await this.#linkOrRead(draft, { entry, file, secret });
      } finally {
        await rm(draft, { force: true });
      }
    });
  }

  async #linkOrRead(
    draft: string,
    { entry, file, secret }: { readonly entry: AppliedEntry; readonly file: string; readonly secret: string },
  ): Promise<string> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      try {
        await link(draft, file);
        return secret;
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error;
      }
      const there = await this.pending(entry);
      if (there !== null) return there;
      // A concurrent command has finished with its file between the two calls.
    }
    throw new Failure('refused', `${file} is being made and removed by others all the time. Apply again.`);
  }

  /** The secret that is prepared; null if there is none. @throws Failure `refused` */
  async pending(entry: AppliedEntry): Promise<string | null> {
    const file = this.fileOf(entry) + PENDING;
    const text = await orRefused(file, () => ownText(file).catch(ifNoFile(undefined)));
    if (text === undefined) return null;
    if (text === null) {
      const message = `${file} is no file of mode 600 that belongs to this user: somebody else may have put it there. Move it away, then apply again.`;
      throw new Failure('refused', message);
    }
    const secret = text.replace(/\n$/, '');
    if (isWellFormed(secret)) return secret;
    throw new Failure('refused', `${file} holds no secret of Tollgate's form. Move it away, then apply again.`);
  }

  /** Makes what was prepared last through a loss of power. The keys are created only then. @throws Failure `refused` */
  async sync(): Promise<void> {
    await orRefused(this.#folder, async () => {
      const handle = await open(this.#folder, 'r');
      await handle.sync().finally(() => handle.close());
    });
  }

  /** Gives a prepared secret its own name: the key exists. @throws Failure `refused` */
  async keep(entry: AppliedEntry, secret: string): Promise<void> {
    const file = this.fileOf(entry);
    await orRefused(file, async () => {
      await link(file + PENDING, file).catch(async (error) => {
        // A concurrent command with the same folder has done the same.
        const there = codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT' ? await ownText(file) : null;
        if (there !== `${secret}\n`) throw error;
      });
      await this.drop(entry);
    });
  }

  /** Removes a prepared secret that belongs to no key. */
  async drop(entry: AppliedEntry): Promise<void> {
    await unlink(this.fileOf(entry) + PENDING).catch(ifNoFile(undefined));
  }
}

/** @throws Failure `refused` for an error of the file system */
async function orRefused<T>(file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    const message = `${file} cannot be used (${codeOf(cause)}). --secrets must be a folder that this user can write to.`;
    throw new Failure('refused', message, cause);
  }
}

function ifNoFile<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (codeOf(error) === 'ENOENT') return value;
    throw error;
  };
}

/** @returns null if the file is a link, a pipe or the like, or another user has it or can read it */
async function ownText(file: string): Promise<string | null> {
  const handle = await open(file, AS_IT_IS).catch((error) => {
    // ELOOP: a link. ENXIO: a socket.
    if (['ELOOP', 'ENXIO'].includes(codeOf(error))) return null;
    throw error;
  });
  if (handle === null) return null;
  try {
    const found = await handle.stat();
    // Windows has neither owners nor modes of this kind.
    const isOwn = process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o077) === 0);
    return found.isFile() && isOwn ? await handle.readFile('utf8') : null;
  } finally {
    await handle.close();
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException)?.code ?? 'unknown error';
}
