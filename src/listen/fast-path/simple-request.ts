import { FieldBlock } from '../../http1/field-block.ts';
import { isContentLength } from '../../http1/forwarded-fields.ts';
import { trimmed } from '../../http1/response-head.ts';

/** A request of the simplest form. */
export interface SimpleRequest {
  readonly method: string;
  readonly url: string;
  /** Values without the white space around them. The same block again if the client repeats its fields. */
  readonly fields: FieldBlock;
  /** One character for each byte, as many as were declared; null if there are none. */
  readonly body: string | null;
}

/** Visible ASCII, single spaces (RFC 9112 section 3). */
const LINE = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|QUERY) \/[!-~]* HTTP\/1\.1$/;
/**
 * The fields, from the end of the request line to the empty line: names are tokens, values have no control characters.
 */
const FIELDS = /^\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+\r\n$/;
/** The text after the colon of Content-Length. A body with a longer length would not fit in one packet. */
const LENGTH = /^ ?(?:0|[1-9][0-9]{0,4})$/;
const MAX_FIELDS = 100;
const LINE_END = '\r\n';
const HEAD_END = '\r\n\r\n';
const PROTOCOL = ' HTTP/1.1'.length;
const UNDECLARED = -1;
const [G, H] = [71, 72];
/**
 * Fields of a longer request are not remembered, because they would take memory for as long as its connection is open.
 */
const MAX_REMEMBERED_BYTES = 2 * 1024;

interface ReadFields {
  readonly block: FieldBlock;
  /** Bytes of the body; UNDECLARED without a Content-Length. */
  readonly declared: number;
}

/**
 * Reads requests that cannot be read in two ways.
 *
 * Attack: requests are smuggled between two readers of one byte stream that read it differently. So this reader accepts
 * only a small part of what Node's parser accepts, and reads that part in the same way (`npm run fuzz` compares them).
 * A body must have a plain length that is declared once, and a method that may have a body. No field may concern the
 * connection, except one that keeps it open. The head must be ASCII, and the packet must hold the whole request and
 * nothing after it. All other input, malformed or not, is left to Node's parser.
 *
 * Most clients send the same fields, byte for byte, with each of their requests. Each such request gets the
 * `FieldBlock` of the one before, with everything that has been derived from it.
 */
export class SimpleReader {
  #text = '';
  #fields: ReadFields | null = null;

  /**
   * @param text the received bytes, one character for each
   * @returns null if Node's parser has to read it
   */
  read(text: string): SimpleRequest | null {
    const lineEnd = text.indexOf(LINE_END);
    if (!LINE.test(text.slice(0, Math.max(lineEnd, 0)))) return null;
    let headEnd = lineEnd + this.#text.length;
    let fields = this.#fields;
    if (fields === null || text.slice(lineEnd, headEnd) !== this.#text) {
      headEnd = text.indexOf(HEAD_END, lineEnd) + HEAD_END.length;
      fields = readFields(text.slice(lineEnd, headEnd));
      if (fields === null) return null;
      this.#remember(text, lineEnd, headEnd, fields);
    }
    const { block, declared } = fields;
    const bytes = text.length - headEnd;
    if (bytes !== (declared === UNDECLARED ? 0 : declared)) return null;
    const first = text.charCodeAt(0);
    if (declared !== UNDECLARED && (first === G || first === H)) return null;
    const method = first === G ? 'GET' : text.slice(0, text.indexOf(' '));
    const url = text.slice(method.length + 1, lineEnd - PROTOCOL);
    return { method, url, fields: block, body: bytes === 0 ? null : text.slice(headEnd) };
  }

  #remember(text: string, from: number, to: number, fields: ReadFields): void {
    const isShort = text.length <= MAX_REMEMBERED_BYTES;
    this.#text = isShort ? text.slice(from, to) : '';
    this.#fields = isShort ? fields : null;
  }
}

/** @param text from the end of the request line to the end of the head; any text if the head has no end */
function readFields(text: string): ReadFields | null {
  if (!FIELDS.test(text)) return null;
  const rawHeaders: string[] = [];
  let declared = UNDECLARED;
  const last = text.length - LINE_END.length;
  for (let at = LINE_END.length; at < last; ) {
    const colon = text.indexOf(':', at);
    const end = text.indexOf(LINE_END, colon);
    const name = text.slice(at, colon);
    const value = trimmed(text, colon + 1, end);
    if (isForNode(name, value)) return null;
    if (isContentLength(name)) {
      if (declared !== UNDECLARED || !LENGTH.test(text.slice(colon + 1, end))) return null;
      declared = Number(value);
    }
    rawHeaders.push(name, value);
    at = end + LINE_END.length;
  }
  return rawHeaders.length > 2 * MAX_FIELDS ? null : { block: new FieldBlock(rawHeaders), declared };
}

/**
 * Whether a field is for node:http: it concerns the connection, a body that is not simple, or what the client expects.
 */
function isForNode(name: string, value: string): boolean {
  switch (name.length) {
    case 6:
      return name.toLowerCase() === 'expect';
    case 7:
      return name.toLowerCase() === 'upgrade' || name.toLowerCase() === 'trailer';
    case 10:
      return name.toLowerCase() === 'connection' && value.toLowerCase() !== 'keep-alive';
    case 16:
      return name.toLowerCase() === 'proxy-connection';
    case 17:
      return name.toLowerCase() === 'transfer-encoding';
    default:
      return false;
  }
}
