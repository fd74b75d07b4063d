import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Failure } from '../../failure.ts';
import type { Run, RunStorage } from '../../simulate/recording.ts';

/** Runs are kept in memory up to this size; the rest goes to a file. */
const IN_MEMORY_BYTES = 128 * 1024 * 1024;

/**
 * Keeps the sorted rows of a recording, first in memory, then in a file in the folder for temporary files. The file is
 * unlinked as soon as it is open, so the system removes it when the process ends, even if it is killed.
 */
export class FileRunStorage implements RunStorage {
  readonly #inMemoryBytes: number;
  #heldBytes = 0;
  #file: number | null = null;
  #fileBytes = 0;

  constructor(inMemoryBytes = IN_MEMORY_BYTES) {
    this.#inMemoryBytes = inMemoryBytes;
  }

  /** @throws Failure `refused` if the run cannot be written to the folder for temporary files */
  put(run: Uint8Array): Run {
    if (this.#heldBytes + run.length <= this.#inMemoryBytes) {
      this.#heldBytes += run.length;
      return { bytes: run.length, read: (into, from) => into.set(run.subarray(from, from + into.length)) };
    }
    try {
      return this.#putInFile(run);
    } catch (cause) {
      throw new Failure(
        'refused',
        `${tmpdir()} has no room for ${run.length} bytes. Name another folder in TMPDIR.`,
        cause,
      );
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #putInFile(run: Uint8Array): Run {
    this.#file ??= openUnnamed();
    const file = this.#file;
    const at = this.#fileBytes;
    for (let written = 0; written < run.length; ) {
      written += writeSync(file, run, written, run.length - written, at + written);
    }
    this.#fileBytes += run.length;
    return {
      bytes: run.length,
      read: (into, from) => {
        for (let read = 0; read < into.length; ) {
          const more = readSync(file, into, read, into.length - read, at + from + read);
          if (more === 0) throw new Error('the file of the recording is shorter than what was written to it');
          read += more;
        }
      },
    };
  }
}

function openUnnamed(): number {
  const path = join(tmpdir(), `tollgate-simulate-${randomUUID()}`);
  const file = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  return file;
}
