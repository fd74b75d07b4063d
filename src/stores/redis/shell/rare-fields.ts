import { slicedCount } from '../../../engine/counting.ts';
import { KNOWN_FOR_MS } from '../../../engine/leasing.ts';
import type { AccountState, Draft, Lease, Ticket, TopUps } from '../../../engine/types.ts';
import type { SliceCounts, WindowCount } from '../../../model/account.ts';
import { numberOfWindow, WINDOWS, type WindowName } from '../../../model/windows.ts';
import { redis, string, struct, table, tonumber, unpack } from './script-globals.ts';
import { MOST, wholeIn } from './whole-number.ts';

/*
 * The fields that few accounts have. Most calls make none of these functions.
 *   s m h d k n   the counts of slices, packed: a byte 128 + slices per length; a byte with the number of the first slice
 *                 (0 to 30) + 32 * (bytes per count - 1); then the counts, the oldest first
 *   x X           strikes, their end
 *   b B w W       ban number, its end, its window, and the budget of that window if it is not the account's own
 *   t             top-ups, three numbers each: window, amount, end
 *   T             the same one by one, for operators (top-up-fields.ts); decisions do not read it
 *   l             leases, three numbers each: id, units, end
 *   f             requests in flight, three words for each process: its name, how many it has, until when that holds
 */

/** The lengths of the windows that may slide. */
const SLIDING_MS: Readonly<Partial<Record<WindowName, number>>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
};
/** Slices per length, as in plans.yaml. A count has one more: the oldest leaves when the next one has ended. */
const MAX_SLICES = 30;
/** As in engine/leasing.ts, which a decision that only reads leases does not load. */
const MAX_LEASES = 64;

/** Undefined if the value is foreign. */
export function slicesIn(text: string, startsAtMs: number, window: WindowName): WindowCount | undefined {
  const lengthMs = SLIDING_MS[window];
  // Another program may have written any number of bytes.
  if (lengthMs === undefined || text.length < 3 || text.length > 2 + 8 * (MAX_SLICES + 1)) return undefined;
  const per = string.byte(text, 1) - 128;
  const second = string.byte(text, 2);
  const width = Math.floor(second / 32) + 1;
  const first = second % 32;
  const size = (text.length - 2) / width;
  if (per < 1 || per > MAX_SLICES || first >= per || size > per + 1 || size !== Math.floor(size)) return undefined;
  const counts: number[] = [];
  for (let i = 0; i < size; i++) {
    const count = struct.unpack(`>I${width}`, text, 3 + i * width);
    if (count > MOST) return undefined;
    counts.push(count);
  }
  return slicedCount({ per, first, startsAtMs, counts }, lengthMs);
}

export function slicesText({ per, first, counts }: SliceCounts): string {
  let most = 0;
  for (const count of counts) most = Math.max(most, count);
  let width = 1;
  while (most >= 256 ** width) width++;
  const head = string.char(128 + per, first + 32 * (width - 1));
  return head + struct.pack(`>${string.rep(`I${width}`, counts.length)}`, unpack(counts));
}

/** Reads strikes, ban, top-ups and leases, whose values begin at `at`. @returns false if one is foreign */
export function readRare(account: Draft<AccountState>, key: string, values: (string | false)[], at: number): boolean {
  const numbers: number[] = [];
  for (let i = 0; i < 5; i++) {
    const text = values[at + i]!;
    const number = text === false ? 0 : wholeIn(text);
    if (number === undefined) return false;
    numbers.push(number);
  }
  const number = numbers[2]!;
  const windowNumber = numbers[4]!;
  if (windowNumber > WINDOWS.length || (number > 0 && windowNumber === 0)) return false;
  if (numbers[0]! > 0) account.strikes = { count: numbers[0]!, endsAtMs: numbers[1]! };
  if (number > 0) {
    const untilMs = numbers[3]!;
    const window = WINDOWS[windowNumber - 1]!;
    // A call of its own, because nearly no account has a ban.
    const budget = redis.call<string | false>('HGET', key, 'W');
    account.ban = budget === false || budget === '' ? { number, untilMs, window } : { number, untilMs, window, budget };
  }
  const topUps = values[at + 5]!;
  if (topUps !== false && !readTopUps(account, topUps)) return false;
  const leases = values[at + 6]!;
  if (leases !== false) readLeases(account, leases);
  return true;
}

/** @returns false if the text is foreign */
function readTopUps(account: Draft<AccountState>, text: string): boolean {
  if (text.length > 50 * WINDOWS.length) return false;
  const topUps: Draft<TopUps> = {};
  const numbers: number[] = [];
  const words = string.gmatch(text, '%S+');
  for (let word = words(); word !== undefined; word = words()) {
    const number = wholeIn(word);
    if (number === undefined || number < 1) return false;
    numbers.push(number);
  }
  if (numbers.length % 3 > 0) return false;
  for (let i = 0; i < numbers.length; i += 3) {
    const window = WINDOWS[numbers[i]! - 1];
    if (window === undefined || topUps[window] !== undefined) return false;
    topUps[window] = { amount: numbers[i + 1]!, untilMs: numbers[i + 2]! };
  }
  if (numbers.length > 0) account.topUps = topUps;
  return true;
}

/** Reads the leases; none if the text is foreign. */
function readLeases(account: Draft<AccountState>, text: string): void {
  if (text.length > 64 * MAX_LEASES) return;
  const numbers: number[] = [];
  const words = string.gmatch(text, '%S+');
  for (let word = words(); word !== undefined; word = words()) {
    const number = tonumber(word);
    if (number === undefined || !(number >= -MOST && number <= MOST) || number !== Math.floor(number)) return;
    numbers.push(number);
  }
  const leases: Lease[] = [];
  for (let i = 2; i < numbers.length; i += 3)
    leases.push({ id: numbers[i - 2]!, units: numbers[i - 1]!, endsAtMs: numbers[i]! });
  if (leases.length > 0) account.leases = leases;
}

/** Reads the tickets, without those that are foreign; undefined if there are none. */
export function ticketsIn(text: string | false): readonly Ticket[] | undefined {
  const tickets: Ticket[] = [];
  if (text === false) return undefined;
  const words = string.gmatch(text, '%S+');
  for (let holder = words(); holder !== undefined; holder = words()) {
    const countText = words();
    const endsText = words();
    const count = wholeIn(countText ?? '');
    const endsAtMs = wholeIn(endsText ?? '');
    if (count !== undefined && endsAtMs !== undefined) tickets.push({ holder, count, endsAtMs });
  }
  return tickets.length === 0 ? undefined : tickets;
}

/** Appends the changed fields to `changes`. @returns when the last of the changed leases and tickets ends for the store, Unix milliseconds */
export function writeRare(changes: (string | number)[], before: AccountState, after: AccountState): number {
  let lastMs = 0;
  const { strikes, ban, leases, tickets } = after;
  if (before.strikes !== strikes) {
    put(changes, 'x', strikes === undefined ? 0 : strikes.count);
    put(changes, 'X', strikes === undefined ? 0 : strikes.endsAtMs);
  }
  if (before.ban !== ban) {
    put(changes, 'b', ban === undefined ? 0 : ban.number);
    put(changes, 'B', ban === undefined ? 0 : ban.untilMs);
    if (ban !== undefined) {
      put(changes, 'w', numberOfWindow(ban.window));
      put(changes, 'W', ban.budget ?? '');
    }
  }
  if (before.leases !== leases) {
    const words: string[] = [];
    for (const { id, units, endsAtMs } of leases ?? []) {
      words.push(string.format('%d %d %d', id, units, endsAtMs));
      // A gateway that returns the lease must find it, even if its windows have ended.
      lastMs = Math.max(lastMs, endsAtMs + KNOWN_FOR_MS);
    }
    put(changes, 'l', table.concat(words, ' '));
  }
  if (before.tickets !== tickets) {
    const words: string[] = [];
    for (const { holder, count, endsAtMs } of tickets ?? []) {
      words.push(string.format('%s %d %d', holder, count, endsAtMs));
      lastMs = Math.max(lastMs, endsAtMs);
    }
    put(changes, 'f', table.concat(words, ' '));
  }
  return lastMs;
}

function put(changes: (string | number)[], field: string, value: string | number): void {
  changes.push(field);
  changes.push(value);
}
