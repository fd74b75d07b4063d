/** Who waits for something that may be there already. */
export interface Waiter {
  /** @returns whether it still wants it. @param waitedMs how long it took */
  goesOn(waitedMs: number): boolean;
  /** What was waited for broke, or what followed. */
  onDefect(error: unknown): void;
}

/** Goes on with `next`, a method of whoever waits: at once, or when a promise is fulfilled. @param nowMs monotonic */
export function whenThere<W extends Waiter, T>(
  waiter: W,
  value: T | Promise<T>,
  nowMs: () => number,
  next: (this: W, value: T) => void,
): void {
  if (value instanceof Promise) whenFulfilled(waiter, value, nowMs, next);
  else if (waiter.goesOn(0)) next.call(waiter, value);
}

function whenFulfilled<W extends Waiter, T>(
  waiter: W,
  value: Promise<T>,
  nowMs: () => number,
  next: (this: W, value: T) => void,
): void {
  const askedAtMs = nowMs();
  const fulfilled = (it: T) => {
    try {
      if (waiter.goesOn(nowMs() - askedAtMs)) next.call(waiter, it);
    } catch (error) {
      waiter.onDefect(error);
    }
  };
  value.then(fulfilled, (error) => waiter.onDefect(error));
}
