import type { History } from '../../admit/history.ts';
import { costOfDayAt, costOfHourAt, dayOf, HISTORY_BYTES, hourOf, RECENT } from '../../engine/history-form.ts';
import { hasHour, lateCost } from '../../engine/history-hours.ts';
import { moveTo } from '../../engine/history-moves.ts';

/* How the embedded store counts in a history (engine/history-form.ts). */

const MAX_COST = 2 ** 40 - 1;
const MAX_RECENT = 2 ** 32 - 1;

/**
 * Adds admitted cost to the hour and the day of `nowMs`.
 * @param history null if there is none yet
 * @param nowMs Unix milliseconds. A later hour than the last closes the last. One that is at most 47 hours earlier gets the cost. An
 *   even earlier one begins a new history, because the clock was set back.
 * @returns the history, which may be another object
 */
export function recordAdmitted(history: History | null, nowMs: number, cost: number): History {
  const hour = hourOf(nowMs);
  const ofHour = costOfHourAt(hour);
  const ofDay = costOfDayAt(dayOf(hour));
  const at = atHour(history, hour);
  addCost(at, ofHour, cost);
  addCost(at, ofDay, cost);
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
  const late = lateCost(hour, cost, present, history === null ? undefined : viewOf(history).getUint32(0));
  if (late === undefined) return history;
  const at = atHour(history, late.reaches);
  if (late.hour !== undefined) addCost(at, costOfHourAt(late.hour), cost);
  const day = late.hour === undefined ? late.day : dayOf(late.hour);
  if (day !== undefined) addCost(at, costOfDayAt(day), cost);
  return at;
}

/** Adds refusals and ban answers, which count for the last hour if that of `nowMs` is not a later one. */
export function recordRefused(history: History | null, nowMs: number, refused: number, banned: number): History {
  const at = atHour(history, hourOf(nowMs));
  const view = viewOf(at);
  for (const [i, more] of [refused, banned, refused, banned].entries()) {
    view.setUint32(RECENT + 4 * i, Math.min(view.getUint32(RECENT + 4 * i) + more, MAX_RECENT));
  }
  return at;
}

/** Returns a history whose last hour is `hour`, or which contains that hour. */
function atHour(history: History | null, hour: number): History {
  if (history !== null) {
    const last = viewOf(history).getUint32(0);
    if (last < hour) moveTo(history, last, hour);
    if (last <= hour || hasHour(last, hour)) return history;
  }
  const fresh = new Uint8Array(HISTORY_BYTES);
  viewOf(fresh).setUint32(0, hour);
  return fresh;
}

function addCost(history: History, at: number, cost: number): void {
  const view = viewOf(history);
  const before = view.getUint8(at) * 2 ** 32 + view.getUint32(at + 1);
  const sum = Math.min(Math.max(before + cost, 0), MAX_COST);
  view.setUint8(at, Math.floor(sum / 2 ** 32));
  view.setUint32(at + 1, sum % 2 ** 32);
}

function viewOf({ buffer, byteOffset, byteLength }: History): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
