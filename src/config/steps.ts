import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work that may pause at each `yield`: a step is what it does for one route, plan, upstream or setting. */
export type Steps<T> = Generator<void, T, void>;

/** The steps of one turn of the event loop. A step takes microseconds, so that requests wait for a slice no more than a few milliseconds. */
export const STEPS_PER_SLICE = 100;
/** A slice ends earlier when its steps take long. */
const MOST_MS = 2;

/** Does all steps now. @throws what a step throws */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Does the steps in slices, and lets the event loop serve requests between them. Work that is given up runs its `finally`.
 * @throws what a step throws; the reason of `signal` when that is aborted between two slices
 */
export async function inSlices<T>(steps: Steps<T>, signal: AbortSignal): Promise<T> {
  try {
    for (;;) {
      const untilMs = performance.now() + MOST_MS;
      for (let done = 0; done < STEPS_PER_SLICE && performance.now() < untilMs; done++) {
        const step = steps.next();
        if (step.done === true) return step.value;
      }
      await nextTurn();
      signal.throwIfAborted();
    }
  } finally {
    steps.return(undefined as never);
  }
}
