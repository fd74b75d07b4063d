import { DURATION_RULE, durationFrom, MOMENT_RULE, momentFrom } from '../admin/moment.ts';
import { Failure } from '../failure.ts';

/**
 * Reads a duration given to an option: `30m`, `24h`, `90d`, also `0s`.
 * @returns milliseconds
 * @throws Failure `bad_usage`
 */
export function readDuration(option: string, text: string): number {
  const ms = durationFrom(text);
  if (ms !== null) return ms;
  throw new Failure('bad_usage', `${option} is '${text}'; it ${DURATION_RULE}.`);
}

/**
 * Reads a moment given to an option: a duration from now (`90d`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds
 * @throws Failure `bad_usage`
 */
export function readMoment(option: string, text: string, nowMs: number): number {
  const atMs = momentFrom(text, nowMs);
  if (atMs !== null) return atMs;
  throw new Failure('bad_usage', `${option} is '${text}'; it ${MOMENT_RULE}.`);
}
