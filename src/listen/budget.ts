/** A token bucket that holds at most `burst` tokens and refills at `perSecond`. */
export class Budget {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #atMs: number;

  constructor(burst: number, perSecond: number, nowMs: number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
    this.#atMs = nowMs;
  }

  /** Takes this many tokens. @returns false if that was more than there were */
  spend(count: number, nowMs: number): boolean {
    const filled = this.#left + ((nowMs - this.#atMs) / 1000) * this.#perSecond;
    this.#atMs = nowMs;
    this.#left = Math.min(filled, this.#burst) - count;
    return this.#left >= 0;
  }
}
