import type { Allowance, BanRule } from './plan.ts';
import {
  countIn,
  fitsAtMs,
  isPresent,
  presentCount,
  type ToppedUpLimit,
  type TopUps,
  type WindowCount,
  type WindowLimit,
  type WindowName,
  withTopUps,
} from './windows.ts';

/** Refusals that count towards a ban. The count starts from 0 again at `endsAtMs`. */
export interface Strikes {
  readonly count: number;
  readonly endsAtMs: number;
}

/** The last ban, in force until `untilMs`. It is kept after that, because the next one has `number + 1`. */
export interface Ban {
  readonly number: number;
  readonly untilMs: number;
  /** The window whose refusal led to the ban. */
  readonly window: WindowName;
}

/** The counters, strikes and ban of one consumer. Windows that are not open are absent. */
export interface AccountState {
  readonly windows: Readonly<Partial<Record<WindowName, WindowCount>>>;
  readonly strikes: Strikes;
  readonly ban: Ban | null;
  /** What operators have added to limits; left out if nothing is in force. */
  readonly topUps?: TopUps;
}

export const NO_STRIKES: Strikes = Object.freeze({ count: 0, endsAtMs: 0 });

const NO_TOP_UPS: { readonly topUps?: TopUps } = Object.freeze({});

/** The state of a consumer without any counted request. */
export const UNSEEN: AccountState = Object.freeze({ windows: Object.freeze({}), strikes: NO_STRIKES, ban: null });

/** The decision about `n` simultaneous requests of one consumer: the first are admitted, the next refused, the last banned. */
export interface Outcome {
  /** The time of the decision by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly cost: number;
  readonly n: number;
  /** How many requests are admitted: the first ones. */
  readonly admitted: number;
  /** The index of the first request that gets the ban answer; `n` if none does. */
  readonly bannedFrom: number;
  /** Set if this decision imposed the ban, with the request at `bannedFrom`; left out if the ban was in force before. */
  readonly imposesBan?: true;
  /** The state after the last request. */
  readonly state: AccountState;
}

/**
 * Decides `n` simultaneous requests of `cost` each, exactly as `n` single requests one after the other (contract section
 * 3). Pure. `stores/redis/decide.lua` is the same function, and test/admit/decide-twins.test.ts compares the two: change
 * both or neither.
 *
 * With `n` 0 it returns the present state, without everything that has ended by `nowMs`.
 *
 * @param nowMs the store's clock, Unix milliseconds. It may jump. After it was set back, no window or strike lasts longer
 *   than its own length from `nowMs`, and no ban longer than its rung's length. After it was set forward, everything that
 *   it has passed has ended for good.
 * @param cost whole number from 1
 */
export function decide(state: AccountState, allowance: Allowance, nowMs: number, cost: number, n: number): Outcome {
  const limits = withTopUps(allowance.limits, state.topUps, nowMs);
  const ban = currentBan(state.ban, allowance.bans, nowMs);
  const { windows, backMs } = currentWindows(state.windows, limits, nowMs);
  const strikes = currentStrikes(state.strikes, allowance.bans, nowMs, backMs);
  const topUps = state.topUps === undefined ? NO_TOP_UPS : topUpsOf(limits);
  if (ban !== null && nowMs < ban.untilMs) {
    return { nowMs, cost, n, admitted: 0, bannedFrom: 0, state: { windows, strikes, ban, ...topUps } };
  }
  const admitted = roomFor(limits, windows, cost, n);
  const counted = admitted > 0 ? count(windows, limits, nowMs, admitted * cost) : windows;
  const refused = n - admitted;
  if (refused === 0 || allowance.bans === null || costExceedsLimit(limits, cost)) {
    return { nowMs, cost, n, admitted, bannedFrom: n, state: { windows: counted, strikes, ban, ...topUps } };
  }
  return strike(limits, allowance.bans, { nowMs, cost, n, admitted }, { windows: counted, strikes, ban, ...topUps });
}

/** Whether waiting cannot help: some window's limit is below the cost of a single request (contract section 2). */
export function costExceedsLimit(limits: readonly WindowLimit[], cost: number): boolean {
  for (const { limit } of limits) if (limit < cost) return true;
  return false;
}

/** The length of the `number`-th ban in milliseconds. Multiplied step by step, so that Lua gets the same bits. */
export function banLengthMs(rule: BanRule, number: number): number {
  if (rule.factor === 1) return Math.min(rule.firstMs, rule.longestMs);
  let length = rule.firstMs;
  for (let i = 1; i < number && length < rule.longestMs; i++) length *= rule.factor;
  return Math.min(Math.floor(length), rule.longestMs);
}

/** The state after an operator has lifted the ban: strikes cleared, the rung taken back (contract section 1). */
export function lift(state: AccountState, nowMs: number): AccountState {
  if (state.ban === null || nowMs >= state.ban.untilMs) return state;
  const number = state.ban.number - 1;
  return {
    ...state,
    strikes: NO_STRIKES,
    ban: number === 0 ? null : { number, untilMs: nowMs, window: state.ban.window },
  };
}

/**
 * The state that a store keeps after a decision, which returns only what the allowance counts. Windows that it does not count
 * stay, as after a change of plans.
 *
 * Slices become another kind when something is counted. If refusals did it, a client that polls two gateways that are in the
 * middle of a reload would move its count along with the present, and never be admitted again.
 */
export function stateAfter(
  before: AccountState,
  { state, admitted, nowMs }: Outcome,
  { limits }: Allowance,
): AccountState {
  const kept = Object.entries(before.windows).filter(([name, { slices }]) => {
    const limit = limits.find(({ window }) => window === name);
    if (limit === undefined) return true;
    const isConverted =
      slices !== undefined && slices.per !== limit.slices && state.windows[limit.window] !== undefined;
    return isConverted && admitted === 0;
  });
  const topUps = Object.entries(before.topUps ?? {}).filter(([, { untilMs }]) => nowMs < untilMs);
  if (kept.length === 0 && topUps.length === 0) return state;
  return {
    ...state,
    windows: { ...state.windows, ...Object.fromEntries(kept) },
    ...(topUps.length === 0 ? {} : { topUps: Object.fromEntries(topUps) }),
  };
}

function currentBan(ban: Ban | null, rule: BanRule | null, nowMs: number): Ban | null {
  if (ban === null) return null;
  if (rule === null) return nowMs < ban.untilMs ? ban : null;
  if (nowMs >= ban.untilMs + rule.forgetMs) return null;
  if (nowMs >= ban.untilMs) return ban;
  // Bounded by this ban's own length. With `longest` as the bound, a clock set back by 12 h made a ban of 60 s last 12 h.
  const latestMs = nowMs + banLengthMs(rule, ban.number);
  return ban.untilMs > latestMs ? { ...ban, untilMs: latestMs } : ban;
}

/**
 * Strikes end with the window that refused. If the clock was set back by at least `backMs`, according to the windows, the
 * end of the strikes moves back by the same amount. Otherwise a client that waits for the end of the window would be banned
 * for strikes of the window before.
 */
function currentStrikes(strikes: Strikes, rule: BanRule | null, nowMs: number, backMs: number): Strikes {
  if (strikes.count === 0 || rule === null) return NO_STRIKES;
  const endsAtMs = Math.min(strikes.endsAtMs - backMs, nowMs + rule.withinMs);
  if (nowMs >= endsAtMs) return NO_STRIKES;
  return endsAtMs === strikes.endsAtMs ? strikes : { ...strikes, endsAtMs };
}

function currentWindows(windows: AccountState['windows'], limits: readonly WindowLimit[], nowMs: number) {
  const current: Partial<Record<WindowName, WindowCount>> = {};
  let latestBackMs = 0;
  for (const limit of limits) {
    const before = windows[limit.window];
    if (before === undefined) continue;
    // Nearly every window, at no cost.
    if (isPresent(before, limit, nowMs)) {
      current[limit.window] = before;
      continue;
    }
    const { count, backMs } = presentCount(before, limit, nowMs);
    if (count !== undefined) current[limit.window] = count;
    latestBackMs = Math.max(latestBackMs, backMs);
  }
  return { windows: current, backMs: latestBackMs };
}

function topUpsOf(limits: readonly ToppedUpLimit[]): { readonly topUps?: TopUps } {
  const inForce = limits.flatMap(({ window, topUp }) => (topUp === undefined ? [] : [[window, topUp] as const]));
  return inForce.length === 0 ? NO_TOP_UPS : { topUps: Object.fromEntries(inForce) };
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
  for (const limit of limits) counted[limit.window] = countIn(windows[limit.window], limit, nowMs, spent);
  return counted;
}

function strike(
  limits: readonly ToppedUpLimit[],
  rule: BanRule,
  decided: { nowMs: number; cost: number; n: number; admitted: number },
  state: AccountState,
): Outcome {
  const { nowMs, cost, n, admitted } = decided;
  const refusing = lastRefusing(limits, state.windows, cost);
  const before = state.strikes.count;
  const total = before + n - admitted;
  if (total >= rule.after) {
    const number = (state.ban?.number ?? 0) + 1;
    const ban = { number, untilMs: nowMs + banLengthMs(rule, number), window: refusing.window };
    const bannedFrom = admitted + Math.max(rule.after - before - 1, 0);
    return { ...decided, bannedFrom, imposesBan: true, state: { ...state, strikes: NO_STRIKES, ban } };
  }
  const since = before === 0 ? nowMs + rule.withinMs : state.strikes.endsAtMs;
  const strikes = { count: total, endsAtMs: Math.min(since, refusing.fitsAtMs) };
  return { ...decided, bannedFrom: n, state: { ...state, strikes } };
}

/**
 * The window that refuses `cost` for the longest time; of several, the longest window. Each strike has such a window, and a
 * client that waits for it is refused by none.
 */
function lastRefusing(limits: readonly ToppedUpLimit[], windows: AccountState['windows'], cost: number) {
  let last = { window: limits[0]!.window, fitsAtMs: 0 };
  for (const limit of limits) {
    const open = windows[limit.window];
    if (limit.limit - (open?.used ?? 0) >= cost) continue;
    const atMs = open === undefined ? 0 : fitsAtMs(open, limit, cost);
    if (atMs >= last.fitsAtMs) last = { window: limit.window, fitsAtMs: atMs };
  }
  return last;
}
