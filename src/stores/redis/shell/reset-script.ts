import { recalled, waitFor } from '../../../engine/leasing.ts';
import { resetUsage } from '../../../engine/operator-changes.ts';
import type { AccountState, Draft, Lease, WindowCounts } from '../../../engine/types.ts';
import { WINDOWS, type WindowName } from '../../../model/windows.ts';
import { lastEndMs, madeBefore, type OnceReply, remember } from './once.ts';
import { readRare } from './rare-fields.ts';
import { ARGV, cjson, type ErrorReply, KEYS, RECALLS, redis, string, unpack, type Values } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { saveAccount, windowsIn } from './stored-account.ts';
import { unlimited, windowFields } from './window-fields.ts';

/*
 * Sets the counts of some windows to 0, and clears the strikes: once (once.ts).
 *
 * It removes windows, strikes, top-ups and a ban that it cannot read because another program has written them, and the whole value if
 * that is no hash.
 *
 * ARGV[4] a list of windows
 * reply   'made', the end of the last removed count, the strikes, and the count of each window before; 'lent' and for how long, if
 *         gateways may still use or return units: then the script has reset nothing, and the store lends nothing for a moment
 *
 * If a gateway repeats a reset after a failover, a fixed or calendar window stays that ends later than those of the first time, and so
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
  // A gateway may still return units of a lease: the store counted them before the reset, which removes them.
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

/** Reads an account as far as possible. Adds the fields that it cannot read to `unreadable`. */
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

/** Recalls what the store has lent. @param leases with the recall; undefined if one is in force @returns an error of the store */
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
