import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { reasonOf } from '../../config/read-file.ts';
import { Failure } from '../../failure.ts';

// The logs that `tollgate plans simulate` reads.

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
