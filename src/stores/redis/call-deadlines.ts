import { Failure } from '../../failure.ts';

/** No answer came before the deadline. */
export class Late extends Failure {
  constructor(withinMs: number) {
    super('store_unavailable', `Redis did not answer within ${withinMs} ms.`);
  }
}

interface OpenCall {
  /** By `performance.now()`. */
  readonly deadlineAtMs: number;
  /** Where it stands among those that are open. */
  slot: number;
  late(): void;
}

/** A timer runs on whole milliseconds and may be early by the rest of one. */
const EARLY_MS = 1;

/**
 * The deadlines of all calls of one store, under one timer: hardly a call is ever late, and a timer for each of them
 * would cost a tenth of the call.
 *
 * A deadline runs on the store's silence, not on our own: when the process was busy, replies that have arrived are
 * read (one turn of the event loop) before anything is called late.
 */
export class CallDeadlines {
  /** No Set: one that is entered and left all the time leaves old tables behind. */
  readonly #open: OpenCall[] = [];
  #timer: NodeJS.Timeout | null = null;
  #firesAtMs = Number.POSITIVE_INFINITY;

  /**
   * What `call` comes to, or a rejection with Late after `timeoutMs`.
   * @param told what the deadline is called in the complaint
   */
  within<T>(call: Promise<T>, timeoutMs: number, told: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const open: OpenCall = {
        deadlineAtMs: performance.now() + timeoutMs,
        slot: this.#open.length,
        late: () => reject(new Late(told)),
      };
      this.#open.push(open);
      this.#fireAt(open.deadlineAtMs);
      call.then(
        (value) => {
          this.#close(open);
          resolve(value);
        },
        (error) => {
          this.#close(open);
          reject(error);
        },
      );
    });
  }

  #fireAt(atMs: number): void {
    if (this.#firesAtMs <= atMs) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#firesAtMs = atMs;
    this.#timer = setTimeout(() => this.#check(), Math.max(atMs - performance.now(), 1));
    // An open call has a connection that keeps the process; when all are answered, nothing has to wait for this.
    this.#timer.unref();
  }

  #check(): void {
    this.#timer = null;
    this.#firesAtMs = Number.POSITIVE_INFINITY;
    const nowMs = performance.now() + EARLY_MS;
    for (const open of [...this.#open]) {
      if (open.deadlineAtMs > nowMs) this.#fireAt(open.deadlineAtMs);
      else {
        this.#close(open);
        setImmediate(open.late);
      }
    }
  }

  #close(open: OpenCall): void {
    if (this.#open[open.slot] !== open) return;
    const last = this.#open.pop()!;
    if (last === open) return;
    this.#open[open.slot] = last;
    last.slot = open.slot;
  }
}
