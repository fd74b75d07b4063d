// How the output of commands and the log on a terminal write times. Settings and options have their own notation for durations
// (`30m`), which `config/setting-values.ts` reads.

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * Writes a moment for a command's output: on a terminal relative to now, such as `in 34 s`, `3 min ago` or `now`; elsewhere in ISO
 * 8601, UTC. The time that is left is rounded up and the time that has passed is rounded down, so that neither is claimed too early.
 * @param atMs Unix milliseconds
 * @param nowMs Unix milliseconds
 */
export function momentText(atMs: number, nowMs: number, { isTerminal }: { readonly isTerminal: boolean }): string {
  if (!isTerminal) return new Date(atMs).toISOString();
  if (atMs > nowMs) return `in ${spanText(atMs - nowMs, Math.ceil)}`;
  return nowMs - atMs < SECOND_MS ? 'now' : `${spanText(nowMs - atMs, Math.floor)} ago`;
}

/**
 * The days until a moment, rounded up, so that a sunset never comes sooner than reported.
 * @param atMs Unix milliseconds, like `nowMs`
 */
export function daysUntil(atMs: number, nowMs: number): number {
  return Math.ceil((atMs - nowMs) / DAY_MS);
}

/**
 * Writes a span with two or three digits: seconds up to two minutes, minutes up to two hours, hours up to two days, then days.
 * @param ms milliseconds, from 0
 */
export function spanText(ms: number, round: (count: number) => number): string {
  if (round(ms / SECOND_MS) < 120) return `${round(ms / SECOND_MS)} s`;
  if (round(ms / MINUTE_MS) < 120) return `${round(ms / MINUTE_MS)} min`;
  if (round(ms / HOUR_MS) < 48) return `${round(ms / HOUR_MS)} h`;
  return `${round(ms / DAY_MS)} d`;
}

const UNITS = [
  [DAY_MS, 'd'],
  [HOUR_MS, 'h'],
  [MINUTE_MS, 'min'],
  [SECOND_MS, 's'],
] as const;

/**
 * Writes a duration of the settings exactly, in the largest unit that has no fraction: `1 d`, `90 s`, `250 ms`.
 * @param ms milliseconds, from 0
 */
export function durationText(ms: number): string {
  const [unitMs, unit] = UNITS.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms'];
  return `${ms / unitMs} ${unit}`;
}
