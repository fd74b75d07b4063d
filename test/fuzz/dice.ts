/** Random numbers that a seed repeats (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
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
