import { recalled, waitFor } from '../../../engine/leasing.ts';
import { resetUsage } from '../../../engine/operator-changes.ts';
import type { AccountState, Draft, Lease, WindowCounts } from '../../../engine/types.ts';
import type { WindowName } from '../../../model/values.ts';
import { lastEndMs, madeBefore, type OnceReply, remember } from './once.ts';
import { readRare } from './rare-fields.ts';
import { ARGV, cjson, type ErrorReply, KEYS, RECALLS, redis, string, unpack, type Values } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { saveAccount, windowsIn } from './stored-account.ts';
import { unlimited, WINDOWS, windowFields } from './window-fields.ts';

/*
 * Sets what was counted in some windows to nothing, and clears the strikes: once (once.ts).
 *
 * What it cannot read, because another program has written it, is removed and counts as nothing: any window, strikes, top-ups and a
 * ban. If the name holds no hash at all, it is removed.
 *
 * ARGV[4] a list of windows
 * reply   'made', the end of the last count that was taken away, the strikes, and for each window what had been counted; 'lent' and
 *         for how long, if gateways may still use or return units: then nothing was reset, and nothing is lent for a moment
 *
 * If it is repeated after a failover, a fixed or calendar window that ends later than those that were reset stays, and so
 * does a slice that leaves later.
 */

const FIELDS = windowFields(WINDOWS);
const LIMITS = unlimited(WINDOWS);

/** The script. */
export function main(): OnceReply | ErrorReply {
  const earlier = madeBefore();
  if (earlier !== undefined) return earlier;
  const key = KEYS[0]!;
  let values = read(key);
  const { err } = values;
  if (err !== undefined) {
    if (string.find(err, 'WRONGTYPE', 1, true) === undefined) return { err };
    redis.call('DEL', key);
    values = read(key);
  }
  const unreadable: string[] = [];
  const before = readableOf(key, values, unreadable);
  if (lastEndMs === undefined) {
    const leases = recalled(before, nowMs);
    const waitMs = waitFor(leases === undefined ? before : { windows: {}, leases }, nowMs);
    if (waitMs > 0) return callBack(key, leases) ?? ['lent', waitMs];
  }
  const names = cjson.decode<WindowName[]>(ARGV[3]!);
  const { used, strikes, endsAtMs, state } = resetUsage(before, names, nowMs, lastEndMs);
  // What is returned of a lease later was counted before this reset.
  redis.call('HDEL', key, 'x', 'X', 'l', unpack(unreadable));
  const { windows } = before;
  const error = saveAccount(
    key,
    { fields: FIELDS, limits: LIMITS },
    { windows },
    { windows: state.windows },
    undefined,
    nowMs,
  );
  if (error !== undefined) return error;
  const reply: OnceReply = ['made', lastEndMs ?? endsAtMs, strikes];
  for (const name of names) reply.push(used[name]!);
  remember(lastEndMs ?? endsAtMs);
  return reply;
}

function read(key: string): Values {
  return redis.pcall('HMGET', key, 'x', 'X', 'b', 'B', 'w', 't', 'l', unpack(FIELDS));
}

/** What can be read of an account. Names in `unreadable` the fields of all else. */
function readableOf(key: string, values: Values, unreadable: string[]): AccountState {
  const windows: Draft<WindowCounts> = {};
  const account: Draft<AccountState> = { windows };
  for (let i = 0; i < WINDOWS.length; i++) {
    const window = WINDOWS[i]!;
    const counts = windowsIn([values[7 + 2 * i]!, values[8 + 2 * i]!], [LIMITS[i]!]);
    if (counts === undefined) {
      unreadable.push(FIELDS[2 * i]!);
      unreadable.push(FIELDS[2 * i + 1]!);
    } else if (counts[window] !== undefined) {
      windows[window] = counts[window];
    }
  }
  const [x, X, b, B, w, t, l] = values as [Field, Field, Field, Field, Field, Field, Field];
  readRare(account, key, [x, X, false, false, false, false, l], 0);
  if (!readRare(account, key, [false, false, b, B, w, false, false], 0))
    for (const field of ['b', 'B', 'w', 'W']) unreadable.push(field);
  if (!readRare(account, key, [false, false, false, false, false, t, false], 0))
    for (const field of ['t', 'T']) unreadable.push(field);
  return account;
}

type Field = Values[number];

/** Calls back what is lent. @param leases left out: that was done a moment ago @returns an error of the store */
function callBack(key: string, leases: readonly Lease[] | undefined): ErrorReply | undefined {
  if (leases === undefined) return undefined;
  const error = saveAccount(
    key,
    { fields: [], limits: [] },
    { windows: {} },
    { windows: {}, leases },
    undefined,
    nowMs,
  );
  redis.pcall('PUBLISH', RECALLS, key);
  return error;
}
