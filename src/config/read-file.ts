import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { type Fault, printPath } from './fault.ts';

// Files that operators name: settings and secrets, read within bounds, each fault reported as a sentence.

/**
 * Size limit of a settings file, in bytes: ten thousand plans or routes fit. Checking such a file takes up to 100 MB of
 * memory and one second of CPU time, which a gateway in a small container can spare.
 */
const MAX_FILE_BYTES = 512 * 1024;
const tooLarge = (maxBytes: number) => `is larger than ${maxBytes / 1024} KiB, the most that is read.`;
const NOT_UTF8 = 'is not UTF-8 text. Save the file as UTF-8.';

/**
 * Reads a settings file as text.
 * @param hint the sentence that follows the reason why the file cannot be opened
 * @param isReload whether the process has read the file before: a pipe or a device is a fault then
 * @param maxBytes the size limit, for a file other than one of settings
 * @returns the text without a byte order mark, and whether the file has one; or the fault that kept the file from being read
 */
export function readSettingsFile(
  file: string,
  hint: string,
  isReload = false,
  maxBytes = MAX_FILE_BYTES,
): { readonly text: string; readonly hasMark: boolean } | { readonly fault: Fault } {
  const at = (line: number, column: number, message: string) => ({
    fault: { file, line, column, path: printPath([]), message },
  });
  let bytes: Buffer;
  try {
    bytes = readAtMost(file, maxBytes + 1, isReload);
  } catch (error) {
    return at(1, 1, `${reasonOf(error)}. ${hint}`);
  }
  if (bytes.length > maxBytes) {
    return at(1, 1, tooLarge(maxBytes));
  }
  const invalid = firstInvalidUtf8(bytes);
  if (invalid !== null) return at(invalid.line, invalid.column, NOT_UTF8);
  return { text: new TextDecoder().decode(bytes), hasMark: bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) };
}

const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

/** The fault that `readSettingsFile` would find in a file with this text; null if there is none. */
export function faultOfText(text: string, file: string): Fault | null {
  const at = (line: number, column: number, message: string) => ({ file, line, column, path: printPath([]), message });
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) return at(1, 1, tooLarge(MAX_FILE_BYTES));
  // Half of a surrogate pair has no form in UTF-8.
  const half = text.search(/\p{Surrogate}/u);
  if (half === -1) return null;
  const before = text.slice(0, half).split('\n');
  return at(before.length, before.at(-1)!.length + 1, NOT_UTF8);
}

/** Reads the file that holds a secret. A fault is the end of a sentence and never quotes the content. */
export type SecretReader = (file: string) => { readonly text: string } | { readonly fault: string };

const MAX_SECRET_BYTES = 64 * 1024;

/** Reads the content without the one line ending that editors and `echo` append. */
export const readSecret: SecretReader = (file) => secretIn(file, false);

/** The same for a file that the process has read before: a pipe or a device is a fault then. */
export const rereadSecret: SecretReader = (file) => secretIn(file, true);

/** Whether a file, which can be read, is one that every user of the machine may read. False for a pipe or a device. */
export function isReadableByAll(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() === true && (found.mode & 0o004) !== 0;
}

function secretIn(file: string, isReload: boolean): ReturnType<SecretReader> {
  let bytes: Buffer;
  try {
    bytes = readAtMost(file, MAX_SECRET_BYTES + 1, isReload);
  } catch (error) {
    return { fault: `names the file ${file}, which ${reasonOf(error)}` };
  }
  if (bytes.length > MAX_SECRET_BYTES) return { fault: `names the file ${file}, which is larger than 64 KiB` };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
  } catch {
    return { fault: `names the file ${file}, which is not UTF-8 text` };
  }
  if (text === '') return { fault: `names the file ${file}, which is empty` };
  if (/[\0-\x1f\x7f]/.test(text)) return { fault: `names the file ${file}, which holds more than one line of text` };
  return { text };
}

/**
 * Reads no more than `most` bytes, so that a device or a pipe that an operator named by mistake cannot fill the memory.
 * @param isReload true refuses a pipe or a device: its content was consumed by the first reading, and opening a pipe
 *   would block until a writer opens it
 * @throws the error of the file system
 */
function readAtMost(file: string, most: number, isReload = false): Buffer {
  const descriptor = openSync(file, isReload ? constants.O_RDONLY | constants.O_NONBLOCK : constants.O_RDONLY);
  try {
    if (isReload && isPipeOrDevice(fstatSync(descriptor, { bigint: true }))) {
      throw Object.assign(new Error(), { code: PIPE_OR_DEVICE });
    }
    const buffer = Buffer.alloc(most);
    let length = 0;
    while (length < most) {
      const read = readSync(descriptor, buffer, length, most - length, null);
      if (read === 0) break;
      length += read;
    }
    return buffer.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}

const PIPE_OR_DEVICE = 'PIPE_OR_DEVICE';

export function statOf(file: string): BigIntStats | undefined {
  try {
    return statSync(file, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

export function isPipeOrDevice(stats: BigIntStats): boolean {
  return !stats.isFile() && !stats.isDirectory();
}

/** A text that changes when one of the files changes or is replaced by another file. */
export function signatureOf(files: readonly string[]): string {
  return files
    .map((file) => {
      const stats = statOf(file);
      return stats === undefined ? 'none' : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join();
    })
    .join(';');
}

/** Why a file cannot be read, as the end of a sentence that starts with the file's name. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EISDIR') return 'is a directory, not a file';
  if (code === PIPE_OR_DEVICE) return 'is a pipe or a device, and only a file can be read again';
  if (code === 'EACCES' || code === 'EPERM') return 'may not be read by this user';
  return `cannot be read (${code})`;
}

/** The first position that is not UTF-8. Lines can be decoded one by one: no multi-byte sequence contains 0x0a. */
function firstInvalidUtf8(bytes: Buffer): { line: number; column: number } | null {
  const strict = new TextDecoder('utf-8', { fatal: true });
  let line = 1;
  for (let from = 0; from <= bytes.length; line += 1) {
    const feed = bytes.indexOf(0x0a, from);
    const text = bytes.subarray(from, feed === -1 ? bytes.length : feed);
    try {
      strict.decode(text);
    } catch {
      return { line, column: new TextDecoder().decode(text).indexOf('\uFFFD') + 1 };
    }
    if (feed === -1) return null;
    from = feed + 1;
  }
  return null;
}

/** The version of a file: the beginning of the SHA-256 of its text. */
export function versionOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
