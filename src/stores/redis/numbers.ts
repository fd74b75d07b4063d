const SPACE = 0x20;
const ZERO = 0x30;

/** Reads the whole numbers of a text one after the other: digits of ASCII, parted by one space each. */
export class Numbers {
  readonly #text: Uint8Array;
  #at = 0;

  constructor(text: Uint8Array) {
    this.#text = text;
  }

  /** The next number; 0 behind the last one. */
  next(): number {
    const text = this.#text;
    let number = 0;
    let at = this.#at;
    for (; at < text.length; at++) {
      const byte = text[at]!;
      if (byte === SPACE) break;
      number = number * 10 + (byte - ZERO);
    }
    this.#at = at + 1;
    return number;
  }
}
