/** An announced, short refusal of a deprecated route, so that who still calls it notices before it goes. */
export type Brownout =
  /** Once; Unix milliseconds, `toMs` not included. */
  | { readonly kind: 'once'; readonly fromMs: number; readonly toMs: number }
  /** Each week; days as `getUTCDay` has them, minutes of the day in UTC, `toMinute` not included. */
  | {
      readonly kind: 'weekly';
      readonly days: readonly number[];
      readonly fromMinute: number;
      readonly toMinute: number;
    };

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/**
 * When the brownout ends in which `nowMs` lies, Unix milliseconds; of several the latest, also where one begins as the
 * other ends: waiting until then is enough. Null outside of all.
 */
export function brownoutEndMs(brownouts: readonly Brownout[], nowMs: number): number | null {
  let untilMs: number | null = null;
  for (let found = true; found; ) {
    found = false;
    for (const brownout of brownouts) {
      const endMs = endOf(brownout, untilMs ?? nowMs);
      if (endMs === null || endMs <= (untilMs ?? nowMs)) continue;
      untilMs = endMs;
      // Two that follow each other for ever would be a removal; nobody is told to wait for more than a year.
      found = endMs - nowMs < 366 * DAY_MS;
    }
  }
  return untilMs;
}

function endOf(brownout: Brownout, atMs: number): number | null {
  if (brownout.kind === 'once') return brownout.fromMs <= atMs && atMs < brownout.toMs ? brownout.toMs : null;
  const midnightMs = Math.floor(atMs / DAY_MS) * DAY_MS;
  const minute = (atMs - midnightMs) / MINUTE_MS;
  const { days, fromMinute, toMinute } = brownout;
  if (!days.includes(new Date(atMs).getUTCDay()) || minute < fromMinute || minute >= toMinute) return null;
  return midnightMs + toMinute * MINUTE_MS;
}
