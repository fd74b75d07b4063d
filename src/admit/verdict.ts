import { type AccountState, costExceedsLimit, type Outcome } from './decide.ts';
import type { Allowance } from './plan.ts';
import { endIfOpened, fitsAtMs, nextEndMs, WINDOW_MS, type WindowName, withTopUps } from './windows.ts';

/** The result of admission for one request. */
export type Admission =
  /** `source`: which part of the gateway or the store decided, for log and metrics; null if nothing is counted. */
  | { readonly kind: 'decided'; readonly verdict: Verdict; readonly source: 'store' | 'memory' | 'local' | null }
  /** The store does not answer and `onFailure` is `closed`. */
  | { readonly kind: 'unavailable' };

/** The budget of one counted window after a request. */
interface WindowBudget {
  readonly window: WindowName;
  readonly lengthMs: number;
  readonly limit: number;
  /** From 0 to `limit`. */
  readonly remaining: number;
  /**
   * When the window ends; of a sliding one, when the oldest part of its count leaves. If the window refuses the request,
   * when it will have room for it. If the window is not open, when it would end if it opened now. Unix milliseconds.
   */
  readonly resetAtMs: number;
}

interface Decision {
  /** The time of the decision by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly allowance: Allowance;
  readonly cost: number;
  /** The counted windows, shortest first. */
  readonly standings: readonly WindowBudget[];
  /** The window that the X-RateLimit fields describe; null if none is counted. */
  readonly binding: WindowBudget | null;
}

/** The decision about one request, with everything that its answer reports. */
export type Verdict = Admitted | Refused | Banned;

export interface Admitted extends Decision {
  readonly kind: 'admitted';
}

/** What Explain shows about a refusal beyond its response. */
interface Explained {
  /** The counts at the decision. Those of the store, so no further objects are made for them. */
  readonly windows: AccountState['windows'];
  /** Which strike the request was; null if it was not a strike. */
  readonly strike: number | null;
}

export interface Refused extends Decision, Explained {
  readonly kind: 'refused';
  readonly binding: WindowBudget;
  /** When every window that refuses now will have ended, Unix milliseconds. */
  readonly retryAtMs: number;
  /** A limit is below the cost of the request, so waiting cannot help. */
  readonly costExceedsLimit: boolean;
}

export interface Banned extends Decision, Explained {
  readonly kind: 'banned';
  readonly binding: WindowBudget;
  readonly retryAtMs: number;
  readonly number: number;
  readonly untilMs: number;
  /** True for the one request whose strike made the ban. */
  readonly imposed: boolean;
}

/**
 * The verdict on one of the requests that were decided together (contract sections 3 and 4).
 * @param index from 0 to `outcome.n - 1`
 */
export function verdictOf(outcome: Outcome, allowance: Allowance, index: number): Verdict {
  const { nowMs, cost, state } = outcome;
  const spentAfter = Math.max(outcome.admitted - 1 - index, 0) * cost;
  const isAdmitted = index < outcome.admitted;
  const standings = standingsOf(state, allowance, { nowMs, refusedCost: isAdmitted ? 0 : cost, spentAfter });
  if (isAdmitted) {
    return { kind: 'admitted', nowMs, allowance, cost, standings, binding: fewest(standings) };
  }
  const decision = {
    nowMs,
    allowance,
    cost,
    standings,
    windows: state.windows,
    strike: strikeOf(outcome, allowance, standings, index),
  };
  if (index >= outcome.bannedFrom && state.ban !== null)
    return pastTopUps(banned(decision, state.ban, outcome.imposesBan === true && index === outcome.bannedFrom), state);
  return pastTopUps(refused(decision), state);
}

/** Which strike a refused request was. `state` has the strikes after the last request, and none after a ban. */
function strikeOf(
  { n, bannedFrom, imposesBan, cost, state }: Outcome,
  { bans }: Allowance,
  standings: readonly WindowBudget[],
  index: number,
): number | null {
  if (bans === null) return null;
  if (imposesBan === true) return index <= bannedFrom ? Math.max(bans.after - (bannedFrom - index), 1) : null;
  if (index >= bannedFrom || costExceedsLimit(standings, cost)) return null;
  const number = state.strikes.count - (n - 1 - index);
  return number >= 1 ? number : null;
}

/** The verdict when nothing is counted: for `GET /usage`, and for requests that `onFailure: open` admits. */
export function verdictOnBudgets(state: AccountState, allowance: Allowance, nowMs: number, cost: number): Admitted {
  const standings = standingsOf(state, allowance, { nowMs, refusedCost: 0, spentAfter: 0 });
  return { kind: 'admitted', nowMs, allowance, cost, standings, binding: fewest(standings) };
}

function standingsOf(
  state: AccountState,
  { limits }: Allowance,
  { nowMs, refusedCost, spentAfter }: { nowMs: number; refusedCost: number; spentAfter: number },
): WindowBudget[] {
  const standings: WindowBudget[] = [];
  for (const one of withTopUps(limits, state.topUps, nowMs)) {
    const { window, lengthMs, limit } = one;
    const open = state.windows[window];
    const remaining = open === undefined ? limit : Math.max(limit - open.used + spentAfter, 0);
    let resetAtMs: number;
    if (open === undefined) resetAtMs = endIfOpened(one, nowMs);
    else resetAtMs = remaining < refusedCost ? fitsAtMs(open, one, refusedCost) : nextEndMs(open, window);
    standings.push({ window, lengthMs, limit, remaining, resetAtMs });
  }
  return standings;
}

/** The window with the fewest requests left, of equals the one that resets last (contract section 4). */
function fewest(standings: readonly WindowBudget[]): WindowBudget | null {
  let binding: WindowBudget | null = null;
  for (const standing of standings) {
    if (
      binding === null ||
      standing.remaining < binding.remaining ||
      (standing.remaining === binding.remaining && standing.resetAtMs >= binding.resetAtMs)
    ) {
      binding = standing;
    }
  }
  return binding;
}

function refused(decision: Omit<Decision, 'binding'> & Explained): Refused {
  const { standings, cost, nowMs } = decision;
  let binding = standings[0]!;
  let retryAtMs = nowMs;
  let bindingAtMs = -1;
  for (const standing of standings) {
    if (standing.remaining >= cost) continue;
    // A limit below the cost refuses for ever. Retry-After is then the window's whole length (contract section 2).
    const endsAtMs = standing.limit < cost ? nowMs + standing.lengthMs : standing.resetAtMs;
    retryAtMs = Math.max(retryAtMs, endsAtMs);
    if (endsAtMs >= bindingAtMs) {
      binding = standing;
      bindingAtMs = endsAtMs;
    }
  }
  return {
    kind: 'refused',
    ...decision,
    binding,
    retryAtMs,
    costExceedsLimit: standings.some(({ limit }) => limit < cost),
  };
}

/**
 * A top-up of a sliding window may end while the client waits for something else, and what was counted under it still counts.
 * The client then waits until the request fits without it.
 */
function pastTopUps<V extends Refused | Banned>(verdict: V, { topUps, windows }: AccountState): V {
  if (topUps === undefined) return verdict;
  const { cost, allowance } = verdict;
  let { retryAtMs } = verdict;
  for (let before = -1; before < retryAtMs; ) {
    before = retryAtMs;
    for (const one of allowance.limits) {
      const topUp = topUps[one.window];
      const open = windows[one.window];
      if (topUp === undefined || open === undefined || topUp.untilMs > retryAtMs) continue;
      if (one.limit >= cost && one.limit - open.used < cost) retryAtMs = Math.max(retryAtMs, fitsAtMs(open, one, cost));
    }
  }
  return retryAtMs === verdict.retryAtMs ? verdict : { ...verdict, retryAtMs };
}

function banned(
  decision: Omit<Decision, 'binding'> & Explained,
  ban: NonNullable<AccountState['ban']>,
  imposed: boolean,
): Banned {
  const { standings, cost, nowMs } = decision;
  let retryAtMs = ban.untilMs;
  for (const { limit, remaining, lengthMs, resetAtMs } of standings) {
    if (limit < cost) retryAtMs = Math.max(retryAtMs, nowMs + lengthMs);
    else if (remaining < cost) retryAtMs = Math.max(retryAtMs, resetAtMs);
  }
  const window = standings.find((standing) => standing.window === ban.window);
  // The window may have ended during the ban, or be gone from the plan. Its reset is never reported as past.
  const binding: WindowBudget = {
    window: ban.window,
    lengthMs: window?.lengthMs ?? WINDOW_MS[ban.window],
    limit: window?.limit ?? 0,
    remaining: 0,
    resetAtMs: Math.max(ban.untilMs, window !== undefined && window.remaining < cost ? window.resetAtMs : 0),
  };
  return { kind: 'banned', ...decision, binding, retryAtMs, number: ban.number, untilMs: ban.untilMs, imposed };
}
