import { onTestFinished, vi } from 'vitest';

/**
 * Until the test ends, `setTimeout` and `performance.now` of this process move only when the test lets time pass: for
 * deadlines of code that runs in the test itself, so that no stall of the machine is taken for a missed one.
 * @returns lets so many milliseconds pass, and then gives what is due its turns of the event loop
 */
export function holdTime(): (ms: number) => Promise<void> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  return async (ms) => {
    await vi.advanceTimersByTimeAsync(ms);
    // A deadline leaves answers that have arrived one more turn.
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  };
}
