import type { AccountState, Draft, Limit } from '../../../engine/types.ts';
import type { TopUpNote } from '../../../model/account.ts';
import { numberOfWindow, WINDOWS, type WindowName } from '../../../model/windows.ts';
import { readRare } from './rare-fields.ts';
import { type ErrorReply, redis, string, table, unpack, type Values } from './script-globals.ts';
import { nowMs } from './script-time.ts';
import { FOREIGN, saveAccount, windowsIn } from './stored-account.ts';
import { wholeIn } from './whole-number.ts';
import { windowFields } from './window-fields.ts';

/*
 * Reads and writes the top-ups of an account. Decisions read the field `t` alone: for each window the sum of its top-ups, and their end. The
 * field `T` has the top-ups one by one (`TopUpNote`), seven words each: id, window, amount, end, 1 if an operator named the end (else
 * 0), when an operator made it, and `=` with the reason, percent-encoded, which stays so here. Early versions neither read nor write `T`.
 */

/** Reads the parts of an account that top-ups of the windows of `limits` need. */
export function loadToppedUp(key: string, limits: readonly Limit[]): AccountState | typeof FOREIGN | ErrorReply {
  const fields = windowFields(windowsOf(limits));
  fields.push('t');
  fields.push('T');
  const values = redis.pcall<Values>('HMGET', key, unpack(fields));
  const { err } = values;
  if (err !== undefined) return string.find(err, 'WRONGTYPE', 1, true) === undefined ? { err } : FOREIGN;
  const windows = windowsIn(values, limits);
  if (windows === undefined) return FOREIGN;
  const account: Draft<AccountState> = { windows };
  const sums = values[2 * limits.length]!;
  if (!readRare(account, key, [false, false, false, false, false, sums, false], 0)) return FOREIGN;
  const notes = values[2 * limits.length + 1]!;
  if (notes !== false) account.topUpNotes = notesIn(notes);
  return account;
}

/** Writes the top-ups, and the changed windows of `limits`. @returns an error of the store */
export function saveToppedUp(
  key: string,
  limits: readonly Limit[],
  before: AccountState,
  after: AccountState,
): ErrorReply | undefined {
  const error = saveAccount(key, { fields: windowFields(windowsOf(limits)), limits }, before, after, undefined, nowMs);
  if (error !== undefined) return error;
  const sums: string[] = [];
  let lastMs = 0;
  for (const window of WINDOWS) {
    const topUp = after.topUps?.[window];
    if (topUp !== undefined) {
      sums.push(string.format('%d %d %d', numberOfWindow(window), topUp.amount, topUp.untilMs));
      lastMs = Math.max(lastMs, topUp.untilMs);
    }
  }
  const notes: string[] = [];
  for (const { id, window, amount, untilMs, hasOwnEnd, atMs, reason } of after.topUpNotes ?? []) {
    const own = hasOwnEnd ? 1 : 0;
    notes.push(string.format('%s %d %d %d %d %d =%s', id, numberOfWindow(window), amount, untilMs, own, atMs, reason));
  }
  keepWords(key, 't', sums);
  keepWords(key, 'T', notes);
  if (lastMs > nowMs + redis.call<number>('PTTL', key)) redis.call('PEXPIREAT', key, lastMs);
  return undefined;
}

/** Leaves out what does not look like a top-up. */
function notesIn(text: string): TopUpNote[] {
  const words: string[] = [];
  const next = string.gmatch(text, '%S+');
  for (let word = next(); word !== undefined; word = next()) words.push(word);
  const notes: TopUpNote[] = [];
  let at = 0;
  while (at + 7 <= words.length) {
    const note = noteIn(words, at);
    if (note !== undefined) notes.push(note);
    at += note === undefined ? 1 : 7;
  }
  return notes;
}

function noteIn(words: readonly string[], at: number): TopUpNote | undefined {
  const window = WINDOWS[(wholeIn(words[at + 1]!) ?? 0) - 1];
  const amount = wholeIn(words[at + 2]!);
  const untilMs = wholeIn(words[at + 3]!);
  const own = words[at + 4]!;
  const atMs = wholeIn(words[at + 5]!);
  const reason = string.match(words[at + 6]!, '^=(.*)$');
  if (window === undefined || amount === undefined || untilMs === undefined) return undefined;
  if (atMs === undefined || reason === undefined || (own !== '0' && own !== '1')) return undefined;
  return { id: words[at]!, window, amount, untilMs, hasOwnEnd: own === '1', atMs, reason };
}

/** Keeps a text in a field, or drops the field if there is nothing to keep. */
function keepWords(key: string, field: string, words: string[]): void {
  if (words.length === 0) redis.call('HDEL', key, field);
  else redis.call('HSET', key, field, table.concat(words, ' '));
}

function windowsOf(limits: readonly Limit[]): WindowName[] {
  const windows: WindowName[] = [];
  for (const { window } of limits) windows.push(window);
  return windows;
}
