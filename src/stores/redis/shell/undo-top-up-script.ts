import { undoTopUp } from '../../../engine/operator-changes.ts';
import type { AccountState } from '../../../engine/types.ts';
import type { WindowName } from '../../../model/values.ts';
import { lastEndMs, madeBefore, type OnceReply, remember } from './once.ts';
import { ARGV, cjson, type ErrorReply, KEYS } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { FOREIGN } from './stored-account.ts';
import { loadToppedUp, saveToppedUp } from './top-up-fields.ts';

/*
 * Undoes top-ups of one window: once (once.ts).
 *
 * ARGV[4] a `StoredUndo`
 * reply   'made', the end of the undone top-ups, their sum, and the sum of those that stay; 'none' if no such top-up is in force
 */

/** The undoing of a top-up as the gateway sends it. */
export interface StoredUndo {
  readonly window: WindowName;
  /** The id of the top-up; left out: all that are in force. */
  readonly id?: string | undefined;
}

/** The script. */
export function main(): OnceReply | ErrorReply {
  const earlier = madeBefore();
  if (earlier !== undefined) return earlier;
  const { window, id } = cjson.decode<StoredUndo>(ARGV[3]!);
  const key = KEYS[0]!;
  const loaded = loadToppedUp(key, []);
  if (loaded === FOREIGN) return [FOREIGN];
  if ((loaded as ErrorReply).err !== undefined) return loaded as ErrorReply;
  const before = loaded as AccountState;
  const done = undoTopUp(before, window, id, nowMs);
  if (done === undefined) {
    if (lastEndMs === undefined) return ['none'];
    remember(lastEndMs);
    return ['repeated', lastEndMs];
  }
  const error = saveToppedUp(key, [], before, done.state);
  if (error !== undefined) return error;
  const { untilMs, amount, left } = done.undone;
  remember(untilMs);
  return ['made', untilMs, amount, left];
}
