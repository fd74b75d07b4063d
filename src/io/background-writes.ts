/**
 * Writes in the background what requests have noted: every so often, one write at a time, and all that waits at the end. No request waits
 * for it.
 */
export class BackgroundWrites {
  readonly #write: (all: boolean) => Promise<void>;
  readonly #timer: NodeJS.Timeout | undefined;
  #last: Promise<void> = Promise.resolve();

  /**
   * @param everyMs null to write only when `flush` is called
   * @param write writes some of what waits, or all of it; it keeps what the store does not accept, and never rejects
   */
  constructor(everyMs: number | null, write: (all: boolean) => Promise<void>) {
    this.#write = write;
    if (everyMs !== null) this.#timer = setInterval(() => void this.flush(), everyMs).unref();
  }

  /** Writes once the writes before it have ended. Never rejects. */
  flush(all = false): Promise<void> {
    this.#last = this.#last.then(() => this.#write(all));
    return this.#last;
  }

  /** Ends the timer and writes all that waits. */
  close(): Promise<void> {
    clearInterval(this.#timer);
    return this.flush(true);
  }
}
