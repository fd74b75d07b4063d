import * as charging from './charging.ts';
import * as counting from './counting.ts';
import * as refusing from './refusing.ts';
import type {
  AccountState,
  Borrows,
  Decision,
  Draft,
  Lease,
  LeaseTerms,
  ReturnedLease,
  Rule,
  RuleBudget,
} from './types.ts';

/*
 * Leases: units of an account that one gateway has borrowed. The store has counted them in every window and in the history, as if
 * requests had used them, so the gateway may admit requests from them without asking again.
 */

const HOUR_MS = 3_600_000;
/** The longest lease. */
export const MAX_LEASE_MS = 2_000;
/** The longest lease of an account that is close to its limit. It is short because a killed gateway does not return its units. */
export const SHORT_LEASE_MS = 250;
/** Shorter leases are not worth a call. */
const MIN_LEASE_MS = 10;
/** A lease takes at most 1/16 of what the tightest window has left. */
const SHARE = 16;
/** One that lasts longer than `SHORT_LEASE_MS` takes at most 1/64, and there are at most 8 of an account, which each decision reads. */
const SHARE_OF_LONG = 64;
const MAX_LONG_LEASES = 8;
/** Fewer units, and fewer requests, are not worth a call. */
const MIN_UNITS = 4;
const MIN_REQUESTS = 2;
/** A lease that the hour or a calendar window cuts short ends at one of this many moments of its second half. */
const ENDS = 32;
/** How long after the end of a lease its return may be on the way, so that a request waits for it and the store does not refuse it. */
export const RETURN_WITHIN_MS = 100;
/** How long after its end the store knows a lease, and takes back what the gateway did not use: the gateway may have been busy. */
export const KNOWN_FOR_MS = 2_000;
/** An operator has set the clock back by more than this if a lease ends so much later than one that begins now. */
const MAX_AHEAD_MS = 5_000;
/** A recall is in force for this long: the store lends nothing of the account meanwhile, and what it has lent ends with it. */
export const RECALL_FOR_MS = 250;
/** Minimum pause between two recalls of one account. */
const RECALL_EVERY_MS = 20;
/** The most leases of one account. */
const MAX_LEASES = 64;

/**
 * The leases that the store still knows. If its clock was set back a little, none ends later than one that begins now, or than a recall
 * that begins now while one is in force.
 */
function knownLeases(account: AccountState, nowMs: number): Lease[] {
  const known: Lease[] = [];
  if (account.leases === undefined) return known;
  const latestMs = nowMs + (isRecalled(account.leases, nowMs) ? RECALL_FOR_MS : MAX_LEASE_MS);
  for (const lease of account.leases) {
    const { id, units, endsAtMs } = lease;
    if (nowMs < endsAtMs + KNOWN_FOR_MS && endsAtMs <= nowMs + MAX_LEASE_MS + MAX_AHEAD_MS)
      known.push(endsAtMs > latestMs ? { id, units, endsAtMs: latestMs } : lease);
  }
  return known;
}

/** True while a gateway may still return units of this account, even if no request can wait that long. */
function mayReturn(account: AccountState, nowMs: number): boolean {
  for (const { units } of knownLeases(account, nowMs)) if (units !== 0) return true;
  return false;
}

/** Recalls what the store has lent of these accounts, and lends nothing of them for a while: a request waits for it, or a ban began. */
function recall(decision: Draft<Decision>): void {
  const { accounts, nowMs } = decision;
  const recalls: number[] = [];
  for (let i = 0; i < accounts.length; i++) {
    const account: Draft<AccountState> = accounts[i]!;
    const leases = recalled(account, nowMs);
    if (leases !== undefined) {
      account.leases = leases;
      recalls.push(i);
    }
  }
  if (recalls.length > 0) decision.recalls = recalls;
}

/**
 * The leases of an account after a recall; undefined if nothing is lent, or what is lent was recalled a moment ago. Gateways that run
 * return their units at once, so a request waits for others no longer than for a short lease.
 */
export function recalled(account: AccountState, nowMs: number): Lease[] | undefined {
  const lent: Lease[] = [];
  const endsAtMs = nowMs + RECALL_FOR_MS;
  for (const lease of knownLeases(account, nowMs)) {
    const { id, units } = lease;
    if (units !== 0) lent.push(lease.endsAtMs > endsAtMs ? { id, units, endsAtMs } : lease);
    else if (lease.endsAtMs > endsAtMs - RECALL_EVERY_MS) return undefined;
  }
  if (lent.length === 0) return undefined;
  lent.push({ id: 0, units: 0, endsAtMs });
  return lent;
}

/** The number of lent units of an account for which a request may wait: those that its windows have counted. */
function unreturnedUnits(account: AccountState, nowMs: number): number {
  let sum = 0;
  for (const { units, endsAtMs } of knownLeases(account, nowMs)) {
    if (units > 0 && nowMs < endsAtMs + RETURN_WITHIN_MS) sum += units;
  }
  return sum;
}

/** For how long a request may wait for units of this account, milliseconds; 0 if the store has lent none. */
export function waitFor(account: AccountState, nowMs: number): number {
  let longest = 0;
  for (const { units, endsAtMs } of knownLeases(account, nowMs)) {
    if (units !== 0) longest = Math.max(longest, endsAtMs + RETURN_WITHIN_MS - nowMs);
  }
  return longest;
}

function longestWait(accounts: readonly AccountState[], nowMs: number): number {
  let longest = 0;
  for (const account of accounts) longest = Math.max(longest, waitFor(account, nowMs));
  return longest;
}

/** Takes back what a gateway did not use of a lease: once, because the lease is then gone. */
export function takeBack(decision: Draft<Decision>, budgets: readonly RuleBudget[], returned: ReturnedLease): void {
  const { accounts, nowMs } = decision;
  for (let i = 0; i < accounts.length; i++) {
    const account: Draft<AccountState> = accounts[i]!;
    const others: Lease[] = [];
    let found: Lease | undefined;
    for (const lease of knownLeases(account, nowMs)) {
      if (found === undefined && lease.id === returned.id) found = lease;
      else others.push(lease);
    }
    if (found !== undefined) {
      account.leases = others.length === 0 ? undefined : others;
      const units = Math.min(returned.unused, Math.abs(found.units));
      decision.tookBack = { units, hour: Math.floor((found.endsAtMs - 1) / HOUR_MS) };
      if (units > 0) giveBack(account, budgets[i]!, returned.places[i], units);
    }
  }
}

function giveBack(
  account: Draft<AccountState>,
  budget: RuleBudget,
  places: readonly number[] | undefined,
  units: number,
): void {
  let windows = counting.copyOfWindows(account.windows);
  for (let j = 0; j < budget.limits.length; j++) {
    const limit = budget.limits[j]!;
    const count = windows[limit.window];
    if (count !== undefined) {
      const left = counting.givenBack(count, limit, places?.[j] ?? 0, units);
      if (left === undefined) windows = counting.withoutWindow(windows, limit.window);
      else windows[limit.window] = left;
    }
  }
  account.windows = windows;
}

/** Decides about the requests that were not admitted, and lends units, if the store has lent some or the gateway asks for some. */
export function decideWithLeases(
  decision: Draft<Decision>,
  budgets: readonly RuleBudget[],
  rule: Rule,
  room: number,
  terms: LeaseTerms | undefined,
): void {
  const { accounts, admitted, n, nowMs, cost, amounts } = decision;
  for (const account of accounts) if (mayReturn(account, nowMs)) decision.mayReturn = true;
  if (admitted < room) {
    decision.isCrowded = true;
  } else if (admitted < n) {
    const isStrike = refusing.isStrike(budgets, rule, cost, amounts);
    if (!terms?.isFinal && longestWait(accounts, nowMs) > 0 && mayHelp(decision, budgets, rule, isStrike)) {
      recall(decision);
      decision.waitMs = longestWait(accounts, nowMs);
    } else if (isStrike) {
      refusing.strike(decision, budgets, rule);
      if (decision.imposesBan) {
        recall(decision);
        decision.mayReturn = undefined;
      }
    }
  } else if (terms?.borrows !== undefined && n > 0) {
    lend(decision, budgets, terms.borrows);
  }
}

/**
 * Recalls what is lent of windows that this decision would count in another form, as after a change of plans, and lets all requests
 * wait: what gateways return afterwards would not find its place.
 * @returns false if there is no such window
 */
export function waitToMove(
  decision: Draft<Decision>,
  before: readonly AccountState[],
  budgets: readonly RuleBudget[],
): boolean {
  const { accounts, nowMs, tookBack } = decision;
  let waitMs = 0;
  for (let i = 0; i < accounts.length && tookBack === undefined; i++) {
    if (movesCounts(before[i], accounts[i]!, budgets[i]!)) waitMs = Math.max(waitMs, waitFor(accounts[i]!, nowMs));
  }
  if (waitMs === 0) return false;
  recall(decision);
  decision.waitMs = longestWait(accounts, nowMs);
  decision.mayReturn = true;
  decision.awaitsMove = true;
  return true;
}

function movesCounts(earlier: AccountState | undefined, present: AccountState, { limits }: RuleBudget): boolean {
  if (earlier === undefined) return false;
  for (const { window } of limits) {
    const from = earlier.windows[window];
    const to = present.windows[window];
    if (from !== undefined && to !== undefined) {
      if (from.slices === undefined ? from.endsAtMs !== to.endsAtMs : from.slices.per !== to.slices?.per) return true;
    }
  }
  return false;
}

/**
 * Whether units that gateways may still return could change the refusal of some requests: one of them would then fit, or they would
 * lead to a ban of an account whose units other gateways may still be using.
 */
function mayHelp(decision: Decision, budgets: readonly RuleBudget[], rule: Rule, isStrike: boolean): boolean {
  const { accounts, n, admitted, nowMs } = decision;
  const returned: number[] = [];
  for (const account of accounts) returned.push(unreturnedUnits(account, nowMs));
  if (charging.roomFor(decision, budgets, 1, returned) > 0) return true;
  const struck = accounts[rule.bansIn]!;
  const strikes = struck.strikes === undefined ? 0 : struck.strikes.count;
  if (!isStrike || strikes + n - admitted < rule.bans!.after) return false;
  return waitFor(struck, nowMs) > 0;
}

/**
 * Lends units after the decision has admitted all its requests, while no refusal is near: at most a sixteenth of the room that is left in
 * the tightest window. They last for `SHORT_LEASE_MS`, or for as long as the gateway asks for if that takes at most a 64th. The lease
 * ends before any window, slice, hour or top-up in which the store counts it, and a shorter lease has fewer units.
 */
function lend(decision: Draft<Decision>, budgets: readonly RuleBudget[], borrows: Borrows): void {
  const { accounts, cost, nowMs } = decision;
  let room = borrows.units * SHARE_OF_LONG;
  let forMs = spreadEnd(HOUR_MS - (nowMs % HOUR_MS), borrows);
  let most = MAX_LONG_LEASES;
  for (let i = 0; i < accounts.length; i++) {
    const account = accounts[i]!;
    const known = knownLeases(account, nowMs);
    if (account.strikes !== undefined || known.length >= MAX_LEASES || isRecalled(known, nowMs)) return;
    most = Math.min(most, MAX_LONG_LEASES - known.length);
    for (const limit of budgets[i]!.limits) {
      const count = account.windows[limit.window];
      if (count === undefined) return;
      room = Math.min(room, limit.limit - count.used);
      const leftMs = count.endsAtMs - (count.slices === undefined ? 0 : limit.lengthMs) - nowMs;
      forMs = Math.min(forMs, limit.instants === undefined ? leftMs : spreadEnd(leftMs, borrows));
      if (limit.topUp !== undefined) forMs = Math.min(forMs, limit.topUp.untilMs - nowMs);
    }
  }
  const isLong = most > 0 && borrows.units * SHARE_OF_LONG <= room;
  forMs = Math.min(forMs, borrows.forMs, isLong ? MAX_LEASE_MS : SHORT_LEASE_MS);
  const units = Math.min(Math.ceil((borrows.units * forMs) / borrows.forMs), Math.floor(room / SHARE));
  if (units < Math.max(MIN_UNITS, MIN_REQUESTS * cost) || forMs < MIN_LEASE_MS) return;
  for (let i = 0; i < accounts.length; i++) {
    const account: Draft<AccountState> = accounts[i]!;
    const { limits } = budgets[i]!;
    charging.count(account.windows, limits, nowMs, units);
    const leases = knownLeases(account, nowMs);
    leases.push({ id: borrows.id, units: limits.length === 0 ? -units : units, endsAtMs: nowMs + forMs });
    account.leases = leases;
  }
  decision.lent = { units, forMs };
}

/** When a lease ends that must end within `leftMs`, as those of many other accounts: they must not all return in one moment. */
function spreadEnd(leftMs: number, { id, forMs }: Borrows): number {
  return leftMs < forMs ? leftMs - Math.floor((leftMs * (id % ENDS)) / (2 * ENDS)) : leftMs;
}

/** Whether a recall is in force. */
function isRecalled(leases: readonly Lease[], nowMs: number): boolean {
  for (const { units, endsAtMs } of leases) if (units === 0 && nowMs < endsAtMs) return true;
  return false;
}
