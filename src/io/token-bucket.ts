/** A token bucket that holds at most `burst` tokens, at first all of them, and refills at `perSecond`. */
export class TokenBucket {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #atMs: number;

  /** @param nowMs milliseconds of the clock that every later call has */
  constructor(burst: number, perSecond: number, nowMs: number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
    this.#atMs = nowMs;
  }

  /** Takes this many tokens, also if it has fewer. @returns false if that was more than there were */
  spend(count: number, nowMs: number): boolean {
    this.#left = this.#leftAt(nowMs) - count;
    this.#atMs = nowMs;
    return this.#left >= 0;
  }

  /** Whether it has at least one token. */
  hasOne(nowMs: number): boolean {
    return this.#leftAt(nowMs) >= 1;
  }

  /** How many tokens were taken that it did not have. */
  debt(nowMs: number): number {
    return Math.max(0, -this.#leftAt(nowMs));
  }

  isFull(nowMs: number): boolean {
    return this.#leftAt(nowMs) >= this.#burst;
  }

  #leftAt(nowMs: number): number {
    return Math.min(this.#left + ((nowMs - this.#atMs) / 1000) * this.#perSecond, this.#burst);
  }
}
