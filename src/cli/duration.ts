import { durationMs, instant } from '../config/values.ts';
import { Failure } from '../failure.ts';

/** Ten years: longer is a mistake, or `never`. */
const LONGEST_MS = 3_660 * 86_400_000;

/**
 * Reads a duration given to an option: `30m`, `24h`, `90d`, also `0s`.
 * @returns milliseconds
 * @throws Failure `bad_usage`
 */
export function readDuration(option: string, text: string): number {
  const ms = durationMs(text);
  if (ms >= 0 && ms <= LONGEST_MS) return ms;
  throw new Failure(
    'bad_usage',
    `${option} is '${text}'; it must be a duration of at most 3660d, such as 30m, 24h or 90d.`,
  );
}

/**
 * Reads a moment given to an option: a duration from now (`90d`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds
 * @throws Failure `bad_usage`
 */
export function readMoment(option: string, text: string, nowMs: number): number {
  const fromNowMs = durationMs(text);
  if (fromNowMs >= 0 && fromNowMs <= LONGEST_MS) return nowMs + fromNowMs;
  // RFC 3339 allows a fraction of a second, and our own answers have one.
  const [, seconds, fraction = '', zone = ''] = /^([^.]*)(?:(\.[0-9]{1,9})(Z|[+-].*))?$/.exec(text) ?? [];
  if (seconds !== undefined && instant().safeParse(seconds + zone).success)
    return Date.parse(seconds + fraction + zone);
  throw new Failure(
    'bad_usage',
    `${option} is '${text}'; it must be a duration such as 90d (at most 3660d), a date such as 2030-12-31, or a time such as 2030-12-31T12:00:00Z.`,
  );
}
