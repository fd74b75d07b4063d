import type { Amounts, Decision } from '../engine/types.ts';
import { ReplyDeadlines } from '../io/deadlines.ts';
import type { AccountCache } from './account-cache.ts';
import type { Allowance } from './allowance.ts';
import { answer, type Batch, isAlike, join } from './batch.ts';
import { decideLocally, type LocalCount, type OnFailure } from './decide-locally.ts';
import type { InFlightCounts } from './in-flight.ts';
import { LeaseWaits } from './lease-waits.ts';
import type { Borrowing, Leases } from './leases.ts';
import { type DecisionRequest, type Ledger, NothingDone } from './ledger.ts';
import type { Settlements } from './settlements.ts';
import type { UsageBacklog } from './usage-backlog.ts';
import { type AdmissionResult, type Verdict, verdictsOf } from './verdict.ts';

interface DecisionDispatcherOptions {
  readonly ledger: Ledger;
  readonly accounts: AccountCache;
  /** Null if the gateway adds nothing to the store later. */
  readonly backlog: UsageBacklog | null;
  readonly inFlight: InFlightCounts;
  readonly settlements: Settlements;
  /** Null if the gateway borrows nothing. */
  readonly leases: Leases | null;
  readonly onFailure: OnFailure;
  /**
   * Called when the store has answered without a decision about this consumer, because it cannot read the value in the place of the
   * counters.
   */
  readonly onUndecided?: ((consumerId: string) => void) | undefined;
  /** Null: the ledger's own deadline is the only one. */
  readonly timeoutMs: number | null;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Called with the batches that waited for a call when that call has ended. The owner passes them to `ask` again. */
  readonly onReady: (batches: readonly Batch[]) => void;
  readonly onStoreFailure?: (error: unknown) => void;
  readonly onLocalDecision?: (count: LocalCount, requests: number) => void;
}

/**
 * Sends decision requests to the ledger, and decides locally if it does not answer in time.
 *
 * There is one call at a time for each consumer; requests that arrive meanwhile wait and go into the next call. So when
 * the store falls silent, at most one call per consumer is unanswered, which counts as applied (contract section 6). Later
 * requests have certainly not been sent, and their usage is added when the store is back.
 */
export class DecisionDispatcher {
  readonly #options: DecisionDispatcherOptions;
  /** The lanes with a call in flight, and the batches that wait for its end; null if no batch waits. */
  readonly #inFlight = new Map<string, Batch[] | null>();
  /** For an account, the number of calls in flight that charge it beside a consumer's own account: several consumers may share it. */
  readonly #shared = new Map<string, number>();

  readonly #waits: LeaseWaits;
  readonly #deadlines = new ReplyDeadlines();

  constructor(options: DecisionDispatcherOptions) {
    this.#options = options;
    this.#waits = new LeaseWaits(options);
  }

  hasCallInFlight(accountId: string): boolean {
    return this.#inFlight.has(accountId) || this.#shared.has(accountId);
  }

  /** Decides these batches; a batch whose consumer has a call in flight waits for its end. */
  ask(batches: readonly Batch[]): void {
    const { backlog, timeoutMs } = this.#options;
    const clear: Batch[] = [];
    const deferred: Batch[] = [];
    const apart: Batch[] = [];
    // The dispatcher makes two calls only while the gateway owes usage, and then no lane may be in both.
    let lanes: Record<'clear' | 'deferred', Set<string>> | null = null;
    for (const batch of batches) {
      const { withinMs } = batch;
      if (batch.state === 'answered') continue;
      const busy = this.#busyLane(batch);
      if (backlog !== null && batch.accountIds.some((id) => backlog.isInDoubt(id))) this.#decideLocally(batch, true);
      else if (busy !== null) this.#queue(batch, busy);
      else {
        const isDeferred = backlog !== null && batch.accountIds.some((id) => backlog.has(id));
        if (isDeferred) lanes ??= { clear: new Set(clear.flatMap(lanesOf)), deferred: new Set() };
        if (
          lanes !== null &&
          !enterLanes(batch, lanes[isDeferred ? 'deferred' : 'clear'], lanes[isDeferred ? 'clear' : 'deferred'])
        )
          apart.push(batch);
        else if (isDeferred) deferred.push(this.#startDeadline(batch, withinMs ?? timeoutMs));
        else clear.push(this.#startDeadline(batch, withinMs));
      }
    }
    this.#begin(clear);
    this.#begin(deferred);
    for (const batch of apart) this.#queue(batch, this.#busyLane(batch)!);
    if (clear.length > 0) this.#decide(clear, clear);
    if (deferred.length > 0) void this.#reconcileAndDecide(deferred, backlog!);
  }

  #busyLane(batch: Batch): string | null {
    const { accountIds: ids } = batch;
    const lanes = laneCountOf(batch);
    for (let i = 0; i < lanes; i++) if (this.#inFlight.has(ids[i]!)) return ids[i]!;
    return null;
  }

  /** Decides a request locally that must not wait for the store any longer. */
  decideNow(consumerId: string, allowance: Allowance, cost: number, amounts: Amounts | undefined): AdmissionResult {
    return decideLocally({ consumerId, allowance, cost, amounts, n: 1, isUncounted: true }, this.#options)(0);
  }

  #begin(batches: readonly Batch[]): void {
    for (const batch of batches) {
      const { accountIds: ids } = batch;
      const lanes = laneCountOf(batch);
      for (let i = 0; i < lanes; i++) this.#inFlight.set(ids[i]!, null);
      for (let i = 1; i < ids.length; i++) this.#shared.set(ids[i]!, (this.#shared.get(ids[i]!) ?? 0) + 1);
    }
  }

  #end(batches: readonly Batch[]): void {
    let ready: Batch[] | null = null;
    for (const batch of batches) {
      const { accountIds: ids } = batch;
      const lanes = laneCountOf(batch);
      for (let i = 0; i < lanes; i++) ready = this.#release(ids[i]!, ready);
      for (let i = 1; i < ids.length; i++) {
        const id = ids[i]!;
        const left = this.#shared.get(id)! - 1;
        if (left === 0) this.#shared.delete(id);
        else this.#shared.set(id, left);
      }
    }
    if (ready === null) return;
    const { leases } = this.#options;
    if (leases !== null) for (const batch of ready) if (batch.state === 'new') answerFromLease(batch, leases);
    this.#options.onReady(ready);
  }

  /**
   * Ends the call of a lane.
   * @returns the batches that are `ready`, with those that waited for this lane
   */
  #release(lane: string, ready: Batch[] | null): Batch[] | null {
    const queued = this.#inFlight.get(lane) ?? null;
    this.#inFlight.delete(lane);
    if (queued === null) return ready;
    return ready === null ? queued : ready.concat(queued);
  }

  #queue(batch: Batch, lane: string): void {
    const { withinMs } = batch;
    const queued = this.#inFlight.get(lane) ?? null;
    // A batch that has waited for another call keeps its own deadline.
    const mayJoin = withinMs === null && batch.deadline === null;
    const same = mayJoin ? queued?.find((other) => isAlike(other, batch)) : undefined;
    if (same !== undefined) {
      join(same, batch);
      return;
    }
    this.#startDeadline(batch, withinMs ?? this.#options.timeoutMs);
    if (queued === null) this.#inFlight.set(lane, [batch]);
    else queued.push(batch);
  }

  /** Adds the consumers' usage in the backlog to the store before the store decides about them again. */
  async #reconcileAndDecide(batches: readonly Batch[], backlog: UsageBacklog): Promise<void> {
    const ids = batches.flatMap(({ accountIds }) => accountIds);
    const reconciled = await backlog.reconcile(ids);
    // The gateway may have given up a call about another consumer of the customer meanwhile.
    const mayNot = (id: string) => !reconciled.has(id) || backlog.isInDoubt(id);
    for (const batch of batches) if (batch.accountIds.some(mayNot)) this.#decideLocally(batch, true);
    const ready = batches.filter(({ state }) => state === 'new');
    if (ready.length > 0) this.#decide(ready, batches);
    else this.#end(batches);
  }

  /** @param begun the batches whose consumers `#begin` marked together; `#end` releases them when these are decided */
  #decide(batches: readonly Batch[], begun: readonly Batch[]): void {
    const { ledger, accounts, settlements, leases, monotonicMs } = this.#options;
    const { generation } = accounts;
    const askedAtMs = monotonicMs();
    let borrowings: (Borrowing | null)[] | null = null;
    const requests = batches.map((batch, i): DecisionRequest => {
      batch.state = 'sent';
      const request = this.#requestFor(batch);
      const isFinal = (this.#waits.all > 0 || batch.wait !== undefined) && this.#waits.isOver(batch);
      const borrowing = leases === null ? null : leases.termsOf(request);
      if (borrowing === null) return isFinal ? { ...request, leaseTerms: { isFinal } } : request;
      borrowings ??= batches.map(() => null);
      borrowings[i] = borrowing;
      return { ...request, leaseTerms: isFinal ? { ...borrowing.terms, isFinal } : borrowing.terms };
    });
    const useDecisions = (decisions: readonly (Decision | null | undefined)[], hasAnswered = true) => {
      for (let i = 0; i < batches.length; i++) {
        const borrowing = borrowings?.[i];
        const decision = decisions[i];
        const { consumerId, cost, n } = requests[i]!;
        leases?.spent(consumerId, cost * (decision?.admitted ?? n));
        if (borrowing) leases!.answered(requests[i]!, borrowing, decision, askedAtMs);
        if (decision === null && hasAnswered) this.#options.onUndecided?.(consumerId);
        this.#useDecision(batches[i]!, decisions[i], askedAtMs, generation);
      }
      this.#end(begun);
    };
    // Settlements go first, so that these decisions may use the units that they return.
    const isConcerned = ({ consumerId, amounts }: Batch) => amounts !== undefined && settlements.concern(consumerId);
    if (batches.some(isConcerned)) void settlements.flush();
    ledger.decide(requests).then(useDecisions, (error) => useDecisions(this.#decisionsOf(batches, error), false));
  }

  #requestFor({ consumerId, allowance, accountIds, cost, amounts, waiting }: Batch): DecisionRequest {
    const asked = { consumerId, allowance, accountIds, cost, n: waiting.length };
    const request = amounts === undefined ? asked : { ...asked, amounts };
    if (!allowance.boundsInFlight) return request;
    return { ...request, inFlight: this.#options.inFlight.reported(allowance, accountIds) };
  }

  /** @param decision undefined: the store has counted nothing; null: it may have counted the batch */
  #useDecision(batch: Batch, decision: Decision | null | undefined, askedAtMs: number, generation: number): void {
    const { accounts, backlog, leases } = this.#options;
    const { allowance, accountIds } = batch;
    if (allowance.boundsInFlight) this.#noteInFlight(batch, decision);
    if (!decision) {
      this.#decideLocally(batch, decision === undefined);
      return;
    }
    // The store's state lacks the usage in the backlog. The account cache must have it for the next outage.
    const whole = backlog?.withBacklog(accountIds, decision.accounts, decision.nowMs) ?? null;
    accounts.rememberDecision(accountIds, allowance, decision, askedAtMs, generation, whole);
    const source = this.#options.ledger.backlogSize ? 'local' : 'store';
    if (source === 'local') this.#reportLocal(decision);
    const isBanned = decision.bannedFrom < decision.n;
    if (leases !== null && (isBanned || decision.waitMs !== undefined)) {
      // Returns what this process has borrowed itself, without waiting for the notice.
      for (const id of accountIds) leases.recall(id);
    }
    if (decision.waitMs !== undefined && batch.state !== 'answered')
      this.#wait(batch, decision.admitted, decision.waitMs);
    const verdictAt = verdictsOf(decision, allowance);
    answer(batch, (index) => ({ kind: 'decided', verdict: verdictAt(index), source }));
  }

  /** Leaves in a batch only the requests that the store has admitted. The others wait. */
  #wait(batch: Batch, admitted: number, forMs: number): void {
    const waiting = batch.waiting.splice(admitted);
    // The store has answered: these requests may wait for it again as long as new ones, so the gateway asks about them together.
    this.#waits.add({ ...batch, waiting, withinMs: null, deadline: null, state: 'new' }, forMs);
  }

  #noteInFlight({ allowance, accountIds: ids, state }: Batch, decision: Decision | null | undefined): void {
    const { inFlight } = this.#options;
    if (!decision) inFlight.unanswered(allowance, ids, decision === null);
    else if (state === 'answered') inFlight.answeredLate(allowance, ids);
    else inFlight.answered(allowance, ids, decision.admitted);
  }

  #reportLocal({ admitted, n }: Decision): void {
    if (admitted > 0) this.#options.onLocalDecision?.('owed', admitted);
    if (admitted < n) this.#options.onLocalDecision?.('uncounted', n - admitted);
  }

  /** The decisions of a call that failed: undefined if the store has counted nothing, null if it may have. */
  #decisionsOf(batches: readonly Batch[], error: unknown): readonly (Decision | null | undefined)[] {
    this.#options.onStoreFailure?.(error);
    if (error instanceof NothingDone) return error.decisions;
    const { backlog } = this.#options;
    if (backlog !== null) {
      for (const { accountIds } of batches) for (const id of accountIds) backlog.doubt(id);
    }
    return batches.map(() => null);
  }

  #startDeadline(batch: Batch, withinMs: number | null): Batch {
    if (withinMs === null || batch.deadline !== null) return batch;
    batch.deadline = this.#deadlines.set(() => this.#decideLocally(batch, batch.state === 'new'), withinMs);
    return batch;
  }

  #decideLocally(batch: Batch, isUncounted: boolean): void {
    if (batch.state === 'answered') return;
    const { consumerId, allowance, cost, amounts, waiting } = batch;
    const undecided = { consumerId, allowance, cost, amounts, n: waiting.length, isUncounted };
    answer(batch, decideLocally(undecided, this.#options));
  }
}

/**
 * Adds the lanes of a batch to those of a call.
 * @returns false if the other call has one of them
 */
function enterLanes(batch: Batch, own: Set<string>, others: ReadonlySet<string>): boolean {
  const lanes = lanesOf(batch);
  if (lanes.some((lane) => others.has(lane))) return false;
  for (const lane of lanes) own.add(lane);
  return true;
}

function lanesOf(batch: Batch): readonly string[] {
  return batch.accountIds.slice(0, laneCountOf(batch));
}

/**
 * A consumer has one call at a time. So has a customer with a limit on requests in flight, because each call reports all that this
 * process has.
 * @returns how many accounts of a batch are such lanes: the first ones
 */
function laneCountOf({ allowance: { boundsInFlight, budgets } }: Batch): number {
  return boundsInFlight && budgets[1]?.inFlight !== undefined ? 2 : 1;
}

/** Admits requests of a batch from a lease, in order, until its units are used. */
function answerFromLease(batch: Batch, leases: Leases): void {
  const { consumerId, allowance, cost, waiting, deadline } = batch;
  const verdicts: Verdict[] = [];
  while (verdicts.length < waiting.length) {
    const verdict = leases.admit(consumerId, allowance, cost);
    if (verdict === null) break;
    verdicts.push(verdict);
  }
  if (verdicts.length === 0) return;
  const all = verdicts.length === waiting.length;
  const admitted = { ...batch, waiting: waiting.splice(0, verdicts.length), deadline: all ? deadline : null };
  if (all) batch.state = 'answered';
  answer(admitted, (index) => ({ kind: 'decided', verdict: verdicts[index]!, source: 'lease' }));
}
