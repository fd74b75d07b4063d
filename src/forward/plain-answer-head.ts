import {
  type AnswerHead,
  type AnswerLines,
  type Framing,
  framingOf,
  isSpace,
  LENGTH_VALUE,
  MAX_FIELDS,
  readFields,
} from './answer-head.ts';
import { FieldNames } from './field-names.ts';
import { ENDING_IN_ANSWERS } from './headers.ts';

/** A status line of a final answer, and lines with a space behind the colon (RFC 9112 sections 4 and 5). */
const HEAD =
  /^HTTP\/1\.1 [2-5][0-9][0-9](?: [\t -~\x80-\xff]*)?(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~\x80-\xff]+)+$/;
const LINE_END = '\r\n';
const NONE: readonly string[] = Object.freeze([]);

const [KEPT, DROPPED, ODD] = [0, 1, 2];
/** All others are passed on without a look at them. */
const LOOKED_AT = new FieldNames([...ENDING_IN_ANSWERS, 'content-length', 'date', 'close']);

/**
 * Reads a head of the form that nearly all have, the fields of which can go to the client as the text that they are. It
 * says yes only to what `readAnswerHead` reads in the same way; what is odd in any respect, or wrong, is left to that.
 * @param text the head without the empty line that ends it
 * @param method of the request that it answers
 * @returns null where it is not of that form
 */
export function readPlainHead(text: string, method: string, maxFields = MAX_FIELDS): AnswerHead | null {
  // Of a 204 Content-Length must not be passed on.
  if (!HEAD.test(text) || text.startsWith('204', 9)) return null;
  const head = new PlainHead(text);
  return head.scan(method, maxFields) ? head : null;
}

class PlainHead implements AnswerHead, AnswerLines {
  readonly status: number;
  framing: Framing = 'none';
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

  get lines(): AnswerLines {
    return this;
  }

  get fields(): readonly string[] {
    return readFields(this.#head, this.#head.indexOf(LINE_END) + LINE_END.length, Number.POSITIVE_INFINITY);
  }

  /** @returns whether nothing in it is odd */
  scan(method: string, maxFields: number): boolean {
    const head = this.#head;
    const first = head.indexOf(LINE_END) + LINE_END.length;
    let fields = 0;
    /** Where that begins which is kept and not in `text` yet. */
    let from = first;
    for (let start = first; start < head.length; ) {
      const colon = head.indexOf(':', start);
      const next = head.indexOf(LINE_END, colon);
      const end = next === -1 ? head.length : next;
      // More white space around a value: none of it is passed on.
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
    if (!LOOKED_AT.mayHave(colon - start, head.charCodeAt(start))) return KEPT;
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
        // Of `Connection: close` it would be listed.
        return ODD;
      case 'keep-alive':
        // Attack: a thousand of them, gathered one by one, would take quadratic time.
        if (this.keepAlive !== NONE) return ODD;
        this.keepAlive = [head.slice(colon + 2, end)];
        return DROPPED;
      default:
        return LOOKED_AT.has(name) ? DROPPED : KEPT;
    }
  }

  #takeLength(value: string): number {
    if (this.hasLength || this.#isChunked || !LENGTH_VALUE.test(value)) return ODD;
    this.hasLength = true;
    this.length = Number(value);
    return KEPT;
  }

  /** Another value may list names that are not to be passed on. */
  #takeConnection(value: string): number {
    if (value === 'close') this.keepsAlive = false;
    else if (value !== 'keep-alive') return ODD;
    return DROPPED;
  }
}
