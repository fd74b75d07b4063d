import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type CertificateStore,
  CHALLENGE,
  type Lease,
  NAMES,
  type RecordChange,
} from '../../certificates/certificate-store.ts';
import { Failure } from '../../failure.ts';

/** The folder in the data folder, mode 700. Each record is a file there, mode 600. */
const FOLDER = 'certificates';

/**
 * The records of ACME beside the embedded store. A single gateway process owns them: the lease is always free, and the answers to
 * challenges stay in memory.
 */
export class EmbeddedCertificateStore implements CertificateStore {
  readonly isShared = false;
  readonly #folder: string;
  readonly #challenges = new Map<string, string>();

  constructor(dataFolder: string) {
    this.#folder = join(dataFolder, FOLDER);
  }

  async read(name: string): Promise<string | null> {
    if (name.startsWith(CHALLENGE)) return this.#challenges.get(name) ?? null;
    try {
      return await readFile(join(this.#folder, name), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw unusable(this.#folder, 'read', error);
    }
  }

  async lease(): Promise<boolean> {
    return true;
  }

  async release(): Promise<void> {}

  async write(_lease: Lease, changes: readonly RecordChange[]): Promise<boolean> {
    try {
      for (const { name, text } of changes) {
        if (name.startsWith(CHALLENGE)) {
          if (text === null) this.#challenges.delete(name);
          else this.#challenges.set(name, text);
        } else if (text === null) await rm(join(this.#folder, name), { force: true });
        else await this.#replace(name, text);
      }
      return true;
    } catch (error) {
      throw unusable(this.#folder, 'written', error);
    }
  }

  /**
   * Fault: the process or the machine ends in the middle of a write. This writes the whole file to the disk before the file gets
   * its name, so a reader finds the earlier record or the new one.
   */
  async #replace(name: string, text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await this.#removeDrafts(name);
    const draft = join(this.#folder, `${name}.${randomBytes(6).toString('hex')}.draft`);
    try {
      const file = await open(draft, 'wx', 0o600);
      try {
        await file.writeFile(text);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, join(this.#folder, name));
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
    await this.#syncFolder();
    if (name.startsWith('certificate.')) await this.#removeOthers(name);
  }

  /** Makes the new name survive a power failure. Windows has no such call. */
  async #syncFolder(): Promise<void> {
    if (process.platform === 'win32') return;
    const folder = await open(this.#folder, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** Removes what a process left behind that ended while it wrote this record. */
  async #removeDrafts(name: string): Promise<void> {
    const isDraft = (file: string) => file.startsWith(`${name}.`) && file.endsWith('.draft');
    for (const file of (await readdir(this.#folder)).filter(isDraft))
      await rm(join(this.#folder, file), { force: true });
  }

  /** Removes the certificates of earlier domains, whose private keys nothing needs any more. */
  async #removeOthers(name: string): Promise<void> {
    if (name === NAMES.latest) return;
    const isOther = (file: string) =>
      file.startsWith('certificate.') && file !== name && file !== NAMES.latest && !file.endsWith('.draft');
    for (const file of (await readdir(this.#folder)).filter(isOther))
      await rm(join(this.#folder, file), { force: true });
  }
}

function unusable(folder: string, verb: 'read' | 'written', error: unknown): Failure {
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  return new Failure(
    'store_unavailable',
    `The folder ${folder} cannot be ${verb} (${code}). Check its permissions, and that the disk has room.`,
    error,
  );
}
