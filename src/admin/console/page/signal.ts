/** Something that happens in the page, and of which other parts want to know. */
interface Signal<T> {
  readonly send: (what: T) => void;
  /** @returns a function that ends it */
  readonly listen: (listener: (what: T) => void) => () => void;
}

export function signal<T = void>(): Signal<T> {
  const listeners = new Set<(what: T) => void>();
  return {
    send: (what) => {
      for (const one of [...listeners]) one(what);
    },
    listen: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
