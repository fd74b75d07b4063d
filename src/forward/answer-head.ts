import { BadAnswerError } from './faults.ts';

/** The head of an answer. */
export interface AnswerHead {
  readonly status: number;
  /** Name and value in turn, as they were received; values without the white space around them. */
  readonly fields: readonly string[];
  /** How the body ends; `none` where there is no body. */
  readonly framing: 'none' | 'length' | 'chunked' | 'close';
  /** Bytes of the body where the framing is `length`, else 0. */
  readonly length: number;
  /** Whether the connection may carry another request after this answer. */
  readonly keepsAlive: boolean;
}

/** Fields that a head may have, unless told. */
const MAX_FIELDS = 1_000;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9][0-9])(?: [\t -~\x80-\xff]*)?$/;
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a field value may be made of (RFC 9110 section 5.5). */
export const VALUE = /^[\t -~\x80-\xff]*$/;
const LENGTH_VALUE = /^[0-9]{1,15}$/;

/**
 * @param text the head without the empty line that ends it
 * @param method of the request that it answers
 * @throws BadAnswerError where it is malformed, or leaves a doubt where the answer ends; for a 101, which nobody asked for
 */
export function readAnswerHead(text: string, method: string, maxFields = MAX_FIELDS): AnswerHead {
  const end = text.indexOf('\r\n');
  const line = STATUS_LINE.exec(end === -1 ? text : text.slice(0, end));
  if (line === null) throw new BadAnswerError('no status line of HTTP/1.1');
  const status = Number(line[2]);
  if (status === 101) throw new BadAnswerError('101 Switching Protocols, which was not asked for');
  const fields = end === -1 ? [] : readFields(text, end + 2, maxFields);
  return headOf(status, fields, line[1] === '1', method);
}

/**
 * @param text lines that are parted by CRLF, the last one without
 * @throws BadAnswerError
 */
export function readFields(text: string, from: number, maxFields: number): string[] {
  const fields: string[] = [];
  for (let at = from; at <= text.length; ) {
    const next = text.indexOf('\r\n', at);
    const end = next === -1 ? text.length : next;
    const colon = text.indexOf(':', at);
    if (colon === -1 || colon > end) throw new BadAnswerError('a field without a colon');
    const name = text.slice(at, colon);
    const value = text.slice(colon + 1, end);
    if (!TOKEN.test(name)) throw new BadAnswerError('a malformed field name');
    if (!VALUE.test(value)) throw new BadAnswerError('a control byte in a field value');
    fields.push(name, trimmed(text, colon + 1, end));
    at = end + 2;
  }
  if (fields.length > 2 * maxFields) throw new BadAnswerError(`${fields.length / 2} fields`);
  return fields;
}

/**
 * What stands there without the white space around it.
 * Without a pattern: one for white space at an end takes quadratic time where there is much of it in the middle.
 */
export function trimmed(text: string, start: number, end: number): string {
  let [from, to] = [start, end];
  while (from < to && isSpace(text.charCodeAt(from))) from++;
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

function isSpace(code: number): boolean {
  return code === 32 || code === 9;
}

/** Where the body ends (RFC 9112 section 6.3). */
function headOf(status: number, fields: readonly string[], is11: boolean, method: string): AnswerHead {
  let length: number | null = null;
  let chunked = false;
  let closes = !is11;
  for (let i = 0; i < fields.length; i += 2) {
    const value = fields[i + 1]!;
    switch (fields[i]!.length) {
      case 14:
        if (fields[i]!.toLowerCase() !== 'content-length') break;
        if (length !== null || !LENGTH_VALUE.test(value)) throw new BadAnswerError('a Content-Length that is not one');
        length = Number(value);
        break;
      case 17:
        if (fields[i]!.toLowerCase() !== 'transfer-encoding') break;
        if (chunked || value.toLowerCase() !== 'chunked' || !is11) {
          throw new BadAnswerError('a Transfer-Encoding other than chunked');
        }
        chunked = true;
        break;
      case 10:
        if (fields[i]!.toLowerCase() === 'connection' && /(?:^|[\t ,])close(?:$|[\t ,])/i.test(value)) closes = true;
    }
  }
  if (chunked && length !== null) throw new BadAnswerError('a Content-Length beside a Transfer-Encoding');
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) {
    return { status, fields, framing: 'none', length: 0, keepsAlive: !closes };
  }
  if (chunked) return { status, fields, framing: 'chunked', length: 0, keepsAlive: !closes };
  if (length === null) return { status, fields, framing: 'close', length: 0, keepsAlive: false };
  return { status, fields, framing: length === 0 ? 'none' : 'length', length, keepsAlive: !closes };
}
