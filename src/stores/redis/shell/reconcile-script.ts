import { type LateUsage, reconciled } from '../../../engine/reconcile.ts';
import type { WindowName } from '../../../model/values.ts';
import { readGatewayClock } from './history-costs.ts';
import { recordLate } from './late-costs.ts';
import { ARGV, cjson, type ErrorReply, KEYS, redis, string, unpack, type Values } from './script-globals.ts';
import { nowMs, seconds } from './script-time.ts';
import { saveAccount, windowsIn } from './stored-account.ts';
import { MOST } from './whole-number.ts';
import { unlimited, windowFields } from './window-fields.ts';

/*
 * Adds usage to one consumer's windows that a gateway admitted while it could not reach the store (contract section 6).
 *
 * KEYS[1] the hash of the account
 * KEYS[2] its history
 * ARGV    a `StoredUsage` as JSON; the gateway's clock (history-costs.ts)
 * reply   for each window 1 if the script has added the cost, 0 if the window has ended; or a string if the hash has foreign values
 */

const HOUR_MS = 3_600_000;

/** Usage as the gateway sends it. */
export interface StoredUsage {
  /** The present by the gateway's own clock if the ends below are by that clock, Unix milliseconds; 0 if they are by the store's. */
  readonly ownNowMs: number;
  readonly windows: readonly LateUsage[];
  /** For the history: the hours since 1970, each with the cost to add. */
  readonly hours: readonly (readonly [hour: number, cost: number])[];
}

/** The script. */
export function main(): (0 | 1)[] | string | ErrorReply {
  readGatewayClock(seconds);
  const { ownNowMs, windows: late, hours } = cjson.decode<StoredUsage>(ARGV[0]!);
  const shiftMs = ownNowMs > 0 ? nowMs - ownNowMs : 0;
  const names: WindowName[] = [];
  for (const { window } of late) names.push(window);
  const fields = windowFields(names);
  const limits = unlimited(names);
  const key = KEYS[0]!;
  const values: Values = names.length === 0 ? [] : redis.pcall('HMGET', key, unpack(fields));
  const { err } = values;
  if (err !== undefined) return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : 'WRONGTYPE';
  const before = windowsIn(values, limits);
  if (before === undefined) return 'FOREIGN';
  for (const { window, spent } of late) {
    const count = before[window];
    if (count !== undefined && nowMs < count.endsAtMs && count.used > MOST - spent) return 'FOREIGN';
  }
  const { windows, added } = reconciled(before, late, nowMs, shiftMs);
  // The first write: if the store refuses writes, the script has done nothing.
  const error = saveAccount(key, { fields, limits }, { windows: before }, { windows }, undefined, nowMs);
  if (error !== undefined) return error;
  for (const [hour, cost] of hours) {
    // The middle of the hour, by the store's clock.
    const at = Math.floor((hour * HOUR_MS + HOUR_MS / 2 + shiftMs) / HOUR_MS);
    const failed = recordLate(KEYS[1]!, at, cost, Math.floor(nowMs / HOUR_MS));
    if (failed) return failed;
  }
  const reply: (0 | 1)[] = [];
  for (const isAdded of added) reply.push(isAdded ? 1 : 0);
  return reply;
}
