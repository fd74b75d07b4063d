import { ARGV, type ErrorReply, KEYS, redis, string, tonumber } from './script-globals.ts';
import { nowMs } from './script-time.ts';

/*
 * Notes until when consumers are refused. Bounded, and what has ended goes with each call.
 *
 * KEYS[1] sorted set: consumers by the end of their refusal, Unix milliseconds
 * KEYS[2] hash: the rest of each, as `refused minute 1 free`
 * ARGV    most members; then for each consumer its id, its end, the rest
 */

/** The script. */
export function main(): 0 {
  const ends = KEYS[0]!;
  const rests = KEYS[1]!;
  removeForeign('ZCARD', ends);
  removeForeign('HLEN', rests);
  for (let i = 1; i < ARGV.length; i += 3) {
    redis.call('ZADD', ends, ARGV[i + 1]!, ARGV[i]!);
    redis.call('HSET', rests, ARGV[i]!, ARGV[i + 2]!);
  }
  const surplus = redis.call<number>('ZCARD', ends) - tonumber(ARGV[0]!)!;
  const soonest = redis.call<string[]>('ZRANGE', ends, 0, Math.max(surplus, 1_000), 'WITHSCORES');
  for (let i = 0; i < soonest.length; i += 2) {
    if (i >= 2 * surplus && tonumber(soonest[i + 1]!)! > nowMs) break;
    redis.call('ZREM', ends, soonest[i]!);
    redis.call('HDEL', rests, soonest[i]!);
  }
  const lastMs = redis.call<string[]>('ZRANGE', ends, -1, -1, 'WITHSCORES')[1];
  if (lastMs !== undefined) {
    redis.call('PEXPIREAT', ends, lastMs);
    redis.call('PEXPIREAT', rests, lastMs);
  }
  return 0;
}

/** What another program has written there is replaced: gateways report again whom they refuse. */
function removeForeign(command: string, key: string): void {
  const size = redis.pcall<number | ErrorReply>(command, key);
  if (typeof size !== 'number' && string.find(size.err, 'WRONGTYPE', 1, true) !== undefined) redis.call('DEL', key);
}
