import { AMOUNT, type BodySource, type Value, wholeNumberOf } from './cost.ts';
import { EventStream } from './event-stream.ts';
import { JsonLines, LINE_END } from './json-lines.ts';
import { JsonNumber, type NumberReading } from './json-number.ts';

/** The byte order mark that may be at the beginning of a text in UTF-8. */
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The encoding of a text by its first two bytes: a byte order mark, or a zero beside the first character, which is ASCII in JSON and
 * in event streams. What the answer declares is not needed for that.
 */
function utf16Of([first, second]: Buffer): 'utf-16le' | 'utf-16be' | null {
  if ((first === 0xff && second === 0xfe) || second === 0) return 'utf-16le';
  return (first === 0xfe && second === 0xff) || first === 0 ? 'utf-16be' : null;
}

/** Reads one number in a text that arrives in pieces, which it does not keep. */
interface TextReader {
  add(bytes: Buffer, from: number, to: number): void;
  end(): NumberReading;
  /** The last amount that has been read; null if none has. */
  readonly seen: number | null;
  readonly isOver: boolean;
}

/**
 * Reads one number in a body that arrives in pieces, behind its byte order mark.
 *
 * Attack: a client asks for UTF-16, so that its cost is not found. So that is read like UTF-8.
 */
export class BodyReader {
  readonly #text: TextReader;
  /** What has come, as long as it is shorter than a byte order mark; null once the text has begun. */
  #first: Buffer | null = Buffer.alloc(0);
  /** Null for UTF-8. */
  #utf16: TextDecoder | null = null;

  /**
   * @param separator of several JSON texts
   * @param value what is read, and `isStrict` in a body of JSON: see `JsonNumber`
   */
  constructor({ kind, pointer }: BodySource, separator: Buffer = LINE_END, value = AMOUNT, isStrict = false) {
    if (kind === 'json') this.#text = new JsonNumber(pointer, value, isStrict);
    else this.#text = kind === 'sse' ? new EventStream(pointer, value) : new JsonLines(pointer, separator, value);
  }

  /** The last amount that has been read; null if none has. */
  get seen(): number | null {
    return this.#text.seen;
  }

  /** Whether nothing that follows changes what was found. */
  get isOver(): boolean {
    return this.#text.isOver;
  }

  add(bytes: Buffer): void {
    if (this.#first === null) {
      this.#read(bytes, 0);
      return;
    }
    const first = this.#first.length === 0 ? bytes : Buffer.concat([this.#first, bytes]);
    // The memory of the piece may be used again.
    if (first.length < MARK.length) this.#first = Buffer.from(first);
    else this.#begin(first);
  }

  /** What it has found in the whole body. */
  end(): NumberReading {
    if (this.#first !== null) this.#begin(this.#first);
    return this.#text.end();
  }

  #begin(first: Buffer): void {
    this.#first = null;
    const utf16 = utf16Of(first);
    if (utf16 !== null) this.#utf16 = new TextDecoder(utf16);
    this.#read(first, first.subarray(0, MARK.length).equals(MARK) ? MARK.length : 0);
  }

  #read(bytes: Buffer, from: number): void {
    const text = this.#utf16 === null ? bytes : Buffer.from(this.#utf16.decode(bytes, { stream: true }));
    this.#text.add(text, from, text.length);
  }
}

/** The number of a request. */
const WHOLE: Value = { isText: false, read: wholeNumberOf };

/**
 * Reads the number at a pointer in a whole JSON body, as `wholeNumberOf`, or another value.
 *
 * Attack: a caller asks for `Max_Tokens`, which its service reads and the gateway does not, to pay the default.
 * @param pointer its tokens, see `pointerOf`
 */
export function numberIn(body: Uint8Array, pointer: readonly string[], value = WHOLE): number | 'absent' | 'invalid' {
  const reader = new BodyReader({ kind: 'json', pointer }, LINE_END, value, true);
  reader.add(Buffer.from(body.buffer, body.byteOffset, body.length));
  const found = reader.end();
  return found === 'no_json' ? 'invalid' : found;
}
