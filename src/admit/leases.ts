import { MAX_LEASE_MS, SHORT_LEASE_MS } from '../engine/leasing.ts';
import type { Accounts, Borrows, Decision, LeaseTerms, ReturnedLease } from '../engine/types.ts';
import type { WindowName } from '../model/values.ts';
import { type AccountIds, accountIdsOf, ownerIdOf } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import { settledWindows } from './decision.ts';
import { type DecisionRequest, type Ledger, NothingDone } from './ledger.ts';
import { type Admitted, verdictFromLease } from './verdict.ts';

/** Notifies gateways of accounts for which a request waits until they return their unused units. */
export interface RecallFeed {
  /** True while notices arrive. While they do not, no gateway borrows. */
  readonly isHeard: boolean;
  subscribe(listener: (accountId: string) => void): void;
}

interface LeasesOptions {
  readonly ledger: Pick<Ledger, 'decide'>;
  readonly recalls: RecallFeed;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
}

/** The requests of one consumer that are decided in one call. */
type AskedBatch = Pick<DecisionRequest, 'consumerId' | 'allowance' | 'cost' | 'n'>;

/** The owner of accounts with leases: a consumer, or a customer with its consumers. */
interface Owner {
  readonly held: Set<HeldLease>;
  /** The units that this process has admitted for the owner since the first of these leases, with and without them. */
  spent: number;
  /** The number of unanswered calls that borrow or return. */
  unanswered: number;
  /** The last recall of an account of this owner while a call was unanswered (monotonic, milliseconds). */
  recalledAtMs: number;
}

/** A lease that this process holds. */
interface HeldLease {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly accountIds: AccountIds;
  readonly owner: Owner;
  readonly id: number;
  /** The accounts after the decision that lent the units, which have counted all of them, and the store's clock at that decision. */
  readonly accounts: Accounts;
  readonly nowMs: number;
  readonly answeredAtMs: number;
  /** From this moment on the next request renews the lease, with what is unused of it (monotonic, milliseconds). */
  renewAtMs: number;
  /** From this moment on the process admits no request from the lease (monotonic, milliseconds). */
  readonly untilMs: number;
  readonly units: number;
  unused: number;
  requests: number;
  /** `spent` of the owner when the store lent the units. */
  readonly spentBefore: number;
  /** How many units beyond `accounts` the process reports as used; null if no other gateway uses these accounts. */
  readonly othersTake: number | null;
  /** Null before the process keeps the lease. */
  timer: NodeJS.Timeout | null;
}

/** A question about leases to the ledger, until the ledger has answered. */
export interface Borrowing {
  readonly terms: LeaseTerms;
  readonly generation: number;
  readonly previous: HeldLease | null;
}

/**
 * The number of requests of each consumer under each allowance that the store has decided. A consumer with many requests, each under
 * another allowance, would borrow and return with each of them.
 */
type Pace = Map<Allowance, Map<string, number>>;
/** The pace of a consumer is its number of requests under one allowance in this time. */
const PACE_MS = 1_000;
/** The pace from which on a consumer borrows, and from which on it renews a lease. */
const BUSY = 3;
const STILL_BUSY = 2;
/** A lease that was used up within a shorter time tells no pace. */
const SHORTEST_MS = 10;
/** A lease lasts for as long as this many requests take, from `SHORT_LEASE_MS` to `MAX_LEASE_MS`. */
const REQUESTS = 10;
/** In its last fifth a lease is renewed, so that a steady consumer returns with a call that it needs anyway what it has not used. */
const RENEWED_FOR = 1 / 5;
/** Pause before the process repeats a return that the store has certainly not received. */
const RETURN_AGAIN_MS = 200;
/** The process repeats a return until this long after the end of the lease. The store takes it for 2 s. */
const RETURN_FOR_MS = 1_500;

/**
 * The units that this process has borrowed. A consumer with about three requests a second or more here borrows the units of its next
 * ten requests, or of a quarter of a second if it is faster, and the process admits them without asking the store. It returns unused
 * units with the next call about the consumer, at the end of the lease, or when the store recalls them.
 */
export class Leases {
  readonly #options: LeasesOptions;
  /** By consumer: one lease for each allowance of its requests. */
  readonly #held = new Map<string, HeldLease[]>();
  readonly #owners = new Map<string, Owner>();
  /** The consumers with an unanswered call that borrows. */
  readonly #borrowing = new Set<string>();
  /** In the present `PACE_MS`, and in the one before. */
  #pace: Pace = new Map();
  #paceBefore: Pace = new Map();
  #paceSinceMs = 0;
  /** Begins with a random number, so that no two processes use the same ids. It is short, because the account stores each id. */
  #nextId = 1 + Math.floor(Math.random() * 2 ** 31);
  #generation = 0;
  /** Returns that the store has yet to answer, or that the process repeats. */
  readonly #returning = new Set<Promise<void>>();

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Admits a request from a lease; null if its units do not suffice. */
  admit(consumerId: string, allowance: Allowance, cost: number): Admitted | null {
    const held = this.#of(consumerId, allowance);
    if (held === null || held.unused < cost) return null;
    const monotonicMs = this.#options.monotonicMs();
    if (monotonicMs >= held.renewAtMs) return null;
    held.unused -= cost;
    held.requests++;
    held.owner.spent += cost;
    const nowMs = Math.floor(held.nowMs + (monotonicMs - held.answeredAtMs));
    const { units, unused, owner, spentBefore, othersTake } = held;
    const spentBeside = owner.spent - spentBefore - (units - unused);
    const ahead = (othersTake === null ? unused : -othersTake) - spentBeside;
    return verdictFromLease(held.accounts, allowance, { nowMs, cost, ahead });
  }

  /** True if this process holds a lease of the consumer, which may have unused units. */
  has(consumerId: string): boolean {
    return this.#held.size > 0 && this.#held.has(consumerId);
  }

  /** The terms of leases for the next call about some requests; null without terms. A lease that they return admits no more requests. */
  termsOf(asked: AskedBatch): Borrowing | null {
    const { consumerId, allowance } = asked;
    const previous = this.#of(consumerId, allowance);
    const borrows = this.#mayBorrow(consumerId, allowance) ? this.#expected(asked, previous) : null;
    if (borrows === null && previous === null) return null;
    this.#ownerOf(consumerId).unanswered++;
    if (borrows !== null) this.#borrowing.add(consumerId);
    if (previous !== null) this.#drop(previous);
    const terms = {
      ...(borrows === null ? {} : { borrows }),
      ...(previous === null ? {} : { returned: returnOf(previous) }),
    };
    return { terms, generation: this.#generation, previous };
  }

  /** A consumer borrows with one call at a time: several batches may go into one call, and one lease is enough for them. */
  #mayBorrow(consumerId: string, { boundsInFlight, inUnits, history, isWatched }: Allowance): boolean {
    if (boundsInFlight || inUnits !== undefined || history === 'all' || isWatched) return false;
    return !this.#borrowing.has(consumerId) && this.#options.recalls.isHeard;
  }

  /** What a busy consumer will probably use, and for how long; null for one that is not busy. */
  #expected({ consumerId, allowance, cost, n }: AskedBatch, previous: HeldLease | null): Borrows | null {
    const nowMs = this.#options.monotonicMs();
    if (nowMs >= this.#paceSinceMs + PACE_MS) {
      this.#paceBefore = nowMs < this.#paceSinceMs + 2 * PACE_MS ? this.#pace : new Map();
      this.#pace = new Map();
      this.#paceSinceMs = nowMs;
    }
    const counts = this.#pace.get(allowance) ?? new Map<string, number>();
    const present = (counts.get(consumerId) ?? 0) + n;
    this.#pace.set(allowance, counts.set(consumerId, present));
    const lastedMs = previous === null ? PACE_MS : Math.max(nowMs - previous.answeredAtMs, SHORTEST_MS);
    const fromLease = ((previous?.requests ?? 0) * PACE_MS) / lastedMs;
    const pace = Math.max(present, this.#paceBefore.get(allowance)?.get(consumerId) ?? 0, fromLease);
    if (pace < (previous === null ? BUSY : STILL_BUSY)) return null;
    const forMs = Math.min(Math.max(Math.round((REQUESTS * PACE_MS) / pace), SHORT_LEASE_MS), MAX_LEASE_MS);
    return { id: this.#nextId++, units: cost * Math.ceil((pace * forMs) / PACE_MS), forMs };
  }

  /**
   * Takes the ledger's answer to a call about leases, or its failure.
   * @param decision undefined: the store has done nothing; null: it may have counted the requests
   */
  answered(batch: AskedBatch, borrowing: Borrowing, decision: Decision | null | undefined, askedAtMs: number): void {
    const { consumerId } = batch;
    const { terms, generation, previous } = borrowing;
    const owner = this.#ownerOf(consumerId);
    if (terms.borrows !== undefined) this.#borrowing.delete(consumerId);
    const lent = decision?.lent === undefined ? null : this.#heldOf(batch, borrowing, decision, askedAtMs);
    const held = decision === undefined ? previous : lent;
    if (held !== null) {
      // In an outage the process uses the lease to its end.
      if (held === previous) held.renewAtMs = held.untilMs;
      if (generation === this.#generation && owner.recalledAtMs < askedAtMs) this.#keep(held);
      else this.#return([held]);
    }
    owner.unanswered--;
    this.#forgetOwner(consumerId, owner);
  }

  #heldOf(
    { consumerId, allowance, cost }: AskedBatch,
    { terms, previous }: Borrowing,
    { nowMs, accounts, lent, admitted, mayReturn }: Decision,
    askedAtMs: number,
  ): HeldLease {
    const { units, forMs } = lent!;
    const own = units + admitted * cost - (previous?.unused ?? 0);
    const taken = previous === null ? 0 : Math.max(mostCounted(previous.accounts, accounts) - own, 0);
    const owner = this.#ownerOf(consumerId);
    return {
      ...{ consumerId, allowance, owner, id: terms.borrows!.id, accounts, nowMs, units, unused: units, requests: 0 },
      accountIds: accountIdsOf(consumerId, allowance),
      answeredAtMs: this.#options.monotonicMs(),
      renewAtMs: askedAtMs + forMs * (1 - RENEWED_FOR),
      untilMs: askedAtMs + forMs,
      spentBefore: owner.spent,
      othersTake: taken === 0 && !mayReturn ? null : 2 * taken,
      timer: null,
    };
  }

  /** Notes units that the store has admitted without a lease, or may have: the reports of leases of the same accounts must contain them. */
  spent(consumerId: string, units: number): void {
    if (this.#owners.size === 0) return;
    const owner = this.#owners.get(ownerIdOf(consumerId));
    if (owner !== undefined) owner.spent += units;
  }

  /** Returns the leases of an account, because a request waits for its units, or because the account has changed. */
  recall(accountId: string): void {
    const owner = this.#owners.get(ownerIdOf(accountId));
    if (owner === undefined) return;
    if (owner.unanswered > 0) owner.recalledAtMs = this.#options.monotonicMs();
    this.#end([...owner.held].filter(({ accountIds }) => accountIds.includes(accountId)));
  }

  /** Returns all unused units. */
  returnAll(): void {
    this.#generation++;
    this.#end([...this.#held.values()].flat());
  }

  /** Returns all unused units. Fulfilled when the store has these and all earlier returns, or accepts them no longer. */
  async drain(): Promise<void> {
    this.returnAll();
    while (this.#returning.size > 0) await Promise.all(this.#returning);
  }

  #of(consumerId: string, allowance: Allowance): HeldLease | null {
    // Most gateways hold no lease most of the time, and then a request need not pay for a look-up.
    if (this.#held.size === 0) return null;
    const all = this.#held.get(consumerId);
    if (all === undefined) return null;
    for (const held of all) if (held.allowance === allowance) return held;
    return null;
  }

  #keep(held: HeldLease): void {
    const all = this.#held.get(held.consumerId);
    if (all === undefined) this.#held.set(held.consumerId, [held]);
    else all.push(held);
    held.owner.held.add(held);
    const leftMs = Math.max(held.untilMs - this.#options.monotonicMs(), 0);
    held.timer = setTimeout(() => this.#end([held]), leftMs).unref();
  }

  #drop(held: HeldLease): void {
    const { consumerId, owner } = held;
    if (held.timer !== null) clearTimeout(held.timer);
    const left = this.#held.get(consumerId)!.filter((one) => one !== held);
    if (left.length === 0) this.#held.delete(consumerId);
    else this.#held.set(consumerId, left);
    owner.held.delete(held);
    this.#forgetOwner(consumerId, owner);
  }

  #ownerOf(consumerId: string): Owner {
    const id = ownerIdOf(consumerId);
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const owner: Owner = { held: new Set(), spent: 0, unanswered: 0, recalledAtMs: Number.NEGATIVE_INFINITY };
    this.#owners.set(id, owner);
    return owner;
  }

  #forgetOwner(consumerId: string, { held, unanswered }: Owner): void {
    if (held.size === 0 && unanswered === 0) this.#owners.delete(ownerIdOf(consumerId));
  }

  #end(all: readonly HeldLease[]): void {
    for (const held of all) this.#drop(held);
    this.#return(all);
  }

  #return(all: readonly HeldLease[]): void {
    const returning = this.#giveBack(all).finally(() => this.#returning.delete(returning));
    this.#returning.add(returning);
  }

  /** Returns units. It never repeats a return that the store may have received: the store might add it twice. */
  async #giveBack(all: readonly HeldLease[]): Promise<void> {
    for (let left = all; left.length > 0; ) {
      const requests = left.map((held): DecisionRequest => {
        const { consumerId, allowance, accountIds } = held;
        return { consumerId, allowance, accountIds, cost: 1, n: 0, leaseTerms: { returned: returnOf(held) } };
      });
      try {
        await this.#options.ledger.decide(requests);
        return;
      } catch (error) {
        if (!(error instanceof NothingDone)) return;
        const nowMs = this.#options.monotonicMs();
        left = left.filter((held, i) => error.decisions[i] === undefined && nowMs < held.untilMs + RETURN_FOR_MS);
      }
      if (left.length > 0) await new Promise((resolve) => setTimeout(resolve, RETURN_AGAIN_MS).unref());
    }
  }
}

function returnOf({ id, unused, accounts, allowance: { budgets } }: HeldLease): ReturnedLease {
  if (unused === 0) return { id, unused, places: [] };
  const places = budgets.map(({ limits }, i) =>
    settledWindows(limits, accounts[i]!.windows).map(({ placeMs }) => placeMs),
  );
  return { id, unused, places };
}

/** The largest growth of a window of some account between two decisions under one allowance. */
function mostCounted(before: Accounts, after: Accounts): number {
  let most = 0;
  for (const [i, { windows }] of after.entries()) {
    for (const [window, { used }] of Object.entries(windows)) {
      most = Math.max(most, used - (before[i]!.windows[window as WindowName]?.used ?? 0));
    }
  }
  return most;
}
