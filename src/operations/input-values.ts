import { type Limit, UNBOUNDED } from '../admit/plan.ts';
import { WINDOWS, type WindowName } from '../admit/windows.ts';
import { durationMs, momentOf } from '../config/values.ts';
import { escapedText } from '../io/terminal-text.ts';

/** Ten years. A longer duration is probably a mistake; a key that never expires has `never`. */
const MAX_MS = 3_660 * 86_400_000;

export const DURATION_RULE = 'must be a duration of at most 3660d, such as 30m, 24h or 90d';
export const MOMENT_RULE =
  'must be a duration such as 90d (at most 3660d), a date such as 2030-12-31, or a time such as 2030-12-31T12:00:00Z';

export const PAST_RULE =
  'must be a duration before now such as 24h (at most 3660d), a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z';

/** Reads a duration such as `30m`, `24h`, `90d` or `0s`. @returns milliseconds; null for any other text */
export function durationFrom(text: string): number | null {
  const ms = durationMs(text);
  return ms >= 0 && ms <= MAX_MS ? ms : null;
}

/**
 * Reads a moment: a duration from now (`90d`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds; null for any other text
 */
export function momentFrom(text: string, nowMs: number): number | null {
  const fromNowMs = durationFrom(text);
  return fromNowMs === null ? momentOf(text) : nowMs + fromNowMs;
}

/**
 * Reads a moment in the past: a duration before now (`24h`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds; null for any other text
 */
export function pastFrom(text: string, nowMs: number): number | null {
  const agoMs = durationFrom(text);
  return agoMs === null ? momentFrom(text, nowMs) : nowMs - agoMs;
}

/** The limits in an operator's request. Null restores the plan's own number. */
export type GivenLimits = Partial<Record<WindowName, Limit | null>>;

/** Reads one `WINDOW=NUMBER`. `WINDOW=default` restores the plan's own number. @returns null for any other text */
export function limitFrom(text: string): { readonly window: WindowName; readonly limit: Limit | null } | null {
  const [window = '', value = '', ...more] = text.split('=');
  const limit = value === 'default' ? null : numberFrom(value);
  return isWindow(window) && limit !== undefined && more.length === 0 ? { window, limit } : null;
}

export function isWindow(text: string): text is WindowName {
  return (WINDOWS as readonly string[]).includes(text);
}

function numberFrom(value: string): Limit | undefined {
  if (value === 'unlimited') return value;
  return /^(0|[1-9][0-9]{0,14})$/.test(value) && Number(value) <= UNBOUNDED ? Number(value) : undefined;
}

const MAX_CHARACTERS = 100;

/**
 * Makes untrusted text safe to quote in a message, as `escapedText` does. Long text is truncated.
 */
export function visible(text: string): string {
  const characters = [...text];
  const shown = escapedText(characters.slice(0, MAX_CHARACTERS).join(''));
  return shown + (characters.length > MAX_CHARACTERS ? '…' : '');
}
