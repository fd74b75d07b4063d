import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { reasonOf } from '../config/read-file.ts';
import { Failure } from '../failure.ts';

/** One log as it was named; `-` is standard input. */
export interface LogFile {
  readonly name: string;
  /** On the disk; null where it cannot be known before it has been read. */
  readonly bytes: number | null;
}

export interface LogReader {
  /** Takes whole lines, each byte one character (latin1). */
  readonly onText: (text: string) => void;
  /** Called with how many bytes, as they are on the disk, have been read since the last call. */
  readonly onBytes: (bytes: number) => void;
}

const PIECE_BYTES = 1024 * 1024;
const LONGEST_LINE = 16 * PIECE_BYTES;
const GZIP = [0x1f, 0x8b];

/** @throws Failure `bad_usage` for a file that cannot be read, or is given twice: its requests would count twice */
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

/**
 * Refuses a file to write that is one of those that are read, under whatever name, or has no folder: before the long work.
 * @throws Failure `bad_usage`, `refused`
 */
export async function refuseToWrite(file: string, inputs: readonly string[]): Promise<void> {
  const folder = await stat(dirname(file)).catch((error: unknown) => {
    throw new Failure('refused', `${file} cannot be written: its folder ${reasonOf(error)}.`, error);
  });
  if (!folder.isDirectory()) throw new Failure('refused', `${file} cannot be written: ${dirname(file)} is no folder.`);
  const written = await identityOf(file);
  for (const input of inputs) {
    if (written === null || written !== (await identityOf(input))) continue;
    throw new Failure('bad_usage', `--html: ${file} is read as ${input}, and the report would take its place.`);
  }
}

/** The same for all names of one file; null for what is no file. */
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
 * Reads a log to its end, plain or gzip, whatever its name says, also one of several gzip files put together.
 * @throws Failure `refused` where it cannot be read on
 */
export async function readLog({ name }: LogFile, { onText, onBytes }: LogReader): Promise<void> {
  const source: Readable = name === '-' ? process.stdin : createReadStream(name, { highWaterMark: PIECE_BYTES });
  try {
    const pieces = counting(source, onBytes);
    const first = await pieces.next();
    if (first.done === true) return;
    const whole = chained(first.value, pieces);
    const take = (unpacked: AsyncIterable<Buffer>) => takeLines(unpacked, onText);
    if (GZIP.every((byte, i) => first.value[i] === byte)) {
      await pipeline(whole, createGunzip({ chunkSize: PIECE_BYTES }), take);
    } else await take(whole);
  } catch (error) {
    if (error instanceof Failure || !(error instanceof Error) || !('code' in error)) throw error;
    throw new Failure('refused', `${name} ${whatBroke(String(error.code), error)}.`, error);
  }
}

async function takeLines(pieces: AsyncIterable<Buffer>, onText: (text: string) => void): Promise<void> {
  let rest: string | null = null;
  for await (const piece of pieces) {
    const text: string = rest === null ? withoutMark(piece.toString('latin1')) : rest + piece.toString('latin1');
    const end = text.lastIndexOf('\n') + 1;
    if (end > 0) onText(text.slice(0, end));
    rest = text.slice(end);
    if (rest.length > LONGEST_LINE) throw new Failure('refused', 'A line of the log has no end: this is no log.');
  }
  if (rest !== null && rest !== '') onText(rest);
}

/** Editors put a byte order mark before the first line, which would not be read with it. */
function withoutMark(latin1: string): string {
  return latin1.startsWith('\u00EF\u00BB\u00BF') ? latin1.slice(3) : latin1;
}

async function* counting(source: Readable, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const piece of source) {
    onBytes((piece as Buffer).length);
    yield piece as Buffer;
  }
}

async function* chained(first: Buffer, others: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* others;
}

function whatBroke(code: string, error: Error): string {
  if (code === 'Z_BUF_ERROR')
    return 'ends in the middle of its gzip data; unpack what is there with `gzip -dcq` and give that';
  if (code.startsWith('Z_')) return 'is not a sound gzip file';
  return reasonOf(error);
}
