import { type Found, JsonNumber } from './json-number.ts';

const INDEX = /^[0-9]+$/;
/** What a name has in a text that writes it with escapes. */
const ESCAPE = Buffer.from('\\u');
/** A name that may be written with other escapes. */
const HAS_SHORT_ESCAPES = /["\\/\0-\x1f]/;

/** The number at a pointer in the last of several JSON texts that has it. Those that are not JSON do not count. */
export class LastNumber {
  readonly #number: JsonNumber;
  /** A name that each text with the number has in it; null if there is none to look for. */
  readonly #name: Buffer | null;
  #found: Found = 'absent';
  #seen: number | null = null;

  constructor(pointer: readonly string[]) {
    this.#number = new JsonNumber(pointer);
    const name = pointer.findLast((token) => !INDEX.test(token)) ?? '';
    this.#name = name === '' || HAS_SHORT_ESCAPES.test(name) ? null : Buffer.from(name);
  }

  /** What was found in the texts that have ended. */
  get found(): Found {
    return this.#found;
  }

  /** The last amount, also of the text that has not ended; null if there is none. */
  get seen(): number | null {
    return this.#number.seen ?? this.#seen;
  }

  /**
   * Looks for texts that cannot have the number: of most streams all but one. To read them would take up to eight times as
   * long. What is wrong with them is not noticed.
   * @param from where a text begins
   * @param separator what texts end with
   * @returns the beginning of the first text in `bytes` that must be read; the texts before it are whole
   */
  firstToRead(bytes: Buffer, from: number, separator: Buffer): number {
    if (this.#name === null) return from;
    const named = bytes.indexOf(this.#name, from);
    const escaped = bytes.indexOf(ESCAPE, from);
    const suspect = Math.min(named < 0 ? bytes.length : named, escaped < 0 ? bytes.length : escaped);
    const end = suspect < separator.length ? -1 : bytes.lastIndexOf(separator, suspect - separator.length);
    return end < from ? from : end + separator.length;
  }

  /** Reads the next piece of the present text, which is at `from` to `to` of `bytes`. */
  add(bytes: Buffer, from: number, to: number): void {
    this.#number.add(bytes, from, to);
  }

  /** The present text has ended, and another one begins. */
  endText(): void {
    const found = this.#number.end();
    this.#number.reset();
    if (found === 'absent' || found === 'no_json') return;
    this.#found = found;
    if (typeof found === 'number') this.#seen = found;
  }
}
