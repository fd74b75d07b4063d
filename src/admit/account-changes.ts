import { Failure } from '../failure.ts';
import { type AccountState, type Ban, lift, NO_STRIKES } from './decide.ts';
import { UNBOUNDED } from './plan.ts';
import {
  endIfOpened,
  presentCount,
  type TopUp,
  type WindowCount,
  type WindowLimit,
  type WindowName,
  windowLimit,
} from './windows.ts';

// What operators change in an account. src/stores/redis has the twins in Lua: lift.lua, carry-ban.lua, top-up.lua and
// reset-usage.lua.

export type AccountChange =
  | { readonly kind: 'lift' }
  | { readonly kind: 'ban'; readonly ban: Ban }
  | { readonly kind: 'top-up'; readonly of: WindowLimit; readonly amount: number }
  | { readonly kind: 'reset'; readonly windows: readonly WindowName[] };

/** What a reset has taken away. */
export interface ResetUsage {
  /** What had been counted, for each window that was reset. */
  readonly used: Readonly<Partial<Record<WindowName, number>>>;
  readonly strikes: number;
}

/**
 * The state after a change that was acknowledged, made at `nowMs`: the same object if there was nothing to change. A top-up is bounded by
 * the largest limit and not refused: another one may have been acknowledged meanwhile.
 */
export function changed(state: AccountState, change: AccountChange, nowMs: number): AccountState {
  if (change.kind === 'lift') return lift(state, nowMs);
  if (change.kind === 'ban') return banned(state, change.ban, nowMs);
  if (change.kind === 'top-up') return added(state, change.of, change.amount, nowMs).state;
  return resetUsage(state, change.windows, nowMs).state;
}

/** The state with a ban of another account that is in force at `nowMs`, unless it has one that ends later. */
export function banned(state: AccountState, ban: Ban, nowMs: number): AccountState {
  return nowMs >= ban.untilMs || (state.ban !== null && state.ban.untilMs >= ban.untilMs) ? state : { ...state, ban };
}

/**
 * Adds `amount` to the limit of a window until that window ends (contract section 3). A fixed or calendar window that is not
 * open opens now. A sliding window has no end, so the amount stays for one length. A further top-up of the same window adds
 * to the first, and both stay until the later end.
 *
 * @param amount whole number from 1
 * @throws Failure `refused` if the limit would be larger than a limit may be
 */
export function toppedUp(state: AccountState, of: WindowLimit, amount: number, nowMs: number) {
  refuseTooMuch(of.limit, topUpsInForce(state, nowMs)[of.window]?.amount ?? 0, amount);
  return added(state, of, amount, nowMs);
}

function topUpsInForce({ topUps = {} }: AccountState, nowMs: number): Readonly<Record<string, TopUp>> {
  return Object.fromEntries(Object.entries(topUps).filter(([, { untilMs }]) => nowMs < untilMs));
}

function added(state: AccountState, of: WindowLimit, amount: number, nowMs: number) {
  const { window, lengthMs, limit, slices } = of;
  const inForce = topUpsInForce(state, nowMs);
  const before: TopUp = inForce[window] ?? { amount: 0, untilMs: 0 };
  const { count } = presentCount(state.windows[window], of, nowMs);
  const open: WindowCount | undefined =
    slices === undefined ? (count ?? { used: 0, endsAtMs: endIfOpened(of, nowMs) }) : undefined;
  const endsAtMs = open?.endsAtMs ?? nowMs + lengthMs;
  const sum = Math.min(before.amount + amount, UNBOUNDED - limit);
  const topUp: TopUp = { amount: sum, untilMs: Math.max(before.untilMs, endsAtMs) };
  const windows = open === undefined ? state.windows : { ...state.windows, [window]: open };
  return { topUp, state: { ...state, windows, topUps: { ...inForce, [window]: topUp } } };
}

/** @throws Failure `refused` */
export function refuseTooMuch(limit: number, before: number, amount: number): void {
  const most = UNBOUNDED - limit - before;
  if (amount <= most) return;
  throw new Failure(
    'refused',
    `The limit would be more than ${UNBOUNDED}, the largest that there is. Add at most ${Math.max(most, 0)}.`,
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
