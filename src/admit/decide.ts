import { type Allowance, type BanRule, WINDOWS, type WindowLimit, type WindowName } from './plan.ts';

/** One open window: what has been counted in it, and when it ends (store's clock, Unix milliseconds). */
export interface WindowCount {
  readonly used: number;
  readonly endsAtMs: number;
}

/** Refusals on the way to a ban. They count from 0 again at `endsAtMs`. */
export interface Strikes {
  readonly count: number;
  readonly endsAtMs: number;
}

/** The last ban, in force until `untilMs`; remembered after that, because the next one is `number + 1`. */
export interface Ban {
  readonly number: number;
  readonly untilMs: number;
  /** The window whose refusal made it. */
  readonly window: WindowName;
}

/** All that is known of one consumer. Windows that are not open are absent. */
export interface AccountState {
  readonly windows: Readonly<Partial<Record<WindowName, WindowCount>>>;
  readonly strikes: Strikes;
  readonly ban: Ban | null;
}

export const NO_STRIKES: Strikes = Object.freeze({ count: 0, endsAtMs: 0 });

/** The state of a consumer that was never seen. */
export const UNSEEN: AccountState = Object.freeze({ windows: Object.freeze({}), strikes: NO_STRIKES, ban: null });

/** What became of `n` requests of one consumer that came at once. The first are admitted, the rest refused, the last banned. */
export interface Outcome {
  /** When it was decided, by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly cost: number;
  readonly n: number;
  /** How many of them are admitted: the first ones. */
  readonly admitted: number;
  /** The index of the first that gets the ban answer; `n` when none does. */
  readonly bannedFrom: number;
  /** The ban was made here, by the first of them that gets the ban answer; left out where none was, or it was found in force. */
  readonly imposesBan?: true;
  /** The state after the last of them. */
  readonly state: AccountState;
}

/**
 * Decides `n` requests of `cost` each that come at the same moment, exactly as `n` single requests one after the other
 * (contract section 3). Pure; `stores/redis/decide.lua` is the same function, and test/admit/decide-twins.test.ts holds
 * the two together: change both or none.
 *
 * With `n` 0 it only tells the present state: what has ended by `nowMs` is gone from it.
 *
 * @param nowMs the store's clock, Unix milliseconds. It may jump: no window, strike or ban ends later than its own
 *   length from now, a ban no later than its rung's, so a clock that is set back makes none of them last longer than
 *   that from then on. What the clock has passed has ended: a clock that was set forth by mistake ends it for good.
 * @param cost whole number from 1
 */
export function decide(state: AccountState, allowance: Allowance, nowMs: number, cost: number, n: number): Outcome {
  const ban = currentBan(state.ban, allowance.bans, nowMs);
  const windows = currentWindows(state.windows, allowance.limits, nowMs);
  const strikes = currentStrikes(state.strikes, allowance.bans, nowMs, state.windows, windows);
  if (ban !== null && nowMs < ban.untilMs) {
    return { nowMs, cost, n, admitted: 0, bannedFrom: 0, state: { windows, strikes, ban } };
  }
  const admitted = roomFor(allowance.limits, windows, cost, n);
  const counted = admitted > 0 ? count(windows, allowance.limits, nowMs, admitted * cost) : windows;
  const refused = n - admitted;
  if (refused === 0 || allowance.bans === null || isHopeless(allowance, cost)) {
    return { nowMs, cost, n, admitted, bannedFrom: n, state: { windows: counted, strikes, ban } };
  }
  return strike(allowance, allowance.bans, { nowMs, cost, n, admitted }, { windows: counted, strikes, ban });
}

/** True where waiting never helps: some window's limit is below the cost of a single request (contract section 2). */
export function isHopeless(allowance: Allowance, cost: number): boolean {
  for (const { limit } of allowance.limits) if (limit < cost) return true;
  return false;
}

/** The ban's length in milliseconds. Multiplied step by step, so that Lua comes to the same number to the last bit. */
export function banLengthMs(rule: BanRule, number: number): number {
  if (rule.factor === 1) return Math.min(rule.firstMs, rule.longestMs);
  let length = rule.firstMs;
  for (let i = 1; i < number && length < rule.longestMs; i++) length *= rule.factor;
  return Math.min(Math.floor(length), rule.longestMs);
}

/** What is left of a ban that somebody lifts: its strikes and its rung are taken back (contract section 1). */
export function lift(state: AccountState, nowMs: number): AccountState {
  if (state.ban === null || nowMs >= state.ban.untilMs) return state;
  const number = state.ban.number - 1;
  return {
    windows: state.windows,
    strikes: NO_STRIKES,
    ban: number === 0 ? null : { number, untilMs: nowMs, window: state.ban.window },
  };
}

function currentBan(ban: Ban | null, rule: BanRule | null, nowMs: number): Ban | null {
  if (ban === null) return null;
  if (rule === null) return nowMs < ban.untilMs ? ban : null;
  if (nowMs >= ban.untilMs + rule.forgetMs) return null;
  if (nowMs >= ban.untilMs) return ban;
  // Attack: a clock set back by 12 h during the first ban made 60 s into 12 h while this was `longest`.
  const latestMs = nowMs + banLengthMs(rule, ban.number);
  return ban.untilMs > latestMs ? { ...ban, untilMs: latestMs } : ban;
}

/**
 * Strikes end with the window that refused. Where a window now ends earlier than it was kept, the clock was set back by
 * at least that much, and the strikes move along; else a client that waits for the end of the window would be banned for
 * what it did before.
 * @param kept the windows before `currentWindows`, and `windows` after it
 */
function currentStrikes(
  strikes: Strikes,
  rule: BanRule | null,
  nowMs: number,
  kept: AccountState['windows'],
  windows: AccountState['windows'],
): Strikes {
  if (strikes.count === 0 || rule === null) return NO_STRIKES;
  let backMs = 0;
  for (const name of WINDOWS) {
    const open = windows[name];
    if (open !== undefined) backMs = Math.max(backMs, kept[name]!.endsAtMs - open.endsAtMs);
  }
  const endsAtMs = Math.min(strikes.endsAtMs - backMs, nowMs + rule.withinMs);
  if (nowMs >= endsAtMs) return NO_STRIKES;
  return endsAtMs === strikes.endsAtMs ? strikes : { ...strikes, endsAtMs };
}

function currentWindows(windows: AccountState['windows'], limits: readonly WindowLimit[], nowMs: number) {
  const current: Partial<Record<WindowName, WindowCount>> = {};
  for (const { window, lengthMs } of limits) {
    const open = windows[window];
    if (open === undefined || nowMs >= open.endsAtMs) continue;
    current[window] = open.endsAtMs > nowMs + lengthMs ? { used: open.used, endsAtMs: nowMs + lengthMs } : open;
  }
  return current;
}

function roomFor(limits: readonly WindowLimit[], windows: AccountState['windows'], cost: number, n: number): number {
  let room = n;
  for (const { window, limit } of limits) {
    room = Math.min(room, Math.floor((limit - (windows[window]?.used ?? 0)) / cost));
  }
  return Math.max(room, 0);
}

function count(windows: AccountState['windows'], limits: readonly WindowLimit[], nowMs: number, spent: number) {
  const counted = { ...windows };
  for (const { window, lengthMs } of limits) {
    const open = windows[window];
    counted[window] = { used: (open?.used ?? 0) + spent, endsAtMs: open?.endsAtMs ?? nowMs + lengthMs };
  }
  return counted;
}

function strike(
  allowance: Allowance,
  rule: BanRule,
  what: { nowMs: number; cost: number; n: number; admitted: number },
  state: AccountState,
): Outcome {
  const { nowMs, cost, n, admitted } = what;
  const refusing = lastRefusing(allowance.limits, state.windows, cost);
  const before = state.strikes.count;
  const total = before + n - admitted;
  if (total >= rule.after) {
    const number = (state.ban?.number ?? 0) + 1;
    const ban = { number, untilMs: nowMs + banLengthMs(rule, number), window: refusing.window };
    const bannedFrom = admitted + Math.max(rule.after - before - 1, 0);
    return { ...what, bannedFrom, imposesBan: true, state: { windows: state.windows, strikes: NO_STRIKES, ban } };
  }
  const since = before === 0 ? nowMs + rule.withinMs : state.strikes.endsAtMs;
  const strikes = { count: total, endsAtMs: Math.min(since, refusing.endsAtMs) };
  return { ...what, bannedFrom: n, state: { windows: state.windows, strikes, ban: state.ban } };
}

/** The window that refuses `cost` and ends last; of equals the longer one. There is one whenever a strike is made. */
function lastRefusing(limits: readonly WindowLimit[], windows: AccountState['windows'], cost: number) {
  let last = { window: limits[0]!.window, endsAtMs: 0 };
  for (const { window, limit } of limits) {
    const { used, endsAtMs } = windows[window] ?? { used: 0, endsAtMs: 0 };
    if (limit - used < cost && endsAtMs >= last.endsAtMs) last = { window, endsAtMs };
  }
  return last;
}
