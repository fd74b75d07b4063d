import { readAtMost, reasonOf } from './read-file.ts';

/** Reads the file that holds a secret. A fault is the end of a sentence and never quotes the content. */
export type SecretReader = (file: string) => { readonly text: string } | { readonly fault: string };

const MAX_SECRET_BYTES = 64 * 1024;

/** Reads the content without the one line ending that editors and `echo` append. */
export const readSecret: SecretReader = (file) => secretIn(file, false);

/** The same for a file that the process has read before: a pipe or a device is a fault then. */
export const rereadSecret: SecretReader = (file) => secretIn(file, true);

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
