/** Something that waits no longer than a moment of its own. */
export interface Waiting {
  /** On the clock of the deadlines; `Infinity` while it waits for nothing. */
  deadlineAtMs: number;
  onDeadline(): void;
}

/** How late a deadline may be noticed (contract section 2 allows 250 ms). */
const CHECK_EVERY_MS = 100;

/**
 * The deadlines of many requests under one timer: a timer of its own for each wait of each request would cost more than
 * the waits are worth, since hardly one of them ever runs out.
 */
export class Deadlines {
  readonly #monotonicMs: () => number;
  readonly #waiting = new Set<Waiting>();
  #timer: NodeJS.Timeout | null = null;

  /** @param monotonicMs milliseconds that never jump */
  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  nowMs(): number {
    return this.#monotonicMs();
  }

  watch(waiting: Waiting): void {
    this.#waiting.add(waiting);
    this.#timer ??= setInterval(() => this.#check(), CHECK_EVERY_MS);
  }

  forget(waiting: Waiting): void {
    this.#waiting.delete(waiting);
  }

  #check(): void {
    const nowMs = this.#monotonicMs();
    for (const waiting of this.#waiting) {
      if (waiting.deadlineAtMs > nowMs) continue;
      waiting.deadlineAtMs = Number.POSITIVE_INFINITY;
      waiting.onDeadline();
    }
    if (this.#waiting.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}
