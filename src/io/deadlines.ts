import { afterReadyWork } from './after-reading.ts';

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
 * Fault: a stall of this thread, longer than a service has to answer, gave 504 for an answer that had arrived meanwhile. So what has
 * arrived is read before a deadline that has passed takes effect.
 *
 * They are kept in an array. A Set with thousands of additions and removals each second leaves behind tables that point
 * to each other and keep old entries alive beyond the young generation. Measured: that cost a tenth of all time.
 */
export class Deadlines {
  /** Milliseconds of the clock of the deadlines. */
  readonly nowMs: () => number;
  readonly #waiting: Timed[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** Whether those that have passed are acted on later in this turn, or in the next one. */
  #isScheduled = false;
  /** What had arrived by then is read. A stall that begins while it is read does not count yet. */
  #passedByMs = 0;

  /** @param monotonicMs milliseconds of a monotonic clock */
  constructor(monotonicMs: () => number) {
    this.nowMs = monotonicMs;
  }

  watch(waiting: Timed): void {
    waiting.slot = this.#waiting.push(waiting) - 1;
    this.#timer ??= setInterval(() => {
      if (this.#isScheduled) return;
      this.#passedByMs = this.nowMs();
      this.#schedule();
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

  #schedule(): void {
    this.#isScheduled = true;
    afterReadyWork(this.#check);
  }

  readonly #check = (): void => {
    this.#isScheduled = false;
    const beganAtMs = this.nowMs();
    // From the end, because the place of one that is forgotten during the loop is taken by one that has been checked
    // already.
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      const waiting = this.#waiting[i];
      if (waiting === undefined || waiting.deadlineAtMs > this.#passedByMs) continue;
      waiting.deadlineAtMs = Number.POSITIVE_INFINITY;
      waiting.onDeadline();
      if (this.nowMs() - beganAtMs < TURN_MS) continue;
      this.#schedule();
      return;
    }
    if (this.#waiting.length > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  };
}

/** What a stall of this thread counts as at most when a reply is awaited (contract section 6). */
const MOST_OF_STALL_MS = 25;
/** How often the time is counted while a reply is awaited. Less than `MOST_OF_STALL_MS`, so that all of it counts if there is no stall. */
const COUNT_EVERY_MS = 20;
/** A timer has a resolution of one millisecond and may fire early by less than that. */
const EARLY_MS = 1;

/**
 * The time for which replies are awaited, milliseconds: the silence of others, not of this process. It runs while a deadline of
 * `ReplyDeadlines` is set.
 *
 * Fault: cold code, a garbage collection or a machine without a free processor stops this thread for as long as Redis is waited for. What
 * needs several replies, one after the other, was then decided without Redis, beyond an exact limit, although Redis answered each at once.
 */
class ReplyClock {
  #countedMs = 0;
  #countedAtMs = 0;

  nowMs(): number {
    return this.#countedMs + Math.min(performance.now() - this.#countedAtMs, MOST_OF_STALL_MS);
  }

  /** The next stall begins now at the earliest. Not called for each request: a long turn would count whole. */
  count(): void {
    this.#countedMs = this.nowMs();
    this.#countedAtMs = performance.now();
  }
}

export const REPLY_CLOCK = new ReplyClock();

/** The deadline of one reply. */
export class ReplyDeadline {
  readonly onLate: () => void;
  /** By the `REPLY_CLOCK`. */
  readonly atMs: number;
  /** Its index among those of its owner. Only the owner sets it. */
  slot: number;
  isCancelled = false;
  readonly #owner: ReplyDeadlines;

  constructor(owner: ReplyDeadlines, onLate: () => void, atMs: number, slot: number) {
    this.#owner = owner;
    this.onLate = onLate;
    this.atMs = atMs;
    this.slot = slot;
  }

  leftMs(): number {
    return this.atMs - REPLY_CLOCK.nowMs();
  }

  cancel(): void {
    this.#owner.cancel(this);
  }
}

/**
 * Deadlines of replies of another process, under one timer: replies are hardly ever late, and a timer for each would cost a tenth
 * of a call. One that has passed takes effect a turn of the event loop later, so that a reply that has arrived is read before.
 */
export class ReplyDeadlines {
  /** An array and no Set: frequent additions and removals make a Set allocate new tables. */
  readonly #deadlines: ReplyDeadline[] = [];
  #timer: NodeJS.Timeout | null = null;
  #firesAtMs = 0;

  /** @param onLate not called once the deadline is cancelled */
  set(onLate: () => void, timeoutMs: number): ReplyDeadline {
    if (this.#timer === null) REPLY_CLOCK.count();
    const nowMs = REPLY_CLOCK.nowMs();
    const deadline = new ReplyDeadline(this, onLate, nowMs + timeoutMs, this.#deadlines.length);
    this.#deadlines.push(deadline);
    this.#checkAt(deadline.atMs, nowMs);
    return deadline;
  }

  /** The reply, or what `late` returns if it has not come within this time. */
  within<T, L>(reply: Promise<T>, timeoutMs: number, late: () => L | Promise<L>): Promise<T | L> {
    return new Promise((resolve, reject) => {
      const deadline = this.set(() => resolve(late()), timeoutMs);
      reply.then(
        (value) => {
          this.cancel(deadline);
          resolve(value);
        },
        (error) => {
          this.cancel(deadline);
          reject(error);
        },
      );
    });
  }

  cancel(deadline: ReplyDeadline): void {
    deadline.isCancelled = true;
    this.#remove(deadline);
  }

  #remove(deadline: ReplyDeadline): void {
    if (this.#deadlines[deadline.slot] !== deadline) return;
    const last = this.#deadlines.pop()!;
    if (last === deadline) return;
    this.#deadlines[deadline.slot] = last;
    last.slot = deadline.slot;
  }

  #checkAt(atMs: number, nowMs: number): void {
    const inMs = Math.min(Math.max(atMs - nowMs, 0), COUNT_EVERY_MS);
    if (this.#timer !== null) {
      if (this.#firesAtMs <= nowMs + inMs) return;
      clearTimeout(this.#timer);
    }
    this.#firesAtMs = nowMs + inMs;
    this.#timer = setTimeout(this.#check, inMs);
  }

  readonly #check = (): void => {
    this.#timer = null;
    REPLY_CLOCK.count();
    const nowMs = REPLY_CLOCK.nowMs();
    let nextAtMs = Number.POSITIVE_INFINITY;
    // From the end, because the place of one that is cancelled is taken by one that has been checked.
    for (let i = this.#deadlines.length - 1; i >= 0; i--) {
      const deadline = this.#deadlines[i]!;
      if (deadline.atMs > nowMs + EARLY_MS) nextAtMs = Math.min(nextAtMs, deadline.atMs);
      else {
        this.#remove(deadline);
        setImmediate(() => {
          if (!deadline.isCancelled) deadline.onLate();
        });
      }
    }
    if (this.#deadlines.length > 0) this.#checkAt(nextAtMs, nowMs);
  };
}
