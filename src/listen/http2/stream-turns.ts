/** How long requests of streams are begun in one turn of the event loop, milliseconds. */
const TURN_MS = 2;

/** Work on a stream that has arrived. */
type Begin = () => void;

/**
 * Begins the requests of streams, a few in each turn of the event loop, and of each client address in turn.
 *
 * Attack: 100 sessions send 99 streams each, with hundreds of fields that take one byte each on the wire (HPACK). nghttp2 passes on
 * all streams of a read at once, and the sessions are read one after the other, so the thread was kept for more than ten seconds.
 */
export class StreamTurns {
  readonly #nowMs: () => number;
  /** By client address (or session, of a trusted proxy), the next one first. */
  readonly #waiting = new Map<unknown, Begin[]>();
  #spentMs = 0;
  #isScheduled = false;

  /** @param nowMs monotonic */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Begins at once, if nothing waits and this turn of the event loop has time for it, else in a later turn. */
  begin(of: unknown, work: Begin): void {
    if (this.#waiting.size === 0 && this.#spentMs < TURN_MS) this.#do(work);
    else {
      const own = this.#waiting.get(of);
      if (own === undefined) this.#waiting.set(of, [work]);
      else own.push(work);
    }
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#next);
  }

  #do(work: Begin): void {
    const fromMs = this.#nowMs();
    try {
      work();
    } finally {
      this.#spentMs += this.#nowMs() - fromMs;
    }
  }

  readonly #next = (): void => {
    this.#spentMs = 0;
    this.#isScheduled = this.#waiting.size > 0;
    if (!this.#isScheduled) return;
    setImmediate(this.#next);
    for (const [of, own] of this.#waiting) {
      if (this.#spentMs >= TURN_MS) return;
      // The address goes to the end of the line.
      this.#waiting.delete(of);
      const work = own.shift()!;
      if (own.length > 0) this.#waiting.set(of, own);
      this.#do(work);
    }
  };
}
