import { accountIdsOf } from './account-id.ts';
import type { AccountState, Outcome } from './decide.ts';
import { type LeaseTerms, MAX_LEASE_MS, type ReturnedLease } from './lease.ts';
import type { Ledger } from './ledger.ts';
import type { Allowance } from './plan.ts';
import { type Admitted, verdictFromLease } from './verdict.ts';
import { placeOf } from './windows.ts';

/** Notifies of accounts for which a request waits until gateways have returned what they do not use. */
export interface RecallFeed {
  subscribe(listener: (accountId: string) => void): void;
}

interface LeasesOptions {
  readonly ledger: Pick<Ledger, 'decide'>;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
}

/** The requests of one consumer that are decided in one call. */
interface AskedBatch {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly cost: number;
  readonly n: number;
}

/** A lease that this process holds. */
interface Held {
  readonly allowance: Allowance;
  readonly accountIds: readonly string[];
  readonly id: number;
  /** The accounts after the decision that lent it, which have counted all of it, and what the store's clock said. */
  readonly state: AccountState;
  readonly nowMs: number;
  readonly answeredAtMs: number;
  /** From then on no request is admitted from it (monotonic, milliseconds). */
  readonly untilMs: number;
  unused: number;
  requests: number;
  /** How many units more than `state` says are to be reported as used; null if no other gateway uses these accounts. */
  readonly othersTake: number | null;
  readonly timer: NodeJS.Timeout;
}

/** What was asked of the ledger, until it has answered. */
export interface Borrowing {
  readonly terms: LeaseTerms;
  readonly generation: number;
  readonly previous: Held | null;
}

/** Requests of one consumer within `PACE_MS`, from which on it may borrow. */
const BUSY = 4;
/** 40 requests a second are `BUSY` in this time. */
const PACE_MS = 100;

/**
 * The units that this process has borrowed. A consumer that sends it more than about 40 requests a second borrows what it is
 * expected to use in the next quarter of a second, and the process admits its requests from that without asking the store. What is
 * unused returns with the next call about the consumer, at the end of the lease, or when the store calls it back.
 */
export class Leases {
  readonly #options: LeasesOptions;
  /** By consumer: one for each allowance that its requests have. */
  readonly #held = new Map<string, Held[]>();
  /** How many requests of each consumer the store has decided in the present `PACE_MS`, and in those before. */
  #pace = new Map<string, number>();
  #paceBefore = new Map<string, number>();
  #paceSinceMs = 0;
  /** From a random number on, so that no two processes use the same ids. Short, because each is in a field of the account. */
  #nextId = 1 + Math.floor(Math.random() * 2 ** 31);
  /** How many calls that borrow are unanswered, and which accounts were called back meanwhile. */
  #unanswered = 0;
  readonly #recalled = new Set<string>();
  #generation = 0;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** The verdict on a request from what is borrowed; null if that does not suffice. */
  admit(consumerId: string, allowance: Allowance, cost: number): Admitted | null {
    const held = this.#of(consumerId, allowance);
    if (held === null || held.unused < cost) return null;
    const monotonicMs = this.#options.monotonicMs();
    if (monotonicMs >= held.untilMs) return null;
    held.unused -= cost;
    held.requests++;
    const nowMs = Math.floor(held.nowMs + (monotonicMs - held.answeredAtMs));
    const unusedOrTaken = held.othersTake === null ? held.unused : -held.othersTake;
    return verdictFromLease(held.state, allowance, { nowMs, cost, ahead: unusedOrTaken });
  }

  /** Whether some units that this process has borrowed for the consumer are unused. */
  has(consumerId: string): boolean {
    return this.#held.has(consumerId);
  }

  /** What the next call about some requests says about leases; null if nothing. A lease that it returns is not used any more. */
  termsOf({ consumerId, allowance, cost, n }: AskedBatch): Borrowing | null {
    const previous = this.#of(consumerId, allowance);
    if (previous !== null) this.#drop(consumerId, previous);
    const isLendable = allowance.boundsInFlight === undefined && allowance.inUnits === undefined;
    const units = isLendable && allowance.history !== 'all' ? cost * this.#expected(consumerId, n, previous) : 0;
    if (units === 0 && previous === null) return null;
    if (units > 0) this.#unanswered++;
    const terms = {
      ...(units === 0 ? {} : { borrows: { id: this.#nextId++, units } }),
      ...(previous === null ? {} : { returned: returnOf(previous) }),
    };
    return { terms, generation: this.#generation, previous };
  }

  /** How many requests a busy consumer is expected to send during a lease; 0 for one that is not busy. */
  #expected(consumerId: string, n: number, previous: Held | null): number {
    const nowMs = this.#options.monotonicMs();
    if (nowMs >= this.#paceSinceMs + PACE_MS) {
      this.#paceBefore = nowMs < this.#paceSinceMs + 2 * PACE_MS ? this.#pace : new Map();
      this.#pace = new Map();
      this.#paceSinceMs = nowMs;
    }
    const present = (this.#pace.get(consumerId) ?? 0) + n;
    this.#pace.set(consumerId, present);
    const lastedMs = previous === null ? 0 : Math.max(nowMs - previous.answeredAtMs, 1);
    const fromLease = previous === null ? 0 : (previous.requests * PACE_MS) / Math.max(lastedMs, PACE_MS / 10);
    const inPace = Math.max(present, this.#paceBefore.get(consumerId) ?? 0, fromLease);
    return inPace > BUSY ? Math.ceil((inPace * MAX_LEASE_MS) / PACE_MS) : 0;
  }

  /** The ledger has answered a call, or failed (`outcome` null). */
  answered(batch: AskedBatch, { terms, generation, previous }: Borrowing, outcome: Outcome | null, askedAtMs: number) {
    if (terms.borrows === undefined) return;
    this.#unanswered--;
    const wasRecalled = (id: string) => this.#recalled.has(id);
    if (outcome?.lent !== undefined) {
      const held = this.#heldOf(batch, { terms, previous }, outcome, askedAtMs);
      if (generation !== this.#generation || held.accountIds.some(wasRecalled)) this.#return(batch.consumerId, held);
      else this.#keep(batch.consumerId, held);
    }
    if (this.#unanswered === 0) this.#recalled.clear();
  }

  #heldOf(
    { consumerId, allowance, cost }: AskedBatch,
    { terms, previous }: Pick<Borrowing, 'terms' | 'previous'>,
    { nowMs, state, lent, admitted, unreturnedForMs = 0 }: Outcome,
    askedAtMs: number,
  ): Held {
    const { units, forMs } = lent!;
    const own = units + admitted * cost - (previous?.unused ?? 0);
    const taken = previous === null ? 0 : Math.max(mostCounted(previous.state, state, allowance) - own, 0);
    const untilMs = askedAtMs + forMs;
    const monotonicMs = this.#options.monotonicMs();
    const held: Held = {
      allowance,
      accountIds: accountIdsOf(consumerId, allowance),
      ...{ id: terms.borrows!.id, state, nowMs, answeredAtMs: monotonicMs, untilMs },
      ...{ unused: units, requests: 0 },
      othersTake: taken === 0 && unreturnedForMs === 0 ? null : 2 * taken,
      timer: setTimeout(() => this.#end(consumerId, held), Math.max(untilMs - monotonicMs, 0)).unref(),
    };
    return held;
  }

  /** Somebody waits for units of an account. */
  recall(accountId: string): void {
    if (this.#unanswered > 0) this.#recalled.add(accountId);
    for (const [consumerId, all] of this.#held) {
      for (const held of all) if (held.accountIds.includes(accountId)) this.#end(consumerId, held);
    }
  }

  /** Returns all that is unused. Fulfilled when the store has it, or does not answer. */
  async returnAll(): Promise<void> {
    this.#generation++;
    const all = [...this.#held].flatMap(([consumerId, held]) => held.map((one) => this.#end(consumerId, one)));
    await Promise.all(all);
  }

  #of(consumerId: string, allowance: Allowance): Held | null {
    const all = this.#held.get(consumerId);
    if (all === undefined) return null;
    for (const held of all) if (held.allowance === allowance) return held;
    return null;
  }

  #keep(consumerId: string, held: Held): void {
    const all = this.#held.get(consumerId);
    if (all === undefined) this.#held.set(consumerId, [held]);
    else all.push(held);
  }

  #drop(consumerId: string, held: Held): void {
    clearTimeout(held.timer);
    const left = this.#held.get(consumerId)!.filter((one) => one !== held);
    if (left.length === 0) this.#held.delete(consumerId);
    else this.#held.set(consumerId, left);
  }

  #end(consumerId: string, held: Held): Promise<void> {
    this.#drop(consumerId, held);
    return this.#return(consumerId, held);
  }

  async #return(consumerId: string, held: Held): Promise<void> {
    clearTimeout(held.timer);
    const { allowance } = held;
    const request = { consumerId, allowance, cost: 1, n: 0, leaseTerms: { returned: returnOf(held) } };
    // What does not arrive stays counted, and is never sent again: it might be given back twice.
    await this.#options.ledger.decide([request]).catch(() => {});
  }
}

function returnOf({ id, unused, state, allowance }: Held): ReturnedLease {
  if (unused === 0) return { id, unused, places: [] };
  const states = [state, ...(state.further ?? [])];
  const places = [allowance, ...(allowance.further ?? [])].map(({ limits }, i) =>
    limits.map(({ window }) => {
      const count = states[i]!.windows[window];
      return count === undefined ? 0 : placeOf(count);
    }),
  );
  return { id, unused, places };
}

/** By how much some window of some account has grown between two states, at most. */
function mostCounted(before: AccountState, after: AccountState, { further = [] }: Allowance): number {
  let most = 0;
  for (let i = 0; i <= further.length; i++) {
    const [earlier, later] = i === 0 ? [before, after] : [before.further?.[i - 1], after.further?.[i - 1]];
    for (const [window, { used }] of Object.entries(later?.windows ?? {})) {
      most = Math.max(most, used - (earlier?.windows[window as keyof AccountState['windows']]?.used ?? 0));
    }
  }
  return most;
}
