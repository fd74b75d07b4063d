import type { Ban } from '../model/account.ts';
import type { BanRule } from '../model/plan.ts';
import type { WindowName } from '../model/values.ts';
import * as charging from './charging.ts';
import * as counting from './counting.ts';
import type { AccountState, Amounts, Decision, Draft, Rule, RuleBudget } from './types.ts';

/** The length of the `number`-th ban in milliseconds. The loop multiplies step by step, so that Lua gets the same bits. */
export function banLengthMs(rule: BanRule, number: number): number {
  if (rule.factor === 1) return Math.min(rule.firstMs, rule.longestMs);
  let length = rule.firstMs;
  for (let i = 1; i < number && length < rule.longestMs; i++) length *= rule.factor;
  return Math.min(Math.floor(length), rule.longestMs);
}

/**
 * The ban that is in force at `nowMs` or that the store remembers for its number.
 * @param rule absent: the account has no bans under the present plan
 * @param isRead whether the caller only reads the state: then the ban keeps its end, which each reading would move to a later moment
 */
export function currentBan(
  stored: Ban,
  rule: BanRule | undefined,
  nowMs: number,
  budgets: readonly RuleBudget[],
  isRead: boolean,
): Ban | undefined {
  const ban = stored.budget === undefined || hasBudget(budgets, stored.budget) ? stored : withoutBudget(stored);
  if (rule === undefined) return nowMs < ban.untilMs ? ban : undefined;
  if (nowMs >= ban.untilMs + rule.forgetMs) return undefined;
  if (isRead || nowMs >= ban.untilMs) return ban;
  // The bound is the length of this ban. With `longestMs` as the bound, a ban of 60 s lasted 12 h after an operator set the clock back by 12 h.
  const latestMs = nowMs + banLengthMs(rule, ban.number);
  return ban.untilMs > latestMs ? withEnd(ban, ban.number, latestMs) : ban;
}

/** The ban with another number and end. */
export function withEnd(ban: Ban, number: number, untilMs: number): Ban {
  const { window, budget } = ban;
  return budget === undefined ? { number, untilMs, window } : { number, untilMs, window, budget };
}

function withoutBudget(ban: Ban): Ban {
  return { number: ban.number, untilMs: ban.untilMs, window: ban.window };
}

function hasBudget(budgets: readonly RuleBudget[], name: string): boolean {
  for (const budget of budgets) if (budget.name === name) return true;
  return false;
}

/**
 * Keeps the strikes that have not ended. Strikes end with the window that refused. If the clock was set back by at
 * least `backMs`, according to the windows, the end of the strikes moves back by the same amount. Otherwise a client that waits for the
 * end of the window would be banned for strikes of the window before.
 */
export function keepStrikes(
  before: readonly AccountState[],
  accounts: readonly Draft<AccountState>[],
  rule: Rule,
  nowMs: number,
  backMs: number,
): void {
  const { bans, bansIn } = rule;
  const strikes = before[bansIn]?.strikes;
  if (strikes === undefined || bans === undefined) return;
  const endsAtMs = Math.min(strikes.endsAtMs - backMs, nowMs + bans.withinMs);
  if (nowMs >= endsAtMs) return;
  accounts[bansIn]!.strikes = endsAtMs === strikes.endsAtMs ? strikes : { count: strikes.count, endsAtMs };
}

/** Whether the refusal of a request is a strike: one that waiting could have avoided. */
export function isStrike(
  budgets: readonly RuleBudget[],
  rule: Rule,
  cost: number,
  amounts: Amounts | undefined,
): boolean {
  if (rule.bans === undefined) return false;
  for (const budget of budgets) {
    const needed = charging.neededFor(charging.chargeOf(budget, cost, amounts));
    for (const { limit } of budget.limits) if (limit < needed) return false;
  }
  return true;
}

/** Counts the refused requests as strikes, or imposes the ban that they lead to. */
export function strike(decision: Draft<Decision>, budgets: readonly RuleBudget[], rule: Rule): void {
  const { nowMs, n, admitted } = decision;
  const bans = rule.bans!;
  const struck: Draft<AccountState> = decision.accounts[rule.bansIn]!;
  const last = lastRefusing(decision, budgets);
  const before = struck.strikes === undefined ? 0 : struck.strikes.count;
  const total = before + n - admitted;
  if (total < bans.after) {
    const latestMs = struck.strikes === undefined ? nowMs + bans.withinMs : struck.strikes.endsAtMs;
    struck.strikes = { count: total, endsAtMs: Math.min(latestMs, last.fitsAtMs) };
    return;
  }
  const number = (struck.ban === undefined ? 0 : struck.ban.number) + 1;
  const untilMs = nowMs + banLengthMs(bans, number);
  const { window, budget } = last;
  struck.ban = budget === '' ? { number, untilMs, window } : { number, untilMs, window, budget };
  struck.strikes = undefined;
  decision.bannedFrom = admitted + Math.max(bans.after - before - 1, 0);
  decision.imposesBan = true;
}

/**
 * The window that refuses a request for the longest time; of several, the last one: the longest of the last budget. Each strike
 * has such a window, and no window refuses a client that waits for it.
 */
function lastRefusing(decision: Decision, budgets: readonly RuleBudget[]) {
  let budget = budgets[0]!.name;
  let window: WindowName = 'second';
  let fitsAtMs = 0;
  for (let i = 0; i < budgets.length; i++) {
    const { name, limits } = budgets[i]!;
    const { windows } = decision.accounts[i]!;
    const needed = charging.neededFor(charging.chargeOf(budgets[i]!, decision.cost, decision.amounts));
    for (const limit of limits) {
      const open = windows[limit.window];
      if (limit.limit - (open === undefined ? 0 : open.used) < needed) {
        const atMs = open === undefined ? 0 : counting.fitsAtMs(open, limit, needed);
        if (atMs >= fitsAtMs) {
          budget = name;
          window = limit.window;
          fitsAtMs = atMs;
        }
      }
    }
  }
  return { budget, window, fitsAtMs };
}
