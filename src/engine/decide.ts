import type { WindowName } from '../model/values.ts';
import * as charging from './charging.ts';
import * as counting from './counting.ts';
import * as leasing from './leasing.ts';
import * as refusing from './refusing.ts';
import * as special from './special.ts';
import type { AccountState, Decision, Details, Draft, LeaseTerms, Rule, RuleBudget } from './types.ts';

/*
 * The engine: which requests a store admits, and what it has counted afterwards. It is pure. A store loads the accounts of a request, calls
 * the engine, and keeps of each account what `accountAfter` returns: its windows, strikes, ban and leases are the objects from before where
 * nothing changed, and Redis writes only what changed. The embedded store and a gateway without its store run this code, and Redis runs the
 * Lua that `npm run engine:lua` makes of it, within src/stores/redis/shell. "Contract" is docs/contract.md.
 *
 * An account (`AccountState`) has a count for each open window, strikes, a ban, top-ups, leases, and tickets of requests in flight. A
 * consumer has one account of its own. Customers, groups of routes and units have further ones. A rule (`Rule`) has a budget for each
 * account that a request charges, each with its limits.
 *
 * A decision (`decide`) is about `n` equal requests that arrived together, and equals `n` decisions about one request each, one after the
 * other, unless it has to wait (step 7). A request charges all budgets or none. The engine goes through these steps, and each account
 * through all of them:
 *
 *   1. Top-ups in force raise the limits (special.ts).
 *   2. What has ended by `nowMs` goes: windows, strikes, and a ban after the time in which its number is remembered. If an operator set
 *      the clock back, windows, strikes, leases, tickets and the ban of the account with the strikes last no longer from now on than they
 *      would if they began now; top-ups, and bans of other accounts, keep their ends. If the clock jumped ahead, what it has passed has
 *      ended for good.
 *   3. A lease that the gateway returns frees what it did not use, where the store counted that (leasing.ts).
 *   4. A ban in force in any account refuses all `n` requests. It counts nothing, and steps 5 to 9 do not happen.
 *   5. The window with the least room says how many requests fit, and so does the tightest bound of requests in flight. The smaller
 *      number is admitted, and each window of each account that they charge counts them, also the windows that refuse the next request
 *      (charging.ts).
 *      A fixed window opens with its first request and ends one length later. A calendar window ends at the next instant of its rule.
 *      A sliding window is cut into slices, and a slice leaves one length after its own end (counting.ts).
 *   6. If the windows have room and only the requests in flight have none, the rest is crowded: refused, without strikes.
 *   7. If gateways may still return units that would change the refusal, the rest waits: the store recalls what it has lent, and lends
 *      nothing of these accounts meanwhile. The gateway asks again, and at last for a final answer, which skips this step (leasing.ts).
 *      All requests wait in this way, before step 5, if the decision would move a count of which units are lent to another form of its
 *      window, as after a change of plans: what is returned is taken back where it was counted.
 *   8. Otherwise the windows refuse the rest. Under a rule with bans each refusal is a strike if waiting could have helped; it cannot help a
 *      request that needs more than a whole limit. Strikes end when the window that refuses longest has room, or after `withinMs`. The
 *      strike that reaches `after` becomes a ban: its length grows with its number, up to `longestMs` (refusing.ts). The store then
 *      recalls what it has lent.
 *   9. If the decision admitted all requests, the gateway asks for a lease, and no account has strikes or a recall, the store lends at most
 *      a sixteenth of what the tightest window has left, and counts it at once (leasing.ts). The embedded store is asked for none.
 *  10. In each account that bounds the requests in flight, the process that asks gets a new ticket: what it had in flight, and what was
 *      admitted (special.ts). A ban does not prevent this.
 *
 * A request that takes units in advance is settled when it has ended (settle.ts), and operators change accounts (operator-changes.ts).
 *
 * Atomic: one decision, over all its accounts, because each store runs the engine without interruption.
 *
 * Known limits:
 *
 *   - A sliding window counts by slices, not by requests: a request counts for up to one slice longer than the length of the window, never
 *     for a shorter time. So room comes back late by up to that much.
 *   - A fixed window admits up to twice its limit in a span of its length that begins within it. So does a calendar window; if a whole shorter
 *     period lies in the span, such as a February, up to three times.
 *   - A settlement counts beyond the limit: only the reserve is bounded.
 *   - While a lease is out, other gateways see its units as used, although no request has used them yet. What a gateway returns more than 2 s after
 *     the end of the lease, or never because it died, stays counted until the windows end.
 *   - If plans change the kind of a window, a fixed or calendar count, and slices of another number, become one slice of the present. Slices
 *     become one count that ends with the oldest of them. No count is lost by the change, and some last longer or shorter than they would
 *     have.
 *   - Requests in flight are as exact as the reports of the gateways: a process that dies counts for ten seconds after its last report.
 *   - The stores pass whole numbers up to 2^53. The time is that of the store's clock, or without the store what the gateway knows of it.
 */

/** The account of an owner that the store has not seen. */
export const UNSEEN: AccountState = { windows: {} };

/**
 * Decides `n` simultaneous requests of `cost` each (contract section 3). With `n` 0 it returns the present state, without everything that has
 * ended by `nowMs`.
 *
 * @param before the accounts of the budgets; the store has nothing of those that are missing
 * @param rule its instants include `nowMs`
 * @param nowMs the store's clock, Unix milliseconds. It may jump.
 * @param cost whole number from 1
 * @param details a gateway borrows only without a bound of requests in flight and without amounts
 */
export function decide(
  before: readonly AccountState[],
  rule: Rule,
  nowMs: number,
  cost: number,
  n: number,
  details?: Details,
): Decision {
  const budgets = hasTopUps(before) ? special.toppedUp(rule.budgets, before, nowMs) : rule.budgets;
  // A literal of one element, because an array that grows from none has room for 17.
  const accounts: [Draft<AccountState>, ...Draft<AccountState>[]] = [
    presentAccount(before, 0, rule, budgets, nowMs, n),
  ];
  for (let i = 1; i < budgets.length; i++) accounts.push(presentAccount(before, i, rule, budgets, nowMs, n));
  if (before[rule.bansIn]?.strikes !== undefined)
    refusing.keepStrikes(before, accounts, rule, nowMs, backOf(before, budgets, nowMs));
  const decision: Draft<Decision> = { nowMs, cost, n, admitted: 0, bannedFrom: n, accounts };
  let terms: LeaseTerms | undefined;
  if (details !== undefined) {
    if (details.amounts !== undefined) decision.amounts = details.amounts;
    terms = details.terms;
    if (terms?.returned !== undefined) leasing.takeBack(decision, budgets, terms.returned);
  }
  let roomInFlight = n;
  if (rule.isBounded) roomInFlight = special.roomInFlight(decision, before, rule, details?.inFlight);
  if (isBanned(accounts, nowMs)) decision.bannedFrom = 0;
  else if (n === 0 || terms?.isFinal || !isLent(accounts) || !leasing.waitToMove(decision, before, budgets))
    admit(decision, budgets, rule, roomInFlight, terms);
  if (rule.isBounded) special.addInFlight(decision, rule, details?.inFlight);
  return decision;
}

/** Admits what fits, and decides about the rest. */
function admit(
  decision: Draft<Decision>,
  budgets: readonly RuleBudget[],
  rule: Rule,
  roomInFlight: number,
  terms: LeaseTerms | undefined,
): void {
  const { accounts, nowMs, cost, n, amounts } = decision;
  const room = charging.roomFor(decision, budgets, n);
  const admitted = room < roomInFlight ? room : roomInFlight;
  decision.admitted = admitted;
  if (admitted > 0) {
    for (let i = 0; i < budgets.length; i++) {
      const budget = budgets[i]!;
      const spent = admitted * charging.chargeOf(budget, cost, amounts);
      if (spent > 0) charging.count(accounts[i]!.windows, budget.limits, nowMs, spent);
    }
  }
  if (terms?.borrows !== undefined || isLent(accounts)) leasing.decideWithLeases(decision, budgets, rule, room, terms);
  else if (admitted < room) decision.isCrowded = true;
  else if (admitted < n && refusing.isStrike(budgets, rule, cost, amounts)) refusing.strike(decision, budgets, rule);
}

/** The part of an account that has not ended. The caller adds the strikes, because they depend on the windows of all accounts. */
function presentAccount(
  before: readonly AccountState[],
  i: number,
  rule: Rule,
  budgets: readonly RuleBudget[],
  nowMs: number,
  n: number,
): Draft<AccountState> {
  const { limits } = budgets[i]!;
  const earlier = before[i];
  if (earlier === undefined) return { windows: {} };
  const account: Draft<AccountState> = { windows: charging.presentWindows(earlier.windows, limits, nowMs) };
  if (earlier.ban !== undefined) {
    const ban = refusing.currentBan(earlier.ban, i === rule.bansIn ? rule.bans : undefined, nowMs, budgets, n === 0);
    if (ban !== undefined) account.ban = ban;
  }
  if (earlier.topUps !== undefined) {
    const topUps = special.topUpsOf(limits);
    if (topUps !== undefined) account.topUps = topUps;
  }
  if (earlier.leases !== undefined) account.leases = earlier.leases;
  if (earlier.tickets !== undefined) account.tickets = earlier.tickets;
  return account;
}

/** By how much the clock was set back, according to the windows of all accounts, milliseconds. */
function backOf(before: readonly AccountState[], budgets: readonly RuleBudget[], nowMs: number): number {
  let backMs = 0;
  for (let i = 0; i < budgets.length; i++) {
    const windows = before[i]?.windows;
    if (windows !== undefined) {
      for (const limit of budgets[i]!.limits) {
        backMs = Math.max(backMs, counting.presentCount(windows[limit.window], limit, nowMs).backMs);
      }
    }
  }
  return backMs;
}

function hasTopUps(accounts: readonly AccountState[]): boolean {
  for (const account of accounts) if (account?.topUps !== undefined) return true;
  return false;
}

function isBanned(accounts: readonly AccountState[], nowMs: number): boolean {
  for (const { ban } of accounts) if (ban !== undefined && nowMs < ban.untilMs) return true;
  return false;
}

function isLent(accounts: readonly AccountState[]): boolean {
  for (const { leases } of accounts) if (leases !== undefined) return true;
  return false;
}

/**
 * The account that a store keeps after a decision, which returns only what its rule counts: the same object as in the decision, or one that
 * has also the windows that the rule does not count, as after a change of plans.
 *
 * Slices become another kind when something is counted. If refusals did it, a client that polls two gateways that are in the
 * middle of a reload would move its count along with the present, and never be admitted again.
 * @param i the index of the budget
 */
export function accountAfter(
  before: AccountState | undefined,
  decision: Decision,
  i: number,
  rule: Rule,
): AccountState {
  const after = decision.accounts[i]!;
  const budget = rule.budgets[i]!;
  const earlier = before ?? UNSEEN;
  if (decision.n === 0) return special.afterReturn(earlier, after, budget, decision.nowMs);
  if (decision.awaitsMove) {
    const kept: Draft<AccountState> = special.keptAccount(earlier, decision, i, budget);
    kept.windows = earlier.windows;
    return kept;
  }
  if (earlier.topUps !== undefined || earlier.ban !== undefined)
    return special.keptAccount(earlier, decision, i, budget);
  for (const name in earlier.windows) {
    const window = name as WindowName;
    const { slices } = earlier.windows[window]!;
    const left = after.windows[window];
    const isOther =
      left === undefined
        ? charging.limitOf(budget, window) === undefined
        : slices !== undefined && slices.per !== left.slices?.per;
    if (isOther) return special.keptAccount(earlier, decision, i, budget);
  }
  return after;
}
