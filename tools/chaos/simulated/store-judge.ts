import type { Allowance } from '../../../src/admit/allowance.ts';
import { type Refused, verdictOf } from '../../../src/admit/verdict.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';
import { WINDOW_MS } from '../../../src/engine/counting.ts';
import { UNSEEN } from '../../../src/engine/decide.ts';
import { MAX_LEASE_MS } from '../../../src/engine/leasing.ts';
import type { AccountState, Amounts, Decision, ReturnedLease } from '../../../src/engine/types.ts';
import type { WindowName } from '../../../src/model/values.ts';
import { budgetsOf, chargedIn, historiesOfUnit, type JudgedBudget } from './budgets.ts';
import {
  type ChargedAccount,
  type ExecutedAddition,
  type ExecutedDecision,
  type ExecutedReport,
  type ExecutedSettlement,
  KNOWN_FOR_MS,
  TICKET_MS,
  takenBack,
} from './redis-model.ts';

/** Cost that was counted between two instants: the same one, unless the judge learned of it from a slice. */
interface Counted {
  readonly fromMs: number;
  readonly toMs: number;
  readonly cost: number;
}

/** A window as the judge counts it: `log` of a sliding one, else `used` and `endsAtMs`. */
interface JudgedWindow {
  readonly form: string;
  used: number;
  endsAtMs: number;
  log: Counted[];
}

interface JudgedAccount {
  /** Since when the judge follows it, by the store's clock. */
  readonly sinceMs: number;
  readonly windows: Map<WindowName, JudgedWindow>;
  bans: string;
  strikes: number;
  strikesEndAtMs: number;
  banNumber: number;
  banUntilMs: number;
  /** What each process has in flight, and until when that holds. */
  readonly held: Map<string, { readonly count: number; readonly untilMs: number }>;
  /** What is lent, by the id of the lease; null for a lease of which the judge does not know where it is counted. */
  readonly leases: Map<number, JudgedLease | null>;
}

/** Units that the store has lent, and counted at once. */
interface JudgedLease {
  readonly units: number;
  /** When they were counted, and when the lease ends, by the store's clock. */
  readonly lentAtMs: number;
  readonly endsAtMs: number;
  /** The ends of the windows that do not slide and have counted them. */
  readonly ends: ReadonlyMap<WindowName, number>;
}

/** One budget in a decision: its account as the judge knows it and as the store has it. */
interface Charged {
  readonly budget: JudgedBudget;
  readonly account: JudgedAccount;
  readonly told: AccountState;
}

/**
 * Holds what the store does against contract section 3, with a bookkeeping of its own: for a sliding window it adds up the
 * log of all counts, and for other windows it knows the end and the sum. It uses nothing of src/engine/ that counts.
 */
export class StoreJudge {
  readonly #accounts = new Map<string, JudgedAccount>();

  /** The state was changed by something that the judge does not follow: it goes on from the next state that it sees. */
  disturbed(): void {
    for (const id of this.#accounts.keys()) this.#accounts.delete(id);
  }

  disturbedOne(accountId: string): void {
    this.#accounts.delete(accountId);
  }

  /** @returns what is wrong, or null */
  decided(plan: Allowance, executed: ExecutedDecision): string | null {
    const { consumerId, decision, accounts } = executed;
    const budgets = budgetsOf(consumerId, plan);
    const ids = budgets.map(({ accountId }) => accountId).join(', ');
    const charged = accounts.map(({ accountId }) => accountId).join(', ');
    if (ids !== charged) return `The store charged ${charged} for ${consumerId}; it should be ${ids}.`;
    const struck = plan.bansIn;
    const bansOf = (i: number) => JSON.stringify(i === struck ? plan.bans : null);
    const { nowMs } = decision;
    const known = budgets.map((budget, i) => this.#known(accounts[i]!, budget, bansOf(i), nowMs));
    const wrong = spentByRefusal(budgets, executed) ?? historyOf(budgets, plan, executed);
    if (wrong !== null) return wrong;
    const { returned } = executed.leaseTerms;
    const isUnknown = (account: JudgedAccount | null) =>
      returned !== undefined && account?.leases.get(returned.id) === null;
    if (known.includes(null) || known.some(isUnknown)) {
      // A return alone, and a decision that waits, leave an account as it is kept, with what the next decision will find ended.
      if (decision.n === 0 || decision.waitMs !== undefined)
        for (const { accountId } of accounts) this.#accounts.delete(accountId);
      else for (const [i, budget] of budgets.entries()) this.#startAgain(accounts[i]!, budget, bansOf(i), nowMs);
      return null;
    }
    const all = budgets.map((budget, i): Charged => {
      return { budget, account: known[i]!, told: decision.accounts[i]! };
    });
    const broken = judge(all, plan, executed, struck);
    return broken === null ? null : `${broken} Consumer ${consumerId}: ${JSON.stringify(decision)}.`;
  }

  /** What the judge knows about an account; null if it does not know it, or knows it under other rules. */
  #known({ accountId, before }: ChargedAccount, budget: JudgedBudget, bans: string, nowMs: number) {
    const unseen = before === undefined ? accountOf(UNSEEN, budget, bans, nowMs) : null;
    const account = this.#accounts.get(accountId) ?? unseen;
    if (account === null || account.bans !== bans || !budget.limits.every((one) => isSameForm(account, one)))
      return null;
    this.#accounts.set(accountId, account);
    return account;
  }

  /** The judge goes on from what the store has. */
  #startAgain({ accountId, stored, tickets }: ChargedAccount, budget: JudgedBudget, bans: string, nowMs: number): void {
    const account = accountOf(stored, budget, bans, nowMs);
    for (const { holder, count, endsAtMs } of tickets) account.held.set(holder, { count, untilMs: endsAtMs });
    this.#accounts.set(accountId, account);
  }

  /** A process has reported what it has in flight. */
  reported({ accountId, holder, count, nowMs }: ExecutedReport): void {
    this.#accounts.get(accountId)?.held.set(holder, { count, untilMs: nowMs + TICKET_MS });
  }

  /** What a request used is known: the rest is given back, or what it used besides is added. @returns what is wrong, or null */
  settled({ accountId, delta, windows, nowMs, stored }: ExecutedSettlement): string | null {
    const account = this.#accounts.get(accountId);
    if (account === undefined) return null;
    if (!windows.every(({ of }) => isSameSettled(account, of))) {
      this.#accounts.delete(accountId);
      return null;
    }
    for (const { of, placeMs } of windows) {
      const wrong = settle(account, of, { placeMs, delta, nowMs }, stored.windows[of.window]);
      if (wrong !== null) return `${wrong} Account ${accountId}.`;
    }
    return null;
  }

  /** @returns what is wrong, or null */
  added({ accountId: id, windows, nowMs, stored }: ExecutedAddition): string | null {
    const account = this.#accounts.get(id);
    if (account === undefined) return null;
    for (const { window, slices, isCalendar, spent, endsAtMs, isAdded } of windows) {
      if (!isAdded) {
        // No history outlasts a week.
        if (endsAtMs > nowMs || window === 'week')
          return `Usage of ${spent} was not added to the ${window} of ${id}, which has not ended.`;
        continue;
      }
      const form = slices > 0 ? `${slices} slices` : isCalendar ? 'calendar' : 'fixed';
      const known = account.windows.get(window) ?? emptyWindow(form);
      account.windows.set(window, known);
      if (!known.form.startsWith(form)) {
        this.#accounts.delete(id);
        return null;
      }
      if (slices > 0) known.log.push({ fromMs: nowMs, toMs: nowMs, cost: spent });
      else {
        const isOpen = nowMs < known.endsAtMs;
        known.used = (isOpen ? known.used : 0) + spent;
        known.endsAtMs = isOpen ? Math.min(known.endsAtMs, endsAtMs) : endsAtMs;
        const kept = stored.windows[window];
        if (kept?.used !== known.used || kept.endsAtMs !== known.endsAtMs) {
          return `The ${window} of ${id} is ${JSON.stringify(kept)} after usage of ${spent} was added; it should be ${known.used} until ${known.endsAtMs}.`;
        }
      }
    }
    return null;
  }
}

/** Refused requests spend nothing in any budget: no count grows by more than what was admitted. */
function spentByRefusal(
  budgets: readonly JudgedBudget[],
  { decision, accounts, consumerId }: ExecutedDecision,
): string | null {
  for (const [i, { accountId, before, stored }] of accounts.entries()) {
    const charged = decision.admitted * chargedIn(budgets[i]!, decision.cost, amountsOf(budgets, decision)).charge;
    const spent = charged + (decision.lent?.units ?? 0);
    for (const [window, { used }] of Object.entries(stored.windows)) {
      const grown = used - (before?.windows[window as WindowName]?.used ?? 0);
      if (grown > spent)
        return `The store admitted ${spent} of ${consumerId} and counted ${grown} in the ${window} of ${accountId}.`;
    }
  }
  return null;
}

/** The amounts of an outcome of the model, which knows the unit under another name than the plan. */
export function amountsOf(budgets: readonly JudgedBudget[], { amounts }: Decision): Amounts | undefined {
  const unit = budgets.find((budget) => budget.unit !== null)?.unit;
  return amounts === undefined || unit == null ? undefined : { [unit]: Object.values(amounts)[0]! };
}

/** What was admitted is in the history of the consumer and in that of its customer; what it takes of units too. */
function historyOf(
  budgets: readonly JudgedBudget[],
  { inUnits = [], history }: Allowance,
  { decision, recorded, consumerId, accounts, leaseTerms }: ExecutedDecision,
) {
  const admitted = decision.n === 0 ? 0 : decision.admitted;
  const before = accounts.map((account) => account.before ?? UNSEEN);
  const borrowed = (decision.lent?.units ?? 0) - takenBack(before, leaseTerms, decision.nowMs);
  const amounts = amountsOf(budgets, decision);
  const due = budgets
    .filter(({ hasHistory }) => hasHistory)
    .map(({ accountId }) => `${admitted * decision.cost + borrowed} for ${accountId}`);
  for (const unit of history === undefined ? [] : inUnits)
    for (const id of historiesOfUnit(consumerId, unit)) due.push(`${admitted * amounts![unit]!} for ${id}`);
  const done = recorded.map((one) => `${one.cost} for ${one.accountId}`);
  if (due.join() === done.join()) return null;
  return `The history has ${done.join(', ') || 'nothing'} after a decision about ${consumerId}; it should have ${due.join(', ')}.`;
}

function judge(
  charged: readonly Charged[],
  plan: Allowance,
  { decision, holder, ownInFlight, leaseTerms }: ExecutedDecision,
  struck: number,
): string | null {
  const { nowMs, cost, n, admitted, bannedFrom, isCrowded, lent, waitMs } = decision;
  const { returned, borrows } = leaseTerms;
  if (returned !== undefined) takeBack(charged, returned, nowMs);
  else if (n === 0) return null;
  const amounts = amountsOf(
    charged.map(({ budget }) => budget),
    decision,
  );
  const lentUnits = lent?.units ?? 0;
  const spentIn = (budget: JudgedBudget) => admitted * chargedIn(budget, cost, amounts).charge + lentUnits;
  const crowd = judgeCrowd(charged, decision, holder, ownInFlight);
  if (crowd !== null) return crowd;
  if (charged.some(({ account }) => nowMs < account.banUntilMs)) {
    if (n > 0 && (admitted > 0 || bannedFrom > 0)) return 'The store did not ban a request during a ban.';
    return countAll(charged, nowMs, () => 0);
  }
  let mayRefuse = isCrowded === true;
  let neverFits = false;
  for (const { budget, account } of charged) {
    const spent = spentIn(budget);
    const { needed } = chargedIn(budget, cost, amounts);
    for (const limit of budget.limits) {
      const window = windowOf(account, limit);
      const { least, most } = countNow(window, limit, nowMs);
      if (admitted > 0 && least + Math.max(spent, 1) > limit.limit) {
        return `The store admitted ${spent} in a ${limit.window} of ${limit.limit} (${window.form}) with ${least} counted in ${budget.accountId}.`;
      }
      if (most + spent + needed > limit.limit) mayRefuse = true;
      if (needed > limit.limit) neverFits = true;
    }
  }
  charged[struck]!.account.strikesEndAtMs -= backMs(charged, nowMs);
  if (lent !== undefined) {
    if (admitted < n || n === 0 || lent.units > (borrows?.units ?? 0))
      return 'The store lent what nobody has asked for.';
    const unlendable = judgeLent(charged, decision, (budget) => spentIn(budget) - lentUnits);
    if (unlendable !== null) return unlendable;
  }
  const wrong = countAll(charged, nowMs, spentIn);
  if (wrong !== null) return wrong;
  if (lent !== undefined) noteLent(charged, decision, borrows!.id);
  if (n === 0) return null;
  const { account, told } = charged[struck]!;
  if (waitMs !== undefined) {
    if (bannedFrom !== n) return 'The store banned a request that must wait.';
    const strikes = nowMs < account.strikesEndAtMs ? account.strikes : 0;
    if (plan.bans !== null && (told.strikes?.count ?? 0) !== strikes)
      return `The store counts ${told.strikes?.count ?? 0} strikes of ${strikes} while requests wait.`;
  }
  if (admitted < n && !mayRefuse) return 'The store refused a request for which all windows had room.';
  const known = amounts === undefined ? decision : { ...decision, amounts };
  return judgeStrikes(charged[struck]!, plan, known, neverFits || isCrowded === true || waitMs !== undefined);
}

/** What a gateway returns is taken back where it was counted, once, and only as long as the store knows the lease. */
function takeBack(charged: readonly Charged[], { id, unused }: ReturnedLease, nowMs: number): void {
  for (const { budget, account } of charged) {
    const lease = account.leases.get(id);
    if (lease == null || nowMs >= lease.endsAtMs + KNOWN_FOR_MS) continue;
    account.leases.delete(id);
    const units = Math.min(unused, lease.units);
    for (const limit of budget.limits) {
      const window = windowOf(account, limit);
      // It leaves with what was lent.
      if (limit.slices !== undefined) window.log.push({ fromMs: lease.lentAtMs, toMs: lease.lentAtMs, cost: -units });
      else if (nowMs < window.endsAtMs && window.endsAtMs === lease.ends.get(limit.window)) window.used -= units;
    }
  }
}

/** At most a sixteenth, or for longer than a short time a 64th, of what is left in each window, without strikes, and not beyond any window, slice or hour. */
function judgeLent(
  charged: readonly Charged[],
  { nowMs, lent }: Decision,
  spentIn: (budget: JudgedBudget) => number,
): string | null {
  const { units, forMs } = lent!;
  const what = `The store lent ${units} units for ${forMs} ms`;
  const endsAtMs = nowMs + forMs;
  if (forMs > MAX_LEASE_MS || Math.floor((endsAtMs - 1) / HOUR_MS) > Math.floor(nowMs / HOUR_MS))
    return `${what}, which is too long.`;
  for (const { budget, account, told } of charged) {
    if (account.strikes > 0 && nowMs < account.strikesEndAtMs) return `${what} in spite of strikes.`;
    for (const limit of budget.limits) {
      const room = limit.limit - countNow(windowOf(account, limit), limit, nowMs).least - spentIn(budget);
      if (units * (forMs > SHORT_LEASE_MS ? SHARE_OF_LONG : SHARE) > room)
        return `${what} of the ${room} that are left in a ${limit.window}.`;
      if (endsAtMs > endOfPart(limit, told)) return `${what}, beyond the end of a ${limit.window} or of its slice.`;
    }
  }
  return null;
}

/** Which part of what is left is lent at most, for a short time and for a longer one. */
const SHARE = 16;
const SHARE_OF_LONG = 64;
const SHORT_LEASE_MS = 250;
const HOUR_MS = 3_600_000;

/** When the window ends, or the slice in which it counts at present. */
function endOfPart({ window, lengthMs, slices }: WindowLimit, { windows }: AccountState): number {
  const count = windows[window]!;
  if (slices === undefined) return count.endsAtMs;
  const { startsAtMs, first, counts } = count.slices!;
  return startsAtMs + Math.floor(((first + counts.length) * lengthMs) / slices);
}

function noteLent(charged: readonly Charged[], { nowMs, lent }: Decision, id: number): void {
  for (const { budget, account } of charged) {
    const whole = budget.limits.filter(({ slices }) => slices === undefined);
    const ends = new Map(whole.map((limit) => [limit.window, windowOf(account, limit).endsAtMs]));
    account.leases.set(id, { units: lent!.units, lentAtMs: nowMs, endsAtMs: nowMs + lent!.forMs, ends });
    for (const [known, lease] of account.leases)
      if (lease !== null && nowMs >= lease.endsAtMs + KNOWN_FOR_MS) account.leases.delete(known);
  }
}

/** Never more in flight than the limit, and no refusal for a crowd that there is not. */
function judgeCrowd(
  charged: readonly Charged[],
  { nowMs, admitted, isCrowded, inFlight }: Decision,
  holder: string,
  ownInFlight: readonly number[] | null,
): string | null {
  let isFull = false;
  for (const [i, { budget, account }] of charged.entries()) {
    if (budget.inFlight === null) continue;
    const own = ownInFlight![i]! + admitted;
    account.held.set(holder, { count: own, untilMs: nowMs + TICKET_MS });
    let all = 0;
    for (const { count, untilMs } of account.held.values()) if (untilMs > nowMs) all += count;
    if (admitted > 0 && all > budget.inFlight)
      return `The store lets ${all} be in flight of ${budget.accountId}, of at most ${budget.inFlight}.`;
    if (all >= budget.inFlight) isFull = true;
    if (inFlight?.[i] !== all)
      return `The store counts ${inFlight?.[i]} in flight of ${budget.accountId}; it should be ${all}.`;
  }
  return isCrowded && !isFull ? 'The store refused a request because of a crowd that there is not.' : null;
}

/** Counts what was spent in each window of each budget. @returns what the store has counted otherwise, or null */
function countAll(
  charged: readonly Charged[],
  nowMs: number,
  spentIn: (budget: JudgedBudget) => number,
): string | null {
  for (const { budget, account, told } of charged) {
    for (const limit of budget.limits) {
      const spent = spentIn(budget);
      const wrong = count(windowOf(account, limit), limit, nowMs, spent, told.windows[limit.window]);
      if (wrong !== null) return `${wrong} Account ${budget.accountId}.`;
    }
  }
  return null;
}

/**
 * By how much the clock of the store seems to have been set back: usage of a gateway whose own clock was wrong may end later than
 * the period of a calendar window. The strikes move back with it.
 */
function backMs(charged: readonly Charged[], nowMs: number): number {
  let latestMs = 0;
  for (const { budget, account } of charged) {
    for (const limit of budget.limits) {
      const { endsAtMs } = windowOf(account, limit);
      if (limit.calendar === undefined || nowMs >= endsAtMs) continue;
      latestMs = Math.max(latestMs, endsAtMs - endOfPeriod(limit.calendar.form, nowMs));
    }
  }
  return latestMs;
}

function windowOf({ windows }: JudgedAccount, limit: WindowLimit): JudgedWindow {
  const window = windows.get(limit.window) ?? emptyWindow(formOf(limit));
  windows.set(limit.window, window);
  return window;
}

/** The cost that counts at present: exactly, or for slices that the judge did not see from the beginning two bounds. */
function countNow(window: JudgedWindow, { lengthMs, slices }: WindowLimit, nowMs: number) {
  if (slices === undefined) {
    const used = nowMs < window.endsAtMs ? window.used : 0;
    return { least: used, most: used };
  }
  const sliceMs = Math.ceil(lengthMs / slices);
  let least = 0;
  let most = 0;
  for (const { fromMs, toMs, cost } of window.log) {
    if (fromMs > nowMs - lengthMs) least += cost;
    if (toMs > nowMs - lengthMs - sliceMs) most += cost;
  }
  return { least, most };
}

function count(
  window: JudgedWindow,
  { lengthMs, slices, calendar, window: name }: WindowLimit,
  nowMs: number,
  spent: number,
  told: AccountState['windows'][WindowName],
): string | null {
  if (slices !== undefined) {
    if (spent > 0) window.log.push({ fromMs: nowMs, toMs: nowMs, cost: spent });
    window.log = window.log.filter(({ fromMs, toMs }) => Math.max(fromMs, toMs) > nowMs - 2 * lengthMs);
    return null;
  }
  if (nowMs >= window.endsAtMs) {
    window.used = 0;
    window.endsAtMs = spent === 0 ? 0 : calendar === undefined ? nowMs + lengthMs : endOfPeriod(calendar.form, nowMs);
  }
  // Usage of a gateway whose own clock is wrong may end later than the period.
  if (calendar !== undefined) window.endsAtMs = Math.min(window.endsAtMs, endOfPeriod(calendar.form, nowMs));
  window.used += spent;
  const used = told?.used ?? 0;
  const endsAtMs = told?.endsAtMs ?? 0;
  if (used === window.used && endsAtMs === window.endsAtMs) return null;
  return `The store counts ${used} until ${endsAtMs} in a ${name}; it should be ${window.used} until ${window.endsAtMs}.`;
}

/** @returns what the store has counted otherwise, or null */
function settle(
  account: JudgedAccount,
  limit: WindowLimit,
  { placeMs, delta, nowMs }: { readonly placeMs: number; readonly delta: number; readonly nowMs: number },
  told: AccountState['windows'][WindowName],
): string | null {
  const { lengthMs, slices, calendar } = limit;
  const window = windowOf(account, limit);
  if (slices !== undefined) {
    const sliceMs = Math.ceil(lengthMs / slices);
    if (delta > 0) window.log.push({ fromMs: nowMs, toMs: nowMs, cost: delta });
    else if (placeMs > nowMs && placeMs <= nowMs + lengthMs + sliceMs) {
      // What is given back leaves with its slice. For the least that counts it was the newest there, for the most the oldest.
      const slice = { fromMs: placeMs - lengthMs, toMs: placeMs - lengthMs - sliceMs };
      const cost = Math.max(delta, -countedWithin(window, slice));
      // A store that has lost writes since then may have other slices, and gives nothing back: for the most that counts, nothing.
      const toMs = slice.toMs < account.sinceMs - 1 ? Number.NEGATIVE_INFINITY : slice.toMs;
      window.log.push({ fromMs: slice.fromMs, toMs, cost });
    }
    // A place further ahead was noted before the store's clock was set back. The slice has another place since, so the store gives
    // nothing back.
    return null;
  }
  const periodEndsAtMs = calendar?.periodAt(nowMs).endsAtMs ?? Number.POSITIVE_INFINITY;
  // Usage of a gateway whose own clock is wrong may end later than the period.
  const endsAtMs = Math.min(window.endsAtMs, periodEndsAtMs);
  if (nowMs >= endsAtMs) {
    if (delta > 0) {
      window.used = delta;
      window.endsAtMs = calendar === undefined ? nowMs + lengthMs : periodEndsAtMs;
    }
  } else if (delta > 0 || endsAtMs === placeMs) {
    // A store that has lost writes may have lost what is given back.
    window.used = Math.max(window.used + delta, 0);
    window.endsAtMs = endsAtMs;
  }
  const used = told !== undefined && nowMs < told.endsAtMs ? told.used : 0;
  const due = nowMs < window.endsAtMs ? window.used : 0;
  return used === due
    ? null
    : `The store counts ${used} in a ${limit.window} after ${delta} was settled; it should be ${due}.`;
}

/** What a window has counted in the slice that begins at `toMs` and ends at `fromMs`. */
function countedWithin({ log }: JudgedWindow, slice: Pick<Counted, 'fromMs' | 'toMs'>): number {
  let counted = 0;
  for (const { fromMs, toMs, cost } of log) {
    const isOfSlice = Math.min(fromMs, toMs) >= slice.toMs - 1 && Math.max(fromMs, toMs) <= slice.fromMs + 1;
    if (isOfSlice) counted += cost;
  }
  return Math.max(counted, 0);
}

/** Whether the judge knows a window in the form of a settlement, which knows no zones. */
function isSameSettled(account: JudgedAccount, { window, slices, calendar }: WindowLimit): boolean {
  const form = account.windows.get(window)?.form;
  if (form === undefined) return calendar === undefined;
  return slices !== undefined
    ? form === `${slices} slices`
    : form.startsWith(calendar === undefined ? 'fixed' : 'calendar');
}

/** The zones of simulated plans, none of which changes its clocks, and what they are ahead of UTC. */
export const ZONES: Readonly<Record<string, number>> = {
  UTC: 0,
  'Asia/Kathmandu': 20_700_000,
  'America/Phoenix': -25_200_000,
};

function endOfPeriod({ unit, zone }: { unit: string; zone: string }, nowMs: number): number {
  const lengthMs = WINDOW_MS[unit as 'hour' | 'day'];
  const aheadMs = ZONES[zone]!;
  return (Math.floor((nowMs + aheadMs) / lengthMs) + 1) * lengthMs - aheadMs;
}

/** @param isNoStrike whether no refusal of this decision is a strike */
function judgeStrikes(
  { account, told: state }: Charged,
  plan: Allowance,
  decision: Decision,
  isNoStrike: boolean,
): string | null {
  const { nowMs, cost, n, admitted, bannedFrom } = decision;
  const rule = plan.bans;
  if (rule === null) return decision.bannedFrom === n ? null : 'The store banned a request under a plan without bans.';
  if (nowMs >= account.strikesEndAtMs) account.strikes = 0;
  if (account.banNumber > 0 && nowMs >= account.banUntilMs + rule.forgetMs) account.banNumber = 0;
  const refused = isNoStrike ? 0 : n - admitted;
  const missing = rule.after - account.strikes;
  if (refused === 0 || refused < missing) {
    if (bannedFrom !== n) return `The store banned before the strike number ${rule.after}.`;
    if (refused === 0) return null;
    const { retryAtMs } = verdictOf({ ...decision, cost }, plan, n - 1) as Refused;
    const endMs = account.strikes === 0 ? nowMs + rule.withinMs : account.strikesEndAtMs;
    account.strikes += refused;
    // A request that needs more than a limit makes no strike.
    account.strikesEndAtMs = Math.min(endMs, retryAtMs!);
    return (state.strikes?.count ?? 0) === account.strikes
      ? null
      : `The store counts ${state.strikes?.count ?? 0} strikes of ${account.strikes}.`;
  }
  account.strikes = 0;
  account.strikesEndAtMs = 0;
  account.banNumber++;
  account.banUntilMs =
    nowMs + Math.min(Math.floor(rule.firstMs * rule.factor ** (account.banNumber - 1)), rule.longestMs);
  if (bannedFrom !== admitted + Math.max(missing - 1, 0))
    return `The store did not ban at exactly the strike number ${rule.after}.`;
  if (state.ban?.number === account.banNumber && state.ban.untilMs === account.banUntilMs) return null;
  return `The store imposed the ban ${JSON.stringify(state.ban)}; it should be number ${account.banNumber} until ${account.banUntilMs}.`;
}

/** What the judge knows after a decision under a budget. Of windows that the budget does not have it does not know the form. */
function accountOf(
  { windows, strikes, ban, leases = [] }: AccountState,
  { limits }: Pick<JudgedBudget, 'limits'>,
  bans: string,
  nowMs: number,
): JudgedAccount {
  const judged = Object.entries(windows).map(([name, { used, endsAtMs, slices }]): [WindowName, JudgedWindow] => {
    const window = name as WindowName;
    const limit = limits.find((one) => one.window === window);
    const form = limit === undefined ? 'unknown' : formOf(limit);
    // A window that the budget lacks is kept as it was, and moves back with the clock only when it is counted again.
    if (slices === undefined || limit === undefined) return [window, { form, used, endsAtMs, log: [] }];
    const sliceMs = WINDOW_MS[window] / slices.per;
    const log = slices.counts.map((cost, i) => {
      const fromMs = Math.floor(slices.startsAtMs + (slices.first + i) * sliceMs);
      return { fromMs, toMs: fromMs + Math.ceil(sliceMs), cost };
    });
    return [window, { form: `${slices.per} slices`, used: 0, endsAtMs: 0, log }];
  });
  return {
    sinceMs: nowMs,
    windows: new Map(judged),
    bans,
    strikes: strikes?.count ?? 0,
    strikesEndAtMs: strikes?.endsAtMs ?? 0,
    banNumber: ban?.number ?? 0,
    banUntilMs: ban?.untilMs ?? 0,
    held: new Map(),
    leases: new Map(leases.map(({ id }) => [id, null])),
  };
}

function emptyWindow(form: string): JudgedWindow {
  return { form, used: 0, endsAtMs: 0, log: [] };
}

function formOf({ slices, calendar }: WindowLimit): string {
  if (slices !== undefined) return `${slices} slices`;
  return calendar === undefined ? 'fixed' : `calendar ${calendar.form.unit} ${calendar.form.zone}`;
}

function isSameForm(account: JudgedAccount, limit: WindowLimit): boolean {
  const known = account.windows.get(limit.window);
  return known === undefined || known.form === formOf(limit);
}
