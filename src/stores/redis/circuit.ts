import { Failure } from '../../failure.ts';

export interface CircuitOptions {
  /** No call is waited for longer than this. */
  readonly timeoutMs: number;
  /** So many calls in a row fail before none is waited for at all. */
  readonly failures: number;
  readonly probeEveryMs: number;
  /** Any cheap call; while the circuit is open it alone is made. */
  readonly probe: () => Promise<unknown>;
  readonly onChange?: (state: CircuitState) => void;
}

/** `away`: calls fail at once until a probe succeeds. */
export type CircuitState = 'present' | 'away';

/**
 * Keeps requests from waiting for a store that is not there (contract section 6): a deadline for each call, and after a
 * few failures in a row no call at all until a probe succeeds.
 */
export class Circuit {
  readonly #options: CircuitOptions;
  #state: CircuitState = 'present';
  #failures = 0;
  #probing: NodeJS.Timeout | null = null;
  #reached = false;
  #closed = false;

  constructor(options: CircuitOptions) {
    this.#options = options;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Whether any call has ever succeeded. */
  get reached(): boolean {
    return this.#reached;
  }

  /** Makes `call`. Rejects with Failure `store_unavailable` at the deadline, at once while away, or when it fails. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    if (this.#state === 'away')
      throw new Failure('store_unavailable', 'Redis is away; waiting for a probe to succeed.');
    try {
      const value = await withDeadline(call(), this.#options.timeoutMs);
      this.#succeeded();
      return value;
    } catch (error) {
      this.#failed();
      throw error instanceof Failure
        ? error
        : new Failure('store_unavailable', 'Redis did not do what was asked.', error);
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#probing !== null) clearTimeout(this.#probing);
  }

  #succeeded(): void {
    this.#failures = 0;
    this.#reached = true;
    if (this.#state === 'present') return;
    this.#state = 'present';
    this.#options.onChange?.('present');
  }

  #failed(): void {
    this.#failures++;
    if (this.#state === 'away' || this.#failures < this.#options.failures || this.#closed) return;
    this.#state = 'away';
    this.#options.onChange?.('away');
    this.#probeLater();
  }

  #probeLater(): void {
    // A call that was answered late may have ended the outage that the probe in waiting is for; it serves the next one too.
    if (this.#closed || this.#probing !== null) return;
    this.#probing = setTimeout(() => void this.#probe(), this.#options.probeEveryMs);
    this.#probing.unref();
  }

  async #probe(): Promise<void> {
    const isBack = await withDeadline(this.#options.probe(), this.#options.timeoutMs).then(
      () => true,
      () => false,
    );
    this.#probing = null;
    if (isBack) this.#succeeded();
    else if (this.#state === 'away') this.#probeLater();
  }
}

/**
 * The deadline runs on the store's silence, not on our own: when the process was busy, replies that have arrived are
 * read (one turn of the event loop) before anything is called late.
 */
function withDeadline<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      setImmediate(() => reject(new Failure('store_unavailable', `Redis did not answer within ${timeoutMs} ms.`)));
    }, timeoutMs);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
