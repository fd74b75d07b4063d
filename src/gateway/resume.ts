import { REPLY_CLOCK } from '../io/deadlines.ts';

/** A request with a step that waits for a value, which may already be available. */
export interface Waiter {
  /** @returns false if the value is no longer needed. @param tookMs how long the value took; waitedMs: by the `REPLY_CLOCK` */
  clientStillWaiting(tookMs: number, waitedMs?: number): boolean;
  /** Handles an exception of the promise, or of the step that follows. */
  onDefect(error: unknown): void;
  /** The thread has worked for it since `fromMs` (monotonic). */
  worked(fromMs: number, toMs: number): void;
}

/** Continues with `next`, a method of the waiter, at once or when a promise is fulfilled. @param nowMs monotonic */
export function resumeWith<W extends Waiter, T>(
  waiter: W,
  value: T | Promise<T>,
  nowMs: () => number,
  next: (this: W, value: T) => void,
): void {
  if (value instanceof Promise) whenFulfilled(waiter, value, nowMs, next);
  else if (waiter.clientStillWaiting(0)) next.call(waiter, value);
}

function whenFulfilled<W extends Waiter, T>(
  waiter: W,
  value: Promise<T>,
  nowMs: () => number,
  next: (this: W, value: T) => void,
): void {
  const askedAtMs = nowMs();
  const waitsFromMs = REPLY_CLOCK.nowMs();
  const fulfilled = (result: T) => {
    const answeredAtMs = nowMs();
    const waitedMs = REPLY_CLOCK.nowMs() - waitsFromMs;
    try {
      if (waiter.clientStillWaiting(answeredAtMs - askedAtMs, waitedMs)) next.call(waiter, result);
    } catch (error) {
      waiter.onDefect(error);
    }
    waiter.worked(answeredAtMs, nowMs());
  };
  value.then(fulfilled, (error) => waiter.onDefect(error));
}
