import type { Ban } from '../model/account.ts';
import type { WindowName } from '../model/values.ts';
import * as charging from './charging.ts';
import * as counting from './counting.ts';
import type { AccountState, Decision, Draft, Limit, Rule, RuleBudget, Ticket, TopUps } from './types.ts';

/* Few decisions need this file: those with top-ups, with bounds of requests in flight, or with parts of an account that their rule does not count. */

/** How long a store believes a report of requests in flight: a process that lives reports more often. */
const TICKET_MS = 10_000;

/** Returns the budgets with their limits raised by the top-ups in force. */
export function toppedUp(
  budgets: readonly RuleBudget[],
  before: readonly AccountState[],
  nowMs: number,
): readonly RuleBudget[] {
  const all: RuleBudget[] = [];
  for (let i = 0; i < budgets.length; i++) {
    const budget = budgets[i]!;
    const topUps = before[i]?.topUps;
    if (topUps === undefined) {
      all.push(budget);
    } else {
      const limits: Limit[] = [];
      for (const limit of budget.limits) limits.push(withTopUp(limit, topUps, nowMs));
      all.push({ name: budget.name, unit: budget.unit, inFlight: budget.inFlight, limits });
    }
  }
  return all;
}

function withTopUp(limit: Limit, topUps: TopUps, nowMs: number): Limit {
  const topUp = topUps[limit.window];
  if (topUp === undefined || nowMs >= topUp.untilMs) return limit;
  const { window, lengthMs, slices, instants } = limit;
  return { window, lengthMs, limit: limit.limit + topUp.amount, slices, instants, topUp };
}

/** Collects the top-ups that `toppedUp` has added to these limits; undefined if it added none. */
export function topUpsOf(limits: readonly Limit[]): TopUps | undefined {
  let found: Draft<TopUps> | undefined;
  for (const { window, topUp } of limits) {
    if (topUp !== undefined) {
      if (found === undefined) found = {};
      found[window] = topUp;
    }
  }
  return found;
}

/**
 * Computes how many further requests every account lets be in flight. It writes into the decision how many are, and leaves the accounts the
 * tickets of the other processes.
 * @param ownInFlight how many requests the asking process has in flight in each account; -1 or left out: its ticket says it
 */
export function roomInFlight(
  decision: Draft<Decision>,
  before: readonly AccountState[],
  rule: Rule,
  ownInFlight: readonly number[] | undefined,
): number {
  const { nowMs, n } = decision;
  let room = n;
  const counts: number[] = [];
  for (let i = 0; i < rule.budgets.length; i++) {
    const most = rule.budgets[i]!.inFlight;
    if (most === undefined) {
      counts.push(-1);
    } else {
      const own = ownInFlight?.[i] ?? -1;
      let inFlight = own < 0 ? 0 : own;
      const tickets = ticketsBeside(before[i]?.tickets, own < 0 ? undefined : rule.holder, nowMs);
      for (const { count } of tickets) inFlight += count;
      counts.push(inFlight);
      setTickets(decision, i, tickets);
      room = Math.min(room, most - inFlight);
    }
  }
  decision.inFlight = counts;
  return Math.max(room, 0);
}

/** Replaces the ticket of a process by its new report. @param count how many requests of the account it has in flight */
export function reported(
  before: readonly Ticket[] | undefined,
  holder: string,
  count: number,
  nowMs: number,
): readonly Ticket[] {
  const tickets = ticketsBeside(before, holder, nowMs);
  if (count > 0) tickets.push({ holder, count, endsAtMs: nowMs + TICKET_MS });
  return tickets;
}

/**
 * Returns the tickets in force without that of `holder`. If an operator set the clock back, it shortens them: none ends later than one that
 * begins now.
 */
function ticketsBeside(tickets: readonly Ticket[] | undefined, holder: string | undefined, nowMs: number): Ticket[] {
  const others: Ticket[] = [];
  if (tickets === undefined) return others;
  for (const ticket of tickets) {
    if (ticket.holder !== holder && ticket.endsAtMs > nowMs) {
      const endsAtMs = Math.min(ticket.endsAtMs, nowMs + TICKET_MS);
      others.push({ holder: ticket.holder, count: ticket.count, endsAtMs });
    }
  }
  return others;
}

/** Adds the admitted requests to those in flight, and gives each account the new ticket of the asking process. */
export function addInFlight(decision: Decision, rule: Rule, ownInFlight: readonly number[] | undefined): void {
  const { admitted, nowMs } = decision;
  const counts = decision.inFlight as number[];
  for (let i = 0; i < counts.length; i++) {
    if (counts[i]! >= 0) {
      counts[i] = counts[i]! + admitted;
      const own = Math.max(ownInFlight?.[i] ?? 0, 0) + admitted;
      if (rule.holder !== undefined && own > 0) {
        const tickets: Ticket[] = [];
        for (const ticket of decision.accounts[i]!.tickets ?? []) tickets.push(ticket);
        tickets.push({ holder: rule.holder, count: own, endsAtMs: nowMs + TICKET_MS });
        setTickets(decision, i, tickets);
      }
    }
  }
}

function setTickets(decision: Decision, i: number, tickets: readonly Ticket[]): void {
  const account: Draft<AccountState> = decision.accounts[i]!;
  account.tickets = tickets.length === 0 ? undefined : tickets;
}

/**
 * Returns the account that a store keeps after a gateway has only returned a lease. The gateway may have borrowed it under an earlier rule.
 * So only the leases and the windows that counted it change: the present rule may count the strikes and other windows differently.
 */
export function afterReturn(
  before: AccountState,
  after: AccountState,
  budget: RuleBudget,
  nowMs: number,
): AccountState {
  let windows = counting.copyOfWindows(before.windows);
  for (const limit of budget.limits) {
    const { window, slices } = limit;
    const earlier = before.windows[window];
    const left = after.windows[window];
    const present = counting.presentCount(earlier, limit, nowMs).count;
    if (earlier?.slices?.per === slices && present?.used !== left?.used) {
      if (left === undefined) windows = counting.withoutWindow(windows, window);
      else windows[window] = left;
    }
  }
  const kept: Draft<AccountState> = { windows };
  if (before.strikes !== undefined) kept.strikes = before.strikes;
  if (before.ban !== undefined) kept.ban = before.ban;
  if (before.topUps !== undefined) kept.topUps = before.topUps;
  if (before.topUpNotes !== undefined) kept.topUpNotes = before.topUpNotes;
  if (before.tickets !== undefined) kept.tickets = before.tickets;
  if (after.leases !== undefined) kept.leases = after.leases;
  return kept;
}

/** Returns the account that a store keeps after a decision: what the decision made of it, and what its rule does not count. */
export function keptAccount(before: AccountState, decision: Decision, i: number, budget: RuleBudget): AccountState {
  const { nowMs, admitted } = decision;
  const after = decision.accounts[i]!;
  const windows = counting.copyOfWindows(after.windows);
  for (const name in before.windows) {
    const window = name as WindowName;
    const count = before.windows[window]!;
    const limit = charging.limitOf(budget, window);
    const isConverted =
      count.slices !== undefined && count.slices.per !== limit?.slices && after.windows[window] !== undefined;
    if (limit === undefined || (isConverted && admitted === 0)) windows[window] = count;
  }
  const kept: Draft<AccountState> = { windows };
  if (after.strikes !== undefined) kept.strikes = after.strikes;
  const ban = banAfter(before.ban, after.ban);
  if (ban !== undefined) kept.ban = ban;
  if (after.leases !== undefined) kept.leases = after.leases;
  if (after.tickets !== undefined) kept.tickets = after.tickets;
  keepTopUps(kept, before, nowMs);
  return kept;
}

/** Copies the top-ups in force into `kept`, also those of windows that the rule does not count. */
function keepTopUps(kept: Draft<AccountState>, before: AccountState, nowMs: number): void {
  if (before.topUps === undefined) return;
  let topUps: Draft<TopUps> | undefined;
  for (const name in before.topUps) {
    const topUp = before.topUps[name as WindowName]!;
    if (nowMs < topUp.untilMs) {
      if (topUps === undefined) topUps = {};
      topUps[name as WindowName] = topUp;
    }
  }
  if (topUps === undefined) return;
  kept.topUps = topUps;
  const notes = [];
  for (const note of before.topUpNotes ?? []) if (nowMs < note.untilMs) notes.push(note);
  if (notes.length > 0) kept.topUpNotes = notes;
}

/**
 * Chooses the ban that a store keeps. If the rule of the decision lacks the budget that a ban names, the decision leaves the budget out, and
 * the store must not. A ban that ends later is a new one; it may have the same number, if the store had forgotten the one before.
 */
function banAfter(before: Ban | undefined, ban: Ban | undefined): Ban | undefined {
  if (before?.budget === undefined || ban === undefined || ban.untilMs > before.untilMs || ban.budget !== undefined)
    return ban;
  // The store writes an object only if it is another one: with this one it writes nothing for requests of other groups.
  if (ban.untilMs === before.untilMs && ban.number === before.number) return before;
  return { number: ban.number, untilMs: ban.untilMs, window: ban.window, budget: before.budget };
}
