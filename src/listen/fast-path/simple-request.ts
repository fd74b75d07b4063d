import { trimmed } from '../../forward/answer-head.ts';
import { isContentLength } from '../../forward/headers.ts';

/** A request of the plainest form there is. */
export interface SimpleRequest {
  readonly method: string;
  readonly url: string;
  /** Name and value in turn; values without the white space around them. */
  readonly rawHeaders: string[];
  /** A character for each byte, as many as were declared; null where there are none. */
  readonly body: string | null;
}

/** Visible ASCII, single spaces (RFC 9112 section 3). */
const LINE = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE) \/[!-~]* HTTP\/1\.1$/;
/** From the end of the request line to the empty line: names that are tokens, values without control characters. */
const FIELDS = /^\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+\r\n$/;
/** A declared length as it stands behind its colon; longer ones do not come in one packet. */
const LENGTH = /^ ?(?:0|[1-9][0-9]{0,4})$/;
const MAX_FIELDS = 100;
const LINE_END = '\r\n';
const HEAD_END = '\r\n\r\n';
const PROTOCOL = ' HTTP/1.1'.length;
const UNDECLARED = -1;
const [G, H] = [71, 72];
/** Fields of a longer request are not remembered: that would be held for as long as its connection stands. */
const MOST_REMEMBERED = 2 * 1024;

interface Fields {
  /** Frozen where they may be handed out again. */
  readonly rawHeaders: string[];
  /** Bytes of the body; UNDECLARED where nothing is said of it. */
  readonly declared: number;
}

/**
 * Reads the requests of a connection whose meaning nobody can doubt.
 *
 * Attack: two readers of one byte stream that differ anywhere are how requests are smuggled. So this one only ever says
 * yes to a small part of what Node's parser takes, where both read the same (`npm run fuzz` compares them): no body but
 * one whose length is declared once and plainly, of a method that has one, no word about the connection but that it is
 * kept, no byte of the head beyond ASCII, all of it in one packet and nothing behind it. Whatever is not surely of that
 * form, malformed or not, is left to Node's parser.
 *
 * Most clients send the same fields, byte for byte, with each of their requests: then they get the same array as before,
 * and whoever has worked something out from it knows that it still holds.
 */
export class SimpleReader {
  #text = '';
  #fields: Fields | null = null;

  /**
   * @param text what came, a character for each byte
   * @returns null where it is for Node's parser to say what it is
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
    const { rawHeaders, declared } = fields;
    const bytes = text.length - headEnd;
    if (bytes !== (declared === UNDECLARED ? 0 : declared)) return null;
    const first = text.charCodeAt(0);
    if (declared !== UNDECLARED && (first === G || first === H)) return null;
    const method = first === G ? 'GET' : text.slice(0, text.indexOf(' '));
    const url = text.slice(method.length + 1, lineEnd - PROTOCOL);
    return { method, url, rawHeaders, body: bytes === 0 ? null : text.slice(headEnd) };
  }

  #remember(text: string, from: number, to: number, fields: Fields): void {
    const isShort = text.length <= MOST_REMEMBERED;
    this.#text = isShort ? text.slice(from, to) : '';
    this.#fields = isShort ? fields : null;
    if (isShort) Object.freeze(fields.rawHeaders);
  }
}

/** @param text from the end of the request line to the end of the head; anything where there is none */
function readFields(text: string): Fields | null {
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
  return rawHeaders.length > 2 * MAX_FIELDS ? null : { rawHeaders, declared };
}

/** Whether a field says something of the connection, of a body that is not simple, or of what the client waits for. */
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
