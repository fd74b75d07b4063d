/** Numbers that look random and are the same for the same seed (Lehmer's generator). */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.abs(Math.trunc(seed)) % 2_147_483_646) + 1;
    // Neighbouring seeds begin with neighbouring numbers.
    for (let i = 0; i < 8; i++) this.#next();
  }

  /** From 0 to below 1. */
  share(): number {
    return this.#next() / 2_147_483_647;
  }

  /** A whole number from 0 to below `count`. */
  below(count: number): number {
    return Math.floor(this.share() * count);
  }

  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  #next(): number {
    this.#state = (this.#state * 48_271) % 2_147_483_647;
    return this.#state;
  }
}
