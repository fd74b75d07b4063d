/** The timer functions and clocks of this process, which `VirtualTime` replaces while it is in force. */
const REAL = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setImmediate: globalThis.setImmediate,
  performanceNow: performance.now,
  dateNow: Date.now,
};

interface Timer {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

/**
 * Time that passes only when the simulation lets it. While it is in force, `setTimeout`, `setImmediate`, `performance.now`
 * and `Date.now` of this process belong to it, so that the code under test runs unchanged. Timers fire in the order of their
 * time, and those of the same time in the order in which they were set. After each callback all promises are settled.
 */
export class VirtualTime {
  /** By the monotonic clock, milliseconds. */
  nowMs = 5_000.25;
  /** What `Date.now` adds to the monotonic clock, milliseconds. */
  wallOffsetMs = 0;
  /** Called after each callback, when all promises are settled. */
  readonly #afterEach: () => void;
  #timers: Timer[] = [];
  #immediates: (() => void)[] = [];
  #order = 0;

  constructor(afterEach: () => void) {
    this.#afterEach = afterEach;
  }

  /** Replaces the timers and clocks of this process until `restore` is called. */
  install(): void {
    const replaced = {
      setTimeout: (run: () => void, ms = 0) => this.#set(run, ms),
      clearTimeout: (timer: Timer) => {
        const at = this.#timers.indexOf(timer);
        if (at >= 0) this.#timers.splice(at, 1);
      },
      setImmediate: (run: () => void) => void this.#immediates.push(run),
    };
    Object.assign(globalThis, replaced);
    performance.now = () => this.nowMs;
    Date.now = () => Math.floor(this.nowMs + this.wallOffsetMs);
  }

  restore(): void {
    const { setTimeout, clearTimeout, setImmediate } = REAL;
    Object.assign(globalThis, { setTimeout, clearTimeout, setImmediate });
    performance.now = REAL.performanceNow;
    Date.now = REAL.dateNow;
  }

  /** Ends the present turn of the event loop: settles all promises and runs all immediates. */
  async turn(): Promise<void> {
    await settlePromises();
    this.#afterEach();
    for (let run = this.#immediates.shift(); run !== undefined; run = this.#immediates.shift()) {
      run();
      await settlePromises();
      this.#afterEach();
    }
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms;
    await this.turn();
    for (let next = this.#next(); next !== null && next.atMs <= untilMs; next = this.#next()) {
      this.#timers.splice(this.#timers.indexOf(next), 1);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.run();
      await this.turn();
    }
    this.nowMs = untilMs;
  }

  #set(run: () => void, ms: number): Timer & { unref(): Timer } {
    const timer: Timer & { unref(): Timer } = {
      atMs: this.nowMs + Math.max(ms, 1),
      order: this.#order++,
      run,
      unref: () => timer,
    };
    this.#timers.push(timer);
    return timer;
  }

  #next(): Timer | null {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      if (next === null || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order))
        next = timer;
    }
    return next;
  }
}

/** A turn of the real event loop: before it all promises that can be settled are settled. */
function settlePromises(): Promise<void> {
  return new Promise((resolve) => void REAL.setImmediate(resolve));
}
