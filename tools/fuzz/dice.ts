/** Numbers from 0 up to 1 that a seed repeats (mulberry32): small, and good enough to scatter clients. */
export function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random choices that a seed repeats. */
export class Dice {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = randomOf(seed);
  }

  /** A whole number from 0 to `most`. */
  upTo(most: number): number {
    return Math.floor(this.#next() * (most + 1));
  }

  oneIn(count: number): boolean {
    return this.#next() * count < 1;
  }

  of<T>(...choices: T[]): T {
    return choices[this.upTo(choices.length - 1)]!;
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.upTo(255)));
  }
}
