import { ARGV, KEYS, redis, string, tonumber } from './script-globals.ts';

/*
 * Makes a change of one account once for each id.
 *
 * KEYS[1] the hash of the account
 * KEYS[2] the change that the store has made under this id, with its end
 * ARGV[1] the change, in words
 * ARGV[2] empty; or, if a gateway repeats the change after a failover, the end that it had: the script changes nothing that ends later
 * ARGV[3] how long the store remembers the change, milliseconds
 * ARGV[4] what else the script needs, as JSON
 * reply   a word, then numbers. 'repeated' and the end of the change if the store has made it under this id before; 'reused' if it has
 *         made another one; 'foreign' if the hash holds values that no gateway has written; else what the script says
 */

export type OnceReply = (string | number)[];

/** The end that the change had, if a gateway repeats it after a failover, Unix milliseconds; else undefined. */
export const lastEndMs: number | undefined = tonumber(ARGV[1]!);

/** The reply if the store has made a change under this id before; else undefined. */
export function madeBefore(): OnceReply | undefined {
  const made = redis.call<string | false>('GET', KEYS[1]!);
  if (made === false) return undefined;
  const words = string.match(made, '^(.*) %d+$');
  const endsAtMs = string.match(made, ' (%d+)$');
  if (words === undefined || endsAtMs === undefined) return undefined;
  // A repetition writes in any case, because WAIT waits for the last write.
  redis.call('PEXPIRE', KEYS[1]!, ARGV[2]!);
  return words === ARGV[0] ? ['repeated', tonumber(endsAtMs)!] : ['reused'];
}

export function remember(endsAtMs: number): void {
  redis.call('SET', KEYS[1]!, string.format('%s %d', ARGV[0]!, endsAtMs), 'PX', ARGV[2]!);
}
