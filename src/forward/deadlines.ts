/** Something that waits no longer than a moment of its own. */
export interface Waiting {
  /** On the clock of the deadlines; `Infinity` while it waits for nothing. */
  deadlineAtMs: number;
  /** Where it stands among those that are watched; `UNWATCHED` to begin with. Only the deadlines write it. */
  slot: number;
  onDeadline(): void;
}

export const UNWATCHED = -1;

/** How late a deadline may be noticed (contract section 2 allows 250 ms). */
const CHECK_EVERY_MS = 100;

/**
 * The deadlines of many requests under one timer: a timer of its own for each wait of each request would cost more than
 * the waits are worth, since hardly one of them ever runs out.
 *
 * They stand in an array. A Set that thousands are added to and taken from each second leaves tables behind that point to
 * one another, and through them whatever stood there outlives the young generation: that cost a tenth of all time.
 */
export class Deadlines {
  readonly #monotonicMs: () => number;
  readonly #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | null = null;

  /** @param monotonicMs milliseconds that never jump */
  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  nowMs(): number {
    return this.#monotonicMs();
  }

  watch(waiting: Waiting): void {
    waiting.slot = this.#waiting.push(waiting) - 1;
    this.#timer ??= setInterval(() => this.#check(), CHECK_EVERY_MS);
  }

  forget(waiting: Waiting): void {
    const { slot } = waiting;
    if (slot === UNWATCHED) return;
    waiting.slot = UNWATCHED;
    const last = this.#waiting.pop()!;
    if (last === waiting) return;
    this.#waiting[slot] = last;
    last.slot = slot;
  }

  #check(): void {
    const nowMs = this.#monotonicMs();
    // From the end: one that is forgotten meanwhile gives its place to one that has been looked at.
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      const waiting = this.#waiting[i];
      if (waiting === undefined || waiting.deadlineAtMs > nowMs) continue;
      waiting.deadlineAtMs = Number.POSITIVE_INFINITY;
      waiting.onDeadline();
    }
    if (this.#waiting.length > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}
