import { type AccountState, isHopeless, type Outcome } from './decide.ts';
import { type Allowance, WINDOW_MS, type WindowName } from './plan.ts';

/** How one counted window stands after a request. */
export interface Standing {
  readonly window: WindowName;
  readonly lengthMs: number;
  readonly limit: number;
  /** From 0 to `limit`. */
  readonly remaining: number;
  /** When the window ends; of one that is not open, when it would end if it opened now. Unix milliseconds. */
  readonly resetAtMs: number;
}

interface Told {
  /** When it was decided, by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly allowance: Allowance;
  readonly cost: number;
  /** The counted windows, shortest first. */
  readonly standings: readonly Standing[];
  /** The window that the caller is told of first; null when none is counted. */
  readonly binding: Standing | null;
}

/** What was decided of one request, with all that its answer tells. */
export type Verdict = Admitted | Refused | Banned;

export interface Admitted extends Told {
  readonly kind: 'admitted';
}

export interface Refused extends Told {
  readonly kind: 'refused';
  readonly binding: Standing;
  /** No window that refuses now refuses at this time any more, Unix milliseconds. */
  readonly retryAtMs: number;
  /** Waiting will not help: a limit is below the cost of the request. */
  readonly hopeless: boolean;
}

export interface Banned extends Told {
  readonly kind: 'banned';
  readonly binding: Standing;
  readonly retryAtMs: number;
  readonly number: number;
  readonly untilMs: number;
  /** True for the one request whose strike made the ban. */
  readonly imposed: boolean;
}

/**
 * The verdict on the `index`-th of the requests that were decided together (contract sections 3 and 4).
 * @param index from 0 to `outcome.n - 1`
 */
export function verdictOf(outcome: Outcome, allowance: Allowance, index: number): Verdict {
  const { nowMs, cost, state } = outcome;
  const spentAfter = Math.max(outcome.admitted - 1 - index, 0) * cost;
  const standings = standingsOf(state, allowance, nowMs, spentAfter);
  if (index < outcome.admitted) {
    return { kind: 'admitted', nowMs, allowance, cost, standings, binding: fewest(standings) };
  }
  const told = { nowMs, allowance, cost, standings };
  if (index >= outcome.bannedFrom && state.ban !== null)
    return banned(told, state.ban, outcome.imposesBan === true && index === outcome.bannedFrom);
  return refused(told);
}

/** How a consumer stands when nothing is counted (its usage, or a request let through uncounted). */
export function standingVerdict(state: AccountState, allowance: Allowance, nowMs: number, cost: number): Admitted {
  const standings = standingsOf(state, allowance, nowMs, 0);
  return { kind: 'admitted', nowMs, allowance, cost, standings, binding: fewest(standings) };
}

function standingsOf(state: AccountState, allowance: Allowance, nowMs: number, spentAfter: number): Standing[] {
  const standings: Standing[] = [];
  for (const { window, lengthMs, limit } of allowance.limits) {
    const open = state.windows[window];
    const used = open === undefined ? 0 : open.used - spentAfter;
    const resetAtMs = open?.endsAtMs ?? nowMs + lengthMs;
    standings.push({ window, lengthMs, limit, remaining: Math.max(limit - used, 0), resetAtMs });
  }
  return standings;
}

/** The window with the fewest requests left, of equals the one that resets last (contract section 4). */
function fewest(standings: readonly Standing[]): Standing | null {
  let binding: Standing | null = null;
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

function refused(told: Omit<Told, 'binding'>): Refused {
  const { standings, cost, nowMs } = told;
  let binding = standings[0]!;
  let retryAtMs = nowMs;
  let bindingAtMs = -1;
  for (const standing of standings) {
    if (standing.remaining >= cost) continue;
    // A limit below the cost refuses for ever: the client is told the window's whole length (contract section 2).
    const endsAtMs = standing.limit < cost ? nowMs + standing.lengthMs : standing.resetAtMs;
    retryAtMs = Math.max(retryAtMs, endsAtMs);
    if (endsAtMs >= bindingAtMs) {
      binding = standing;
      bindingAtMs = endsAtMs;
    }
  }
  return { kind: 'refused', ...told, binding, retryAtMs, hopeless: isHopeless(told.allowance, cost) };
}

function banned(told: Omit<Told, 'binding'>, ban: NonNullable<AccountState['ban']>, imposed: boolean): Banned {
  const { standings, cost, nowMs } = told;
  let retryAtMs = ban.untilMs;
  for (const { limit, remaining, lengthMs, resetAtMs } of standings) {
    if (limit < cost) retryAtMs = Math.max(retryAtMs, nowMs + lengthMs);
    else if (remaining < cost) retryAtMs = Math.max(retryAtMs, resetAtMs);
  }
  const window = standings.find((standing) => standing.window === ban.window);
  // The window may have ended under the ban, or have gone from the plan; its reset is never told as past.
  const binding: Standing = {
    window: ban.window,
    lengthMs: window?.lengthMs ?? WINDOW_MS[ban.window],
    limit: window?.limit ?? 0,
    remaining: 0,
    resetAtMs: Math.max(ban.untilMs, window !== undefined && window.remaining < cost ? window.resetAtMs : 0),
  };
  return { kind: 'banned', ...told, binding, retryAtMs, number: ban.number, untilMs: ban.untilMs, imposed };
}
