/**
 * The usage of one consumer: by hour for 48 hours and by day for 92 days, UTC. Both stores keep it in the same 1,000
 * bytes, so a million consumers take about a gigabyte. `stores/redis/history.lua` is the twin of this file, and
 * test/admit/history-twins.test.ts compares the two: change both or neither.
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
export type History = Uint8Array;

export const HISTORY_BYTES = 1_000;
/** A history begins with the last counted hour. */
export const LAST_HOUR_BYTES = 4;
export const HOURS_KEPT = 48;
export const DAYS_KEPT = 92;

const HOUR_MS = 3_600_000;
const HOUR_OF_DAY = 24;
const RECENT = LAST_HOUR_BYTES;
const HOURS = 20;
const DAYS = 260;
const HOUR_REFUSALS = 720;
const DAY_REFUSALS = 816;
const COST_BYTES = 5;
const MAX_COST = 2 ** 40 - 1;
const MAX_RECENT = 2 ** 32 - 1;

/** What happened in one hour or day. */
export interface Bucket {
  /** The beginning of the hour or day, Unix milliseconds. */
  readonly atMs: number;
  /** The cost of the requests that were admitted. */
  readonly admitted: number;
  /** About how many requests were refused for a limit. */
  readonly refused: number;
  /** About how many requests were refused for a ban. */
  readonly banned: number;
}

export type Step = 'hour' | 'day';

/** The last counted hour, in hours since 1970. @param history at least its first {@link LAST_HOUR_BYTES} */
export function lastHourOf(history: Uint8Array): number {
  return viewOf(history).getUint32(0);
}

/** The beginning of the last counted hour, Unix milliseconds. */
export function lastUsedMsOf(history: Uint8Array): number {
  return lastHourOf(history) * HOUR_MS;
}

/** The store keeps a history until this time, Unix milliseconds. @param hour the last counted one */
export function historyEndsAtMs(hour: number): number {
  return (hour + 1 + DAYS_KEPT * HOUR_OF_DAY) * HOUR_MS;
}

export function hourOf(ms: number): number {
  return Math.floor(ms / HOUR_MS);
}

/**
 * Adds admitted cost to an hour and its day.
 * @param history null if there is none yet
 * @param hour hours since 1970. A later one than the last closes the last. One that is at most 47 hours earlier gets the cost. An
 *   even earlier one begins a new history, because the clock was set back.
 * @returns the history, which may be another object
 */
export function recordAdmitted(history: History | null, hour: number, cost: number): History {
  const at = atHour(history, hour);
  addCost(at, HOURS + COST_BYTES * (hour % HOURS_KEPT), cost);
  addCost(at, DAYS + COST_BYTES * (dayOf(hour) % DAYS_KEPT), cost);
  return at;
}

/**
 * Adds cost to an hour, or takes back cost that was added to it before, if the history still has that hour. Cost of an hour that
 * the history no longer has counts for its day alone.
 * @param cost negative to take back
 * @param present the hour of the store
 * @returns null if there was no history, and nothing to take back
 */
export function recordLate(history: History | null, hour: number, cost: number, present: number): History | null {
  if (hour > present - HOURS_KEPT) {
    const at = Math.min(hour, present);
    return cost < 0 && !hasHour(history, at) ? history : recordAdmitted(history, at, cost);
  }
  if (cost < 0 && history === null) return null;
  const at = atHour(history, present);
  const day = dayOf(hour);
  if (day > dayOf(present) + 2 - DAYS_KEPT) addCost(at, DAYS + COST_BYTES * (day % DAYS_KEPT), cost);
  return at;
}

function hasHour(history: History | null, hour: number): boolean {
  if (history === null) return false;
  const last = lastHourOf(history);
  return last >= hour && last - hour < HOURS_KEPT;
}

/** Adds refusals and ban answers, which count for the last hour if `hour` is not a later one. */
export function recordRefused(history: History | null, hour: number, refused: number, banned: number): History {
  const at = atHour(history, hour);
  const view = viewOf(at);
  for (const [i, more] of [refused, banned, refused, banned].entries()) {
    view.setUint32(RECENT + 4 * i, Math.min(view.getUint32(RECENT + 4 * i) + more, MAX_RECENT));
  }
  return at;
}

/**
 * The hours or days of a history with requests, oldest first.
 * @param nowMs the store's clock; later buckets are left out
 */
export function bucketsOf(history: History, step: Step, nowMs: number): Bucket[] {
  const last = lastHourOf(history);
  const isHours = step === 'hour';
  const [kept, unitMs] = isHours ? [HOURS_KEPT, HOUR_MS] : [DAYS_KEPT, HOUR_MS * HOUR_OF_DAY];
  const newest = Math.floor(isHours ? hourOf(nowMs) : dayOf(hourOf(nowMs)));
  const lastUnit = isHours ? last : dayOf(last);
  const buckets: Bucket[] = [];
  for (let unit = Math.max(newest - kept + 1, lastUnit - kept + 1); unit <= Math.min(newest, lastUnit); unit++) {
    const bucket = { atMs: unit * unitMs, ...bucketAt(history, step, unit, unit === lastUnit) };
    if (bucket.admitted + bucket.refused + bucket.banned > 0) buckets.push(bucket);
  }
  return buckets;
}

function bucketAt(history: History, step: Step, unit: number, isLast: boolean): Omit<Bucket, 'atMs'> {
  const view = viewOf(history);
  const [costs, refusals, kept] =
    step === 'hour' ? [HOURS, HOUR_REFUSALS, HOURS_KEPT] : [DAYS, DAY_REFUSALS, DAYS_KEPT];
  const index = unit % kept;
  const admitted = costAt(history, costs + COST_BYTES * index);
  if (!isLast) {
    const [refused, banned] = [history[refusals + 2 * index]!, history[refusals + 2 * index + 1]!];
    return { admitted, refused: expanded(refused), banned: expanded(banned) };
  }
  const recent = RECENT + (step === 'hour' ? 0 : 8);
  return { admitted, refused: view.getUint32(recent), banned: view.getUint32(recent + 4) };
}

/** Returns a history whose last hour is `hour`, or which contains that hour. */
function atHour(history: History | null, hour: number): History {
  const last = history === null ? Number.NEGATIVE_INFINITY : lastHourOf(history);
  if (history === null || last - hour >= HOURS_KEPT) {
    const fresh = new Uint8Array(HISTORY_BYTES);
    viewOf(fresh).setUint32(0, hour);
    return fresh;
  }
  if (hour > last) close(history, last, hour);
  return history;
}

/** Closes the last hour, and its day if `hour` is of another one, and clears those that begin. */
function close(history: History, last: number, hour: number): void {
  const view = viewOf(history);
  keepRefusals(history, HOUR_REFUSALS + 2 * (last % HOURS_KEPT), RECENT);
  for (let one = Math.max(last + 1, hour - HOURS_KEPT + 1); one <= hour; one++) {
    history.fill(0, HOURS + COST_BYTES * (one % HOURS_KEPT), HOURS + COST_BYTES * ((one % HOURS_KEPT) + 1));
    history.fill(0, HOUR_REFUSALS + 2 * (one % HOURS_KEPT), HOUR_REFUSALS + 2 * ((one % HOURS_KEPT) + 1));
  }
  const [lastDay, day] = [dayOf(last), dayOf(hour)];
  if (day > lastDay) {
    keepRefusals(history, DAY_REFUSALS + 2 * (lastDay % DAYS_KEPT), RECENT + 8);
    for (let one = Math.max(lastDay + 1, day - DAYS_KEPT + 1); one <= day; one++) {
      history.fill(0, DAYS + COST_BYTES * (one % DAYS_KEPT), DAYS + COST_BYTES * ((one % DAYS_KEPT) + 1));
      history.fill(0, DAY_REFUSALS + 2 * (one % DAYS_KEPT), DAY_REFUSALS + 2 * ((one % DAYS_KEPT) + 1));
    }
  }
  history.fill(0, RECENT, day > lastDay ? RECENT + 16 : RECENT + 8);
  view.setUint32(0, hour);
}

/** Packs the refusals and the ban answers at `recent` into two bytes. */
function keepRefusals(history: History, at: number, recent: number): void {
  const view = viewOf(history);
  history[at] = packed(view.getUint32(recent));
  history[at + 1] = packed(view.getUint32(recent + 4));
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

/** The middle of the counts that share this byte. */
export function expanded(byte: number): number {
  if (byte < 16) return byte;
  const exponent = Math.floor(byte / 8) - 1;
  return (byte - 8 * exponent) * 2 ** exponent + 2 ** (exponent - 1);
}

function addCost(history: History, at: number, cost: number): void {
  const sum = Math.min(Math.max(costAt(history, at) + cost, 0), MAX_COST);
  const view = viewOf(history);
  view.setUint8(at, Math.floor(sum / 2 ** 32));
  view.setUint32(at + 1, sum % 2 ** 32);
}

function costAt(history: History, at: number): number {
  return history[at]! * 2 ** 32 + viewOf(history).getUint32(at + 1);
}

function dayOf(hour: number): number {
  return Math.floor(hour / HOUR_OF_DAY);
}

function viewOf({ buffer, byteOffset, byteLength }: History): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
