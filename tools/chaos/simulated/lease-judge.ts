import type { Allowance } from '../../../src/admit/allowance.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';
import type { ReturnedLease } from '../../../src/engine/types.ts';
import { chargedIn, type JudgedBudget } from './budgets.ts';
import { type ExecutedDecision, KNOWN_FOR_MS } from './redis-model.ts';
import { amountsOf } from './store-judge.ts';

/** What the store has lent to a gateway. Times are by the monotonic clock, milliseconds. */
interface JudgedLease {
  readonly id: number;
  readonly gateway: string;
  readonly consumerId: string;
  readonly plan: Allowance;
  readonly budgets: readonly JudgedBudget[];
  readonly units: number;
  readonly endsAtMs: number;
  readonly periods: readonly Period[];
  used: number;
  /** Whether the gateway knows it and may use it. */
  isHeld: boolean;
  /** Whether the gateway has sent it back, and whether that has arrived. */
  isReturned: boolean;
  hasArrived: boolean;
  /** Whether a return was certainly not taken. The gateway tries again for a while. */
  wasRefused: boolean;
}

/** One period of a window that does not slide. */
interface Period {
  readonly name: string;
  readonly limit: number;
  /** The cost that was admitted in it. */
  admitted: number;
  /** A request of cost 1 was refused by it alone. */
  isFull: boolean;
  /** It was counted under several plans. */
  isMixed: boolean;
}

/** Who asked for a decision, and about what. */
interface Asked {
  readonly gateway: string;
  readonly plan: Allowance;
  readonly budgets: readonly JudgedBudget[];
  /** So many requests wait at the gateway that it lets no more wait. */
  readonly isCrowded: boolean;
}

/**
 * What src/engine/leasing.ts has to keep: the longest lease, how long after its end units may be waited for, how long a recall is in
 * force, and the pause between two recalls.
 */
const MAX_LEASE_MS = 2_000;
const RETURN_WITHIN_MS = 100;
const RECALL_FOR_MS = 250;
const RECALL_EVERY_MS = 20;
/** So long after the store has lost writes or its clock was set, it may know any lease; no longer than from one that was just lent. */
const AFTER_DISTURBANCE_MS = 6_000;
/** So long after a fault, what gateways have borrowed or returned during it may matter. */
const AFTER_FAULT_MS = 1_000;
/** By how much the store's clock and the monotonic one differ at the end of a lease, because one counts whole milliseconds. */
const WHOLE_MS = 1;

/** Holds what gateways admit from leases against what the store has lent, with a count of its own. */
export class LeaseJudge {
  readonly #leases = new Map<number, JudgedLease>();
  /** Those that gateways hold, in the order in which they learned of them. */
  readonly #held = new Map<string, JudgedLease[]>();
  readonly #killed = new Set<string>();
  /** Until when each gateway's link, or the server, has faults. */
  readonly #faultyUntilMs = new Map<string, number>();
  readonly #periods = new Map<string, Period>();
  /** What was admitted, by the account of the history that has it. */
  readonly #admitted = new Map<string, number>();
  /** By what each window of an account was counted last. */
  readonly #forms = new Map<string, string>();
  /** When each account was called back last, by the store's clock. */
  readonly #recalledAtMs = new Map<string, number>();
  /** Until when units of each account may be waited for. */
  readonly #awaitedUntilMs = new Map<string, number>();
  #disturbedUntilMs = Number.NEGATIVE_INFINITY;
  #hasFaults = false;
  #areMixed = false;
  #wereMixed = false;

  /**
   * Whether nothing has failed so far, no gateway has decided alone, and all have had the same plan. Under another plan a gateway may
   * borrow while the windows of this one are full.
   */
  get isWell(): boolean {
    return !this.#hasFaults && !this.#wereMixed;
  }

  /** A gateway's link is faulty from now on, or well again, or faulty for some time. */
  faulty(gateway: string, forMs: number): void {
    if (forMs > 0) this.#hasFaults = true;
    const untilMs = performance.now() + forMs + AFTER_FAULT_MS;
    if (forMs === 0 && !this.#faultyUntilMs.has(gateway)) return;
    this.#faultyUntilMs.set(gateway, untilMs);
  }

  /** @param areMixed whether gateways have different plans from now on */
  reloaded(areMixed: boolean): void {
    if (areMixed || this.#areMixed) for (const period of this.#periods.values()) period.isMixed = true;
    this.#areMixed = areMixed;
    this.#wereMixed ||= areMixed;
  }

  killed(gateway: string): void {
    this.#hasFaults = true;
    this.#killed.add(gateway);
  }

  decidedAlone(): void {
    this.#hasFaults = true;
  }

  /** The store has lost writes, or its clock was set: it may have forgotten any lease. */
  storeDisturbed(): void {
    this.#hasFaults = true;
    this.#recalledAtMs.clear();
    this.#disturbedUntilMs = performance.now() + AFTER_DISTURBANCE_MS;
    for (const lease of this.#leases.values()) lease.hasArrived = true;
  }

  /** The store has made a decision. @returns what is wrong, or null */
  decided({ gateway, plan, budgets, isCrowded }: Asked, done: ExecutedDecision): string | null {
    const { decision, leaseTerms, consumerId } = done;
    const { lent, admitted, cost } = decision;
    const wrong = this.#judgeRecalls(done);
    if (wrong !== null) return wrong;
    const returned = this.#leases.get(leaseTerms.returned?.id ?? 0);
    if (returned !== undefined) returned.hasArrived = true;
    const periods = this.#periodsOf(budgets, done);
    const amounts = amountsOf(budgets, decision);
    for (const { period, budget } of periods) period.admitted += admitted * chargedIn(budget, cost, amounts).charge;
    this.#note(budgets, admitted * cost);
    if (lent !== undefined) {
      const { id } = leaseTerms.borrows!;
      if (this.#leases.has(id)) return `The store has lent under the id ${id} twice.`;
      const nowMs = performance.now();
      const state = { used: 0, isHeld: false, isReturned: false, hasArrived: false, wasRefused: false };
      this.#leases.set(id, {
        ...{ id, gateway, consumerId, plan, budgets, units: lent.units, endsAtMs: nowMs + lent.forMs, ...state },
        periods: periods.map(({ period }) => period),
      });
      this.#forgetBefore(nowMs - KNOWN_FOR_MS);
    }
    const exceeded = this.#hasFaults ? undefined : periods.find(({ period }) => isExceeded(period));
    if (exceeded !== undefined) return tooMuch(exceeded.period);
    return isCrowded ? null : this.#judgeRefusal(gateway, budgets, done);
  }

  /** While a request waits for units of an account, for 350 ms at most, it is called back in pauses, and nothing more of it is lent. */
  #judgeRecalls({ decision, accounts, recalled }: ExecutedDecision): string | null {
    const { nowMs, lent, waitMs } = decision;
    for (const accountId of recalled) {
      const agoMs = nowMs - (this.#recalledAtMs.get(accountId) ?? Number.NEGATIVE_INFINITY);
      if (agoMs < RECALL_EVERY_MS)
        return `The store called back what is lent of ${accountId} ${agoMs} ms after the last time.`;
      this.#recalledAtMs.set(accountId, nowMs);
    }
    const monotonicMs = performance.now();
    let isLent = monotonicMs < this.#disturbedUntilMs;
    for (const { accountId } of accounts) {
      const agoMs = nowMs - (this.#recalledAtMs.get(accountId) ?? Number.NEGATIVE_INFINITY);
      if (lent !== undefined && agoMs < RECALL_FOR_MS)
        return `The store lent units of ${accountId} ${agoMs} ms after a recall.`;
      let awaitedUntilMs = this.#awaitedUntilMs.get(accountId) ?? 0;
      // A lease that was lent later may end earlier, under another plan or of another key.
      if (lent !== undefined)
        awaitedUntilMs = Math.max(awaitedUntilMs, monotonicMs + lent.forMs + RETURN_WITHIN_MS + WHOLE_MS);
      this.#awaitedUntilMs.set(accountId, awaitedUntilMs);
      isLent ||= monotonicMs < awaitedUntilMs;
    }
    if (waitMs === undefined) return null;
    if (waitMs > RECALL_FOR_MS + RETURN_WITHIN_MS)
      return `Requests of ${accounts[0]!.accountId} wait for up to ${waitMs} ms.`;
    if (isLent) return null;
    return `Requests of ${accounts[0]!.accountId} wait, and nothing is lent.`;
  }

  /** A gateway learns of what it has borrowed. */
  learned(id: number): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    lease.isHeld = true;
    const all = this.#heldBy(lease.gateway, lease.consumerId);
    all.push(lease);
  }

  /** A gateway returns a lease. It may use it no longer. @returns what is wrong, or null */
  returned(gateway: string, consumerId: string, plan: Allowance, { id, unused }: ReturnedLease): string | null {
    if (this.#killed.has(gateway)) return null;
    const lease = this.#leases.get(id);
    const isItsOwn = lease?.gateway === gateway && lease.consumerId === consumerId && lease.plan === plan;
    if (!isItsOwn || !lease.isHeld) return `Gateway ${gateway} returns a lease of ${consumerId} that it does not have.`;
    if (lease.isReturned) return `Gateway ${gateway} returns a lease of ${consumerId} twice.`;
    this.#drop(lease);
    if (unused === lease.units - lease.used) return null;
    return `Gateway ${gateway} returns ${unused} of ${lease.units} units of ${consumerId}, of which it has used ${lease.used}.`;
  }

  /** The store has certainly not got what a gateway returned: the gateway still has it. */
  notReturned(id: number): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    lease.isReturned = false;
    lease.wasRefused = true;
    this.#heldBy(lease.gateway, lease.consumerId).push(lease);
  }

  /** A gateway has admitted a request from a lease. @returns what is wrong, or null */
  admitted(
    gateway: string,
    consumerId: string,
    { plan, budgets, cost }: { plan: Allowance; budgets: readonly JudgedBudget[]; cost: number },
  ): string | null {
    const nowMs = performance.now();
    const ofPlan = this.#heldBy(gateway, consumerId).filter((lease) => lease.plan === plan);
    const what = `Gateway ${gateway} admitted a request of ${consumerId} from a lease`;
    if (ofPlan.length === 0) return `${what} that it does not have under this plan.`;
    const present = ofPlan.filter(({ endsAtMs }) => nowMs < endsAtMs);
    if (present.length === 0) return `${what} that has ended ${nowMs - ofPlan[0]!.endsAtMs} ms ago.`;
    const lease = present.find(({ units, used }) => units - used >= cost);
    if (lease === undefined) return `${what} that has not enough units.`;
    lease.used += cost;
    for (const period of lease.periods) period.admitted += cost;
    this.#note(budgets, cost);
    const exceeded = this.#hasFaults ? undefined : lease.periods.find(isExceeded);
    return exceeded === undefined ? null : tooMuch(exceeded);
  }

  /**
   * Without faults, each period that was full has admitted exactly its limit, and histories have exactly what was admitted. Called
   * when all leases have ended.
   * @returns what is wrong, or null
   */
  end(histories: ReadonlyMap<string, number>): string | null {
    for (const { isHeld, isReturned, wasRefused, gateway, consumerId } of this.#leases.values()) {
      if (isHeld && !isReturned && !wasRefused && !this.#killed.has(gateway))
        return `Gateway ${gateway} has never returned a lease of ${consumerId}.`;
    }
    if (this.#hasFaults) return null;
    for (const { name, limit, admitted, isFull, isMixed } of this.#periods.values()) {
      if (isFull && !isMixed && admitted !== limit)
        return `The gateways have admitted ${admitted} in the full ${name} of ${limit}.`;
    }
    for (const [accountId, admitted] of this.#admitted) {
      const cost = histories.get(accountId) ?? 0;
      if (cost !== admitted) return `The history of ${accountId} has ${cost}; ${admitted} was admitted.`;
    }
    return null;
  }

  /** Nobody is refused while living gateways hold units that would make room for the request. */
  #judgeRefusal(gateway: string, budgets: readonly JudgedBudget[], done: ExecutedDecision): string | null {
    const { decision, consumerId } = done;
    const { n, admitted, waitMs, isCrowded, bannedFrom, imposesBan, cost } = decision;
    const wasBanned = bannedFrom === 0 && !imposesBan;
    if (admitted === n || waitMs !== undefined || isCrowded || wasBanned) return null;
    const amounts = amountsOf(budgets, decision);
    const unusedOf = budgets.map(({ accountId }) => this.#unused(accountId));
    const refusing: string[] = [];
    let isHelped = !this.#isFaulty(gateway);
    let isByOne = true;
    for (const [i, budget] of budgets.entries()) {
      const { needed } = chargedIn(budget, cost, amounts);
      isByOne &&= needed === 1;
      for (const { window, limit, slices } of budget.limits) {
        const { used = 0, endsAtMs = 0 } = decision.accounts[i]!.windows[window] ?? {};
        if (limit - used >= needed) continue;
        refusing.push(slices === undefined ? periodName(budget, window, endsAtMs) : '');
        if (limit - used + unusedOf[i]! < needed) isHelped = false;
      }
    }
    if (isHelped)
      return `The store refused a request of ${consumerId} while gateways held ${unusedOf.join(' and ')} units unused.`;
    const period = refusing.length === 1 && isByOne ? this.#periods.get(refusing[0]!) : undefined;
    if (period !== undefined) period.isFull = true;
    return null;
  }

  /** The units of an account that gateways hold, or are about to hold or to return. */
  #unused(accountId: string): number {
    const nowMs = performance.now();
    let unused = 0;
    for (const { gateway, budgets, units, used, endsAtMs, hasArrived } of this.#leases.values()) {
      if (hasArrived || nowMs >= endsAtMs + RETURN_WITHIN_MS - WHOLE_MS) continue;
      if (this.#killed.has(gateway) || this.#isFaulty(gateway)) continue;
      // A group of routes with limits instead of the plan's counts nothing in the windows of the plan.
      if (budgets.some((budget) => budget.accountId === accountId && budget.limits.length > 0)) unused += units - used;
    }
    return unused;
  }

  #isFaulty(gateway: string): boolean {
    return performance.now() < (this.#faultyUntilMs.get(gateway) ?? 0);
  }

  #periodsOf(budgets: readonly JudgedBudget[], { decision }: ExecutedDecision) {
    return budgets.flatMap((budget, i) =>
      budget.limits.flatMap(({ window, limit, slices, calendar }) => {
        const count = decision.accounts[i]!.windows[window];
        // What is settled of a unit may be given back or added.
        if (slices !== undefined || count === undefined || budget.unit !== null) return [];
        const name = periodName(budget, window, count.endsAtMs);
        this.#noteForm(`${window} of ${budget.accountId} `, calendar);
        // One that this decision has not opened was counted under another plan before.
        const own =
          decision.admitted * chargedIn(budget, decision.cost, undefined).charge + (decision.lent?.units ?? 0);
        const isMixed = this.#areMixed || count.used !== own;
        const period = this.#periods.get(name) ?? { name, limit, admitted: 0, isFull: false, isMixed };
        this.#periods.set(name, period);
        period.isMixed ||= period.limit !== limit;
        return [{ period, budget }];
      }),
    );
  }

  /** A window whose plans count it by different calendars takes what it has counted along to a period that may end earlier. */
  #noteForm(prefix: string, calendar: WindowLimit['calendar']): void {
    const form = calendar === undefined ? 'fixed' : `${calendar.form.unit} ${calendar.form.zone}`;
    const before = this.#forms.get(prefix) ?? form;
    this.#forms.set(prefix, form);
    if (form === before) return;
    for (const [name, period] of this.#periods) if (name.startsWith(prefix)) period.isMixed = true;
  }

  #note(budgets: readonly JudgedBudget[], cost: number): void {
    for (const { accountId, hasHistory } of budgets) {
      if (hasHistory) this.#admitted.set(accountId, (this.#admitted.get(accountId) ?? 0) + cost);
    }
  }

  #heldBy(gateway: string, consumerId: string): JudgedLease[] {
    const name = `${gateway} ${consumerId}`;
    const known = this.#held.get(name);
    if (known !== undefined) return known;
    const made: JudgedLease[] = [];
    this.#held.set(name, made);
    return made;
  }

  #drop(lease: JudgedLease): void {
    lease.isReturned = true;
    const all = this.#heldBy(lease.gateway, lease.consumerId);
    all.splice(all.indexOf(lease), 1);
  }

  /** Leases that ended long ago and were returned. */
  #forgetBefore(atMs: number): void {
    for (const [id, { endsAtMs, isReturned, isHeld }] of this.#leases) {
      if (endsAtMs > atMs - MAX_LEASE_MS) break;
      if (isReturned || !isHeld) this.#leases.delete(id);
    }
  }
}

function periodName({ accountId }: JudgedBudget, window: string, endsAtMs: number): string {
  return `${window} of ${accountId} until ${endsAtMs}`;
}

function isExceeded({ limit, admitted, isMixed }: Period): boolean {
  return admitted > limit && !isMixed;
}

function tooMuch({ name, limit, admitted }: Period): string {
  return `The gateways have admitted ${admitted} in the ${name} of ${limit}.`;
}
