import type { AccountState, Draft } from '../../../engine/types.ts';
import { WINDOWS, type WindowName } from '../../../model/windows.ts';
import { readRare } from './rare-fields.ts';
import { type ErrorReply, KEYS, redis, string, unpack, type Values } from './script-globals.ts';
import { windowsIn } from './stored-account.ts';
import { unlimited, windowFields } from './window-fields.ts';

/*
 * Reads the bans of accounts, and finds out whether decisions can read all else of each.
 *
 * KEYS  the hashes of the accounts
 * reply for each 1 if decisions can read the whole account (else 0), and behind that its ban, if the script can read one: number, end, window, and
 *       the name of the budget (empty: the account's own)
 */

export type ReadBan =
  | readonly [isWhole: 0 | 1]
  | readonly [isWhole: 0 | 1, number: number, untilMs: number, window: WindowName, budget: string];

const FIELDS = windowFields(WINDOWS);
const LIMITS = unlimited(WINDOWS);

function readBan(key: string): ReadBan | ErrorReply {
  const values = redis.pcall<Values>('HMGET', key, 'x', 'X', 'b', 'B', 'w', 't', 'l', unpack(FIELDS));
  const { err } = values;
  if (err !== undefined) return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : [0];
  const account: Draft<AccountState> = { windows: {} };
  const [x, X, b, B, w] = values as (string | false)[] as [Field, Field, Field, Field, Field];
  const isReadable = readRare(account, key, [false, false, b, B, w, false, false], 0);
  const counts: Values = [];
  for (let i = 0; i < FIELDS.length; i++) counts.push(values[7 + i]!);
  const isWhole =
    isReadable &&
    readRare(account, key, [x, X, false, false, false, values[5]!, false], 0) &&
    windowsIn(counts, LIMITS) !== undefined
      ? 1
      : 0;
  const { ban } = account;
  return ban === undefined ? [isWhole] : [isWhole, ban.number, ban.untilMs, ban.window, ban.budget ?? ''];
}

type Field = string | false;

/** The script. */
export function main(): ReadBan[] | ErrorReply {
  const replies: ReadBan[] = [];
  for (const key of KEYS) {
    const reply = readBan(key);
    if ((reply as ErrorReply).err !== undefined) return reply as ErrorReply;
    replies.push(reply as ReadBan);
  }
  return replies;
}
