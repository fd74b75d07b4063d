import type { AccountState, Draft, Limit, RuleBudget, WindowCounts } from '../../../engine/types.ts';
import type { BanRule } from '../../../model/plan.ts';
import { readRare, slicesIn, slicesText, ticketsIn, writeRare } from './rare-fields.ts';
import { type ErrorReply, redis, string, tonumber, unpack, type Values } from './script-globals.ts';
import { MOST, wholeIn } from './whole-number.ts';

/*
 * Reads and writes an account as a hash. Its fields have short names because there may be a million hashes. Times are Unix milliseconds.
 *   s m h d k n   the count of the window (second, minute, hour, day, week, month): a number, or the counts of slices
 *                 (rare-fields.ts)
 *   S M H D K N   the end of the window; of a sliding one the beginning of slice 0
 *   and the fields that few accounts have (rare-fields.ts)
 */

/** A budget as the gateway sends it. */
export interface StoredBudget extends RuleBudget {
  /** The fields of its windows in the hash: two for each limit. */
  readonly fields: readonly string[];
}

/** Strikes, bans, top-ups, leases and requests in flight, which few accounts have (rare-fields.ts). */
const RARE_FIELDS = ['x', 'X', 'b', 'B', 'w', 't', 'l', 'f'];

/** The account has values that no gateway has written. */
export const FOREIGN = 'foreign';

/** Whether the instants of all calendar windows include the present. */
export function includeNow(limits: readonly Limit[], nowMs: number): boolean {
  for (const { instants } of limits)
    if (instants !== undefined && (nowMs < instants[0]! || nowMs >= instants[instants.length - 1]!)) return false;
  return true;
}

export function loadAccount(
  key: string,
  { fields, limits, inFlight }: StoredBudget,
): AccountState | typeof FOREIGN | ErrorReply {
  const values: Values = limits.length === 0 ? [] : redis.pcall('HMGET', key, unpack(fields));
  if (values.err !== undefined) return fault(values.err);
  const windows = windowsIn(values, limits);
  if (windows === undefined) return FOREIGN;
  const account: Draft<AccountState> = { windows };
  // HLEN and fewer fields take 10,000 instructions less than reading the rare ones each time.
  let known = 0;
  for (const value of values) if (value !== false) known += 1;
  if (redis.pcall<number | ErrorReply>('HLEN', key) !== known) {
    const rare = redis.pcall<Values>('HMGET', key, unpack(RARE_FIELDS));
    if (rare.err !== undefined) return fault(rare.err);
    let hasRare = false;
    for (let i = 0; i < 7; i++) if (rare[i] !== false) hasRare = true;
    if (hasRare && !readRare(account, key, rare, 0)) return FOREIGN;
    if (inFlight !== undefined) account.tickets = ticketsIn(rare[7]!);
  }
  return account;
}

function fault(err: string): typeof FOREIGN | ErrorReply {
  return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : FOREIGN;
}

/** Reads the counts, of which `values` has two for each limit. @returns undefined if one is foreign */
export function windowsIn(values: Values, limits: readonly Limit[]): WindowCounts | undefined {
  const windows: Draft<WindowCounts> = {};
  let at = 0;
  for (const { window } of limits) {
    const usedText = values[at]!;
    const endsText = values[at + 1]!;
    at += 2;
    if (usedText !== false || endsText !== false) {
      const used = usedText === false ? 0 : tonumber(usedText);
      const endsAtMs = endsText === false ? 0 : wholeIn(endsText);
      if (endsAtMs === undefined) return undefined;
      if (used === undefined) {
        const count = slicesIn(usedText as string, endsAtMs, window);
        if (count === undefined) return undefined;
        windows[window] = count;
      } else {
        if (used < 0 || used > MOST || used !== Math.floor(used)) return undefined;
        if (endsAtMs > 0) windows[window] = { used, endsAtMs };
        else if (used > 0) return undefined;
      }
    }
  }
  return windows;
}

/** Writes the parts of an account that have changed. @returns an error of the store */
export function saveAccount(
  key: string,
  { fields, limits }: Pick<StoredBudget, 'fields' | 'limits'>,
  before: AccountState,
  after: AccountState,
  bans: BanRule | undefined,
  nowMs: number,
): ErrorReply | undefined {
  const changes: (string | number)[] = [];
  let size = 0;
  let lastMs = 0;
  let isLasting = false;
  const earlier = before.windows;
  const later = after.windows;
  let at = 0;
  for (const { window } of limits) {
    const was = earlier[window];
    const is = later[window];
    if (is !== undefined && is.endsAtMs > lastMs) lastMs = is.endsAtMs;
    if (was !== is) {
      const slices = is?.slices;
      const endsAtMs = is === undefined ? 0 : is.endsAtMs;
      changes[size] = fields[at]!;
      changes[size + 1] = slices === undefined ? (is === undefined ? 0 : is.used) : slicesText(slices);
      size += 2;
      // Nearly always the end has not changed.
      if (was === undefined || slices !== undefined || was.slices !== undefined || was.endsAtMs !== endsAtMs) {
        changes[size] = fields[at + 1]!;
        changes[size + 1] = slices === undefined ? endsAtMs : slices.startsAtMs;
        size += 2;
        if (was === undefined || endsAtMs > was.endsAtMs) isLasting = true;
      }
    }
    at += 2;
  }
  if (
    before.strikes !== after.strikes ||
    before.ban !== after.ban ||
    before.leases !== after.leases ||
    before.tickets !== after.tickets
  ) {
    lastMs = Math.max(lastMs, writeRare(changes, before, after));
    isLasting = true;
  }
  if (changes.length === 0) return undefined;
  const written = redis.pcall<number | ErrorReply>('HSET', key, unpack(changes));
  if (typeof written !== 'number') return written;
  if (isLasting) {
    const { strikes, ban } = after;
    if (strikes !== undefined) lastMs = Math.max(lastMs, strikes.endsAtMs);
    if (ban !== undefined) lastMs = Math.max(lastMs, ban.untilMs + (bans === undefined ? 0 : bans.forgetMs));
    // Never shortens the life of the hash. PEXPIREAT, because PTTL counts from a later moment than the clock of the script.
    if (lastMs > nowMs + redis.call<number>('PTTL', key)) redis.call('PEXPIREAT', key, lastMs);
  }
  return undefined;
}
