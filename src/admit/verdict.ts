import { chargeOf, neededFor } from '../engine/charging.ts';
import { endIfOpened, fitsAtMs, nextEndMs, WINDOW_MS } from '../engine/counting.ts';
import type { Accounts, Amounts, Decision } from '../engine/types.ts';
import type { Ban } from '../model/account.ts';
import { type LimitName, type WindowName, windowOf } from '../model/values.ts';
import { type Allowance, type Budget, withAllBudgets } from './allowance.ts';
import { banInForce, nameOfBan, type SettledWindow, settledWindows } from './decision.ts';
import { limitAt, withTopUps } from './windows.ts';

/** What admission decided about one request, or that it could not decide. */
export type AdmissionResult =
  /** `source`: the part of the gateway or the store that decided, for log and metrics; null if nothing is counted. */
  | {
      readonly kind: 'decided';
      readonly verdict: Verdict;
      readonly source: 'store' | 'lease' | 'memory' | 'local' | null;
    }
  /** The store does not answer and `onFailure` is `closed`. */
  | { readonly kind: 'unavailable' };

/** One counted window after a request. */
export interface CountedWindow {
  readonly window: WindowName;
  readonly name: LimitName;
  readonly lengthMs: number;
  readonly limit: number;
  /** The unit that it counts; null for requests. */
  readonly unit: string | null;
  /** The store admits the request if at least this much is left. */
  readonly needed: number;
  /** What the window has counted, this request included if it was admitted. */
  readonly used: number;
  /** From 0 to `limit`. */
  readonly remaining: number;
  /**
   * When the window ends; of a sliding one, when the oldest part of its count leaves. If the window refuses the request,
   * when it will have room for it. If the window is not open, when it would end if it opened now. Unix milliseconds.
   */
  readonly resetAtMs: number;
}

interface DecidedRequest {
  /** The time of the decision by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly allowance: Allowance;
  readonly cost: number;
  /** The counted windows of each budget, the consumer's own first, and of each the shortest first. */
  readonly windows: readonly CountedWindow[];
  /** The requests in flight of each budget, -1 without such a limit; null if none has one. */
  readonly inFlight: readonly number[] | null;
  /** The window that the X-RateLimit fields describe; null if none is counted. */
  readonly binding: CountedWindow | null;
}

/** The decision about one request, with everything that its answer reports. */
export type Verdict = Admitted | Refused | Banned | Crowded;

export interface Admitted extends DecidedRequest {
  readonly kind: 'admitted';
  /** The reserve of the request; null if it charges no unit. */
  readonly reservation: Reservation | null;
}

/** The reserve of each admitted request of one decision in units of their own. The gateway settles it when the request has ended. */
export interface Reservation {
  /** The reserved amount of each unit. */
  readonly amounts: Amounts;
  /** The windows that have counted the reserve, by budget of the allowance; empty for a budget without a unit. */
  readonly windows: readonly (readonly SettledWindow[])[];
  /** False if the store may not have counted the reserve, so that the gateway must return nothing. */
  readonly isCertain: boolean;
}

/** The request would exceed a limit on requests in flight. */
export interface Crowded extends DecidedRequest {
  readonly kind: 'crowded';
  /** The limit that refuses, of several the smallest. */
  readonly limit: number;
  /** Whose requests it counts. */
  readonly scope: Budget['scope'];
}

/** What Explain shows about a refusal beyond its response. */
interface RefusalDetails {
  /** The number of the strike that the request made; null if it made none. */
  readonly strike: number | null;
}

export interface Refused extends DecidedRequest, RefusalDetails {
  readonly kind: 'refused';
  /**
   * The window that the whole answer describes. It resets at `retryAtMs`. If waiting cannot help, it is a window whose limit is
   * below the need of the request: among those of a unit the smallest.
   */
  readonly binding: CountedWindow;
  /**
   * The time at which every window of every budget will have room for the request, Unix milliseconds. Null if a limit is below the
   * need of the request, so that waiting cannot help.
   */
  readonly retryAtMs: number | null;
}

export interface Banned extends DecidedRequest, RefusalDetails {
  readonly kind: 'banned';
  /** The window whose refusal made the ban. It resets at `retryAtMs`. */
  readonly binding: CountedWindow;
  /** The time at which the ban has ended and every window whose limit allows the request has room for it, Unix milliseconds. */
  readonly retryAtMs: number;
  readonly number: number;
  readonly untilMs: number;
  /** The owner of the ban: one consumer, or its customer, whose ban holds for all its consumers. */
  readonly scope: Budget['scope'];
  /** True for the one request whose strike made the ban. */
  readonly imposed: boolean;
}

/**
 * The verdicts on requests of one decision (contract sections 3 and 4). They share one reservation.
 * @returns a function of the index of a request, from 0 to `decision.n - 1`
 */
export function verdictsOf(decision: Decision, allowance: Allowance): (index: number) => Verdict {
  const { amounts, admitted } = decision;
  const reservation = amounts === undefined || admitted === 0 ? null : reservationOf(decision, amounts, allowance);
  return (index) => verdictWith(reservation, decision, allowance, index);
}

/** The verdict on one of them. */
export function verdictOf(decision: Decision, allowance: Allowance, index: number): Verdict {
  return verdictsOf(decision, allowance)(index);
}

function verdictWith(
  reservation: Reservation | null,
  decision: Decision,
  allowance: Allowance,
  index: number,
): Verdict {
  const { nowMs, cost, amounts, accounts, inFlight = null } = decision;
  const requestsAfter = Math.max(decision.admitted - 1 - index, 0);
  const isAdmitted = index < decision.admitted;
  const isCrowded = !isAdmitted && decision.isCrowded === true;
  const isRefused = !isAdmitted && !isCrowded;
  const ahead = decision.lent?.units ?? 0;
  const windows = countedWindowsOf(accounts, allowance, { nowMs, cost, amounts, isRefused, requestsAfter, ahead });
  if (isAdmitted || isCrowded) {
    const binding = fewest(windows);
    // An object with all its properties in the literal takes half as many bytes as one with a spread, here and below.
    if (isAdmitted) {
      return { kind: 'admitted', nowMs, allowance, cost, windows, inFlight, binding, reservation };
    }
    return crowded({ nowMs, allowance, cost, windows, inFlight, binding }, inFlight!);
  }
  const strike = strikeOf(decision, allowance, windows, index);
  const facts = { nowMs, allowance, cost, windows, inFlight, strike };
  const ban = index >= decision.bannedFrom ? banInForce(accounts, nowMs) : null;
  if (ban === null) return pastTopUps(refused(facts), accounts);
  const scope = ban === accounts[0].ban ? 'key' : 'customer';
  const imposed = decision.imposesBan === true && index === decision.bannedFrom;
  return pastTopUps(banned(facts, ban, { scope, imposed }), accounts);
}

/** The number of the strike that a refused request made. The account has the strikes after the last request, and none after a ban. */
function strikeOf(
  { n, bannedFrom, imposesBan, accounts }: Decision,
  { bans, bansIn }: Allowance,
  windows: readonly CountedWindow[],
  index: number,
): number | null {
  if (bans === null) return null;
  if (imposesBan === true) return index <= bannedFrom ? Math.max(bans.after - (bannedFrom - index), 1) : null;
  if (index >= bannedFrom || neverFits(windows)) return null;
  const number = (accounts[bansIn]!.strikes?.count ?? 0) - (n - 1 - index);
  return number >= 1 ? number : null;
}

/** True if waiting cannot help: the limit of some window is below the need of the request. */
function neverFits(windows: readonly CountedWindow[]): boolean {
  for (const { limit, needed } of windows) if (limit < needed) return true;
  return false;
}

function reservationOf({ accounts, isUncertain }: Decision, amounts: Amounts, { budgets }: Allowance): Reservation {
  const windows = budgets.map(({ unit, limits }, i): readonly SettledWindow[] => {
    return unit === undefined ? [] : settledWindows(limits, accounts[i]!.windows);
  });
  return { amounts, windows, isCertain: isUncertain !== true };
}

/** True if two requests reserve the same amounts of all units. */
export function sameAmounts(one: Amounts | undefined, other: Amounts | undefined): boolean {
  if (one === other) return true;
  if (one === undefined || other === undefined) return false;
  for (const unit in one) if (one[unit] !== other[unit]) return false;
  for (const unit in other) if (one[unit] === undefined) return false;
  return true;
}

/** The verdict on a request that no window counts: for `GET /usage`, and for requests that `onFailure: open` admits. */
export function verdictOnBudgets(accounts: Accounts, allowance: Allowance, nowMs: number, cost: number): Admitted {
  return verdictFromLease(accounts, allowance, { nowMs, cost, ahead: 0 });
}

/**
 * The verdict on a request that this process admits from a lease.
 * @param accounts after the decision that lent the units
 * @param at.ahead how many of the units that `accounts` have counted are still unused; negative if more units than they have
 *   counted must pass for used
 */
export function verdictFromLease(
  accounts: Accounts,
  allowance: Allowance,
  { nowMs, cost, ahead }: { readonly nowMs: number; readonly cost: number; readonly ahead: number },
): Admitted {
  const at = { nowMs, cost, amounts: undefined, isRefused: false, requestsAfter: 0, ahead };
  const windows = countedWindowsOf(accounts, allowance, at);
  return {
    kind: 'admitted',
    nowMs,
    allowance,
    cost,
    windows,
    inFlight: null,
    binding: fewest(windows),
    reservation: null,
  };
}

/** A request among those of one decision. */
interface RequestPosition {
  readonly nowMs: number;
  readonly cost: number;
  readonly amounts: Amounts | undefined;
  readonly isRefused: boolean;
  /** The number of later requests that the store admitted. */
  readonly requestsAfter: number;
  /** The number of counted units that are still unused. */
  readonly ahead: number;
}

function countedWindowsOf(
  accounts: Accounts,
  allowance: Allowance,
  { nowMs, cost, amounts, isRefused, requestsAfter, ahead }: RequestPosition,
): CountedWindow[] {
  const { budgets } = allowance;
  const counted = new Array<CountedWindow>(allowance.limits.length);
  let next = 0;
  for (let i = 0; i < budgets.length; i++) {
    const { limits, unit = null } = budgets[i]!;
    const { windows, topUps } = accounts[i]!;
    const limitsNow = withTopUps(limits, topUps, nowMs);
    const charge = chargeOf(budgets[i]!, cost, amounts);
    const needed = neededFor(charge);
    for (const one of limitsNow) {
      const { window, lengthMs, limit, name = window } = one;
      const open = windows[window];
      const used = open === undefined ? 0 : open.used - requestsAfter * charge - ahead;
      const remaining = Math.max(limit - used, 0);
      let resetAtMs: number;
      if (open === undefined) resetAtMs = endIfOpened(limitAt(one, nowMs), nowMs);
      else resetAtMs = isRefused && remaining < needed ? fitsAtMs(open, one, needed) : nextEndMs(open, lengthMs);
      counted[next++] = { window, name, lengthMs, limit, unit, needed, used, remaining, resetAtMs };
    }
  }
  return counted;
}

/**
 * The window with the fewest requests left, among equals the one that resets last (contract section 4). It takes a window of
 * another unit only if none counts requests, because the rests of two units cannot be compared.
 */
function fewest(windows: readonly CountedWindow[]): CountedWindow | null {
  let binding: CountedWindow | null = null;
  for (const one of windows) {
    if (one.unit !== null && binding !== null && binding.unit === null) continue;
    if (
      binding === null ||
      (binding.unit !== null && one.unit === null) ||
      one.remaining < binding.remaining ||
      (one.remaining === binding.remaining && one.resetAtMs >= binding.resetAtMs)
    ) {
      binding = one;
    }
  }
  return binding;
}

/** Reports the smallest of several limits that refuse. */
function crowded(decision: DecidedRequest, inFlight: readonly number[]): Crowded {
  const full = decision.allowance.budgets.flatMap(({ inFlight: limit, scope }, i) => {
    return limit === undefined || (inFlight[i] ?? 0) < limit ? [] : [{ limit, scope }];
  });
  return { kind: 'crowded', ...decision, ...full.reduce((a, b) => (b.limit < a.limit ? b : a)) };
}

function refused(decision: Omit<DecidedRequest, 'binding'> & RefusalDetails): Refused {
  const { nowMs, allowance, cost, windows, inFlight, strike } = decision;
  let last: CountedWindow | null = null;
  let tooSmall: CountedWindow | null = null;
  for (const one of windows) {
    if (one.remaining >= one.needed) continue;
    if (one.limit < one.needed) {
      // The limits of two units cannot be compared.
      if (tooSmall === null || (one.unit === tooSmall.unit && one.limit < tooSmall.limit)) tooSmall = one;
    } else if (last === null || one.resetAtMs >= last.resetAtMs) last = one;
  }
  const binding = tooSmall ?? last ?? windows[0]!;
  const retryAtMs = tooSmall !== null ? null : last === null ? nowMs : last.resetAtMs;
  return { kind: 'refused', nowMs, allowance, cost, windows, inFlight, binding, strike, retryAtMs };
}

/**
 * Lets the client wait until the request fits without a top-up of a sliding window that ends while the client waits for something
 * else: the window still counts what requests used under the top-up.
 */
function pastTopUps<V extends Refused | Banned>(verdict: V, accounts: Accounts): V {
  if (!hasTopUps(accounts)) return verdict;
  const { allowance, windows: counted } = verdict;
  const { budgets } = allowance;
  let { retryAtMs } = verdict;
  if (retryAtMs === null) return verdict;
  for (let before = -1; before < retryAtMs; ) {
    before = retryAtMs;
    for (const [i, { topUps, windows }] of accounts.entries()) {
      for (const one of topUps === undefined ? [] : budgets[i]!.limits) {
        const topUp = topUps?.[one.window];
        const open = windows[one.window];
        if (topUp === undefined || open === undefined || topUp.untilMs > retryAtMs) continue;
        const { needed } = counted.find(({ name }) => name === (one.name ?? one.window))!;
        if (one.limit >= needed && one.limit - open.used < needed)
          retryAtMs = Math.max(retryAtMs, fitsAtMs(open, one, needed));
      }
    }
  }
  if (retryAtMs === verdict.retryAtMs) return verdict;
  return { ...verdict, retryAtMs, binding: { ...verdict.binding, resetAtMs: retryAtMs } };
}

function hasTopUps(accounts: Accounts): boolean {
  for (const { topUps } of accounts) if (topUps !== undefined) return true;
  return false;
}

function banned(
  decision: Omit<DecidedRequest, 'binding'> & RefusalDetails,
  ban: Ban,
  { scope, imposed }: Pick<Banned, 'scope' | 'imposed'>,
): Banned {
  const { nowMs, allowance, cost, windows, inFlight, strike } = decision;
  let retryAtMs = ban.untilMs;
  for (const { limit, remaining, resetAtMs, needed } of windows) {
    if (remaining < needed && limit >= needed) retryAtMs = Math.max(retryAtMs, resetAtMs);
  }
  const name = nameOfBan(ban);
  const window = windows.find((one) => one.name === name);
  // The window may have ended during the ban, or the plan may no longer have it.
  const binding: CountedWindow = {
    window: ban.window,
    name,
    lengthMs: window?.lengthMs ?? WINDOW_MS[ban.window],
    limit: window?.limit ?? limitOf(name, allowance),
    unit: window?.unit ?? null,
    needed: window?.needed ?? cost,
    used: window?.used ?? 0,
    remaining: 0,
    resetAtMs: retryAtMs,
  };
  const { number, untilMs } = ban;
  return {
    kind: 'banned',
    nowMs,
    allowance,
    cost,
    windows,
    inFlight,
    binding,
    strike,
    retryAtMs,
    number,
    untilMs,
    scope,
    imposed,
  };
}

/** The limit of a window that this request does not charge; 0 if the consumer's plan no longer has one of that length. */
function limitOf(name: LimitName, allowance: Allowance): number {
  const all = withAllBudgets(allowance.base ?? allowance).limits;
  const named = all.find((limit) => (limit.name ?? limit.window) === name);
  return (named ?? all.find(({ window }) => window === windowOf(name)))?.limit ?? 0;
}
