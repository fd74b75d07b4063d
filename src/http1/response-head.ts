import { setsConsoleCookie } from './console-cookies.ts';
import { FieldNames } from './field-names.ts';
import { type FieldValues, fieldValues, TOKEN, TOKEN_CHARACTER, VALUE } from './fields.ts';
import { RESPONSE_FIELDS_NOT_FORWARDED } from './forwarded-fields.ts';

/** An upstream's response is malformed, so it must not be forwarded. */
export class BadResponseError extends Error {}

/** The head of a response. */
export interface ResponseHead extends FieldValues {
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
type ResponseFraming = 'none' | 'length' | 'chunked' | 'close';

/** Field lines without hop-by-hop fields and without fields that only the gateway sets. */
export interface ResponseLines {
  /** The lines, each with its CRLF. */
  readonly text: string;
  readonly hasDate: boolean;
  readonly hasLength: boolean;
}

/** Maximum number of fields in a head, by default. */
const MAX_FIELDS = 1_000;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9][0-9][0-9])(?: [\t -~\x80-\xff]*)?$/;
const LENGTH_VALUE = /^[0-9]{1,15}$/;
/**
 * A value that is only white space under RFC 9112, but that llhttp reads as a coding other than chunked, with a body
 * that ends with the connection.
 */
const TAB_BEHIND_CODING = /\r\ntransfer-encoding:[^\t\r]*\t/i;

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
 * @param text lines separated by CRLF, without one after the last line
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
 * A part of the text without the white space around it. It uses no pattern: one for white space at the end takes
 * quadratic time if there is much of it in the middle.
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
  const length = framing === 'length' ? declared! : 0;
  const { values } = fieldValues(fields);
  return { status, fields, values, lines: null, framing, length, keepsAlive, keepAlive };
}

/** How the body ends (RFC 9112 section 6.3). @param length as declared; null without a declared length */
function framingOf(method: string, status: number, isChunked: boolean, length: number | null): ResponseFraming {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none';
  if (isChunked) return 'chunked';
  if (length === null) return 'close';
  return length === 0 ? 'none' : 'length';
}

/** The status line of a final response, and field lines with a space after the colon (RFC 9112 sections 4 and 5). */
const HEAD = new RegExp(
  String.raw`^HTTP/1\.1 [2-9][0-9][0-9](?: [\t -~\x80-\xff]*)?(?:\r\n${TOKEN_CHARACTER}+: [\t -~\x80-\xff]+)+$`,
);
const LINE_END = '\r\n';
const NONE: readonly string[] = Object.freeze([]);

const [KEPT, DROPPED, ODD] = [0, 1, 2];
/** The fields that are examined. All others are forwarded unexamined. */
const EXAMINED = new FieldNames([...RESPONSE_FIELDS_NOT_FORWARDED, 'content-length', 'date', 'close', 'set-cookie']);

/**
 * Reads a head of the common form, whose field lines can be forwarded to the client as text. It accepts only heads that
 * `readResponseHead` reads in the same way. Unusual or malformed heads are left to that function.
 * @param text the head without the empty line that ends it
 * @param method of the request
 * @returns null if the head does not have the common form
 */
export function readPlainResponseHead(text: string, method: string, maxFields = MAX_FIELDS): ResponseHead | null {
  // The Content-Length of a 204 must not be forwarded.
  if (!HEAD.test(text) || text.startsWith('204', 9)) return null;
  const head = new PlainHead(text);
  return head.scan(method, maxFields) ? head : null;
}

class PlainHead implements ResponseHead, ResponseLines {
  readonly status: number;
  framing: ResponseFraming = 'none';
  length = 0;
  keepsAlive = true;
  keepAlive = NONE;
  text = '';
  hasDate = false;
  hasLength = false;
  readonly #head: string;
  #isChunked = false;

  constructor(head: string) {
    this.#head = head;
    this.status = Number(head.slice(9, 12));
  }

  get lines(): ResponseLines {
    return this;
  }

  get fields(): readonly string[] {
    return readResponseFields(this.#head, this.#head.indexOf(LINE_END) + LINE_END.length, Number.POSITIVE_INFINITY);
  }

  /** Not from `fields`: to read all of them takes several times as long. */
  values(name: string): readonly string[] {
    const head = this.#head;
    let values: string[] | null = null;
    for (let start = head.indexOf(LINE_END) + LINE_END.length; start < head.length; ) {
      const colon = head.indexOf(':', start);
      const next = head.indexOf(LINE_END, colon);
      const end = next === -1 ? head.length : next;
      if (colon - start === name.length && head.slice(start, colon).toLowerCase() === name) {
        values ??= [];
        values.push(head.slice(colon + 2, end));
      }
      start = end + LINE_END.length;
    }
    return values ?? NONE;
  }

  /** @returns whether the head has the common form */
  scan(method: string, maxFields: number): boolean {
    const head = this.#head;
    const first = head.indexOf(LINE_END) + LINE_END.length;
    let fields = 0;
    /** Start of the lines that are kept but not yet in `text`. */
    let from = first;
    for (let start = first; start < head.length; ) {
      const colon = head.indexOf(':', start);
      const next = head.indexOf(LINE_END, colon);
      const end = next === -1 ? head.length : next;
      // The value has more white space around it, which the gateway must not forward.
      if (isSpace(head.charCodeAt(colon + 2)) || isSpace(head.charCodeAt(end - 1))) return false;
      const judgement = this.#judge(start, colon, end);
      if (judgement === ODD || ++fields > maxFields) return false;
      if (judgement === DROPPED) {
        this.text += head.slice(from, start);
        from = end + LINE_END.length;
      }
      start = end + LINE_END.length;
    }
    if (from < head.length) this.text += head.slice(from) + LINE_END;
    const length = this.hasLength ? this.length : null;
    this.framing = framingOf(method, this.status, this.#isChunked, length);
    if (this.framing !== 'length') this.length = 0;
    if (this.framing === 'close') this.keepsAlive = false;
    return true;
  }

  #judge(start: number, colon: number, end: number): number {
    const head = this.#head;
    if (!EXAMINED.mayHave(colon - start, head.charCodeAt(start))) return KEPT;
    const name = head.slice(start, colon).toLowerCase();
    switch (name) {
      case 'date':
        this.hasDate = true;
        return KEPT;
      case 'content-length':
        return this.#takeLength(head.slice(colon + 2, end));
      case 'transfer-encoding':
        if (this.#isChunked || this.hasLength || head.slice(colon + 2, end) !== 'chunked') return ODD;
        this.#isChunked = true;
        return DROPPED;
      case 'connection':
        return this.#takeConnection(head.slice(colon + 2, end).toLowerCase());
      case 'close':
        // `Connection: close` would list this field.
        return ODD;
      case 'set-cookie':
        return setsConsoleCookie(head.slice(colon + 2, end)) ? DROPPED : KEPT;
      case 'keep-alive':
        // Attack: collecting a thousand of these fields one by one would take quadratic time.
        if (this.keepAlive !== NONE) return ODD;
        this.keepAlive = [head.slice(colon + 2, end)];
        return DROPPED;
      default:
        return EXAMINED.has(name) ? DROPPED : KEPT;
    }
  }

  #takeLength(value: string): number {
    if (this.hasLength || this.#isChunked || !LENGTH_VALUE.test(value)) return ODD;
    this.hasLength = true;
    this.length = Number(value);
    return KEPT;
  }

  /** Any other value may list the names of fields that must not be forwarded. */
  #takeConnection(value: string): number {
    if (value === 'close') this.keepsAlive = false;
    else if (value !== 'keep-alive') return ODD;
    return DROPPED;
  }
}

const STATUS_CLASSES = ['0xx', '1xx', '2xx', '3xx', '4xx', '5xx'];

/** The class of a status, such as `4xx`. A client takes a status from 600 to 999 for one of `5xx` (RFC 9110 section 15). */
export function statusClass(status: number): string {
  return STATUS_CLASSES[Math.floor(status / 100)] ?? '5xx';
}
