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
