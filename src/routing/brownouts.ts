/** An announced, short refusal of a deprecated route, so that its callers notice before it is removed. */
export type Brownout =
  /** Once; Unix milliseconds, `toMs` not included. */
  | { readonly kind: 'once'; readonly fromMs: number; readonly toMs: number }
  /** Each week. Days as in `getUTCDay`, minutes of the day in UTC, `toMinute` not included. */
  | {
      readonly kind: 'weekly';
      readonly days: readonly number[];
      readonly fromMinute: number;
      readonly toMinute: number;
    };

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/**
 * When the route is available again, Unix milliseconds; null if no brownout is in force at `nowMs`. If brownouts overlap
 * or follow without a gap, this is the end of the last, so that waiting until then is enough.
 */
export function brownoutEndMs(brownouts: readonly Brownout[], nowMs: number): number | null {
  let untilMs: number | null = null;
  for (let found = true; found; ) {
    found = false;
    for (const brownout of brownouts) {
      const endMs = endOf(brownout, untilMs ?? nowMs);
      if (endMs === null) continue;
      untilMs = endMs;
      // Weekly brownouts without a gap would never end: stop the search after a year.
      found = endMs - nowMs < 366 * DAY_MS;
    }
  }
  return untilMs;
}

/** @returns the end of a brownout in force at `atMs`, which is later; else null */
function endOf(brownout: Brownout, atMs: number): number | null {
  if (brownout.kind === 'once') return brownout.fromMs <= atMs && atMs < brownout.toMs ? brownout.toMs : null;
  const midnightMs = Math.floor(atMs / DAY_MS) * DAY_MS;
  const minute = (atMs - midnightMs) / MINUTE_MS;
  const { days, fromMinute, toMinute } = brownout;
  if (!days.includes(new Date(atMs).getUTCDay()) || minute < fromMinute || minute >= toMinute) return null;
  return midnightMs + toMinute * MINUTE_MS;
}
