import { costOfDayAt, LAST_HOUR_BYTES } from '../../../engine/history-form.ts';
import { lateCost } from '../../../engine/history-hours.ts';
import { type AddedCost, addCost } from './history-costs.ts';
import { type ErrorReply, redis, struct } from './script-globals.ts';
import { faultOf, reachHour, recordAgain } from './stored-history.ts';

/**
 * Adds cost that comes late, or with a negative one gives back what was added before (`lateCost`).
 * @param present the hour of the store
 * @returns an error of the store
 */
export function recordLate(key: string, hour: number, cost: number, present: number): ErrorReply | undefined {
  let last: number | undefined;
  if (cost < 0) last = lastHourAt(key);
  const late = lateCost(hour, cost, present, last);
  if (late === undefined) return undefined;
  if (late.hour !== undefined) {
    const added = addCost(key, late.hour, cost);
    if (added === undefined) return undefined;
    return recordAgain(key, late.hour, cost, added);
  }
  const reached = reachHour(key, late.reaches);
  if (typeof reached !== 'boolean') return reached;
  if (!reached || late.day === undefined) return undefined;
  const ofDay = 8 * costOfDayAt(late.day);
  return faultOf(key, redis.pcall<AddedCost>('BITFIELD', key, 'OVERFLOW', 'SAT', 'INCRBY', 'u40', ofDay, cost).err);
}

/** Undefined if there is no history. */
function lastHourAt(key: string): number | undefined {
  const head = redis.pcall<string | ErrorReply>('GETRANGE', key, 0, LAST_HOUR_BYTES - 1);
  if (typeof head !== 'string' || head.length < LAST_HOUR_BYTES) return undefined;
  return struct.unpack('>I4', head, 1);
}
