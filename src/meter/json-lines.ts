import type { Found } from './json-number.ts';
import { LastNumber } from './last-number.ts';

const LINE_END = Buffer.from('\n');

/** Newline-delimited JSON: the last line that has the number counts. Empty lines and lines that are not JSON do not. */
export class JsonLines {
  readonly #last: LastNumber;
  readonly isOver = false;
  #isInLine = false;

  constructor(pointer: readonly string[]) {
    this.#last = new LastNumber(pointer);
  }

  get seen(): number | null {
    return this.#last.seen;
  }

  add(bytes: Buffer, from: number): void {
    let at = this.#isInLine ? from : this.#last.firstToRead(bytes, from, LINE_END);
    for (let end = bytes.indexOf(LINE_END, at); end >= 0; end = bytes.indexOf(LINE_END, at)) {
      this.#last.add(bytes, at, end);
      this.#last.endText();
      at = end + 1;
      this.#isInLine = false;
    }
    this.#last.add(bytes, at, bytes.length);
    if (at < bytes.length) this.#isInLine = true;
  }

  end(): Found {
    this.#last.endText();
    return this.#last.found;
  }
}
