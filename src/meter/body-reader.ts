import { ByteOrderMark } from './byte-order-mark.ts';
import type { BodySource } from './cost.ts';
import { EventStream } from './event-stream.ts';
import { type Found, JsonNumber } from './json-number.ts';
import { LastNumber } from './last-number.ts';

/** The longest JSON body that is read, in bytes after decompression. Each byte takes time on the serving thread. */
const MAX_JSON_BYTES = 64 * 1024 * 1024;
const LINE_END = Buffer.from('\n');

/** Reads one number in a body that arrives in pieces, which it does not keep. */
export interface BodyReader {
  /** @returns whether it reads on; false once nothing that follows changes what it has found */
  add(bytes: Buffer): boolean;
  /** What it has found in the whole body. */
  end(): Found;
  /** The last amount so far; null if there is none. */
  readonly seen: number | null;
}

/** @param maxStreamBytes how much of an event stream or of lines is read */
export function readerOf({ kind, pointer }: BodySource, maxStreamBytes: number): BodyReader {
  if (kind === 'json') return new BoundedReader(new JsonBody(pointer), MAX_JSON_BYTES);
  return new BoundedReader(kind === 'sse' ? new EventStream(pointer) : new JsonLines(pointer), maxStreamBytes);
}

/** Reads no more than a number of bytes. What is longer is `too_large`. */
class BoundedReader implements BodyReader {
  readonly #reader: BodyReader;
  #bytesLeft: number;

  constructor(reader: BodyReader, maxBytes: number) {
    this.#reader = reader;
    this.#bytesLeft = maxBytes;
  }

  get seen(): number | null {
    return this.#reader.seen;
  }

  add(bytes: Buffer): boolean {
    this.#bytesLeft -= bytes.length;
    return this.#bytesLeft >= 0 && this.#reader.add(bytes);
  }

  end(): Found {
    return this.#bytesLeft < 0 ? 'too_large' : this.#reader.end();
  }
}

/** One JSON text. */
class JsonBody implements BodyReader {
  readonly #mark = new ByteOrderMark();
  readonly #number: JsonNumber;

  constructor(pointer: readonly string[]) {
    this.#number = new JsonNumber(pointer);
  }

  get seen(): number | null {
    return this.#number.seen;
  }

  add(bytes: Buffer): boolean {
    this.#number.add(bytes, this.#mark.end(bytes), bytes.length);
    return !this.#number.isOver;
  }

  end(): Found {
    return this.#number.end();
  }
}

/** Newline-delimited JSON: the last line that has the number counts. Empty lines and lines that are not JSON do not. */
class JsonLines implements BodyReader {
  readonly #mark = new ByteOrderMark();
  readonly #last: LastNumber;
  #isInLine = false;

  constructor(pointer: readonly string[]) {
    this.#last = new LastNumber(pointer);
  }

  get seen(): number | null {
    return this.#last.seen;
  }

  add(bytes: Buffer): boolean {
    let at = this.#mark.end(bytes);
    if (!this.#isInLine) at = this.#last.firstToRead(bytes, at, LINE_END);
    for (let end = bytes.indexOf(LINE_END, at); end >= 0; end = bytes.indexOf(LINE_END, at)) {
      this.#last.add(bytes, at, end);
      this.#last.endText();
      at = end + 1;
      this.#isInLine = false;
    }
    this.#last.add(bytes, at, bytes.length);
    if (at < bytes.length) this.#isInLine = true;
    return true;
  }

  end(): Found {
    this.#last.endText();
    return this.#last.found;
  }
}
