import { spawnSync } from 'node:child_process';

/** What the work of `measured` takes on a quiet machine with the two cores that the deadlines of the tests are written for. */
const REFERENCE_MS = 400;
const ROUNDS = 3;
/** The load may grow after the measurement. */
const MARGIN = 5;

/**
 * By how much the tests lengthen each of their deadlines: five times, and as much more as this machine is now slower than
 * the reference. Only a test that fails waits so long, since tests wait for conditions. vitest.config.ts measures once and
 * hands the result to the workers in `TEST_ROOM`; set the variable to replace the measurement.
 */
export const ROOM = Number(process.env.TEST_ROOM ?? measuredRoom());

/**
 * The most that may lie between the end of a deadline of the gateway and the moment at which the test sees its effect,
 * milliseconds. A deadline that is not kept ends after the default, which is 30 s or more, or never. That a deadline is
 * kept exactly is tested where the test holds the time: see `holdTime`.
 */
export const LATE_MS = 1_000 * ROOM;

/**
 * A deadline of the gateway within which a test expects it to do something: `ms` on a quiet machine, and longer as far as this
 * machine is slower.
 */
export function paced(ms: number): number {
  return Math.round((ms * ROOM) / MARGIN);
}

function measuredRoom(): number {
  const beganAtMs = performance.now();
  for (let round = 0; round < ROUNDS; round++) {
    calculate();
    spawnSync(process.execPath, ['--eval', '']);
  }
  return Math.ceil(MARGIN * Math.max(1, (performance.now() - beganAtMs) / REFERENCE_MS));
}

/** A fixed piece of work for the processor. */
export function calculate(): number {
  let sum = 1;
  for (let i = 0; i < 20_000_000; i++) sum = (Math.imul(sum, 31) + i) | 0;
  return sum;
}
