import type { Ban, TopUp, TopUpNote } from '../model/account.ts';
import type { WindowName } from '../model/values.ts';
import * as counting from './counting.ts';
import * as refusing from './refusing.ts';
import type { AccountState, Draft, Limit, TopUps, WindowCounts } from './types.ts';

/* Operators change accounts with these functions. Each takes the state of an account and returns the state after the change. */

/** How many top-ups of a window an account keeps one by one. The amounts of older ones stay in its sum. */
export const MAX_TOP_UP_NOTES = 50;

/** The members of a top-up beside its window and its amount. */
export interface NotedTerms {
  /** An operator who undoes the top-up gives this id. */
  readonly id: string;
  /** When it ends, Unix milliseconds; left out: with its window. */
  readonly untilMs?: number;
  readonly reason?: string;
}

/**
 * Why the engine refuses a top-up. `past`: its end has passed. `too-much`: the limit would exceed `mostLimit`. `other-end`: a top-up with
 * another end is in force.
 */
type TopUpRefusal = 'past' | 'too-much' | 'other-end';

/** The result of undoing top-ups of a window. */
export interface UndoneTopUp {
  /** How much the undo took off the limit. */
  readonly amount: number;
  /** How much other top-ups still add to the limit. */
  readonly left: number;
  /** When those end, and the undone ones would have ended. */
  readonly untilMs: number;
}

const NOTHING: TopUp = { amount: 0, untilMs: 0 };

/** Lifts the ban in force: clears the strikes, and takes back the rung (contract section 1). */
export function lift(state: AccountState, nowMs: number): AccountState {
  const { ban } = state;
  if (ban === undefined || nowMs >= ban.untilMs) return state;
  const left = copyOf(state);
  left.strikes = undefined;
  left.ban = ban.number === 1 ? undefined : refusing.withEnd(ban, ban.number - 1, nowMs);
  return left;
}

/** Copies a ban of another account here, unless it has ended or this account has one that ends later. */
export function carryBan(state: AccountState, ban: Ban, nowMs: number): AccountState {
  if (nowMs >= ban.untilMs || (state.ban !== undefined && state.ban.untilMs >= ban.untilMs)) return state;
  const changed = copyOf(state);
  changed.ban = ban;
  return changed;
}

/** Says why the engine refuses a top-up; undefined if it does not. @param mostLimit the largest that a limit may be */
export function topUpRefusal(
  state: AccountState,
  limit: Limit,
  amount: number,
  nowMs: number,
  mostLimit: number,
  terms?: NotedTerms,
): TopUpRefusal | undefined {
  const { window } = limit;
  const before = topUpInForce(state, window, nowMs);
  if (terms?.untilMs !== undefined && nowMs >= terms.untilMs) return 'past';
  if (amount > mostLimit - limit.limit - (before?.amount ?? 0)) return 'too-much';
  const isBound = hasOwnEnd(notesInForce(state, nowMs), window, terms);
  if (before !== undefined && isBound && before.untilMs !== endOf(state, limit, nowMs, terms)) return 'other-end';
  return undefined;
}

/**
 * Adds `amount` to the limit of a window until that window ends (contract section 3), or until the end in `terms`. A fixed or
 * calendar window that is not open opens now. A sliding window has no end, so the amount stays for one length. A further top-up of
 * the same window adds to the first, and both stay until the later end; but the store keeps an end that an operator has named.
 *
 * It bounds the sum by the largest limit and refuses no top-up: the caller asks `topUpRefusal` first.
 * @param amount whole number from 1
 * @returns the sum of the window, and the end that this top-up asked for
 */
export function withTopUp(
  state: AccountState,
  limit: Limit,
  amount: number,
  nowMs: number,
  mostLimit: number,
  terms?: NotedTerms,
): { readonly topUp: TopUp; readonly endsAtMs: number; readonly state: AccountState } {
  const { window } = limit;
  const before = topUpInForce(state, window, nowMs) ?? NOTHING;
  const endsAtMs = endOf(state, limit, nowMs, terms);
  const sum = Math.min(before.amount + amount, mostLimit - limit.limit);
  const topUp = { amount: sum, untilMs: Math.max(before.untilMs, endsAtMs) };
  const changed = copyOf(state);
  if (limit.slices === undefined && terms?.untilMs === undefined) {
    const used = counting.presentCount(state.windows[window], limit, nowMs).count?.used ?? 0;
    changed.windows = withWindow(state.windows, window, used, endsAtMs);
  }
  const topUps = topUpsBeside(state, window, nowMs) ?? {};
  topUps[window] = topUp;
  changed.topUps = topUps;
  setNotes(changed, notesWith(notesInForce(state, nowMs), window, topUp.untilMs, amount, nowMs, terms));
  return { topUp, endsAtMs, state: changed };
}

/**
 * Undoes top-ups of a window. The counts stay.
 * @param id of one top-up; left out: all of the window that are in force
 * @returns undefined if no such top-up is in force
 */
export function undoTopUp(
  state: AccountState,
  window: WindowName,
  id: string | undefined,
  nowMs: number,
): { readonly undone: UndoneTopUp; readonly state: AccountState } | undefined {
  const before = topUpInForce(state, window, nowMs);
  const kept: TopUpNote[] = [];
  // Two top-ups may have one id, because the store forgets the ids of changes after a day.
  let meant = 0;
  for (const note of notesInForce(state, nowMs)) {
    if (note.window === window && (id === undefined || note.id === id)) meant += note.amount;
    else kept.push(note);
  }
  if (before === undefined || (id !== undefined && meant === 0)) return undefined;
  const amount = id === undefined ? before.amount : Math.min(meant, before.amount);
  const left = before.amount - amount;
  const { untilMs } = before;
  const changed = copyOf(state);
  changed.topUps = topUpsBeside(state, window, nowMs);
  if (left > 0) {
    const topUps: Draft<TopUps> = changed.topUps ?? {};
    topUps[window] = { amount: left, untilMs };
    changed.topUps = topUps;
  }
  setNotes(changed, kept);
  return { undone: { amount, left, untilMs }, state: changed };
}

/**
 * Sets the counts of some windows to 0, and clears the strikes. Top-ups and a ban stay, and a fixed or calendar window keeps its end.
 * @param upToMs a count that ends later stays; left out: none does
 * @returns also the counts of the windows before, and when the last of them would have ended
 */
export function resetUsage(
  state: AccountState,
  names: readonly WindowName[],
  nowMs: number,
  upToMs?: number,
): {
  readonly used: Readonly<Partial<Record<WindowName, number>>>;
  readonly strikes: number;
  readonly endsAtMs: number;
  readonly state: AccountState;
} {
  let windows: WindowCounts = state.windows;
  let endsAtMs = nowMs;
  const used: Partial<Record<WindowName, number>> = {};
  for (const window of names) {
    const count = state.windows[window];
    const lengthMs = counting.WINDOW_MS[window];
    const present = counting.presentCount(
      count,
      { window, lengthMs, limit: 0, slices: count?.slices?.per },
      nowMs,
    ).count;
    used[window] = present?.used ?? 0;
    if (count !== undefined && nowMs < count.endsAtMs) {
      if (count.slices === undefined) {
        endsAtMs = Math.max(endsAtMs, count.endsAtMs);
        if (upToMs === undefined || count.endsAtMs <= upToMs) windows = withWindow(windows, window, 0, count.endsAtMs);
      } else {
        endsAtMs = Math.max(endsAtMs, present?.endsAtMs ?? 0);
        const others = counting.withoutWindow(windows, window);
        const later =
          present === undefined || upToMs === undefined ? undefined : counting.leavingAfter(present, lengthMs, upToMs);
        if (later !== undefined) others[window] = later;
        windows = others;
      }
    }
  }
  const { strikes } = state;
  const struck = strikes !== undefined && nowMs < strikes.endsAtMs ? strikes.count : 0;
  const changed = copyOf(state);
  changed.windows = windows;
  changed.strikes = undefined;
  // A gateway may still return units of a lease: the store counted them before the reset, which has removed them already.
  changed.leases = undefined;
  return { used, strikes: struck, endsAtMs, state: changed };
}

function copyOf(state: AccountState): Draft<AccountState> {
  const { windows, strikes, ban, topUps, topUpNotes, leases, tickets } = state;
  return { windows, strikes, ban, topUps, topUpNotes, leases, tickets };
}

function withWindow(windows: WindowCounts, window: WindowName, used: number, endsAtMs: number): WindowCounts {
  const copy = counting.copyOfWindows(windows);
  copy[window] = { used, endsAtMs };
  return copy;
}

/** The sum of the top-ups of a window; undefined if it has none, or they have ended. */
export function topUpInForce(state: AccountState, window: WindowName, nowMs: number): TopUp | undefined {
  const topUp = state.topUps?.[window];
  return topUp !== undefined && nowMs < topUp.untilMs ? topUp : undefined;
}

/** The top-ups in force of all windows but one; undefined if they have none. */
function topUpsBeside(state: AccountState, without: WindowName, nowMs: number): Draft<TopUps> | undefined {
  let others: Draft<TopUps> | undefined;
  if (state.topUps === undefined) return undefined;
  for (const name in state.topUps) {
    const window = name as WindowName;
    const topUp = topUpInForce(state, window, nowMs);
    if (window !== without && topUp !== undefined) {
      if (others === undefined) others = {};
      others[window] = topUp;
    }
  }
  return others;
}

function notesInForce(state: AccountState, nowMs: number): TopUpNote[] {
  const notes: TopUpNote[] = [];
  for (const note of state.topUpNotes ?? []) if (nowMs < note.untilMs) notes.push(note);
  return notes;
}

/** When a top-up would end that an operator makes now. */
function endOf(state: AccountState, limit: Limit, nowMs: number, terms: NotedTerms | undefined): number {
  if (terms?.untilMs !== undefined) return terms.untilMs;
  if (limit.slices !== undefined) return nowMs + limit.lengthMs;
  const open = counting.presentCount(state.windows[limit.window], limit, nowMs).count;
  return open === undefined ? counting.endIfOpened(limit, nowMs) : open.endsAtMs;
}

/**
 * Adds the note of a new top-up, and lets all notes of its window end with the sum.
 * @param terms absent if an earlier version made the top-up: then it gets no note
 */
function notesWith(
  before: readonly TopUpNote[],
  window: WindowName,
  untilMs: number,
  amount: number,
  atMs: number,
  terms: NotedTerms | undefined,
): TopUpNote[] {
  let ofWindow = 0;
  for (const note of before) if (note.window === window) ofWindow++;
  let isFull = terms !== undefined && ofWindow >= MAX_TOP_UP_NOTES;
  const notes: TopUpNote[] = [];
  for (const note of before) {
    const { id, hasOwnEnd: isOwn, reason } = note;
    if (note.window !== window) notes.push(note);
    // Drops the oldest note of the window.
    else if (isFull) isFull = false;
    else notes.push({ id, window, amount: note.amount, atMs: note.atMs, untilMs, hasOwnEnd: isOwn, reason });
  }
  if (terms !== undefined) {
    const { id, reason = '' } = terms;
    notes.push({ id, window, amount, atMs, untilMs, hasOwnEnd: hasOwnEnd(before, window, terms), reason });
  }
  return notes;
}

/** Whether an operator has named the end of a top-up of a window, or of one of those in force. */
function hasOwnEnd(notes: readonly TopUpNote[], window: WindowName, terms: NotedTerms | undefined): boolean {
  if (terms?.untilMs !== undefined) return true;
  for (const note of notes) if (note.window === window && note.hasOwnEnd) return true;
  return false;
}

function setNotes(state: Draft<AccountState>, notes: readonly TopUpNote[]): void {
  state.topUpNotes = notes.length === 0 ? undefined : notes;
}
