import { constants } from 'node:fs';
import { access, type FileHandle, lstat, open, rename, rm, stat, unlink } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readSettingsFile, versionOf } from '../../config/read-file.ts';
import { Failure } from '../../failure.ts';

/** What became of a replacement: `changed` if the file was no longer a version that the writer expected. */
export type Replacement =
  | { readonly kind: 'written'; readonly before: string; readonly version: string }
  | { readonly kind: 'changed'; readonly version: string };

/** A draft beside the file that is older belongs to a process that ended while it wrote. */
const STALE_AFTER_MS = 60_000;
/** A writer waits for another one for two seconds. */
const MAX_ATTEMPTS = 100;
const ATTEMPT_EVERY_MS = 20;

/** The file of plans of a running gateway: read and replaced as a whole. */
export class PlansFile {
  readonly #path: string;

  readonly #nowMs: () => number;

  /** @param path as TOLLGATE_PLANS names it @param nowMs Unix milliseconds */
  constructor(path: string, nowMs: () => number) {
    this.#path = path;
    this.#nowMs = nowMs;
  }

  /** Without its folder. */
  get name(): string {
    return basename(this.#path);
  }

  /** The path that a patch gives the file: relative to the folder in which the gateway was started, else its name. */
  get pathInPatch(): string {
    const path = normalize(this.#path).replaceAll('\\', '/');
    return isAbsolute(path) || path.startsWith('../') ? this.name : path;
  }

  /**
   * Reads the file. The text begins with a byte order mark if the file has one; the version is that of the text without it,
   * as the gateway reads it.
   * @throws Failure `conflict` with a sentence that says why it cannot be read
   */
  read(): { readonly text: string; readonly version: string } {
    const read = readSettingsFile(this.#path, 'Put it back.', true);
    if ('fault' in read) throw new Failure('conflict', `${this.name} ${read.fault.message}`);
    return { text: read.hasMark ? `\uFEFF${read.text}` : read.text, version: versionOf(read.text) };
  }

  /** Says why the file cannot be replaced, in a sentence; null if nothing is known to be in the way. */
  async obstacle(): Promise<string | null> {
    try {
      if ((await lstat(this.#path)).isSymbolicLink()) {
        return `${this.name} is a symbolic link, as in a Kubernetes ConfigMap. Change the file at its source.`;
      }
      await access(dirname(this.#path), constants.W_OK);
      return null;
    } catch (error) {
      return this.#sentenceOf(error);
    }
  }

  /**
   * Replaces the file: the text is written to a draft in the same folder, which is then renamed. At any moment the name has
   * one of the two versions, complete, also after a crash. Mode and owner stay.
   *
   * Attack: two writers at once, each of which has read the same version. The name of the draft is the same for all of
   * them, and only one process can create it, so the second waits, and then finds that the version has changed. A writer
   * that was stopped until another one took its draft for abandoned, and removed it, gives up.
   * @param isExpected whether the version that is to be replaced is one that the writer knows
   * @throws Failure `conflict` with a sentence if the file cannot be replaced; it is then unchanged
   */
  async replace(text: string, isExpected: (version: string) => boolean): Promise<Replacement> {
    const obstacle = await this.obstacle();
    if (obstacle !== null) throw new Failure('conflict', obstacle);
    const draft = join(dirname(this.#path), `.${this.name}.draft`);
    try {
      const { mode, uid, gid } = await stat(this.#path);
      const handle = await this.#create(draft);
      // Whether the draft of this name is this writer's, to rename or to remove.
      let isOurs = true;
      try {
        const now = await handle.stat();
        if (now.uid !== uid || now.gid !== gid) await handle.chown(uid, gid);
        await handle.chmod(mode & 0o7777);
        await handle.writeFile(text);
        await handle.sync();
        const { version: before } = this.read();
        if (!isExpected(before)) return { kind: 'changed', version: before };
        isOurs = (await stat(draft).catch(() => null))?.ino === now.ino;
        if (!isOurs) throw this.#busy();
        await rename(draft, this.#path);
        isOurs = false;
        // Not every file system can sync a folder. After a crash the name has one of the two versions in any case.
        await syncFolder(dirname(this.#path)).catch(() => {});
        return { kind: 'written', before, version: versionOf(text.replace(/^\uFEFF/, '')) };
      } finally {
        await handle.close();
        if (isOurs) await unlink(draft);
      }
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw new Failure('conflict', this.#sentenceOf(error), error);
    }
  }

  /** Creates the draft, when other writers have finished theirs. */
  async #create(draft: string): Promise<FileHandle> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await open(draft, 'wx', 0o600);
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error;
      }
      const found = await stat(draft).catch(() => null);
      if (found !== null && this.#nowMs() - found.mtimeMs > STALE_AFTER_MS) await rm(draft, { force: true });
      else if (attempt === MAX_ATTEMPTS) throw this.#busy();
      else await delay(ATTEMPT_EVERY_MS);
    }
  }

  #busy(): Failure {
    return new Failure('conflict', `Another gateway is writing ${this.name}. Read it again, then retry.`);
  }

  #sentenceOf(error: unknown): string {
    const code = codeOf(error);
    const [why, whatToDo] = REASONS[code] ?? [`the system says ${code}`, 'Change the file at its source.'];
    return `${this.name} cannot be replaced: ${why}. ${whatToDo}`;
  }
}

const READ_ONLY = ['its folder is read-only', 'Change the file at its source, or mount its folder writable.'] as const;
const NOT_ALLOWED = [
  'the user of the gateway may not write to its folder, or not give the file to its owner',
  'Change the file at its source, or let the user of the gateway write there.',
] as const;
const NO_ROOM = ['there is no room on the disk', 'Make room, then retry.'] as const;
const REASONS: Readonly<Record<string, readonly [why: string, whatToDo: string]>> = {
  EROFS: READ_ONLY,
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
  // A file that is mounted by itself, as Docker does it, cannot be renamed over.
  EBUSY: ['it is mounted by itself', 'Mount its folder instead, or change the file at its source.'],
  EXDEV: ['it is mounted by itself', 'Mount its folder instead, or change the file at its source.'],
  ENOSPC: NO_ROOM,
  EDQUOT: NO_ROOM,
  ENOENT: ['it does not exist', 'Put it back.'],
};

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'an unknown error';
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
