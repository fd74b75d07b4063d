import { calculate } from './room.ts';

/** Processor time of `calculate` on the machine that the bounds of the tests are written for. */
const REFERENCE_MS = 30;

/** @returns gives the milliseconds that have passed since this call */
export function stopwatch(): () => number {
  const beganAtMs = performance.now();
  return () => performance.now() - beganAtMs;
}

/**
 * Processor time that `work` takes, as milliseconds of the reference machine: a slower processor, or one whose caches and
 * pipelines are shared with other work, is measured by a fixed piece of work before and after, and does not count.
 */
export function processorMs(work: () => void): number {
  const before = spentMs(calculate);
  const spent = spentMs(work);
  const slowness = Math.max(before, spentMs(calculate)) / REFERENCE_MS;
  return spent / Math.max(1, slowness);
}

function spentMs(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
