import type { Value } from './cost.ts';
import type { NumberReading } from './json-number.ts';
import { LastNumber } from './last-number.ts';

/** What separates the texts: a line end, and in `application/json-seq` (RFC 7464) the byte in front of each. */
export const [LINE_END, RECORD_BEGIN] = ['\n', '\x1e'].map((text) => Buffer.from(text)) as [Buffer, Buffer];

/** JSON texts one after another: the last one that has the number counts. Empty ones and those that are not JSON do not. */
export class JsonLines {
  readonly #last: LastNumber;
  readonly #separator: Buffer;
  readonly isOver = false;
  #isInLine = false;

  constructor(pointer: readonly string[], separator: Buffer, value?: Value) {
    this.#separator = separator;
    this.#last = new LastNumber(pointer, value);
  }

  get seen(): number | null {
    return this.#last.seen;
  }

  add(bytes: Buffer, from: number): void {
    let at = this.#isInLine ? from : this.#last.firstToRead(bytes, from, this.#separator);
    for (let end = bytes.indexOf(this.#separator, at); end >= 0; end = bytes.indexOf(this.#separator, at)) {
      this.#last.add(bytes, at, end);
      this.#last.endText();
      at = end + 1;
      this.#isInLine = false;
    }
    this.#last.add(bytes, at, bytes.length);
    if (at < bytes.length) this.#isInLine = true;
  }

  end(): NumberReading {
    this.#last.endText();
    return this.#last.found;
  }
}
