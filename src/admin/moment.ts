import { durationMs, instant } from '../config/values.ts';

/** Ten years: longer is a mistake, or `never`. */
const LONGEST_MS = 3_660 * 86_400_000;

/** An offset can lead beyond: RFC 3339 has four digits for the year, and we could not say it back. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

export const DURATION_RULE = 'must be a duration of at most 3660d, such as 30m, 24h or 90d';
export const MOMENT_RULE =
  'must be a duration such as 90d (at most 3660d), a date such as 2030-12-31, or a time such as 2030-12-31T12:00:00Z';

export const PAST_RULE =
  'must be a duration back from now such as 24h (at most 3660d), a date such as 2030-12-31, or a time such as 2030-12-31T12:00:00Z';

/** @returns the milliseconds of `30m`, `24h`, `90d`, also `0s`; null for what is no such duration */
export function durationFrom(text: string): number | null {
  const ms = durationMs(text);
  return ms >= 0 && ms <= LONGEST_MS ? ms : null;
}

/**
 * Reads a moment: a duration from now (`90d`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds; null for what is none of these
 */
export function momentFrom(text: string, nowMs: number): number | null {
  const fromNowMs = durationFrom(text);
  if (fromNowMs !== null) return nowMs + fromNowMs;
  // RFC 3339 allows a fraction of a second, and our own answers have one.
  const [, seconds, fraction = '', zone = ''] = /^([^.]*)(?:(\.[0-9]{1,9})(Z|[+-].*))?$/.exec(text) ?? [];
  if (seconds === undefined || !instant().safeParse(seconds + zone).success) return null;
  const atMs = Date.parse(seconds + fraction + zone);
  return atMs > LAST_MS ? null : atMs;
}

/**
 * Reads a moment in the past: a duration back from now (`24h`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds; null for what is none of these
 */
export function pastFrom(text: string, nowMs: number): number | null {
  const agoMs = durationFrom(text);
  return agoMs === null ? momentFrom(text, nowMs) : nowMs - agoMs;
}
