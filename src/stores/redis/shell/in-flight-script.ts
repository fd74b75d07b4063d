import { reported } from '../../../engine/special.ts';
import { ticketsIn } from './rare-fields.ts';
import { ARGV, type ErrorReply, KEYS, redis, tonumber } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { saveAccount } from './stored-account.ts';

/*
 * Notes how many requests of one account a process has in flight.
 *
 * KEYS[1] the hash of the account
 * ARGV[1] the name of the process
 * ARGV[2] how many it has
 * reply   0; or a string if the name holds something else than a hash
 */

/** The script. */
export function main(): 0 | 'WRONGTYPE' | ErrorReply {
  const key = KEYS[0]!;
  const text = redis.pcall<string | false | ErrorReply>('HGET', key, 'f');
  if (text !== false && typeof text !== 'string') return 'WRONGTYPE';
  const before = ticketsIn(text);
  const tickets = reported(before, ARGV[0]!, tonumber(ARGV[1]!)!, nowMs);
  if (tickets.length === 0) {
    // Redis removes the hash with its last field.
    redis.call('HDEL', key, 'f');
    return 0;
  }
  const account = { windows: {}, tickets };
  return saveAccount(key, { fields: [], limits: [] }, { windows: {}, tickets: before }, account, undefined, nowMs) ?? 0;
}
