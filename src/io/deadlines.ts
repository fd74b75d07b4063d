/** Something that waits until a deadline at most. */
export interface Timed {
  /** On the clock of the deadlines; `Infinity` while it does not wait. */
  deadlineAtMs: number;
  /** Its index among those that are watched; `UNWATCHED` at first. Only `Deadlines` sets it. */
  slot: number;
  onDeadline(): void;
}

export const UNWATCHED = -1;

/** How late a deadline may be noticed (contract section 2 allows 250 ms). */
const CHECK_EVERY_MS = 100;
/** For how long deadlines that have passed are acted on in one turn of the event loop. What that leads to takes about as long again. */
const TURN_MS = 1;

/**
 * The deadlines of many requests, checked by one timer. A separate timer for each wait of each request would cost too
 * much, because hardly any deadline ever passes.
 *
 * Attack: 4,000 clients connect at the same moment and send nothing. Ending them together took a turn of 85 ms.
 *
 * They are kept in an array. A Set with thousands of additions and removals each second leaves behind tables that point
 * to each other and keep old entries alive beyond the young generation. Measured: that cost a tenth of all time.
 */
export class Deadlines {
  readonly #monotonicMs: () => number;
  readonly #waiting: Timed[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** Whether the rest of those that have passed waits for the next turn. */
  #isContinued = false;

  /** @param monotonicMs milliseconds of a monotonic clock */
  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  nowMs(): number {
    return this.#monotonicMs();
  }

  watch(waiting: Timed): void {
    waiting.slot = this.#waiting.push(waiting) - 1;
    this.#timer ??= setInterval(() => {
      if (!this.#isContinued) this.#check();
    }, CHECK_EVERY_MS);
  }

  forget(waiting: Timed): void {
    const { slot } = waiting;
    if (slot === UNWATCHED) return;
    waiting.slot = UNWATCHED;
    const last = this.#waiting.pop()!;
    if (last === waiting) return;
    this.#waiting[slot] = last;
    last.slot = slot;
  }

  readonly #check = (): void => {
    this.#isContinued = false;
    const nowMs = this.#monotonicMs();
    // From the end, because the place of one that is forgotten during the loop is taken by one that has been checked
    // already.
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      const waiting = this.#waiting[i];
      if (waiting === undefined || waiting.deadlineAtMs > nowMs) continue;
      waiting.deadlineAtMs = Number.POSITIVE_INFINITY;
      waiting.onDeadline();
      if (this.#monotonicMs() - nowMs < TURN_MS) continue;
      this.#isContinued = true;
      setImmediate(this.#check);
      return;
    }
    if (this.#waiting.length > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  };
}

/**
 * A timer for a reply of another process. It fires one turn of the event loop after its time, so that a reply that
 * arrived while this process was busy is read before it counts as late. `clearTimeout` cancels it.
 */
export function setReplyTimeout(onLate: () => void, timeoutMs: number): NodeJS.Timeout {
  return setTimeout(() => setImmediate(onLate), timeoutMs);
}
