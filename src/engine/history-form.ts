/**
 * The usage of one consumer: by hour for 48 hours and by day for 92 days, UTC. Both stores keep it in the same 1,000 bytes, so a million
 * consumers take about a gigabyte. history-moves.ts says how it moves from one hour to the next.
 *
 * All numbers are unsigned and big-endian:
 *
 *      0   4 bytes  the last counted hour, in hours since 1970
 *      4  16 bytes  the refusals and the ban answers of that hour, then those of its day; 4 bytes each
 *     20 240 bytes  the admitted cost of 48 hours, 5 bytes each: hour `h` at index `h % 48`
 *    260 460 bytes  the admitted cost of 92 days: day `d` at index `d % 92`
 *    720  96 bytes  the refusals and the ban answers of 48 hours, 1 byte each
 *    816 184 bytes  those of 92 days
 *
 * Admitted cost is exact up to 1,099,511,627,775 in an hour and in a day. Refusals and ban answers are approximate: gateways
 * report them once a second, and a history keeps those of a past hour or day in one byte, within 7 %.
 */
export const HISTORY_BYTES = 1_000;
/** A history begins with the last counted hour. */
export const LAST_HOUR_BYTES = 4;
export const HOURS_KEPT = 48;
export const DAYS_KEPT = 92;
/** Where the refusals and the ban answers of the last hour begin, then those of its day. */
export const RECENT = 4;
export const HOURS = 20;
export const DAYS = 260;
export const COST_BYTES = 5;
export const HOUR_REFUSALS = 720;
export const DAY_REFUSALS = 816;

/** Hours since 1970. */
export function hourOf(ms: number): number {
  return Math.floor(ms / 3_600_000);
}

/** Days since 1970. */
export function dayOf(hour: number): number {
  return Math.floor(hour / 24);
}

/** Where the admitted cost of an hour is. */
export function costOfHourAt(hour: number): number {
  return HOURS + COST_BYTES * (hour % HOURS_KEPT);
}

/** Where the admitted cost of a day is. */
export function costOfDayAt(day: number): number {
  return DAYS + COST_BYTES * (day % DAYS_KEPT);
}
