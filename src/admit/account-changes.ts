import * as changes from '../engine/operator-changes.ts';
import type { AccountState } from '../engine/types.ts';
import { Failure } from '../failure.ts';
import type { Ban, TopUp } from '../model/account.ts';
import { MAX_LIMIT } from '../model/plan.ts';
import type { WindowName } from '../model/values.ts';
import { limitAt, type WindowLimit } from './windows.ts';

// The changes of operators in an account: their words, their effect by the engine, and the failures with which rules refuse them.

/** The members of a top-up that an operator may leave out. */
export interface TopUpTerms {
  /** When it ends, Unix milliseconds; left out: with its window. */
  readonly untilMs?: number;
  readonly reason?: string;
}

export type AccountChange =
  | { readonly kind: 'lift' }
  | { readonly kind: 'ban'; readonly ban: Ban }
  /** Without `terms` if an earlier version has written it. */
  | { readonly kind: 'top-up'; readonly of: WindowLimit; readonly amount: number; readonly terms?: changes.NotedTerms }
  | { readonly kind: 'undo-top-up'; readonly window: WindowName; readonly id: string | null }
  | { readonly kind: 'reset'; readonly windows: readonly WindowName[] };

/** The counts that a reset has removed. */
export interface ResetUsage {
  /** The count of each of the windows before. */
  readonly used: Readonly<Partial<Record<WindowName, number>>>;
  readonly strikes: number;
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
 * The state after a change that the store acknowledged at `nowMs`: the same object if the change does nothing. This refuses no top-up, but
 * bounds the sum by the largest limit: the store may have acknowledged another one meanwhile.
 */
export function changed(state: AccountState, change: AccountChange, nowMs: number): AccountState {
  if (change.kind === 'lift') return changes.lift(state, nowMs);
  if (change.kind === 'ban') return changes.carryBan(state, change.ban, nowMs);
  if (change.kind === 'top-up') {
    const { of, amount, terms } = change;
    return changes.withTopUp(state, limitAt(of, nowMs), amount, nowMs, MAX_LIMIT, terms).state;
  }
  if (change.kind === 'undo-top-up')
    return changes.undoTopUp(state, change.window, change.id ?? undefined, nowMs)?.state ?? state;
  return resetUsage(state, change.windows, nowMs).state;
}

/**
 * Adds `amount` to the limit of a window (`withTopUp` of the engine).
 * @param amount whole number from 1
 * @throws Failure `refused` if the limit would be larger than a limit may be, or the end has passed; `conflict` if a top-up of the
 *   window with another end is in force
 */
export function toppedUp(
  state: AccountState,
  of: WindowLimit,
  amount: number,
  nowMs: number,
  terms?: changes.NotedTerms,
) {
  const limit = limitAt(of, nowMs);
  const refusal = changes.topUpRefusal(state, limit, amount, nowMs, MAX_LIMIT, terms);
  if (refusal === 'past') refusePastEnd();
  const inForce = changes.topUpInForce(state, of.window, nowMs);
  if (refusal === 'too-much') refuseTooMuch(of.limit, inForce?.amount ?? 0, amount);
  if (refusal === 'other-end') refuseOtherEnd(inForce!);
  return changes.withTopUp(state, limit, amount, nowMs, MAX_LIMIT, terms);
}

/**
 * Undoes top-ups of a window (`undoTopUp` of the engine).
 * @param id of one top-up; null for all of the window that are in force
 * @throws Failure `not_found` if no such top-up is in force
 */
export function undoTopUp(state: AccountState, window: WindowName, id: string | null, nowMs: number) {
  const undone = changes.undoTopUp(state, window, id ?? undefined, nowMs);
  if (undone === undefined) throw noTopUp();
  return undone;
}

/** Sets the counts of some windows to 0 (`resetUsage` of the engine). */
export function resetUsage(state: AccountState, windows: readonly WindowName[], nowMs: number) {
  const { used, strikes, state: left } = changes.resetUsage(state, windows, nowMs);
  const reset: ResetUsage = { used, strikes };
  return { reset, state: left };
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
