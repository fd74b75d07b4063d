import {
  COST_BYTES,
  costOfDayAt,
  costOfHourAt,
  DAY_REFUSALS,
  DAYS,
  DAYS_KEPT,
  dayOf,
  HISTORY_BYTES,
  HOUR_REFUSALS,
  HOURS,
  HOURS_KEPT,
  RECENT,
} from '../engine/history-form.ts';
import { hasHour, lateCost } from '../engine/history-hours.ts';
import { moveTo } from '../engine/history-moves.ts';

/** The usage of one consumer (engine/history-form.ts), as the embedded store counts in it and as all read it. */
export type History = Uint8Array;

const HOUR_MS = 3_600_000;
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

/** The last counted hour, in hours since 1970. @param history at least its first `LAST_HOUR_BYTES` */
export function lastHourOf(history: Uint8Array): number {
  return viewOf(history).getUint32(0);
}

/** The beginning of the last counted hour, Unix milliseconds. */
export function lastUsedMsOf(history: Uint8Array): number {
  return lastHourOf(history) * HOUR_MS;
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
  addCost(at, costOfHourAt(hour), cost);
  addCost(at, costOfDayAt(dayOf(hour)), cost);
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
  const late = lateCost(hour, cost, present, history === null ? undefined : lastHourOf(history));
  if (late === undefined) return history;
  if (late.hour !== undefined) return recordAdmitted(history, late.hour, cost);
  const at = atHour(history, late.reaches);
  if (late.day !== undefined) addCost(at, costOfDayAt(late.day), cost);
  return at;
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
  const [kept, unitMs] = isHours ? [HOURS_KEPT, HOUR_MS] : [DAYS_KEPT, HOUR_MS * 24];
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
  if (history !== null) {
    const last = lastHourOf(history);
    if (last < hour) moveTo(history, last, hour);
    if (last < hour || hasHour(last, hour)) return history;
  }
  const fresh = new Uint8Array(HISTORY_BYTES);
  viewOf(fresh).setUint32(0, hour);
  return fresh;
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

function viewOf({ buffer, byteOffset, byteLength }: History): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
