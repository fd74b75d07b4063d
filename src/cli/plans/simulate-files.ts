import { randomUUID } from 'node:crypto';
import { closeSync, createReadStream, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { reasonOf } from '../../config/read-file.ts';
import { Failure } from '../../failure.ts';
import type { Run, RunStorage } from '../../simulate/recording.ts';

// The files of `tollgate plans simulate`: the logs that it reads, and the sorted rows for which memory has no room.

/** One log that `--log` names; `-` is standard input. */
interface LogFile {
  readonly name: string;
  /** The size on disk; null for standard input and pipes. */
  readonly bytes: number | null;
}

interface LogReader {
  /** Called with one or more whole lines, decoded as latin1, so that each byte is one character. */
  readonly onText: (text: string) => void;
  /** Called with the number of bytes that were read since the last call, before unpacking. */
  readonly onBytes: (bytes: number) => void;
}

const CHUNK_BYTES = 1024 * 1024;
const MAX_LINE_BYTES = 16 * CHUNK_BYTES;
const GZIP_MAGIC = [0x1f, 0x8b];

/**
 * Finds the logs that `--log` names.
 * @throws Failure `bad_usage` for a file that cannot be read, or is given twice, because its requests would count twice
 */
export async function findLogs(names: readonly string[]): Promise<readonly LogFile[]> {
  const found = await Promise.all(names.map(findLog));
  const seen = new Set<string>();
  for (const name of names) {
    const file = name === '-' ? name : await identityOf(name);
    if (file !== null && seen.has(file)) throw new Failure('bad_usage', `--log ${name} is given twice.`);
    if (file !== null) seen.add(file);
  }
  return found;
}

/** The device and inode, which are the same under every name of a file; null if the name is not a regular file. */
async function identityOf(name: string): Promise<string | null> {
  const found = await stat(name).catch(() => null);
  return found?.isFile() === true ? `${found.dev} ${found.ino}` : null;
}

async function findLog(name: string): Promise<LogFile> {
  if (name === '-') return { name, bytes: null };
  try {
    const found = await stat(name);
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' });
    return { name, bytes: found.isFile() ? found.size : null };
  } catch (error) {
    throw new Failure('bad_usage', `--log: ${name} ${reasonOf(error)}.`, error);
  }
}

/**
 * Reads a log to its end. Its first bytes decide whether it is gzip; several gzip files in a row count as one.
 * @throws Failure `refused` if the log becomes unreadable
 */
export async function readLog({ name }: LogFile, { onText, onBytes }: LogReader): Promise<void> {
  const source: Readable = name === '-' ? process.stdin : createReadStream(name, { highWaterMark: CHUNK_BYTES });
  try {
    const chunks = counted(source, onBytes);
    const first = await chunks.next();
    if (first.done === true) return;
    const whole = chained(first.value, chunks);
    const readAll = (unpacked: AsyncIterable<Buffer>) => readLines(unpacked, onText);
    if (GZIP_MAGIC.every((byte, i) => first.value[i] === byte)) {
      await pipeline(whole, createGunzip({ chunkSize: CHUNK_BYTES }), readAll);
    } else await readAll(whole);
  } catch (error) {
    if (error instanceof Failure || !(error instanceof Error) || !('code' in error)) throw error;
    throw new Failure('refused', `${name} ${faultOf(String(error.code), error)}.`, error);
  }
}

async function readLines(chunks: AsyncIterable<Buffer>, onText: (text: string) => void): Promise<void> {
  let rest: string | null = null;
  for await (const chunk of chunks) {
    const text: string =
      rest === null ? withoutByteOrderMark(chunk.toString('latin1')) : rest + chunk.toString('latin1');
    const end = text.lastIndexOf('\n') + 1;
    if (end > 0) onText(text.slice(0, end));
    rest = text.slice(end);
    if (rest.length > MAX_LINE_BYTES)
      throw new Failure('refused', 'A line of the log is too long: the file is not a log.');
  }
  if (rest !== null && rest !== '') onText(rest);
}

/** Removes the byte order mark that some editors write. With it the first line would not parse. */
function withoutByteOrderMark(latin1: string): string {
  return latin1.startsWith('\u00EF\u00BB\u00BF') ? latin1.slice(3) : latin1;
}

async function* counted(source: Readable, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    onBytes((chunk as Buffer).length);
    yield chunk as Buffer;
  }
}

async function* chained(first: Buffer, others: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* others;
}

function faultOf(code: string, error: Error): string {
  if (code === 'Z_BUF_ERROR')
    return 'ends in the middle of its gzip data; unpack what is there with `gzip -dcq` and give that';
  if (code.startsWith('Z_')) return 'is not a sound gzip file';
  return reasonOf(error);
}

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
