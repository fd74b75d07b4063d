/**
 * The process's clocks. Only the composition root imports them; everything else is given the time or a clock
 * (test/system/exhaustion/clocks.test.ts). They are in io because that is the layer every other may call.
 */
export const CLOCKS = Object.freeze({
  /** Unix milliseconds. */
  wallMs: () => Date.now(),
  /** Milliseconds of a monotonic clock. Setting the system clock does not change it. */
  monotonicMs: () => performance.now(),
});

/** Milliseconds for which the processor has worked for this thread. What other programs take of a busy machine does not count. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** A wall clock in whole milliseconds differs from a monotonic one by less than this unless it was set. */
const MIN_STEP_MS = 2;

/**
 * A monotonic clock that also passes the time by which the wall clock is set forward, as a test does that fakes `Date`. A wall
 * clock that is set back changes nothing.
 * @returns a clock, milliseconds
 */
export function clockWithSteps({ wallMs, monotonicMs }: typeof CLOCKS = CLOCKS): () => number {
  let offsetMs = wallMs() - monotonicMs();
  let aheadMs = 0;
  return () => {
    const nowMs = monotonicMs();
    const stepMs = wallMs() - nowMs - offsetMs;
    if (Math.abs(stepMs) >= MIN_STEP_MS) {
      offsetMs += stepMs;
      aheadMs += Math.max(0, stepMs);
    }
    return nowMs + aheadMs;
  };
}
