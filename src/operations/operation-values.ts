import { z } from 'zod';
import { durationMs, momentOf } from '../config/setting-values.ts';
import { escapedText } from '../io/terminal-text.ts';
import { MAX_LIMIT } from '../model/plan.ts';
import { count, wholeNumber } from '../model/values.ts';

// The values that several operations take or give, and how the texts of an operator are read. The message of a schema is the end of a
// sentence about its member.

/** A day of UTC. */
export const day = z.string().meta({ format: 'date' });
/** The id of one top-up, by which it can be undone. */
export const topUpId = z.string().describe('The id of this top-up, by which it can be undone.');
export const unixSeconds = z.int().describe('Unix seconds.');

export const standingBan = z
  .strictObject({ number: count.min(1), until: unixSeconds })
  .nullable()
  .meta({ id: 'StandingBan' });

export const amount = wholeNumber(1, MAX_LIMIT);

export const textRule = 'must be a text';

const MAX_PAGE = 1_000;

/** The members of the input of a list. */
export const PAGE = {
  limit: wholeNumber(1, MAX_PAGE).default(100).describe('Entries on a page.'),
  cursor: z.string(textRule).optional().describe('The `cursor` of the page before.'),
};

export const cursor = z
  .string()
  .nullable()
  .describe('Leads to the next page; null on the last one.')
  .meta({ id: 'Cursor' });

const flagRule = 'must be true or false';
/** False unless given. */
export const flag = z.boolean(flagRule).default(false);

/** Ten years. A longer duration is probably a mistake; a key that never expires has `never`. */
const MAX_MS = 3_660 * 86_400_000;

export const DURATION_RULE = 'must be a duration of at most 3660d, such as 30m, 24h or 90d';
export const MOMENT_RULE =
  'must be a duration such as 90d (at most 3660d), a date such as 2030-12-31 or tomorrow, or a time such as 2030-12-31T12:00:00Z';

export const PAST_RULE =
  'must be a duration before now such as 24h (at most 3660d), a date such as 2026-01-31 or yesterday, or a time such as 2026-01-31T12:00:00Z';

/** Reads a duration such as `30m`, `24h`, `90d` or `0s`. @returns milliseconds; null for any other text */
export function durationFrom(text: string): number | null {
  const ms = durationMs(text);
  return ms >= 0 && ms <= MAX_MS ? ms : null;
}

/**
 * Reads a moment: a duration from now (`90d`), a date (midnight UTC, also `yesterday`, `today`, `tomorrow`) or an RFC 3339 time.
 * @returns Unix milliseconds; null for any other text
 */
export function momentFrom(text: string, nowMs: number): number | null {
  const fromNowMs = durationFrom(text);
  if (fromNowMs !== null) return nowMs + fromNowMs;
  const days = DAYS[text];
  return days === undefined ? momentOf(text) : nowMs - (nowMs % DAY_MS) + days * DAY_MS;
}

const DAY_MS = 86_400_000;
const DAYS: Readonly<Record<string, number>> = { __proto__: null as never, yesterday: -1, today: 0, tomorrow: 1 };

/**
 * Reads a moment in the past: a duration before now (`24h`), a date (midnight UTC, also `yesterday`) or an RFC 3339 time.
 * @returns Unix milliseconds; null for any other text
 */
export function pastFrom(text: string, nowMs: number): number | null {
  const agoMs = durationFrom(text);
  return agoMs === null ? momentFrom(text, nowMs) : nowMs - agoMs;
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
