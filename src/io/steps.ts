import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work that can pause at each `yield`. One step handles one route, plan or setting. */
export type Steps<T> = Generator<void, T, void>;

/** Most steps in one turn of the event loop. A step takes microseconds, a slice a few milliseconds at most. */
export const STEPS_PER_SLICE = 100;
/** A slice that has taken this long ends before its last step. */
const MAX_SLICE_MS = 2;

/** Runs all steps synchronously. @throws what a step throws */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Runs the steps in slices, and lets the event loop serve requests between them.
 * @throws what a step throws; the reason of `signal` if the signal is aborted between two slices
 */
export async function inSlices<T>(steps: Steps<T>, signal?: AbortSignal): Promise<T> {
  for (;;) {
    const untilMs = performance.now() + MAX_SLICE_MS;
    for (let done = 0; done < STEPS_PER_SLICE && performance.now() < untilMs; done++) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
    await nextTurn();
    signal?.throwIfAborted();
  }
}
