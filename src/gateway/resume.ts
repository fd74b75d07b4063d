import { REPLY_CLOCK } from '../io/deadlines.ts';
import type { ConsumerTime, ThreadTime } from '../io/thread-time.ts';

/** A request with a step that waits for a value, which may already be available. */
export interface Waiter {
  /** @returns false if the value is no longer needed. @param tookMs how long the value took; waitedMs: by the `REPLY_CLOCK` */
  clientStillWaiting(tookMs: number, waitedMs?: number): boolean;
  /** Handles an exception of the promise, or of the step that follows. */
  failed(error: unknown): void;
  /** The thread has worked for it since `fromMs` (monotonic). */
  worked(fromMs: number, toMs: number): void;
}

/** A method of the waiter that continues with the value. */
type Next<W, T> = (this: W, value: T) => void;

/**
 * Continues with a value of the store, or of the token's issuer: at once, or when the promise is fulfilled.
 * @param nowMs monotonic
 */
export function resumeWith<W extends Waiter, T>(
  waiter: W,
  value: T | Promise<T>,
  nowMs: () => number,
  next: Next<W, T>,
): void {
  if (value instanceof Promise) whenFulfilled(waiter, value, nowMs, next);
  else if (waiter.clientStillWaiting(0)) next.call(waiter, value);
}

function whenFulfilled<W extends Waiter, T>(waiter: W, value: Promise<T>, nowMs: () => number, next: Next<W, T>): void {
  const askedAtMs = nowMs();
  const waitsFromMs = REPLY_CLOCK.nowMs();
  const fulfilled = (result: T) => {
    const answeredAtMs = nowMs();
    const waitedMs = REPLY_CLOCK.nowMs() - waitsFromMs;
    attempt(waiter, next, result, answeredAtMs - askedAtMs, waitedMs);
    waiter.worked(answeredAtMs, nowMs());
  };
  value.then(fulfilled, (error) => waiter.failed(error));
}

/** Continues with a value that is made in this process, so that waiting for it is no waiting for the store. */
export function resumeWithOwn<W extends Waiter, T>(
  waiter: W,
  value: T | Promise<T>,
  nowMs: () => number,
  next: Next<W, T>,
): void {
  if (!(value instanceof Promise)) {
    if (waiter.clientStillWaiting(0)) next.call(waiter, value);
    return;
  }
  const fulfilled = (result: T) => {
    const fromMs = nowMs();
    attempt(waiter, next, result);
    waiter.worked(fromMs, nowMs());
  };
  value.then(fulfilled, (error) => waiter.failed(error));
}

/** Continues when it is the turn of the consumer. @param next gets whether that turn came late */
export function attemptInTurn<W extends Waiter>(
  waiter: W,
  thread: ThreadTime,
  time: ConsumerTime,
  next: Next<W, boolean>,
): void {
  thread.wait(time, (isLate) => attempt(waiter, next, isLate));
}

/** Continues after waiting: the client may have left meanwhile. */
export function attempt<W extends Waiter, T>(waiter: W, next: Next<W, T>, value: T, tookMs = 0, waitedMs = 0): void {
  try {
    if (waiter.clientStillWaiting(tookMs, waitedMs)) next.call(waiter, value);
  } catch (error) {
    waiter.failed(error);
  }
}
