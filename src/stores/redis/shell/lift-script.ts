import { lift } from '../../../engine/operator-changes.ts';
import type { AccountState, Draft } from '../../../engine/types.ts';
import { readRare } from './rare-fields.ts';
import { ARGV, type ErrorReply, KEYS, note, noted, redis, string, type Values } from './script-globals.ts';
import { nowMs } from './script-time.ts';

/*
 * Lifts a ban that is in force.
 *
 * KEYS[1] the hash of the account
 * KEYS[2] the list of the last changes
 * ARGV[1] the id of this change
 * ARGV[2] empty; or, if a gateway repeats the lift after a failover, the end of the ban that it lifted, so that a later ban stays
 * reply   the end of the lifted ban; or nil if no ban is in force, the hash has foreign values (which stay as they are), or no
 *         failover has undone the lift that a gateway repeats
 */

/** The script. */
export function main(): string | false | ErrorReply {
  const key = KEYS[0]!;
  const change = ARGV[0]!;
  const isAgain = ARGV[1] !== '';
  if (isAgain) {
    if (noted(change)) return false;
    note(change);
  }
  const values = redis.pcall<Values>('HMGET', key, 'b', 'B', 'w');
  const { err } = values;
  if (err !== undefined) return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : false;
  const before: Draft<AccountState> = { windows: {} };
  if (!readRare(before, key, [false, false, values[0]!, values[1]!, values[2]!, false, false], 0)) return false;
  const after = lift(before, nowMs);
  if (after === before || (isAgain && values[1] !== ARGV[1])) return false;
  redis.call('HDEL', key, 'x', 'X');
  if (after.ban === undefined) redis.call('HDEL', key, 'b', 'B', 'w', 'W');
  else redis.call('HSET', key, 'b', after.ban.number, 'B', after.ban.untilMs);
  if (!isAgain) note(change);
  return values[1]!;
}
