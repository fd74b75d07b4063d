import type { Amounts } from '../engine/types.ts';
import { afterReading } from '../io/after-reading.ts';
import type { WindowName } from '../model/values.ts';
import { AccountCache } from './account-cache.ts';
import { accountIdsOf } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import { type Batch, type BatchTerms, belongsTo, isAlike, join, type ResultListener } from './batch.ts';
import type { LocalCount, OnFailure } from './decide-locally.ts';
import { decide } from './decision.ts';
import { DecisionDispatcher } from './decision-dispatcher.ts';
import { InFlightCounts } from './in-flight.ts';
import { Leases, type RecallFeed } from './leases.ts';
import type { Ledger, SettlementOutcome, UsageReconciler } from './ledger.ts';
import { Settlements, type UsedUnits } from './settlements.ts';
import { type ReconcileOutcome, UsageBacklog } from './usage-backlog.ts';
import { type AdmissionResult, type Admitted, type Verdict, verdictOnBudgets } from './verdict.ts';

export interface AdmitterOptions {
  readonly ledger: Ledger;
  /** Adds usage that `local` admitted to the store; left out if there is no store. */
  readonly reconciler?: UsageReconciler | null;
  /** What to do when the store does not answer (contract section 6). */
  readonly onFailure: OnFailure;
  /** No request waits for the store longer than this in total. Left out: the ledger's own deadline is the only one. */
  readonly timeoutMs?: number;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** This gateway's own clock, Unix milliseconds, used until the store has answered for the first time. */
  readonly wallMs: () => number;
  /** The gateway keeps the last known state of at most this many consumers, and the backlog of at most this many. */
  readonly remembered: number;
  /** With it, busy consumers borrow units. Left out: the store decides each request. */
  readonly recalls?: RecallFeed | null;
  /** Called once per failed call with the store's error. */
  readonly onStoreFailure?: (error: unknown) => void;
  /**
   * Called when the store has answered without a decision about this consumer, because it cannot read the value in the place of the
   * counters.
   */
  readonly onUndecided?: (consumerId: string) => void;
  /** Called with the number of requests that the gateway decided without the store, and how it counts them. */
  readonly onLocalDecision?: (count: LocalCount, requests: number) => void;
  /** Called with the fate of each piece of usage in the backlog. */
  readonly onReturned?: (window: WindowName, outcome: ReconcileOutcome, spent: number) => void;
  /** Called with the outcome of settlements, and their number. */
  readonly onSettled?: (outcome: Exclude<SettlementOutcome, 'unsent'>, settlements: number) => void;
}

/**
 * Decides requests against the ledger. Requests of one consumer that arrive in the same turn of the event loop become one
 * request for n, and all requests of a turn become one call. If the store would certainly refuse a request again, the
 * Admitter refuses it from memory, except when the refusal is a strike: the ledger counts every strike, so that a ban
 * comes at exactly the `after`-th (contract section 3). If the store does not answer in time, the gateway decides locally
 * (contract section 6).
 */
export class Admitter {
  readonly #timeoutMs: number | null;
  readonly #accounts: AccountCache;
  readonly #ledger: Ledger;
  readonly #backlog: UsageBacklog | null;
  readonly #inFlight: InFlightCounts;
  readonly #settlements: Settlements;
  readonly #leases: Leases | null;
  readonly #dispatcher: DecisionDispatcher;
  /** The batches of this turn, by consumer: one for each cost, amounts, allowance and deadline. */
  #batches = new Map<string, Batch[]>();
  /** The batch that the last request joined: consecutive requests are often of one consumer. */
  #last: Batch | null = null;
  readonly #flush = () => {
    const batches = [...this.#batches.values()].flat();
    this.#batches = new Map();
    this.#last = null;
    this.#dispatcher.ask(batches);
  };

  constructor(options: AdmitterOptions) {
    const { reconciler = null, onFailure, timeoutMs = null, remembered, wallMs, onReturned } = options;
    this.#ledger = options.ledger;
    this.#timeoutMs = timeoutMs;
    this.#accounts = new AccountCache(options);
    const onEach = onReturned === undefined ? {} : { onReturned };
    const isBeingDecided = (consumerId: string) => this.#dispatcher.hasCallInFlight(consumerId);
    this.#backlog =
      reconciler === null || onFailure !== 'local'
        ? null
        : new UsageBacklog({ reconciler, most: remembered, wallMs, isBeingDecided, ...onEach });
    this.#inFlight = new InFlightCounts({ reports: options.ledger, monotonicMs: options.monotonicMs, isBeingDecided });
    this.#settlements = new Settlements({ sink: options.ledger, most: remembered, onSettled: options.onSettled });
    const { recalls = null } = options;
    this.#leases = recalls === null ? null : new Leases({ ...options, recalls });
    recalls?.subscribe((accountId) => this.#leases?.recall(accountId));
    const onReady = (batches: readonly Batch[]) => this.#addTo(batches);
    this.#dispatcher = new DecisionDispatcher({
      ...options,
      timeoutMs,
      accounts: this.#accounts,
      backlog: this.#backlog,
      inFlight: this.#inFlight,
      settlements: this.#settlements,
      leases: this.#leases,
      onReady,
    });
  }

  /** Consumers with usage that was admitted locally and must still be added to the store. */
  get backlogSize(): number {
    return (this.#backlog?.size ?? 0) + (this.#ledger.backlogSize ?? 0);
  }

  /**
   * Decides a request, synchronously if memory suffices, else when the store has answered or the deadline has passed. Never
   * rejects.
   * @param waitedMs how long this request has already waited for the store
   * @param amounts the reserve of the request in each unit of the allowance, if that has any
   */
  admit(
    consumerId: string,
    allowance: Allowance,
    cost: number,
    waitedMs = 0,
    amounts: Amounts | undefined = undefined,
  ): AdmissionResult | Promise<AdmissionResult> {
    let result: AdmissionResult | null = null;
    const later = new Promise<AdmissionResult>((resolve) => {
      result = this.ask(consumerId, allowance, cost, waitedMs, { onResult: resolve }, amounts);
    });
    return result ?? later;
  }

  /**
   * The same without a promise, which would cost as much as all the rest.
   * @returns the result, or null if it calls `listener` later, never from within this call
   */
  ask(
    consumerId: string,
    allowance: Allowance,
    cost: number,
    waitedMs: number,
    listener: ResultListener,
    amounts: Amounts | undefined = undefined,
  ): AdmissionResult | null {
    const lent = this.#leases?.admit(consumerId, allowance, cost) ?? null;
    if (lent !== null) return { kind: 'decided', verdict: lent, source: 'lease' };
    const refusal = this.refusal(consumerId, allowance, cost, amounts);
    if (refusal !== null) return refusal;
    // A request that has already waited has only the rest of the time; for others the ledger's own deadline suffices.
    const withinMs = this.#timeoutMs === null || waitedMs <= 0 ? null : this.#timeoutMs - waitedMs;
    if (withinMs !== null && withinMs <= 0) return this.#dispatcher.decideNow(consumerId, allowance, cost, amounts);
    if (this.#last === null || !belongsTo(this.#last, consumerId, allowance, cost, amounts, withinMs)) {
      this.#last = this.#batchOf({ consumerId, allowance, cost, amounts, withinMs });
    }
    this.#last.waiting.push(listener);
    return null;
  }

  /** The refusal of a request if memory suffices for it; else null. */
  refusal(consumerId: string, allowance: Allowance, cost: number, amounts?: Amounts): AdmissionResult | null {
    // The gateway admits a request under watched limits in any case, and the store must write its history.
    if (allowance.history === 'all') return null;
    // The unused units of a lease may suffice, and return to the store with the next call.
    if (this.#leases?.has(consumerId)) return null;
    const verdict = this.#accounts.refusal(consumerId, allowance, cost, amounts);
    return verdict === null ? null : { kind: 'decided', verdict, source: 'memory' };
  }

  /** True if this gateway would refuse the request as far as it knows: the caller has nothing left, or is banned. */
  expectsRefusal(consumerId: string, allowance: Allowance, cost: number, amounts?: Amounts): boolean {
    // The state known here does not contain the unused units of a lease.
    if (allowance.isShadowOnly || allowance.history === 'all' || this.#leases?.has(consumerId)) return false;
    const { accounts, nowMs } = this.#accounts.known(accountIdsOf(consumerId, allowance));
    return decide(accounts, allowance, nowMs, cost, 1, undefined, amounts).admitted === 0;
  }

  /** Finds the batch of a request. A reload can change the allowance within a turn: each request keeps the allowance of its arrival. */
  #batchOf(terms: BatchTerms): Batch {
    const batches = this.#batchesOf(terms.consumerId);
    const known = batches.find((batch) => isAlike(batch, terms));
    if (known !== undefined) return known;
    const accountIds = accountIdsOf(terms.consumerId, terms.allowance);
    const batch: Batch = { ...terms, accountIds, waiting: [], deadline: null, state: 'new' };
    batches.push(batch);
    return batch;
  }

  /** Asks about batches that waited for the previous call, at the end of the turn and before later requests. */
  #addTo(ready: readonly Batch[]): void {
    for (const batch of ready.toReversed()) {
      // The batch was decided locally when its deadline passed.
      if (batch.state !== 'new') continue;
      const batches = this.#batchesOf(batch.consumerId);
      // A batch with a deadline has waited too and keeps it.
      const same = batches.findIndex((other) => other.deadline === null && isAlike(other, batch));
      if (same >= 0) join(batch, batches.splice(same, 1)[0]!);
      batches.unshift(batch);
    }
    this.#last = null;
  }

  #batchesOf(consumerId: string): Batch[] {
    if (this.#batches.size === 0) afterReading(this.#flush);
    const known = this.#batches.get(consumerId);
    if (known !== undefined) return known;
    const batches: Batch[] = [];
    this.#batches.set(consumerId, batches);
    return batches;
  }

  /** Notes that a request has ended which was admitted under an allowance that bounds requests in flight. Called once for each. */
  ended(consumerId: string, allowance: Allowance): void {
    this.#inFlight.end(allowance, accountIdsOf(consumerId, allowance));
  }

  /**
   * Settles an admitted request when it has ended and its real use of units is known. The store learns that before its next
   * decision about units of the same owner (the customer, or the consumer itself), or within 20 ms. Called at most once for each
   * request.
   */
  settle(consumerId: string, { allowance, reservation, nowMs }: Admitted, used: UsedUnits): void {
    if (reservation !== null) this.#settlements.add({ consumerId, allowance, reservation, nowMs }, used);
  }

  /**
   * Settles a request that watched limits would have refused: their windows have counted nothing, but the history has its reserve.
   * @param amounts what it would have reserved
   */
  settleWatched(consumerId: string, { allowance, nowMs }: Verdict, amounts: Amounts, used: UsedUnits): void {
    if (allowance.history !== 'all') return;
    const windows = allowance.budgets.map(() => []);
    const reservation = { amounts, windows, isCertain: true };
    this.#settlements.add({ consumerId, allowance, reservation, nowMs }, used);
  }

  /** Sends the waiting settlements, and returns all borrowed units. */
  async flush(): Promise<void> {
    await Promise.all([this.#settlements.drain(), this.#leases?.drain()]);
  }

  /**
   * From now on refuses no request from memory until the store has decided again. Called when an account has changed (a ban was
   * lifted, an operator topped up or reset usage), when this gateway may have missed changes, and when the store's clock was set.
   * @param accountId also admits no request from a lease of this account; null for all
   */
  forget(accountId: string | null = null): void {
    this.#accounts.forget();
    if (accountId === null) this.#leases?.returnAll();
    else this.#leases?.recall(accountId);
  }

  /** The verdict on a request that charges nothing, by what this gateway knows, without a call to the store. */
  knownVerdict(consumerId: string, allowance: Allowance): Verdict {
    const { accounts, nowMs } = this.#accounts.known(accountIdsOf(consumerId, allowance));
    return verdictOnBudgets(decide(accounts, allowance, nowMs, 1, 0).accounts, allowance, nowMs, 0);
  }
}
