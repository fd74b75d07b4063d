import { TOKEN, VALUE } from './grammar.ts';

/** An upstream's response is malformed, so it must not be forwarded. */
export class BadResponseError extends Error {}

/** The head of a response. */
export interface ResponseHead {
  readonly status: number;
  /** Names and values alternating, as they were received; values without the white space around them. */
  readonly fields: readonly string[];
  /** The field lines that can be forwarded as text; null if the fields must be examined one by one. */
  readonly lines: ResponseLines | null;
  readonly framing: ResponseFraming;
  /** Bytes of the body if the framing is `length`, otherwise 0. */
  readonly length: number;
  /** Whether the connection may carry another request after this response. */
  readonly keepsAlive: boolean;
  /** Values of Keep-Alive. */
  readonly keepAlive: readonly string[];
}

/** How a body ends; `none` if there is no body. */
export type ResponseFraming = 'none' | 'length' | 'chunked' | 'close';

/** Field lines without hop-by-hop fields and without fields that only the gateway sets. */
export interface ResponseLines {
  /** The lines, each with its CRLF. */
  readonly text: string;
  readonly hasDate: boolean;
  readonly hasLength: boolean;
}

/** Maximum number of fields in a head, by default. */
export const MAX_FIELDS = 1_000;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9][0-9])(?: [\t -~\x80-\xff]*)?$/;
export const LENGTH_VALUE = /^[0-9]{1,15}$/;
/**
 * A value that is only white space under RFC 9112, but that llhttp reads as a coding other than chunked, with a body
 * that ends with the connection.
 */
const TAB_BEHIND_CODING = /\r\ntransfer-encoding:[\t ]*[^\t\r]*\t/i;

/**
 * @param text the head without the empty line that ends it
 * @param method of the request
 * @throws BadResponseError if it is malformed, leaves the end of the response in doubt, or is an unrequested 101
 */
export function readResponseHead(text: string, method: string, maxFields = MAX_FIELDS): ResponseHead {
  const end = text.indexOf('\r\n');
  const line = STATUS_LINE.exec(end === -1 ? text : text.slice(0, end));
  if (line === null) throw new BadResponseError('no status line of HTTP/1.1');
  const status = Number(line[2]);
  if (status === 101) throw new BadResponseError('101 Switching Protocols, which was not asked for');
  if (TAB_BEHIND_CODING.test(text)) throw new BadResponseError('a tab behind a Transfer-Encoding');
  const fields = end === -1 ? [] : readResponseFields(text, end + 2, maxFields);
  return headOf(status, fields, line[1] === '1', method);
}

/**
 * @param text lines separated by CRLF, with none after the last line
 * @throws BadResponseError
 */
export function readResponseFields(text: string, from: number, maxFields: number): string[] {
  const fields: string[] = [];
  for (let at = from; at <= text.length; ) {
    const next = text.indexOf('\r\n', at);
    const end = next === -1 ? text.length : next;
    const colon = text.indexOf(':', at);
    if (colon === -1 || colon > end) throw new BadResponseError('a field without a colon');
    const name = text.slice(at, colon);
    const value = text.slice(colon + 1, end);
    if (!TOKEN.test(name)) throw new BadResponseError('a malformed field name');
    if (!VALUE.test(value)) throw new BadResponseError('a control byte in a field value');
    fields.push(name, trimmed(text, colon + 1, end));
    at = end + 2;
  }
  if (fields.length > 2 * maxFields) throw new BadResponseError(`${fields.length / 2} fields`);
  return fields;
}

/**
 * A part of the text without the white space around it. Not done with a pattern: one for white space at the end takes
 * quadratic time if there is much of it in the middle.
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

function headOf(status: number, fields: readonly string[], is11: boolean, method: string): ResponseHead {
  let declared: number | null = null;
  let isChunked = false;
  let closes = !is11;
  const keepAlive: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const value = fields[i + 1]!;
    switch (fields[i]!.toLowerCase()) {
      case 'content-length':
        if (declared !== null || !LENGTH_VALUE.test(value))
          throw new BadResponseError('a Content-Length that is not one');
        declared = Number(value);
        break;
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked' || !is11) {
          throw new BadResponseError('a Transfer-Encoding other than chunked');
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
  if (isChunked && declared !== null) throw new BadResponseError('a Content-Length beside a Transfer-Encoding');
  const framing = framingOf(method, status, isChunked, declared);
  const keepsAlive = !closes && framing !== 'close';
  return { status, fields, lines: null, framing, length: framing === 'length' ? declared! : 0, keepsAlive, keepAlive };
}

/** How the body ends (RFC 9112 section 6.3). @param length as declared; null if none is declared */
export function framingOf(method: string, status: number, isChunked: boolean, length: number | null): ResponseFraming {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none';
  if (isChunked) return 'chunked';
  if (length === null) return 'close';
  return length === 0 ? 'none' : 'length';
}
