import {
  COST_BYTES,
  DAY_REFUSALS,
  DAYS,
  DAYS_KEPT,
  dayOf,
  HOUR_REFUSALS,
  HOURS,
  HOURS_KEPT,
  hourOf,
  RECENT,
} from '../engine/history-form.ts';

/** The usage of one consumer (engine/history-form.ts). Stores count in it; here it is read. */
export type History = Uint8Array;

const HOUR_MS = 3_600_000;

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

/** The middle of the counts that share this byte. */
export function expanded(byte: number): number {
  if (byte < 16) return byte;
  const exponent = Math.floor(byte / 8) - 1;
  return (byte - 8 * exponent) * 2 ** exponent + 2 ** (exponent - 1);
}

function costAt(history: History, at: number): number {
  return history[at]! * 2 ** 32 + viewOf(history).getUint32(at + 1);
}

function viewOf({ buffer, byteOffset, byteLength }: History): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
