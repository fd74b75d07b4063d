import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { type Fault, printPath } from './fault.ts';

/**
 * The largest settings file that is read, in bytes: ten thousand plans or routes fit. To check it takes up to 100 MB of
 * memory and a second of a processor, which a gateway in a small container has beside its work.
 */
export const MAX_FILE_BYTES = 512 * 1024;

/**
 * Reads a settings file as text.
 * @param isAgain whether it has been read before, so that it must not be a pipe or a device
 * @returns the text without a byte order mark, or the one fault that kept it from being read
 */
export function readSettingsFile(
  file: string,
  hint: string,
  isAgain = false,
): { readonly text: string } | { readonly fault: Fault } {
  const at = (line: number, column: number, message: string) => ({
    fault: { file, line, column, path: printPath([]), message },
  });
  let bytes: Buffer;
  try {
    bytes = readAtMost(file, MAX_FILE_BYTES + 1, isAgain);
  } catch (error) {
    return at(1, 1, `${reasonOf(error)}. ${hint}`);
  }
  if (bytes.length > MAX_FILE_BYTES) {
    return at(1, 1, `is larger than ${MAX_FILE_BYTES / 1024} KiB, the most that is read.`);
  }
  const broken = firstBrokenText(bytes);
  if (broken !== null) return at(broken.line, broken.column, 'is not UTF-8 text. Save the file as UTF-8.');
  return { text: new TextDecoder().decode(bytes) };
}

/**
 * Reads no more than `most` bytes, so that a device or a pipe named by mistake cannot fill the memory.
 * @param isAgain a pipe or a device is an error then: what was in it has been read, and to open a pipe waits for its writer
 * @throws the error of the file system
 */
export function readAtMost(file: string, most: number, isAgain = false): Buffer {
  const descriptor = openSync(file, isAgain ? constants.O_RDONLY | constants.O_NONBLOCK : constants.O_RDONLY);
  try {
    if (isAgain && isOdd(fstatSync(descriptor, { bigint: true }))) throw Object.assign(new Error(), { code: ODD });
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

const ODD = 'PIPE_OR_DEVICE';

export function statOf(file: string): BigIntStats | undefined {
  try {
    return statSync(file, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Whether it is a pipe or a device. */
export function isOdd(stats: BigIntStats): boolean {
  return !stats.isFile() && !stats.isDirectory();
}

/** What changes when one of the files does, or another file takes its name. */
export function signatureOf(files: readonly string[]): string {
  return files
    .map((file) => {
      const stats = statOf(file);
      return stats === undefined ? 'none' : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join();
    })
    .join(';');
}

/** The end of a sentence that starts with the file's name. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EISDIR') return 'is a directory, not a file';
  if (code === ODD) return 'is a pipe or a device, and only a file can be read again';
  if (code === 'EACCES' || code === 'EPERM') return 'may not be read by this user';
  return `cannot be read (${code})`;
}

/** Lines are decoded one by one: no byte of a longer UTF-8 sequence is a line feed. */
function firstBrokenText(bytes: Buffer): { line: number; column: number } | null {
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
