import { settled } from '../../../engine/settle.ts';
import type { AccountState, Limit } from '../../../engine/types.ts';
import { readGatewayClock } from './history-costs.ts';
import { recordLate } from './late-costs.ts';
import { ARGV, cjson, type ErrorReply, KEYS, redis, string, unpack, type Values } from './script-globals.ts';
import { nowMs, seconds } from './script-time.ts';
import { includeNow, saveAccount, windowsIn } from './stored-account.ts';
import { MOST } from './whole-number.ts';

/*
 * Settles a request in one account of a unit: gives back what it did not use of its reserve, or adds what it used beyond it.
 *
 * KEYS[1] the hash of the account
 * KEYS[2] the history of the unit, and further ones behind it; then, if `isRecorded`, the history of requests behind the account and
 *         behind each of the others (`historyBehind`). Where that is gone, an operator has deleted the key or customer, and the script settles
 *         nothing
 * ARGV    a `StoredSettlement` as JSON; the gateway's clock (history-costs.ts)
 * reply   0; or a string if the hash has foreign values, or the instants of a calendar window do not include now: then the script has
 *         done nothing
 */

/** A settlement as the gateway sends it. */
export interface StoredSettlement {
  /** The units to add; negative to give back. */
  readonly delta: number;
  /** The hour since 1970 in which the store counted the request. */
  readonly hour: number;
  /** True if the store has certainly recorded the request in the histories. */
  readonly isRecorded: boolean;
  /** The fields of the hash: two for each limit. */
  readonly fields: readonly string[];
  readonly limits: readonly Limit[];
  /** Where each limit counted the request (`placeOf`). */
  readonly places: readonly number[];
}

/** Whether the history behind the `i`-th of KEYS is gone. */
function isDeleted(i: number, others: number, isRecorded: boolean): boolean {
  return isRecorded && redis.pcall<string | ErrorReply>('GETRANGE', KEYS[others + i]!, 0, 0) === '';
}

/** The script. */
export function main(): number | string | ErrorReply {
  readGatewayClock(seconds);
  const { delta, hour, isRecorded, fields, limits, places } = cjson.decode<StoredSettlement>(ARGV[0]!);
  const others = isRecorded ? KEYS.length / 2 : KEYS.length;
  if (!includeNow(limits, nowMs)) return 'CLOCK';
  const key = KEYS[0]!;
  const values: Values = limits.length === 0 ? [] : redis.pcall('HMGET', key, unpack(fields));
  const { err } = values;
  if (err !== undefined) return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : 'WRONGTYPE';
  const windows = windowsIn(values, limits);
  if (windows === undefined) return 'FOREIGN';
  const before: AccountState = { windows };
  for (const { window } of limits) {
    const count = windows[window];
    if (count !== undefined && nowMs < count.endsAtMs && count.used > MOST - Math.max(delta, 0)) return 'FOREIGN';
  }
  const after: AccountState = { windows: settled(windows, delta, limits, places, nowMs) };
  if (!isDeleted(0, others, isRecorded)) {
    const error = saveAccount(key, { fields, limits }, before, after, undefined, nowMs);
    if (error !== undefined) return error;
  }
  for (let i = 1; i < others; i++) {
    if (!isDeleted(i, others, isRecorded)) {
      const error = recordLate(KEYS[i]!, hour, delta, Math.floor(nowMs / 3_600_000));
      if (error) return error;
    }
  }
  return 0;
}
