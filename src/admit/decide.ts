import type { Ban, StoredAccount } from '../model/account.ts';
import type { BanRule } from '../model/plan.ts';
import type { LimitName, WindowName } from '../model/values.ts';
import {
  type Lease,
  type LeaseTerms,
  type Lent,
  lend,
  mayReturn,
  NO_LEASES,
  notice,
  takeBack,
  unreturnedUnits,
  waitFor,
} from './lease.ts';
import type { Allowance, Budget, Budgets } from './plan.ts';
import {
  countIn,
  fitsAtMs,
  isPresent,
  presentCount,
  type ToppedUpLimit,
  type TopUps,
  type WindowCount,
  type WindowLimit,
  withTopUps,
} from './windows.ts';

export type { Ban } from '../model/account.ts';

type Strikes = StoredAccount['strikes'];

/** Whole numbers from 0, by the name of the unit. */
export type Amounts = Readonly<Record<string, number>>;

/** What is counted for one account. */
export interface AccountState extends StoredAccount {
  /** What gateways have borrowed; left out if nothing is lent. */
  readonly leases?: readonly Lease[];
}

/** The accounts of the budgets of an allowance, in their order. */
export type Accounts = readonly [AccountState, ...AccountState[]];

export const NO_STRIKES: Strikes = Object.freeze({ count: 0, endsAtMs: 0 });

/** An account without any counted request. */
export const UNSEEN: AccountState = Object.freeze({ windows: Object.freeze({}), strikes: NO_STRIKES, ban: null });

/** The accounts of a consumer without any counted request. */
export const ALL_UNSEEN: Accounts = Object.freeze([UNSEEN]);

/** The decision about `n` simultaneous requests of one consumer: the first are admitted, the next refused, the last banned. */
export interface Outcome {
  /** The time of the decision by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly cost: number;
  /** What each request takes of budgets in units of their own; left out if the allowance has no such budget. */
  readonly amounts?: Amounts;
  readonly n: number;
  /** How many requests are admitted: the first ones. */
  readonly admitted: number;
  /** The index of the first request that gets the ban answer; `n` if none does. */
  readonly bannedFrom: number;
  /** Set if this decision imposed the ban, with the request at `bannedFrom`; left out if the ban was in force before. */
  readonly imposesBan?: true;
  /** Set if the store may not have counted the admitted requests, because it did not answer. */
  readonly isUncertain?: true;
  /** Set if the refused requests were refused because as many are in flight as may be: no strikes, and no limit refuses them. */
  readonly isCrowded?: true;
  /** What was lent to the gateway, which `accounts` have counted; left out if it has borrowed nothing. */
  readonly lent?: Lent;
  /** Set if other gateways may return units of these accounts, and no ban refuses requests in any case. */
  readonly mayReturn?: true;
  /**
   * Set if the requests behind the admitted ones are neither admitted nor refused, because such units may be enough for them: for how
   * long they may wait, milliseconds.
   */
  readonly waitMs?: number;
  /** The requests in flight of each account after the last request, null without such a limit; left out if none has one. */
  readonly inFlight?: readonly (number | null)[];
  /** The accounts after the last request. */
  readonly accounts: Accounts;
}

/**
 * Decides `n` simultaneous requests of `cost` each, exactly as `n` single requests one after the other (contract section
 * 3). A request charges every budget of the allowance or none. Pure. `stores/redis/decide.lua` is the same function, and
 * test/admit/budget-twins.test.ts compares the two: change both or neither.
 *
 * With `n` 0 it returns the present state, without everything that has ended by `nowMs`.
 *
 * @param before the accounts of the budgets; those that are missing at the end are `UNSEEN`
 * @param nowMs the store's clock, Unix milliseconds. It may jump. After it was set back, no window or strike lasts longer
 *   than its own length from `nowMs`, and no ban longer than its rung's length. After it was set forward, everything that
 *   it has passed has ended for good.
 * @param cost whole number from 1
 * @param inFlight how many requests of each account are in flight, in the order of the budgets
 * @param amounts what each request takes of budgets in units of their own
 * @param leaseTerms what the gateway borrows and returns; it borrows only without a bound of requests in flight and without `amounts`
 */
export function decide(
  before: readonly AccountState[],
  allowance: Allowance,
  nowMs: number,
  cost: number,
  n: number,
  inFlight: readonly number[] = NONE_IN_FLIGHT,
  amounts?: Amounts,
  leaseTerms: LeaseTerms = NO_TERMS,
): Outcome {
  const { budgets, boundsInFlight } = allowance;
  const asked = { nowMs, cost, n, amounts, leaseTerms };
  const accounts = presentAccounts(before, allowance, asked);
  if (leaseTerms.returned !== undefined) takeBack(accounts, leaseTerms.returned, nowMs);
  const roomInFlight = boundsInFlight ? roomInFlightOf(budgets, inFlight) : Number.POSITIVE_INFINITY;
  const decided = decideOn(accounts, allowance, asked, roomInFlight);
  const outcome = amounts === undefined ? decided : { ...decided, amounts };
  if (!boundsInFlight) return outcome;
  const after = budgets.map(({ inFlight: bound }, i) =>
    bound === undefined ? null : (inFlight[i] ?? 0) + outcome.admitted,
  );
  return { ...outcome, inFlight: after };
}

const NOTHING = () => 0;
const NO_TERMS: LeaseTerms = Object.freeze({});

/** What is asked about a consumer. */
interface DecisionTerms extends Pick<Outcome, 'nowMs' | 'cost' | 'n'> {
  readonly amounts: Amounts | undefined;
  readonly leaseTerms: LeaseTerms;
}

/** How many further requests may be in flight in every account. */
function roomInFlightOf(budgets: Budgets, inFlight: readonly number[]): number {
  let room = Number.POSITIVE_INFINITY;
  for (const [i, { inFlight: bound }] of budgets.entries()) {
    if (bound !== undefined) room = Math.min(room, bound - (inFlight[i] ?? 0));
  }
  return Math.max(room, 0);
}

function decideOn(
  accounts: readonly ChargedAccount[],
  allowance: Allowance,
  asked: DecisionTerms,
  roomInFlight: number,
): Outcome {
  const { nowMs, cost, n, leaseTerms } = asked;
  if (isBanned(accounts, nowMs)) return { nowMs, cost, n, admitted: 0, bannedFrom: 0, accounts: statesOf(accounts) };
  const room = roomFor(accounts, n, NOTHING);
  const admitted = Math.min(room, roomInFlight);
  if (admitted > 0) for (const account of accounts) account.windows = count(account, nowMs, admitted);
  if (leaseTerms.borrows !== undefined || isLent(accounts))
    return decideWithLeases(accounts, allowance, asked, room, admitted);
  if (admitted < n && admitted === room && isStrike(accounts, allowance)) {
    const struck = strike(accounts, allowance, { nowMs, n, admitted });
    return { nowMs, cost, n, admitted, ...struck, accounts: statesOf(accounts) };
  }
  const outcome = { nowMs, cost, n, admitted, bannedFrom: n, accounts: statesOf(accounts) };
  return admitted < room ? { ...outcome, isCrowded: true } : outcome;
}

function isLent(accounts: readonly ChargedAccount[]): boolean {
  for (const { leases } of accounts) if (leases.length > 0) return true;
  return false;
}

/** The same where units are lent, or asked for. What is admitted has been counted. */
function decideWithLeases(
  accounts: readonly ChargedAccount[],
  allowance: Allowance,
  { nowMs, cost, n, leaseTerms }: DecisionTerms,
  room: number,
  admitted: number,
): Outcome {
  const returns = accounts.some((account) => mayReturn(account, nowMs)) ? ({ mayReturn: true } as const) : {};
  if (admitted < n && admitted === room) {
    const waitMs = leaseTerms.isFinal ? 0 : waitFor(accounts, nowMs);
    if (waitMs > 0 && mayHelp(accounts, allowance, nowMs, n - admitted)) {
      notice(accounts, nowMs);
      return { nowMs, cost, n, admitted, bannedFrom: n, ...returns, waitMs, accounts: statesOf(accounts) };
    }
    if (isStrike(accounts, allowance)) {
      const struck = strike(accounts, allowance, { nowMs, n, admitted });
      if (struck.imposesBan) notice(accounts, nowMs);
      const lasting = struck.imposesBan ? {} : returns;
      return { nowMs, cost, n, admitted, ...struck, ...lasting, accounts: statesOf(accounts) };
    }
  }
  const { borrows } = leaseTerms;
  const lent = borrows === undefined || n === 0 || admitted < n ? null : lend(accounts, { ...borrows, cost }, nowMs);
  const decided = { nowMs, cost, n, admitted, bannedFrom: n, ...returns, ...(lent === null ? {} : { lent }) };
  const outcome = { ...decided, accounts: statesOf(accounts) };
  return admitted < room ? { ...outcome, isCrowded: true } : outcome;
}

/**
 * Whether what gateways may still return could change the refusal of some requests: one of them would fit then, or they would lead to a
 * ban of an account whose units others may still be using.
 */
function mayHelp(accounts: readonly ChargedAccount[], allowance: Allowance, nowMs: number, refused: number): boolean {
  if (roomFor(accounts, 1, (account) => unreturnedUnits(account, nowMs)) > 0) return true;
  const struck = accounts[allowance.bansIn]!;
  if (!isStrike(accounts, allowance) || struck.strikes.count + refused < allowance.bans!.after) return false;
  return waitFor([struck], nowMs) > 0;
}

function isBanned(accounts: readonly ChargedAccount[], nowMs: number): boolean {
  for (const { ban } of accounts) if (ban !== null && nowMs < ban.untilMs) return true;
  return false;
}

/** Whether the refusal of a request is a strike: one that waiting could have avoided. */
function isStrike(accounts: readonly ChargedAccount[], { bans }: Allowance): boolean {
  if (bans === null) return false;
  for (const { limits, cost } of accounts) if (costExceedsLimit(limits, roomOf(cost))) return false;
  return true;
}

const NONE_IN_FLIGHT: readonly number[] = Object.freeze([]);

/** One account under its budget, while a decision is made about it. */
interface ChargedAccount {
  /** What each request charges here. 0 for one that takes nothing in advance of a unit. */
  readonly cost: number;
  readonly limits: readonly ToppedUpLimit[];
  windows: AccountState['windows'];
  strikes: Strikes;
  ban: Ban | null;
  readonly topUps: TopUps | undefined;
  leases: readonly Lease[];
}

/** What of each account has not ended. */
function presentAccounts(
  before: readonly AccountState[],
  allowance: Allowance,
  { nowMs, cost, n, amounts }: DecisionTerms,
): ChargedAccount[] {
  const { budgets, bans, bansIn } = allowance;
  // Of this length from the start: an array that grows has room for 16.
  const accounts = new Array<ChargedAccount>(budgets.length);
  let latestBackMs = 0;
  for (let i = 0; i < budgets.length; i++) {
    const budget = budgets[i]!;
    const { windows: counts, ban, strikes, topUps, leases } = before[i] ?? UNSEEN;
    const limits = withTopUps(budget.limits, topUps, nowMs);
    const { windows, backMs } = currentWindows(counts, limits, nowMs);
    latestBackMs = Math.max(latestBackMs, backMs);
    accounts[i] = {
      cost: chargeOf(budget, cost, amounts),
      limits,
      windows,
      strikes,
      ban: currentBan(ban, i === bansIn ? bans : null, nowMs, budgets, n === 0),
      topUps: topUps && topUpsOf(limits),
      leases: leases ?? NO_LEASES,
    };
  }
  for (let i = 0; i < accounts.length; i++) {
    const account = accounts[i]!;
    account.strikes = currentStrikes(account.strikes, i === bansIn ? bans : null, nowMs, latestBackMs);
  }
  return accounts;
}

/** What one request charges a budget. */
export function chargeOf({ unit }: Pick<Budget, 'unit'>, cost: number, amounts: Amounts | undefined): number {
  return unit === undefined ? cost : (amounts?.[unit] ?? 0);
}

/**
 * How much must be left of a limit for a request that charges `charge`: a request that takes nothing in advance is admitted as long
 * as something is left.
 */
export function roomOf(charge: number): number {
  return Math.max(charge, 1);
}

function statesOf(accounts: readonly ChargedAccount[]): Accounts {
  const states = new Array<AccountState>(accounts.length);
  for (let i = 0; i < accounts.length; i++) states[i] = stateOf(accounts[i]!);
  return states as [AccountState, ...AccountState[]];
}

function stateOf({ windows, strikes, ban, topUps, leases }: ChargedAccount): AccountState {
  const state = topUps === undefined ? { windows, strikes, ban } : { windows, strikes, ban, topUps };
  return leases.length === 0 ? state : { ...state, leases };
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
    if (costExceedsLimit(budget.limits, roomOf(chargeOf(budget, cost, amounts)))) return true;
  }
  return false;
}

/** The name of the window whose refusal led to a ban. */
export function nameOfBan({ window, budget }: Ban): LimitName {
  return budget === undefined ? window : `${budget}-${window}`;
}

/** The ban in force that ends last, of the consumer or of its customer; null if none is in force. */
export function banInForce(accounts: readonly AccountState[], nowMs: number): Ban | null {
  let last: Ban | null = null;
  for (const { ban } of accounts) {
    if (ban !== null && nowMs < ban.untilMs && ban.untilMs > (last?.untilMs ?? 0)) last = ban;
  }
  return last;
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
    ban: number === 0 ? null : { ...state.ban, number, untilMs: nowMs },
  };
}

/**
 * The accounts that a store keeps after a decision, which returns only what the allowance counts. Windows that it does not count
 * stay, as after a change of plans.
 *
 * Slices become another kind when something is counted. If refusals did it, a client that polls two gateways that are in the
 * middle of a reload would move its count along with the present, and never be admitted again.
 */
export function accountsAfter(before: readonly AccountState[], outcome: Outcome, { budgets }: Allowance): Accounts {
  const { accounts, n } = outcome;
  const kept = n === 0 ? stateAfterReturn : keptState;
  const after = (state: AccountState, i: number) => kept(before[i] ?? UNSEEN, state, budgets[i]!.limits, outcome);
  return accounts.map(after) as [AccountState, ...AccountState[]];
}

/**
 * One account after a lease was returned, perhaps under an earlier allowance: nothing else of it changes, because the present one
 * may count its strikes and windows otherwise.
 */
function stateAfterReturn(
  before: AccountState,
  { windows, leases }: AccountState,
  limits: readonly WindowLimit[],
  { nowMs }: Pick<Outcome, 'nowMs'>,
): AccountState {
  const after: Partial<Record<WindowName, WindowCount>> = { ...before.windows };
  for (const limit of limits) {
    const { window, slices } = limit;
    const earlier = before.windows[window];
    const { count: present } = presentCount(earlier, limit, nowMs);
    if (earlier?.slices?.per !== slices || present?.used === windows[window]?.used) continue;
    if (windows[window] === undefined) delete after[window];
    else after[window] = windows[window];
  }
  const { leases: _, ...others } = before;
  return { ...others, windows: after, ...(leases === undefined ? {} : { leases }) };
}

/** The same for one account. */
function keptState(
  before: AccountState,
  after: AccountState,
  limits: readonly WindowLimit[],
  { admitted, nowMs }: Pick<Outcome, 'admitted' | 'nowMs'>,
): AccountState {
  const kept = Object.entries(before.windows).filter(([name, { slices }]) => {
    const limit = limits.find(({ window }) => window === name);
    if (limit === undefined) return true;
    const isConverted =
      slices !== undefined && slices.per !== limit.slices && after.windows[limit.window] !== undefined;
    return isConverted && admitted === 0;
  });
  const topUps =
    before.topUps === undefined ? [] : Object.entries(before.topUps).filter(([, { untilMs }]) => nowMs < untilMs);
  const notes = before.topUpNotes?.filter(({ untilMs }) => nowMs < untilMs) ?? [];
  const ban = banAfter(before.ban, after.ban);
  if (kept.length === 0 && topUps.length === 0 && ban === after.ban) return after;
  return {
    ...after,
    ban,
    windows: { ...after.windows, ...Object.fromEntries(kept) },
    ...(topUps.length === 0 ? {} : { topUps: Object.fromEntries(topUps) }),
    ...(notes.length === 0 ? {} : { topUpNotes: notes }),
  };
}

/**
 * The ban that a store keeps: a decision leaves out the budget of a ban if its own allowance lacks that. A ban that ends later is a new
 * one; its number may be the same, because the one before was forgotten.
 */
function banAfter(before: Ban | null, ban: Ban | null): Ban | null {
  if (before?.budget === undefined || ban === null || ban.untilMs > before.untilMs || ban.budget !== undefined)
    return ban;
  return { ...ban, budget: before.budget };
}

function currentBan(
  of: Ban | null,
  rule: BanRule | null,
  nowMs: number,
  budgets: Budgets,
  isRead: boolean,
): Ban | null {
  if (of === null) return null;
  const ban = of.budget === undefined || budgets.some(({ name }) => name === of.budget) ? of : withoutBudget(of);
  if (rule === null) return nowMs < ban.untilMs ? ban : null;
  if (nowMs >= ban.untilMs + rule.forgetMs) return null;
  // Nothing is stored when the state is only read. An end that is made of the present would be later at each reading.
  if (isRead || nowMs >= ban.untilMs) return ban;
  // Bounded by this ban's own length. With `longest` as the bound, a clock set back by 12 h made a ban of 60 s last 12 h.
  const latestMs = nowMs + banLengthMs(rule, ban.number);
  return ban.untilMs > latestMs ? { ...ban, untilMs: latestMs } : ban;
}

function withoutBudget({ number, untilMs, window }: Ban): Ban {
  return { number, untilMs, window };
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

function topUpsOf(limits: readonly ToppedUpLimit[]): TopUps | undefined {
  const inForce = limits.flatMap(({ window, topUp }) => (topUp === undefined ? [] : [[window, topUp] as const]));
  return inForce.length === 0 ? undefined : Object.fromEntries(inForce);
}

/** How many of `n` requests fit. @param returned what is to be taken for unused of each account */
function roomFor(
  accounts: readonly ChargedAccount[],
  n: number,
  returned: (account: ChargedAccount) => number,
): number {
  let room = n;
  for (const account of accounts) {
    const { cost, limits, windows } = account;
    for (const { window, limit } of limits) {
      const left = limit - (windows[window]?.used ?? 0) + returned(account);
      if (cost > 0) room = Math.min(room, Math.floor(left / cost));
      else if (left <= 0) room = 0;
    }
  }
  return Math.max(room, 0);
}

function count({ cost, windows, limits }: ChargedAccount, nowMs: number, admitted: number) {
  if (cost === 0) return windows;
  const spent = admitted * cost;
  const counted = { ...windows };
  for (const limit of limits) counted[limit.window] = countIn(windows[limit.window], limit, nowMs, spent);
  return counted;
}

/** Counts the refused requests as strikes, or imposes the ban that they lead to. */
function strike(
  accounts: readonly ChargedAccount[],
  { budgets, bans, bansIn }: Allowance,
  { nowMs, n, admitted }: { nowMs: number; n: number; admitted: number },
): Pick<Outcome, 'bannedFrom' | 'imposesBan'> {
  const rule = bans!;
  const struck = accounts[bansIn]!;
  const refusing = lastRefusing(accounts);
  const before = struck.strikes.count;
  const total = before + n - admitted;
  if (total < rule.after) {
    const since = before === 0 ? nowMs + rule.withinMs : struck.strikes.endsAtMs;
    struck.strikes = { count: total, endsAtMs: Math.min(since, refusing.fitsAtMs) };
    return { bannedFrom: n };
  }
  const number = (struck.ban?.number ?? 0) + 1;
  const { window } = refusing;
  const { name } = budgets[refusing.budget]!;
  const ban = { number, untilMs: nowMs + banLengthMs(rule, number), window };
  struck.ban = name === '' ? ban : { ...ban, budget: name };
  struck.strikes = NO_STRIKES;
  return { bannedFrom: admitted + Math.max(rule.after - before - 1, 0), imposesBan: true };
}

/**
 * The window that refuses a request for the longest time; of several, the last one: the longest of the last budget. Each strike
 * has such a window, and a client that waits for it is refused by no window.
 */
function lastRefusing(accounts: readonly ChargedAccount[]) {
  let last: { budget: number; window: WindowName; fitsAtMs: number } = { budget: 0, window: 'second', fitsAtMs: 0 };
  for (const [budget, { cost, limits, windows }] of accounts.entries()) {
    const needed = roomOf(cost);
    for (const limit of limits) {
      const open = windows[limit.window];
      if (limit.limit - (open?.used ?? 0) >= needed) continue;
      const atMs = open === undefined ? 0 : fitsAtMs(open, limit, needed);
      if (atMs >= last.fitsAtMs) last = { budget, window: limit.window, fitsAtMs: atMs };
    }
  }
  return last;
}
