import { FieldNames, RESPONSE_FIELDS_NOT_FORWARDED } from './forwarded-fields.ts';
import { TOKEN_CHARACTER } from './grammar.ts';
import {
  framingOf,
  isSpace,
  LENGTH_VALUE,
  MAX_FIELDS,
  type ResponseFraming,
  type ResponseHead,
  type ResponseLines,
  readResponseFields,
} from './response-head.ts';

/** The status line of a final response, and field lines with a space after the colon (RFC 9112 sections 4 and 5). */
const HEAD = new RegExp(
  String.raw`^HTTP/1\.1 [2-5][0-9][0-9](?: [\t -~\x80-\xff]*)?(?:\r\n${TOKEN_CHARACTER}+: [\t -~\x80-\xff]+)+$`,
);
const LINE_END = '\r\n';
const NONE: readonly string[] = Object.freeze([]);

const [KEPT, DROPPED, ODD] = [0, 1, 2];
/** The fields that are examined. All others are forwarded unexamined. */
const EXAMINED = new FieldNames([...RESPONSE_FIELDS_NOT_FORWARDED, 'content-length', 'date', 'close']);

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
      // The value has more white space around it, none of which must be forwarded.
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
