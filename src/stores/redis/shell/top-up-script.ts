import { type NotedTerms, topUpInForce, topUpRefusal, withTopUp } from '../../../engine/operator-changes.ts';
import type { AccountState, Limit } from '../../../engine/types.ts';
import { lastEndMs, madeBefore, type OnceReply, remember } from './once.ts';
import { ARGV, cjson, type ErrorReply, KEYS } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { FOREIGN, includeNow } from './stored-account.ts';
import { loadToppedUp, saveToppedUp } from './top-up-fields.ts';

/*
 * Adds to the limit of one window until that window ends, or until the operator's own end: once (once.ts).
 *
 * ARGV[4] a `StoredTopUp`
 * reply   'made', the end of this top-up, the sum of the top-ups of the window, and the end of that; 'outside' and now, if the instants of
 *         a calendar window do not include now; 'too_much' and the sum before; 'past' if its own end has passed; 'other_end', the sum in
 *         force and its end, if that is another one
 */

/** A top-up as the gateway sends it. */
export interface StoredTopUp {
  readonly limit: Limit;
  readonly amount: number;
  /** The largest limit that there is. */
  readonly mostLimit: number;
  /** The reason is percent-encoded. */
  readonly terms: NotedTerms;
}

/** A limit whose window or length ends at `endsAtMs` if it opens now. */
function endingAt({ window, lengthMs, limit, slices }: Limit, endsAtMs: number): Limit {
  if (slices !== undefined) return { window, lengthMs: endsAtMs - nowMs, limit, slices };
  return { window, lengthMs, limit, instants: [endsAtMs] };
}

/** The script. */
export function main(): OnceReply | ErrorReply {
  const earlier = madeBefore();
  if (earlier !== undefined) return earlier;
  const { limit: asked, amount, mostLimit, terms } = cjson.decode<StoredTopUp>(ARGV[3]!);
  if (lastEndMs !== undefined && nowMs >= lastEndMs) {
    remember(lastEndMs);
    return ['repeated', lastEndMs];
  }
  if (lastEndMs === undefined && !includeNow([asked], nowMs)) return ['outside', nowMs];
  const limit = lastEndMs === undefined ? asked : endingAt(asked, lastEndMs);
  const key = KEYS[0]!;
  const loaded = loadToppedUp(key, [limit]);
  if (loaded === FOREIGN) return [FOREIGN];
  if ((loaded as ErrorReply).err !== undefined) return loaded as ErrorReply;
  const before = loaded as AccountState;
  const refusal = topUpRefusal(before, limit, amount, nowMs, mostLimit, terms);
  const inForce = topUpInForce(before, limit.window, nowMs);
  if (refusal === 'past') return ['past'];
  if (refusal === 'too-much') return ['too_much', inForce?.amount ?? 0];
  if (refusal === 'other-end') return ['other_end', inForce!.amount, inForce!.untilMs];
  const { topUp, endsAtMs, state } = withTopUp(before, limit, amount, nowMs, mostLimit, terms);
  const error = saveToppedUp(key, [limit], before, state);
  if (error !== undefined) return error;
  remember(endsAtMs);
  return ['made', endsAtMs, topUp.amount, topUp.untilMs];
}
