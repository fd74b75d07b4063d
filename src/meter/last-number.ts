import type { Value } from './cost.ts';
import { JsonNumber, type NumberReading } from './json-number.ts';

const INDEX = /^[0-9]+$/;
/** What a name has in a text that writes it with escapes. */
const ESCAPE = Buffer.from('\\u');
/** A name that may be written with other escapes. */
const HAS_SHORT_ESCAPES = /["\\/\0-\x1f]/;

/** What English texts and JSON have most, the most common first. Other characters are rarer. */
const COMMON = ' etaoinsrhldcumfpgwybv"0123456789,:.kxjqz';
/** Node.js searches longer texts in another way, which takes fifteen times as long in a stream of English text. */
const MAX_SEARCHED = 6;

const searched = new WeakMap<readonly string[], Buffer | null>();

/**
 * Finds what to search texts for: a part of the last name in the pointer, which every text that has the number contains.
 * @returns null if no name can be searched for, so that every text must be read. Cached by pointer, which all answers of a route share
 */
function searchedFor(pointer: readonly string[]): Buffer | null {
  let part = searched.get(pointer);
  if (part === undefined) {
    const name = pointer.findLast((token) => !INDEX.test(token)) ?? '';
    part = name === '' || HAS_SHORT_ESCAPES.test(name) ? null : rarestPartOf(Buffer.from(name));
    searched.set(pointer, part);
  }
  return part;
}

/** A part that is found fast: it begins with the rarest character. */
function rarestPartOf(name: Buffer): Buffer {
  const ranks = Array.from(name.toString('latin1').toLowerCase(), (character) => {
    const rank = COMMON.indexOf(character);
    return rank < 0 ? COMMON.length : rank;
  });
  const from = ranks.indexOf(Math.max(...ranks));
  return name.subarray(from, from + MAX_SEARCHED);
}

/** The number at a pointer in the last of several JSON texts that has it. Those that are not JSON do not count. */
export class LastNumber {
  readonly #number: JsonNumber;
  readonly #searched: Buffer | null;
  #found: NumberReading = 'absent';
  #seen: number | null = null;

  constructor(pointer: readonly string[], value?: Value) {
    this.#number = new JsonNumber(pointer, value);
    this.#searched = searchedFor(pointer);
  }

  /** What was found in the texts that have ended. */
  get found(): NumberReading {
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
    if (this.#searched === null) return from;
    const named = bytes.indexOf(this.#searched, from);
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
    this.#seen = this.seen;
    this.#number.reset();
    if (found !== 'absent' && found !== 'no_json') this.#found = found;
  }
}
