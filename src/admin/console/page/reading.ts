// What a screen knows of a value of the gateway. What is unknown is a state of its own, so that a badge, a count or a sentence made of it
// does not compile.

/** A value that the gateway has sent. */
export interface Known<T> {
  readonly state: 'known';
  readonly value: T;
  /** When it came, Unix milliseconds by the clock of this machine. */
  readonly at: number;
  /** How often it comes, in milliseconds. */
  readonly everyMs: number;
}

/** `unknown`: it has not come yet. `failed`: it could not be read, and no earlier one is known. */
export type Reading<T> = Known<T> | { readonly state: 'unknown' } | { readonly state: 'failed'; readonly error: Error };

export const UNKNOWN = { state: 'unknown' } as const;

/** How many intervals a value may be old before the page no longer shows it as the present. */
export const INTERVALS = 3;

/** When a value is too old to be shown as the present, Unix milliseconds. */
export function oldFrom({ at, everyMs }: Known<unknown>): number {
  return at + INTERVALS * everyMs;
}

/** The value, for what only offers more while it is known, such as a choice; null otherwise. */
export function ifKnown<T>(reading: Reading<T>): T | null {
  return reading.state === 'known' ? reading.value : null;
}

/** What is derived from a value is known as far as the value is. */
export function derived<T, Of>(reading: Reading<T>, from: (value: T) => Of): Reading<Of> {
  return reading.state === 'known' ? { ...reading, value: from(reading.value) } : reading;
}
