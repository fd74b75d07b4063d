import { amountOf, type BodySource, wholeNumberOf } from './cost.ts';
import { EventStream } from './event-stream.ts';
import { JsonLines } from './json-lines.ts';
import { type Found, JsonNumber } from './json-number.ts';

/** The byte order mark that may be at the beginning of a text in UTF-8. */
const MARK = [0xef, 0xbb, 0xbf];

/** Reads one number in a text that arrives in pieces, which it does not keep. */
interface TextReader {
  add(bytes: Buffer, from: number, to: number): void;
  end(): Found;
  /** The last amount that has been read; null if none has. */
  readonly seen: number | null;
  readonly isOver: boolean;
}

/** Reads one number in a body that arrives in pieces, behind its byte order mark. */
export class BodyReader {
  readonly #text: TextReader;
  /** How many bytes of the mark have passed; all if the text has begun. */
  #marked = 0;

  /** @param read the text of a number in a body of JSON, see `JsonNumber` */
  constructor({ kind, pointer }: BodySource, read = amountOf) {
    if (kind === 'json') this.#text = new JsonNumber(pointer, read);
    else this.#text = kind === 'sse' ? new EventStream(pointer) : new JsonLines(pointer);
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
    this.#text.add(bytes, this.#beginning(bytes), bytes.length);
  }

  /** What it has found in the whole body. */
  end(): Found {
    return this.#text.end();
  }

  /** @returns where the text begins in its next piece */
  #beginning(bytes: Buffer): number {
    let at = 0;
    while (this.#marked < MARK.length && at < bytes.length) {
      if (bytes[at] === MARK[this.#marked]) {
        this.#marked++;
        at++;
      } else this.#marked = MARK.length;
    }
    return at;
  }
}

/** Reads the number at a pointer in a whole JSON body, as `wholeNumberOf`. @param pointer its tokens, see `pointerOf` */
export function numberIn(body: Uint8Array, pointer: readonly string[]): number | 'absent' | 'invalid' {
  const reader = new BodyReader({ kind: 'json', pointer }, wholeNumberOf);
  reader.add(Buffer.from(body.buffer, body.byteOffset, body.length));
  const found = reader.end();
  return found === 'no_json' ? 'invalid' : found;
}
