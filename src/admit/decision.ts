import { chargeOf, neededFor } from '../engine/charging.ts';
import { placeOf } from '../engine/counting.ts';
import * as engine from '../engine/decide.ts';
import * as settling from '../engine/settle.ts';
import type {
  AccountState,
  Accounts,
  Amounts,
  Decision,
  LeaseTerms,
  Rule,
  RuleBudget,
  WindowCounts,
} from '../engine/types.ts';
import type { Ban } from '../model/account.ts';
import type { LimitName } from '../model/values.ts';
import type { Allowance } from './allowance.ts';
import { limitAt, type WindowLimit } from './windows.ts';

// Decisions by the engine in this process, under an allowance.

/** The accounts of a consumer without any counted request. */
export const ALL_UNSEEN: Accounts = Object.freeze([engine.UNSEEN]);

/** The rule of an allowance, and the time in which its calendar windows are up to date. */
interface PresentRule {
  readonly rule: Rule;
  readonly fromMs: number;
  readonly untilMs: number;
}

const rules = new WeakMap<Allowance, PresentRule>();

/** The rule of an allowance at `nowMs`. */
function ruleAt(allowance: Allowance, nowMs: number): Rule {
  const known = rules.get(allowance);
  if (known !== undefined && known.fromMs <= nowMs && nowMs < known.untilMs) return known.rule;
  const made = presentRule(allowance, nowMs);
  rules.set(allowance, made);
  return made.rule;
}

function presentRule({ budgets: all, limits, bans, bansIn, boundsInFlight }: Allowance, nowMs: number): PresentRule {
  const periods = limits.flatMap(({ calendar }) => calendar?.periodAt(nowMs) ?? []);
  const budgets = all.map(({ name, unit, inFlight, limits: ofBudget }): RuleBudget => {
    return { name, unit, inFlight, limits: ofBudget.map((limit) => limitAt(limit, nowMs)) };
  });
  return {
    rule: { budgets, bans: bans ?? undefined, bansIn, isBounded: boundsInFlight },
    fromMs: Math.max(Number.NEGATIVE_INFINITY, ...periods.map(({ startsAtMs }) => startsAtMs)),
    untilMs: Math.min(Number.POSITIVE_INFINITY, ...periods.map(({ endsAtMs }) => endsAtMs)),
  };
}

/**
 * Decides as the engine does, under an allowance.
 * @param inFlight how many requests of each account are in flight, in the order of the budgets
 */
export function decide(
  before: readonly AccountState[],
  allowance: Allowance,
  nowMs: number,
  cost: number,
  n: number,
  inFlight?: readonly number[],
  amounts?: Amounts,
  terms?: LeaseTerms,
): Decision {
  const isPlain = inFlight === undefined && amounts === undefined && terms === undefined;
  const details = isPlain ? undefined : { inFlight, amounts, terms };
  return engine.decide(before, ruleAt(allowance, nowMs), nowMs, cost, n, details);
}

/** The accounts that a store keeps after a decision, with what the allowance does not count. */
export function accountsAfter(before: readonly AccountState[], decision: Decision, allowance: Allowance): Accounts {
  const rule = ruleAt(allowance, decision.nowMs);
  return decision.accounts.map((_, i) => engine.accountAfter(before[i], decision, i, rule)) as [
    AccountState,
    ...AccountState[],
  ];
}

/** Whether waiting cannot help: some window's limit is below the cost of a single request (contract section 2). */
export function costExceedsLimit(limits: readonly WindowLimit[], cost: number): boolean {
  for (const { limit } of limits) if (limit < cost) return true;
  return false;
}

/** The same for all budgets that a request charges. */
export function exceedsLimit({ budgets }: Allowance, cost: number, amounts: Amounts | undefined): boolean {
  for (let i = 0; i < budgets.length; i++) {
    const budget = budgets[i]!;
    if (costExceedsLimit(budget.limits, neededFor(chargeOf(budget, cost, amounts)))) return true;
  }
  return false;
}

/** The name of the window whose refusal led to a ban. */
export function nameOfBan({ window, budget }: Ban): LimitName {
  return budget === undefined ? window : `${budget}-${window}`;
}

/** The ban in force that ends last, of the consumer or of its customer; null if neither is banned. */
export function banInForce(accounts: readonly AccountState[], nowMs: number): Ban | null {
  let last: Ban | null = null;
  for (const { ban } of accounts) {
    if (ban !== undefined && nowMs < ban.untilMs && ban.untilMs > (last?.untilMs ?? 0)) last = ban;
  }
  return last;
}

/** One window in which a request was counted. */
export interface SettledWindow {
  readonly of: WindowLimit;
  /** Where the request was counted (`placeOf`). */
  readonly placeMs: number;
}

/** The windows of a budget in which a request has just been counted. @param counts after it */
export function settledWindows(limits: readonly WindowLimit[], counts: WindowCounts): SettledWindow[] {
  // A window that is not open has counted nothing.
  return limits.map((of) => ({ of, placeMs: counts[of.window] === undefined ? 0 : placeOf(counts[of.window]!) }));
}

/** The account after the engine has settled a request. @param delta the amount to add; negative to give back */
export function settled(
  state: AccountState,
  delta: number,
  windows: readonly SettledWindow[],
  nowMs: number,
): AccountState {
  const limits = windows.map(({ of }) => limitAt(of, nowMs));
  const places = windows.map(({ placeMs }) => placeMs);
  return { ...state, windows: settling.settled(state.windows, delta, limits, places, nowMs) };
}
