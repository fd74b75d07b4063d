interface StoreClockOptions {
  /** Asks the store, or each primary of a cluster, for its time: Unix milliseconds. */
  readonly read: () => Promise<readonly number[]>;
  /** This machine's clock, Unix milliseconds. */
  readonly wallMs: () => number;
  readonly monotonicMs: () => number;
  /** Called when the clock of a store was set: what was remembered by it may have ended. */
  readonly onJump: () => void;
  /** Called with a sentence when the clocks begin to differ too much. */
  readonly onWarning: (sentence: string) => void;
  /** 500 ms if left out. */
  readonly everyMs?: number;
}

/** By this much a clock was set, and has not merely drifted since the last look. */
const JUMP_MS = 1_000;
/** A store whose clock differs from this machine's by more is warned of. */
const WARNED_MS = 60_000;

/**
 * The store's clock, by which keys expire and requests to create a key can be repeated: gateways whose own clocks differ
 * then agree. It is read twice a second, and carried on by this process's monotonic clock in between.
 *
 * Fault: the clock of Redis is 26 hours behind and then corrected. What a gateway has in memory would refuse for 26 hours what
 * the store admits. So after a jump everything is asked again.
 */
export class StoreClock {
  readonly #options: StoreClockOptions;
  readonly #timer: NodeJS.Timeout;
  /** Of each server, in the order of `read`: its clock minus the monotonic one of this process. */
  #offsetsMs: readonly number[] = [];
  #isReading = false;
  #isWarnedOf = false;

  constructor(options: StoreClockOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.look(), options.everyMs ?? 500);
    this.#timer.unref();
  }

  /** Unix milliseconds. This machine's clock until the store has answered for the first time. */
  get nowMs(): number {
    const [offsetMs] = this.#offsetsMs;
    return offsetMs === undefined ? this.#options.wallMs() : Math.floor(this.#options.monotonicMs() + offsetMs);
  }

  /** By how many milliseconds the store's clock is ahead of this machine's, or behind it (negative): of several, the worst. */
  get aheadMs(): number {
    const ownMs = this.#options.wallMs() - this.#options.monotonicMs();
    const ahead = this.#offsetsMs.map((offsetMs) => offsetMs - ownMs);
    return ahead.reduce((worst, one) => (Math.abs(one) > Math.abs(worst) ? one : worst), 0);
  }

  /** Whether the clocks differ so much that an operator should know. */
  get differs(): boolean {
    return Math.abs(this.aheadMs) > WARNED_MS;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Reads the clock. Called by a timer. Never rejects. */
  async look(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    const { read, monotonicMs } = this.#options;
    try {
      const askedAtMs = monotonicMs();
      const times = await read();
      const answeredAtMs = monotonicMs();
      // An answer that took long does not say what time it is now.
      if (answeredAtMs - askedAtMs < JUMP_MS / 2)
        this.#compare(times.map((atMs) => atMs - (askedAtMs + answeredAtMs) / 2));
    } catch {
      // The store is away. Its clock is carried on until it is back.
    } finally {
      this.#isReading = false;
    }
  }

  #compare(offsetsMs: readonly number[]): void {
    const before = this.#offsetsMs;
    this.#offsetsMs = offsetsMs;
    const hasJumped = offsetsMs.some((offsetMs, i) => Math.abs(offsetMs - (before[i] ?? offsetMs)) > JUMP_MS);
    if (hasJumped) this.#options.onJump();
    if (this.differs && !this.#isWarnedOf) {
      const minutes = (Math.abs(this.aheadMs) / 60_000).toFixed(1);
      this.#options.onWarning(
        `The clock of the store is ${minutes} minutes ${this.aheadMs > 0 ? 'ahead of' : 'behind'} this machine's. Windows, bans and the expiry of keys follow the store's. Beyond one hour no usage history is recorded. Run NTP on both.`,
      );
    }
    this.#isWarnedOf = this.differs;
  }
}
