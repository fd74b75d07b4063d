import { Failure } from '../../failure.ts';

const SPACE = 0x20;
const ZERO = 0x30;

/** Reads the whole numbers of a text one after the other: digits of ASCII, parted by one space each. */
export class Numbers {
  readonly #text: Uint8Array;
  #at = 0;

  constructor(text: Uint8Array) {
    this.#text = text;
  }

  /** @throws Failure `store_unavailable` where there is none */
  next(): number {
    const text = this.#text;
    const from = this.#at;
    let number = 0;
    let at = from;
    for (; at < text.length; at++) {
      const byte = text[at]!;
      if (byte === SPACE) break;
      const digit = byte - ZERO;
      if (digit < 0 || digit > 9) throw noNumber();
      number = number * 10 + digit;
    }
    if (at === from) throw noNumber();
    this.#at = at + 1;
    return number;
  }
}

function noNumber(): Failure {
  return new Failure('store_unavailable', 'Redis answered something else than the script tells.');
}
