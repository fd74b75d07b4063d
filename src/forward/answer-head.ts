import { BadAnswerError } from './faults.ts';

/** The head of an answer. */
export interface AnswerHead {
  readonly status: number;
  /** Name and value in turn, as they were received; values without the white space around them. */
  readonly fields: readonly string[];
  /** What of the fields may go to a client as it stands; null where they must be gone through one by one. */
  readonly lines: AnswerLines | null;
  readonly framing: Framing;
  /** Bytes of the body where the framing is `length`, else 0. */
  readonly length: number;
  /** Whether the connection may carry another request after this answer. */
  readonly keepsAlive: boolean;
  /** Values of Keep-Alive. */
  readonly keepAlive: readonly string[];
}

/** How a body ends; `none` where there is no body. */
export type Framing = 'none' | 'length' | 'chunked' | 'close';

/** Field lines, none of which belongs to one hop or is the gateway's to write. */
export interface AnswerLines {
  /** Each with its end. */
  readonly text: string;
  readonly hasDate: boolean;
  readonly hasLength: boolean;
}

/** Fields that a head may have, unless told. */
export const MAX_FIELDS = 1_000;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9][0-9])(?: [\t -~\x80-\xff]*)?$/;
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a field value may be made of (RFC 9110 section 5.5). */
export const VALUE = /^[\t -~\x80-\xff]*$/;
export const LENGTH_VALUE = /^[0-9]{1,15}$/;
/** White space to RFC 9112, and to llhttp a coding other than chunks, with a body that ends with the connection. */
const TAB_BEHIND_CODING = /\r\ntransfer-encoding:[\t ]*[^\t\r]*\t/i;

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
  if (TAB_BEHIND_CODING.test(text)) throw new BadAnswerError('a tab behind a Transfer-Encoding');
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

export function isSpace(code: number): boolean {
  return code === 32 || code === 9;
}

function headOf(status: number, fields: readonly string[], is11: boolean, method: string): AnswerHead {
  let declared: number | null = null;
  let isChunked = false;
  let closes = !is11;
  const keepAlive: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const value = fields[i + 1]!;
    switch (fields[i]!.toLowerCase()) {
      case 'content-length':
        if (declared !== null || !LENGTH_VALUE.test(value))
          throw new BadAnswerError('a Content-Length that is not one');
        declared = Number(value);
        break;
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked' || !is11) {
          throw new BadAnswerError('a Transfer-Encoding other than chunked');
        }
        isChunked = true;
        break;
      case 'connection':
        if (/(?:^|[\t ,])close(?:$|[\t ,])/i.test(value)) closes = true;
        break;
      case 'keep-alive':
        keepAlive.push(value);
    }
  }
  if (isChunked && declared !== null) throw new BadAnswerError('a Content-Length beside a Transfer-Encoding');
  const framing = framingOf(method, status, isChunked, declared);
  const keepsAlive = !closes && framing !== 'close';
  return { status, fields, lines: null, framing, length: framing === 'length' ? declared! : 0, keepsAlive, keepAlive };
}

/** Where the body ends (RFC 9112 section 6.3). @param length as declared; null where none is */
export function framingOf(method: string, status: number, isChunked: boolean, length: number | null): Framing {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none';
  if (isChunked) return 'chunked';
  if (length === null) return 'close';
  return length === 0 ? 'none' : 'length';
}
