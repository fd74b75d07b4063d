/** What is done next, as a method of whoever waits. */
export type Step<F, T> = (this: F, value: T) => void;

/**
 * Goes on at once, or when a promise is fulfilled. What breaks then, in it or in what follows, goes to `broken`.
 * @param next told how long it took, milliseconds on that clock
 */
export function whenThere<T>(
  value: T | Promise<T>,
  nowMs: () => number,
  next: (value: T, waitedMs: number) => void,
  broken: (error: unknown) => void,
): void {
  if (!(value instanceof Promise)) {
    next(value, 0);
    return;
  }
  const askedAtMs = nowMs();
  const settled = (it: T) => {
    try {
      next(it, nowMs() - askedAtMs);
    } catch (error) {
      broken(error);
    }
  };
  value.then(settled, broken);
}
