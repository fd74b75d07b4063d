import { costOfDayAt, costOfHourAt, dayOf } from '../../../engine/history-form.ts';
import { ARGV, redis, string, tonumber } from './script-globals.ts';

/*
 * The histories (engine/history-form.ts), as nearly all calls need them; the rest is in late-costs.ts and stored-history.ts.
 *
 * The last argument of a call is the gateway's own clock, as @SECONDS; without it histories follow the store's clock unconditionally.
 */

/** What this call knows of the histories. */
interface HistoryState {
  /**
   * False if the store's clock differs from the gateway's by more than an hour: one of them is wrong, and a history that followed it would
   * lose up to 92 days. What is used meanwhile is recorded only where the history has its hour already.
   */
  isMoving: boolean;
  /** The last history in which nothing was recorded, because its key holds something else. */
  unrecorded?: string;
}

export const historyState: HistoryState = { isMoving: true };

/** The counts of the hour and of the day, and the last hour of the history; or an error of Redis. */
export type AddedCost = number[] & { readonly err?: string };

/** @returns how many arguments there are besides the clock of the gateway */
export function readGatewayClock(storeSeconds: number): number {
  const seconds = string.match(ARGV[ARGV.length - 1] ?? '', '^@(%d+)$');
  if (seconds === undefined) return ARGV.length;
  historyState.isMoving = Math.abs(storeSeconds - tonumber(seconds)!) <= 3_600;
  return ARGV.length - 1;
}

/**
 * Adds admitted cost to an hour and its day, before it is known whether the hour is the last one of the history: nearly always it is, and
 * this takes one call of Redis instead of two.
 * @returns undefined if it is; else what `recordAgain` needs
 */
export function addCost(key: string, hour: number, cost: number): AddedCost | undefined {
  const ofHour = 8 * costOfHourAt(hour);
  const ofDay = 8 * costOfDayAt(dayOf(hour));
  // `0` is a text because Redis takes 1,500 instructions to make one of a number.
  const added = redis.pcall<AddedCost>(
    'BITFIELD',
    key,
    'OVERFLOW',
    'SAT',
    'INCRBY',
    'u40',
    ofHour,
    cost,
    'INCRBY',
    'u40',
    ofDay,
    cost,
    'GET',
    'u32',
    '0',
  );
  if (added.err === undefined && added[2] === hour) return undefined;
  return added;
}
