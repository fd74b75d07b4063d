import {
  COST_BYTES,
  costOfDayAt,
  costOfHourAt,
  DAY_REFUSALS,
  DAYS_KEPT,
  dayOf,
  HOUR_REFUSALS,
  HOURS_KEPT,
  RECENT,
} from './history-form.ts';

/** The bytes of a history (history-form.ts). */
type Bytes = number[] | Uint8Array;

/** A store keeps a history until this time, Unix milliseconds. @param hour the last counted one */
export function historyEndsAtMs(hour: number): number {
  return (hour + 1 + DAYS_KEPT * 24) * 3_600_000;
}

/**
 * Closes the last hour, and its day if `hour` is of another one, and clears those that begin.
 * @param last the last hour of the history, earlier than `hour`
 */
export function moveTo(bytes: Bytes, last: number, hour: number): void {
  const lastDay = dayOf(last);
  const day = dayOf(hour);
  keepRefusals(bytes, HOUR_REFUSALS + 2 * (last % HOURS_KEPT), RECENT);
  for (let one = Math.max(last + 1, hour - HOURS_KEPT + 1); one <= hour; one++) {
    clear(bytes, costOfHourAt(one), COST_BYTES);
    clear(bytes, HOUR_REFUSALS + 2 * (one % HOURS_KEPT), 2);
  }
  if (day > lastDay) {
    keepRefusals(bytes, DAY_REFUSALS + 2 * (lastDay % DAYS_KEPT), RECENT + 8);
    for (let one = Math.max(lastDay + 1, day - DAYS_KEPT + 1); one <= day; one++) {
      clear(bytes, costOfDayAt(one), COST_BYTES);
      clear(bytes, DAY_REFUSALS + 2 * (one % DAYS_KEPT), 2);
    }
  }
  clear(bytes, RECENT, day > lastDay ? 16 : 8);
  for (let i = 0; i < 4; i++) bytes[i] = Math.floor(hour / 256 ** (3 - i)) % 256;
}

/** A count in one byte: exact to 15, then three binary digits and an exponent. */
export function packed(count: number): number {
  let exponent = 0;
  let digits = count;
  while (digits >= 16) {
    digits = Math.floor(digits / 2);
    exponent++;
  }
  return exponent === 0 ? digits : 8 * exponent + digits;
}

/** Packs the refusals and the ban answers at `recent` into two bytes. */
function keepRefusals(bytes: Bytes, at: number, recent: number): void {
  for (let i = 0; i < 2; i++) {
    let count = 0;
    for (let j = 0; j < 4; j++) count = count * 256 + bytes[recent + 4 * i + j]!;
    bytes[at + i] = packed(count);
  }
}

function clear(bytes: Bytes, at: number, size: number): void {
  for (let i = at; i < at + size; i++) bytes[i] = 0;
}
