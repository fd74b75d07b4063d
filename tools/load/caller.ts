/** When a caller sends: `size` requests every `everyMs`, or as soon as it may where that is 0. */
export interface Pace {
  readonly size: number;
  readonly everyMs: number;
  /** Requests that it has under way at most; what is due beyond waits, and its latency counts from when it was due. */
  readonly inFlight: number;
}

export interface CallerOptions {
  readonly pace: Pace;
  /** Until its first request, so that the callers of a scenario do not march in step. */
  readonly delayMs: number;
  readonly durationMs: number;
  /**
   * Sends one request.
   * @param dueAtMs when it was due, of `performance.now()`
   * @returns how long the caller is to be silent from now on, in milliseconds
   */
  readonly send: (dueAtMs: number) => Promise<number>;
  readonly signal: AbortSignal;
}

/** Timers may fire up to a millisecond early. One who waits must not come too soon. */
const TIMER_SLACK_MS = 2;

/**
 * Sends requests at a pace for a time. Requests that fall due while it is made to wait for Retry-After are never sent; all
 * others are, late if need be.
 * @returns resolves when the time is over and every answer is there
 */
export function call({ pace, delayMs, durationMs, send, signal }: CallerOptions): Promise<void> {
  const endsAtMs = performance.now() + durationMs;
  let dueAtMs = performance.now() + delayMs;
  let silentUntilMs = 0;
  let inFlight = 0;
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const sendOne = () => {
      inFlight++;
      send(dueAtMs).then((silentMs) => {
        inFlight--;
        if (silentMs > 0) silentUntilMs = Math.max(silentUntilMs, performance.now() + silentMs + TIMER_SLACK_MS);
        pump();
      }, reject);
    };
    const pump = () => {
      clearTimeout(timer);
      for (;;) {
        const nowMs = performance.now();
        dueAtMs = Math.max(dueAtMs, silentUntilMs, pace.everyMs === 0 ? nowMs : 0);
        if (signal.aborted || dueAtMs >= endsAtMs || nowMs >= endsAtMs) {
          if (inFlight === 0) resolve();
          return;
        }
        if (nowMs < dueAtMs) {
          timer = setTimeout(pump, dueAtMs - nowMs);
          return;
        }
        if (inFlight >= pace.inFlight) return;
        for (let i = 0; i < pace.size; i++) sendOne();
        dueAtMs += pace.everyMs;
      }
    };
    signal.addEventListener('abort', pump, { once: true });
    pump();
  });
}
