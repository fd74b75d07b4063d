import { Failure } from '../failure.ts';
import { MAX_LIMIT } from '../model/plan.ts';
import type { WindowName } from '../model/values.ts';
import { type AccountState, type Ban, lift, NO_STRIKES } from './decide.ts';
import {
  endIfOpened,
  presentCount,
  type TopUp,
  type TopUpNote,
  type TopUps,
  type WindowCount,
  type WindowLimit,
  windowLimit,
} from './windows.ts';

// What operators change in an account. src/stores/redis has the twins in Lua: lift.lua, carry-ban.lua, top-up.lua,
// undo-top-up.lua and reset-usage.lua.

/** How many top-ups of a window are kept one by one. The amounts of older ones stay in its sum. */
export const MAX_TOP_UP_NOTES = 50;

/** What an operator may give with a top-up beside the window and the amount. */
export interface TopUpTerms {
  /** When it ends, Unix milliseconds; left out: with its window. */
  readonly untilMs?: number;
  readonly reason?: string;
}

/** The same with the id by which the top-up can be undone. */
interface NotedTerms extends TopUpTerms {
  readonly id: string;
}

export type AccountChange =
  | { readonly kind: 'lift' }
  | { readonly kind: 'ban'; readonly ban: Ban }
  /** Without `terms` if an earlier version has written it. */
  | { readonly kind: 'top-up'; readonly of: WindowLimit; readonly amount: number; readonly terms?: NotedTerms }
  | { readonly kind: 'undo-top-up'; readonly window: WindowName; readonly id: string | null }
  | { readonly kind: 'reset'; readonly windows: readonly WindowName[] };

/** What a reset has taken away. */
export interface ResetUsage {
  /** What had been counted, for each window that was reset. */
  readonly used: Readonly<Partial<Record<WindowName, number>>>;
  readonly strikes: number;
}

/** What an undo has taken back. */
export interface UndoneTopUp {
  readonly amount: number;
  /** What stays added to the window. */
  readonly left: number;
  /** When that ends, and what was taken back would have ended. */
  readonly untilMs: number;
}

/** A change in words, by which the stores know a repetition under the same id. They do not include the id of a top-up. */
export function changeWords(change: AccountChange): string {
  if (change.kind === 'top-up') return topUpWords(change.of.window, change.amount, change.terms);
  if (change.kind === 'undo-top-up') return `undo-top-up ${change.window} ${change.id ?? 'all'}`;
  return change.kind === 'reset' ? `reset ${change.windows.join(' ')}` : change.kind;
}

function topUpWords(window: WindowName, amount: number, { untilMs, reason = '' }: TopUpTerms = {}): string {
  const until = untilMs === undefined ? '' : ` until ${untilMs}`;
  return `top-up ${window} ${amount}${until}${reason === '' ? '' : ` =${encodeURIComponent(reason)}`}`;
}

/**
 * The state after a change that was acknowledged, made at `nowMs`: the same object if there was nothing to change. A top-up is bounded by
 * the largest limit and not refused, whatever its end: another one may have been acknowledged meanwhile.
 */
export function changed(state: AccountState, change: AccountChange, nowMs: number): AccountState {
  if (change.kind === 'lift') return lift(state, nowMs);
  if (change.kind === 'ban') return banned(state, change.ban, nowMs);
  if (change.kind === 'top-up') return added(state, change.of, change.amount, nowMs, change.terms).state;
  if (change.kind === 'undo-top-up') return undoneIn(state, change.window, change.id, nowMs)?.state ?? state;
  return resetUsage(state, change.windows, nowMs).state;
}

/** The state with a ban of another account that is in force at `nowMs`, unless it has one that ends later. */
export function banned(state: AccountState, ban: Ban, nowMs: number): AccountState {
  return nowMs >= ban.untilMs || (state.ban !== null && state.ban.untilMs >= ban.untilMs) ? state : { ...state, ban };
}

/**
 * Adds `amount` to the limit of a window until that window ends (contract section 3), or until the end in `terms`. A fixed or
 * calendar window that is not open opens now. A sliding window has no end, so the amount stays for one length. A further top-up of
 * the same window adds to the first, and both stay until the later end; but an end that an operator has named is kept.
 *
 * @param amount whole number from 1
 * @throws Failure `refused` if the limit would be larger than a limit may be, or the end has passed; `conflict` if a top-up of the
 *   window with another end is in force
 */
export function toppedUp(state: AccountState, of: WindowLimit, amount: number, nowMs: number, terms?: NotedTerms) {
  const { window, limit } = of;
  const before = topUpsInForce(state, nowMs)[window];
  const notes = notesInForce(state, nowMs);
  if (terms?.untilMs !== undefined && nowMs >= terms.untilMs) refusePastEnd();
  refuseTooMuch(limit, before?.amount ?? 0, amount);
  const isBound = hasOwnEnd(notes, window, terms);
  if (before !== undefined && isBound && before.untilMs !== endOf(state, of, nowMs, terms)) refuseOtherEnd(before);
  return added(state, of, amount, nowMs, terms);
}

function topUpsInForce({ topUps = {} }: AccountState, nowMs: number): Readonly<Record<string, TopUp>> {
  return Object.fromEntries(Object.entries(topUps).filter(([, { untilMs }]) => nowMs < untilMs));
}

function notesInForce({ topUpNotes = [] }: AccountState, nowMs: number): readonly TopUpNote[] {
  return topUpNotes.filter(({ untilMs }) => nowMs < untilMs);
}

/** When a top-up ends that is made now. */
function endOf(state: AccountState, of: WindowLimit, nowMs: number, terms: TopUpTerms = {}): number {
  if (terms.untilMs !== undefined) return terms.untilMs;
  if (of.slices !== undefined) return nowMs + of.lengthMs;
  return presentCount(state.windows[of.window], of, nowMs).count?.endsAtMs ?? endIfOpened(of, nowMs);
}

function added(state: AccountState, of: WindowLimit, amount: number, nowMs: number, terms?: NotedTerms) {
  const { window, limit } = of;
  const inForce = topUpsInForce(state, nowMs);
  const before: TopUp = inForce[window] ?? { amount: 0, untilMs: 0 };
  const endsAtMs = endOf(state, of, nowMs, terms);
  const sum = Math.min(before.amount + amount, MAX_LIMIT - limit);
  const topUp: TopUp = { amount: sum, untilMs: Math.max(before.untilMs, endsAtMs) };
  const opens = of.slices === undefined && terms?.untilMs === undefined;
  const used = opens ? (presentCount(state.windows[window], of, nowMs).count?.used ?? 0) : 0;
  const windows = opens ? { ...state.windows, [window]: { used, endsAtMs } } : state.windows;
  const notes = notesWith(notesInForce(state, nowMs), of, topUp, { amount, atMs: nowMs, terms });
  return { topUp, state: stateWithTopUps({ ...state, windows }, { ...inForce, [window]: topUp }, notes) };
}

/** The top-ups one by one after another one of a window, all of which end with the sum. */
function notesWith(
  before: readonly TopUpNote[],
  { window }: WindowLimit,
  { untilMs }: TopUp,
  made: Pick<TopUpNote, 'amount' | 'atMs'> & { readonly terms: NotedTerms | undefined },
): readonly TopUpNote[] {
  const { terms, ...rest } = made;
  const notes = before.map((note) => (note.window === window ? { ...note, untilMs } : note));
  if (terms === undefined) return notes;
  const { id, reason = '' } = terms;
  notes.push({ id, window, ...rest, untilMs, hasOwnEnd: hasOwnEnd(before, window, terms), reason });
  if (notes.filter((note) => note.window === window).length <= MAX_TOP_UP_NOTES) return notes;
  return notes.toSpliced(
    notes.findIndex((note) => note.window === window),
    1,
  );
}

/** Whether an operator has named the end of a top-up of a window, or of one of those in force. */
function hasOwnEnd(notes: readonly TopUpNote[], window: WindowName, terms: TopUpTerms = {}): boolean {
  return terms.untilMs !== undefined || notes.some((note) => note.window === window && note.hasOwnEnd);
}

function stateWithTopUps(state: AccountState, topUps: TopUps, notes: readonly TopUpNote[]): AccountState {
  const { topUps: _, topUpNotes: __, ...others } = state;
  return {
    ...others,
    ...(Object.keys(topUps).length === 0 ? {} : { topUps }),
    ...(notes.length === 0 ? {} : { topUpNotes: notes }),
  };
}

/**
 * Takes back what was added to the limit of a window. What was counted stays.
 * @param id of one top-up; null for all of the window that are in force
 * @throws Failure `not_found` if no such top-up is in force
 */
export function topUpUndone(state: AccountState, window: WindowName, id: string | null, nowMs: number) {
  const undone = undoneIn(state, window, id, nowMs);
  if (undone === null) throw noTopUp();
  return undone;
}

function undoneIn(state: AccountState, window: WindowName, id: string | null, nowMs: number) {
  const { [window]: before, ...others } = topUpsInForce(state, nowMs);
  const isMeant = (note: TopUpNote) => note.window === window && (id === null || note.id === id);
  const notes = notesInForce(state, nowMs);
  // Two may have one id: that of a change is forgotten after a day.
  const meant = notes.filter(isMeant).reduce((sum, note) => sum + note.amount, 0);
  if (before === undefined || (id !== null && meant === 0)) return null;
  const amount = id === null ? before.amount : Math.min(meant, before.amount);
  const left = before.amount - amount;
  const topUps = left === 0 ? others : { ...others, [window]: { amount: left, untilMs: before.untilMs } };
  const undone: UndoneTopUp = { amount, left, untilMs: before.untilMs };
  const kept = notes.filter((one) => !isMeant(one));
  return { undone, state: stateWithTopUps(state, topUps, kept) };
}

export function noTopUp(): Failure {
  return new Failure('not_found', 'No such top-up is in force: it has ended, or was undone.');
}

export function refusePastEnd(): never {
  throw new Failure('refused', 'The time at which the top-up is to end has already passed; give one in the future.');
}

/** Ends of the same limit may not differ, because a decision reads one sum with one end. */
export function refuseOtherEnd({ amount, untilMs }: TopUp): never {
  const until = new Date(untilMs).toISOString();
  throw new Failure('conflict', `A top-up of ${amount} until ${until} is in force: undo it, or give the same end.`);
}

/** @throws Failure `refused` */
export function refuseTooMuch(limit: number, before: number, amount: number): void {
  const most = MAX_LIMIT - limit - before;
  if (amount <= most) return;
  throw new Failure(
    'refused',
    `The limit would be more than ${MAX_LIMIT}, the largest that there is. Add at most ${Math.max(most, 0)}.`,
  );
}

/**
 * Sets what was counted in some windows to nothing, and clears the strikes. Top-ups and a ban stay, and a fixed or calendar
 * window keeps its end.
 */
export function resetUsage(state: AccountState, windows: readonly WindowName[], nowMs: number) {
  const left: Partial<Record<WindowName, WindowCount>> = { ...state.windows };
  const used: Partial<Record<WindowName, number>> = {};
  for (const window of windows) {
    const count = state.windows[window];
    const form = count?.slices === undefined ? {} : { slices: count.slices.per };
    used[window] = presentCount(count, windowLimit(window, 0, form), nowMs).count?.used ?? 0;
    if (count === undefined || nowMs >= count.endsAtMs) continue;
    if (count.slices === undefined) left[window] = { used: 0, endsAtMs: count.endsAtMs };
    else delete left[window];
  }
  const strikes = nowMs < state.strikes.endsAtMs ? state.strikes.count : 0;
  const reset: ResetUsage = { used, strikes };
  // What is returned of a lease later was counted before the reset.
  const { leases: _, ...kept } = state;
  return { reset, state: { ...kept, windows: left, strikes: NO_STRIKES } };
}
