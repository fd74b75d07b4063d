const FIRST_MS = 100;
const LONGEST_MS = 30_000;
/** A worker that has served so long was able to: what ended it is not the start. */
const LIVED_MS = 10_000;

/**
 * How long to wait before the place of a worker that ended is taken by another: a moment at first, twice as long each
 * time while it keeps ending, so that what cannot run does not take the processor from those that do.
 */
export class RestartPauses {
  #nextMs = FIRST_MS;

  /**
   * @param servedMs how long the worker that ended had served; 0 when it never did
   * @returns milliseconds
   */
  after(servedMs: number): number {
    if (servedMs >= LIVED_MS) this.#nextMs = FIRST_MS;
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(pauseMs * 2, LONGEST_MS);
    return pauseMs;
  }
}
