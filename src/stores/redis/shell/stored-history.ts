import { HISTORY_BYTES, LAST_HOUR_BYTES, RECENT } from '../../../engine/history-form.ts';
import { hasHour } from '../../../engine/history-hours.ts';
import { historyEndsAtMs, moveTo } from '../../../engine/history-moves.ts';
import { type AddedCost, addCost, historyState } from './history-costs.ts';
import { type ErrorReply, redis, string, struct, unpack } from './script-globals.ts';

/* What few calls do with a history. A string that is not a history stays as it is. */

const IGNORED = ['WRONGTYPE', 'NOPERM', "can't run this command"];

/** Adds admitted cost where `addCost` has got `added`. @returns an error of the store */
export function recordAgain(key: string, hour: number, cost: number, added: AddedCost): ErrorReply | undefined {
  if (added.err !== undefined) return faultOf(key, added.err);
  addCost(key, hour, -cost);
  const reached = reachHour(key, hour);
  if (typeof reached !== 'boolean') return reached;
  if (!reached) return undefined;
  return faultOf(key, addCost(key, hour, cost)?.err);
}

/** Adds refusals and ban answers. */
export function recordRefused(key: string, hour: number, refused: number, banned: number): void {
  if (reachHour(key, hour) !== true) return;
  const args: (string | number)[] = ['BITFIELD', key, 'OVERFLOW', 'SAT'];
  const counts = [refused, banned, refused, banned];
  for (let i = 0; i < counts.length; i++) {
    args.push('INCRBY');
    args.push('u32');
    args.push(8 * (RECENT + 4 * i));
    args.push(counts[i]!);
  }
  redis.pcall(unpack(args));
}

/**
 * The error, if there is one that the caller must report it: not that the key holds something else, nor that the ACL of this user is from before there were
 * histories, which the gateway warns of at startup.
 */
export function faultOf(key: string, err: string | undefined): ErrorReply | undefined {
  if (err === undefined) return undefined;
  if (string.find(err, 'WRONGTYPE', 1, true) !== undefined) historyState.unrecorded = key;
  for (const ignored of IGNORED) if (string.find(err, ignored, 1, true) !== undefined) return undefined;
  return { err };
}

/**
 * Makes `hour` the last hour of a history, unless it has a later one that is not 48 hours later.
 * @returns false if the key holds something else, or if histories do not move; the error if Redis refuses to write
 */
export function reachHour(key: string, hour: number): boolean | ErrorReply {
  const read = redis.pcall<string | ErrorReply>('GETRANGE', key, 0, LAST_HOUR_BYTES - 1);
  if (typeof read !== 'string') {
    faultOf(key, read.err);
    return false;
  }
  // What `addCost` leaves of a key that did not exist.
  const head = read === string.rep('\0', LAST_HOUR_BYTES) ? '' : read;
  const isWhole = head.length === LAST_HOUR_BYTES;
  if (isWhole && hasHour(lastHourIn(head), hour)) return true;
  if (!historyState.isMoving) return false;
  const text = head === '' ? historyFrom(hour) : movedTo(key, hour);
  if (text === undefined) {
    historyState.unrecorded = key;
    return false;
  }
  // A whole string takes no more memory than its bytes; one that grows by SETRANGE takes twice as much.
  const { err } = redis.pcall<{ readonly err?: string }>('SET', key, text);
  if (err !== undefined) return faultOf(key, err) ?? false;
  redis.call('PEXPIREAT', key, historyEndsAtMs(hour));
  return true;
}

/** Undefined if the key holds no history. */
function movedTo(key: string, hour: number): string | undefined {
  // One byte more than a history has, and not all that another program may have written.
  const text = redis.call<string>('GETRANGE', key, 0, HISTORY_BYTES);
  if (text.length !== HISTORY_BYTES) return undefined;
  const last = lastHourIn(text);
  if (last > hour) return historyFrom(hour);
  const bytes = [string.byte(text, 1, HISTORY_BYTES)];
  moveTo(bytes, last, hour);
  return string.char(unpack(bytes));
}

function historyFrom(hour: number): string {
  return struct.pack('>I4', hour) + string.rep('\0', HISTORY_BYTES - LAST_HOUR_BYTES);
}

/** The last hour of a history, of which `text` is the beginning. */
function lastHourIn(text: string): number {
  return struct.unpack('>I4', text, 1);
}
