import { afterReadyWork } from './after-reading.ts';

/** Work that has arrived. It may return true if there is more of it, and is then called again. */
type Work = () => unknown;

/**
 * Does work that arrives from clients, for a bounded time in each turn of the event loop, and of each owner in turn.
 *
 * Attack: 100 sessions of HTTP/2 send 99 streams each, with hundreds of fields that take one byte each on the wire (HPACK). nghttp2
 * passes on all streams of a read at once, and the sessions are read one after the other, so the thread was kept for more than ten
 * seconds.
 */
export class Turns {
  readonly #nowMs: () => number;
  readonly #turnMs: number;
  /** By owner, such as a client address; the next one first. */
  readonly #waiting = new Map<unknown, Work[]>();
  #spentMs = 0;
  #isScheduled = false;

  /**
   * @param nowMs monotonic
   * @param turnMs for how long work is done in one turn of the event loop
   */
  constructor(nowMs: () => number, turnMs: number) {
    this.#nowMs = nowMs;
    this.#turnMs = turnMs;
  }

  /** Does it at once, if nothing waits and this turn of the event loop has time for it, else in a later turn. */
  begin(of: unknown, work: Work): void {
    if (this.#waiting.size > 0 || this.#spentMs >= this.#turnMs || this.#do(work)) this.later(of, work);
    else this.#schedule();
  }

  /** Does it in a later turn. */
  later(of: unknown, work: Work): void {
    const own = this.#waiting.get(of);
    if (own === undefined) this.#waiting.set(of, [work]);
    else own.push(work);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    afterReadyWork(this.#next);
  }

  /** @returns whether there is more of it */
  #do(work: Work): boolean {
    for (;;) {
      const fromMs = this.#nowMs();
      try {
        if (work() !== true) return false;
      } finally {
        this.#spentMs += this.#nowMs() - fromMs;
      }
      if (this.#spentMs >= this.#turnMs) return true;
    }
  }

  readonly #next = (): void => {
    this.#spentMs = 0;
    this.#isScheduled = this.#waiting.size > 0;
    if (!this.#isScheduled) return;
    afterReadyWork(this.#next);
    for (const [of, own] of this.#waiting) {
      if (this.#spentMs >= this.#turnMs) return;
      const work = own.shift()!;
      // The owner goes to the end of the line, before its work is done: that may throw, or lead to more of the same owner.
      this.#waiting.delete(of);
      if (own.length > 0) this.#waiting.set(of, own);
      if (this.#do(work)) this.later(of, work);
    }
  };
}
