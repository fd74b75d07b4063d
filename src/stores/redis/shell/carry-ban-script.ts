import { carryBan } from '../../../engine/operator-changes.ts';
import type { AccountState, Draft } from '../../../engine/types.ts';
import type { Ban } from '../../../model/account.ts';
import { readRare } from './rare-fields.ts';
import { ARGV, cjson, type ErrorReply, KEYS, redis, string, type Values } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { saveAccount } from './stored-account.ts';

/*
 * Copies a ban of one account to another. The two may be in different slots of a cluster, so the gateway reads the ban first, and this
 * script writes it.
 *
 * KEYS[1] the hash of the account that gets the ban
 * ARGV[1] a `CarriedBan` as JSON
 * reply   1 if the script has written the ban; 0 if the ban has ended, or the account has one that ends later or holds foreign values
 */

/** A ban as the gateway sends it. */
export interface CarriedBan {
  readonly ban: Ban;
  /** How long the store keeps the other account, milliseconds: as long as it remembers the ban there. */
  readonly keptMs: number;
}

/** The script. */
export function main(): 0 | 1 | ErrorReply {
  const { ban, keptMs } = cjson.decode<CarriedBan>(ARGV[0]!);
  const key = KEYS[0]!;
  const values = redis.pcall<Values>('HMGET', key, 'b', 'B', 'w');
  const { err } = values;
  if (err !== undefined) return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : 0;
  const before: Draft<AccountState> = { windows: {} };
  if (!readRare(before, key, [false, false, values[0]!, values[1]!, values[2]!, false, false], 0)) return 0;
  const after = carryBan(before, ban, nowMs);
  if (after === before) return 0;
  const error = saveAccount(key, { fields: [], limits: [] }, before, after, undefined, nowMs);
  if (error !== undefined) return error;
  if (keptMs > redis.call<number>('PTTL', key)) redis.call('PEXPIRE', key, keptMs);
  return 1;
}
