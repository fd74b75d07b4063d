import type { Allowance } from '../../../src/admit/allowance.ts';
import type { SettledWindow } from '../../../src/admit/decision.ts';
import { decide } from '../../../src/admit/decision.ts';
import type { DecisionRequest } from '../../../src/admit/ledger.ts';
import { type AdmissionResult, type Reservation, sameAmounts } from '../../../src/admit/verdict.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';
import { UNSEEN } from '../../../src/engine/decide.ts';
import { RECALL_FOR_MS, RETURN_WITHIN_MS } from '../../../src/engine/leasing.ts';
import type { Amounts, Decision } from '../../../src/engine/types.ts';
import type { WindowName } from '../../../src/model/values.ts';
import { budgetsOf, chargedIn, historiesOfUnit, type JudgedBudget } from './budgets.ts';
import { InFlightJudge } from './in-flight-judge.ts';
import { LeaseJudge } from './lease-judge.ts';
import { aboutOf, type Counted, type WireCall, type WireListener } from './link.ts';
import { type Executed, type ExecutedDecision, type ExecutedSettlement, KNOWN_FOR_MS } from './redis-model.ts';
import type { RedisServer } from './redis-server.ts';
import { StoreJudge } from './store-judge.ts';

/** One request of a client. */
export interface Request {
  readonly gateway: string;
  readonly consumerId: string;
  readonly plan: Allowance;
  readonly budgets: readonly JudgedBudget[];
  readonly cost: number;
  readonly amounts: Amounts | undefined;
  /** When it must be answered, by the monotonic clock, milliseconds. */
  dueAtMs: number;
  /** It waits for units that gateways may return. */
  isWaiting: boolean;
  /** It waited for the store while the gateway admitted another one of its accounts alone, which could not know of it. */
  isUnknown: boolean;
  call: LedgerCall | null;
  answer: 'none' | 'store' | 'lease' | 'memory' | 'local';
  isAdmitted: boolean;
}

/** What a gateway asks its ledger about in one call. */
interface LedgerCall {
  readonly gateway: string;
  readonly requests: readonly DecisionRequest[];
  /** What tells it from others of the same gateway that are on the way. */
  readonly about: string;
  /** The requests of clients in each of `requests`; none in one that only returns what is borrowed. */
  readonly entries: readonly Request[][];
  /** When it began, as a number that grows with each beginning, end and command. */
  readonly beganAt: number;
  /** The command that was sent last for it. */
  wire: WireCall | null;
  hasEnded: boolean;
  /** When it ended, as such a number; infinite before that. */
  endedAt: number;
}

/** A window, or the usage history. */
type Place = WindowName | 'history';

interface AdmittedCost {
  readonly atMs: number;
  readonly cost: number;
  readonly plan: string;
  /** The store admitted it in a call that was in flight while the gateway admitted others alone: a count may be off by it. */
  readonly isOfCall: boolean;
}

/** What a gateway has done about one account. */
interface Account {
  /** The cost that it admitted alone and that certainly no call has counted, by window. */
  readonly owed: Map<Place, number>;
  /** The cost that it has sent to be added, and that was not certainly refused, by window. */
  readonly sent: Map<Place, number>;
  /** Calls that may count and have no certain end. */
  readonly open: Set<WireCall>;
  /** What it admitted: with the store, or owed. */
  readonly admitted: AdmittedCost[];
  /** Its knowledge was disturbed at this time. */
  disturbedAtMs: number;
  /** Usage has been added to the store at these times, which may have ended windows earlier. */
  readonly cutsAtMs: number[];
  /** The number of disturbances of the store that its last answer from it had seen. */
  seen: number;
  /** A ban was lifted and the gateway does not know it yet. */
  isLiftPending: boolean;
  /** The judge cannot tell which requests it has sent: some waited for units, and it answered others alone. */
  isUncertain: boolean;
}

/** As `redis.timeout` of gateway.yaml: how long a request may wait for the store. */
export const TIMEOUT_MS = 100;
/** How much later than a deadline a request may be answered: timers count whole milliseconds and wait for a turn. */
const LATE_MS = 3;
/** How long a request waits at most for units that gateways may return. */
const MAX_WAIT_MS = RECALL_FOR_MS + RETURN_WITHIN_MS;
/** How long it waits at most if nothing has failed: leases are called back. */
const RECALLED_WITHIN_MS = 100;
/** So many requests of a gateway may wait. */
const MOST_WAITING = 1_000;
/** By how much a gateway's idea of the store's clock may be off. */
const CLOCK_SLACK_MS = 300;

/** Holds a fleet of gateways and their store against the written bounds (contract sections 3 and 6). */
export class Judge implements WireListener {
  /** The first bound that was broken, as a sentence; null as long as all hold. */
  broken: string | null = null;
  /** The number of requests by answer, to show what the histories reach. */
  readonly answers = { store: 0, lease: 0, memory: 0, local: 0 };
  readonly #server: RedisServer;
  readonly #store = new StoreJudge();
  readonly #inFlight = new InFlightJudge();
  readonly #leases = new LeaseJudge();
  readonly #accounts = new Map<string, Account>();
  readonly #killed = new Set<string>();
  readonly #waiting = new Set<Request>();
  /** No waiting request must be answered earlier. */
  #nextDueAtMs = Number.POSITIVE_INFINITY;
  /** Those that the judge has not judged, and the last of the others. */
  readonly #calls = new Set<LedgerCall>();
  #judged: LedgerCall[] = [];
  /** When requests of a kind waited last for units, by plan and kind. */
  readonly #waitedAt = new WeakMap<Allowance, Map<string, number>>();
  readonly #ofWire = new Map<WireCall, LedgerCall>();
  /** When each command was sent. */
  readonly #sentAt = new Map<WireCall, number>();
  #moment = 0;
  /** Disturbances of each consumer's state that gateways cannot know of. */
  #disturbances = 0;
  #disturbedAtMs = Number.NEGATIVE_INFINITY;
  #storeDisturbedAtMs = Number.NEGATIVE_INFINITY;
  /** The number of the last one that changed the store's data or clock. */
  #lastOfStore = -1;
  /** Gateways have different plans. */
  #areMixed = false;
  /** What the histories of units must have in the end. */
  readonly #used = new Map<string, number>();
  /** What must still be settled, by account, window and place. */
  readonly #due = new Map<string, number>();
  /** A gateway has answered a request alone that the store may have counted or not. */
  #isUseUncertain = false;
  /** Writes or usage were lost: the history of a customer may lack what those of its keys have. */
  #haveHistoriesSuffered = false;

  constructor(server: RedisServer) {
    this.#server = server;
  }

  asked(
    gateway: string,
    consumerId: string,
    plan: Allowance,
    { cost, amounts }: Pick<Request, 'cost' | 'amounts'>,
    waitedMs: number,
  ): Request {
    const dueAtMs = performance.now() + Math.max(TIMEOUT_MS - waitedMs, 0) + LATE_MS;
    const request: Request = {
      gateway,
      consumerId,
      plan,
      budgets: budgetsOf(consumerId, plan),
      cost,
      amounts,
      dueAtMs,
      isWaiting: false,
      isUnknown: false,
      call: null,
      answer: 'none',
      isAdmitted: false,
    };
    this.#waiting.add(request);
    this.#nextDueAtMs = Math.min(this.#nextDueAtMs, dueAtMs);
    return request;
  }

  /** @returns is to be called when the request has ended, if it was admitted */
  answered(request: Request, result: AdmissionResult): () => void {
    if (this.#killed.has(request.gateway)) return () => {};
    if (request.answer !== 'none') this.#break('A request was answered twice.');
    if (result.kind === 'unavailable' || result.source === null) {
      this.#break('A request was not decided.');
      return () => {};
    }
    this.#waiting.delete(request);
    request.answer = result.source;
    request.isAdmitted = result.verdict.kind === 'admitted';
    this.answers[result.source]++;
    if (result.source === 'memory') this.#judgeMemory(request);
    if (result.source === 'lease') this.#judgeFromLease(request);
    if (result.source === 'local') {
      this.#leases.decidedAlone();
      this.#judgeLocal(request);
    }
    if (result.source === 'store' && request.call === null && !this.#wasTakenForAnother(request))
      this.#break('The gateway answered a request as the store did, which was not asked about it.');
    if (!request.isAdmitted) return () => {};
    if (result.source === 'store' || result.source === 'lease') this.#noteAdmitted(request);
    const begun = this.#inFlight.began(request.gateway, request.budgets, result.source !== 'local');
    this.#report(begun.wrong);
    return begun.end;
  }

  /**
   * Requests that differ only in their deadlines may be asked about in different calls, and the judge cannot tell them apart. One that
   * is answered as the store decided takes the place of one that was not.
   */
  #wasTakenForAnother(request: Request): boolean {
    const { gateway, consumerId, plan, cost, amounts } = request;
    for (const call of this.#calls) {
      if (call.gateway !== gateway) continue;
      for (const entry of call.entries) {
        const at = entry.findIndex((one) => {
          const isOfSame = one.consumerId === consumerId && one.plan === plan && one.cost === cost;
          return one.answer !== 'store' && isOfSame && sameAmounts(one.amounts, amounts);
        });
        if (at < 0) continue;
        const other = entry[at]!;
        entry[at] = request;
        request.call = call;
        other.call = null;
        if (other.answer === 'local') this.#judgeLocal(other);
        return true;
      }
    }
    return false;
  }

  #judgeFromLease(request: Request): void {
    const { gateway, consumerId, plan, cost, amounts, call } = request;
    if (!request.isAdmitted) this.#break('The gateway refused a request from a lease.');
    this.#report(this.#leases.admitted(gateway, consumerId, request));
    // A ban waits for what is lent.
    if (this.#leases.isWell && request.budgets.some(({ accountId }) => this.#isBanned(accountId)))
      this.#break(`Gateway ${gateway} admitted a request of ${consumerId} from a lease during a ban.`);
    if (call === null || !this.#calls.has(call)) return;
    // The judge cannot tell apart what is alike: another one was asked about.
    request.call = null;
    for (const other of this.#waiting) {
      if (other.call !== null || !isAlike(other, { gateway, consumerId, plan, cost, amounts })) continue;
      const entry = call.entries.find((one) => one.includes(request))!;
      entry[entry.indexOf(request)] = other;
      other.call = call;
      return;
    }
    this.#break(`Gateway ${gateway} admitted a request from a lease that it has asked the store about.`);
  }

  #isBanned(accountId: string): boolean {
    const ban = this.#server.model.account(accountId)?.ban ?? null;
    return ban !== null && this.#server.nowMs() < ban.untilMs;
  }

  #noteAdmitted({ gateway, consumerId, cost, amounts, plan, budgets, isUnknown, answer }: Request): void {
    for (const budget of budgets) {
      const { charge } = chargedIn(budget, cost, amounts);
      const isOfCall = isUnknown && answer === 'store';
      const entry = { atMs: performance.now(), cost: charge, plan: formOf(plan, budget.limits), isOfCall };
      this.#account(gateway, budget.accountId).admitted.push(entry);
    }
    this.#noteUsed(consumerId, amounts ?? {});
  }

  /** What the histories of a consumer's units must have in the end. */
  #noteUsed(consumerId: string, amounts: Amounts): void {
    for (const [unit, amount] of Object.entries(amounts)) {
      for (const id of historiesOfUnit(consumerId, unit)) this.#used.set(id, (this.#used.get(id) ?? 0) + amount);
    }
  }

  /** A request has ended, and the gateway is about to settle what it has used. */
  settles({ consumerId, budgets }: Request, { amounts, windows, isCertain }: Reservation, used: number): void {
    for (const [unit, taken] of Object.entries(amounts)) {
      const delta = used - taken;
      // Of a request that the gateway admitted alone nothing is given back.
      if (delta < 0 && !isCertain) continue;
      this.#noteUsed(consumerId, { [unit]: delta });
      for (const [i, budget] of budgets.entries()) {
        if (budget.unit === unit) this.#noteDue(budget.accountId, windows[i]!, delta);
      }
    }
  }

  /** What is given back must be sent to the place where it was counted, and once; so must what is added, wherever that was. */
  #noteDue(accountId: string, windows: readonly SettledWindow[], delta: number): void {
    for (const { of, placeMs } of windows) {
      const place = `${accountId} ${of.window} ${delta < 0 ? placeMs : 'added'}`;
      this.#due.set(place, (this.#due.get(place) ?? 0) + Math.abs(delta));
    }
  }

  #judgeSettlement({ accountId, windows, delta }: ExecutedSettlement): void {
    for (const { of, placeMs } of windows) {
      const place = `${accountId} ${of.window} ${delta < 0 ? placeMs : 'added'}`;
      const left = (this.#due.get(place) ?? 0) - Math.abs(delta);
      this.#due.set(place, left);
      if (left < 0)
        this.#break(
          `Of the ${of.window} of ${accountId}, ${delta} was settled, ${-left} more than requests had left there.`,
        );
    }
  }

  /** The store did not answer a settlement, or did not take it. */
  settlementLost(): void {
    this.#haveHistoriesSuffered = true;
  }

  /**
   * @returns is to be called when the ledger has answered, before the gateway learns of it, with undefined for each request about which
   *   the store has certainly done nothing, or with null if none is known
   */
  ledgerAsked(
    gateway: string,
    requests: readonly DecisionRequest[],
  ): (decisions: readonly (Decision | null | undefined)[] | null) => void {
    const about = requests.map(({ consumerId, n, leaseTerms }) => aboutOf(consumerId, n, leaseTerms)).join();
    const entries: Request[][] = [];
    const begun = { gateway, requests, about, entries, beganAt: this.#moment++ };
    const call: LedgerCall = {
      ...begun,
      wire: null,
      hasEnded: false,
      endedAt: Number.POSITIVE_INFINITY,
    };
    for (const { consumerId, allowance, cost, amounts, n, inFlight: ownInFlight, leaseTerms } of requests) {
      const returned = leaseTerms?.returned;
      if (returned !== undefined) this.#report(this.#leases.returned(gateway, consumerId, allowance, returned));
      for (const [i, { accountId, inFlight }] of budgetsOf(consumerId, allowance).entries())
        if (inFlight !== null) this.reported(gateway, accountId, ownInFlight![i]!);
      const found: Request[] = [];
      for (const one of this.#waiting) {
        if (found.length === n) break;
        if (one.call === null && isAlike(one, { gateway, consumerId, plan: allowance, cost, amounts })) found.push(one);
      }
      if (found.length < n && !this.#killed.has(gateway))
        this.#break(`Gateway ${gateway} asks about ${n} requests of ${consumerId}; ${found.length} wait.`);
      for (const request of found) request.call = call;
      entries.push(found);
    }
    this.#calls.add(call);
    return (decisions) => {
      call.hasEnded = true;
      call.endedAt = this.#moment++;
      for (const [i, decision] of decisions?.entries() ?? [])
        if (decision?.lent !== undefined) this.#leases.learned(requests[i]!.leaseTerms!.borrows!.id);
      for (const [i, { leaseTerms }] of requests.entries()) {
        const id = leaseTerms?.returned?.id;
        if (id !== undefined && decisions !== null && decisions[i] === undefined) this.#leases.notReturned(id);
      }
      if (decisions !== null && !decisions.includes(undefined)) return;
      for (const { consumerId, allowance } of requests)
        for (const { accountId } of budgetsOf(consumerId, allowance)) this.reportFailed(gateway, accountId);
    };
  }

  /** A gateway is about to report what it has in flight, by itself or with a decision. */
  reported(gateway: string, accountId: string, count: number): void {
    this.#report(this.#inFlight.reported(gateway, accountId, count));
  }

  reportFailed(gateway: string, accountId: string): void {
    this.#inFlight.unanswered(gateway, accountId);
  }

  /** The gateway's reconciler has answered about an account: it waits for no earlier reply. */
  reconciled(gateway: string, accountId: string): void {
    for (const call of this.#account(gateway, accountId).open) {
      if (call.isDecision) continue;
      call.isGivenUp = true;
      this.#haveHistoriesSuffered = true;
    }
  }

  onSent(call: WireCall): void {
    this.#sentAt.set(call, this.#moment++);
    if (call.isDecision) {
      const isOf = (one: LedgerCall) => one.gateway === call.gateway && one.about === call.about;
      const calls = [...this.#calls].filter(isOf);
      const late = calls.find(({ hasEnded }) => !hasEnded) ?? calls.at(-1) ?? this.#judged.findLast(isOf);
      if (late !== undefined) {
        late.wire = call;
        this.#ofWire.set(call, late);
      }
    }
    for (const counted of call.counts) {
      const account = this.#account(call.gateway, counted.accountId);
      for (const open of account.open) if (open !== call) this.#judgeOpen(open, counted, call);
      account.open.add(call);
      for (const { to, cost } of counted.adds) add(account.sent, to, cost);
    }
  }

  /**
   * Nothing that counts is sent about an account while an earlier call may count there. But several consumers share the account of
   * a customer: while the gateway waits for a decision about one of them, it may send one about another, or usage.
   */
  #judgeOpen(open: WireCall, { accountId, consumerId }: Counted, call: WireCall): void {
    const earlier = open.counts.find((one) => one.accountId === accountId)!;
    const isOfAnother = isShared(accountId) && earlier.consumerId !== consumerId;
    // A command that is sent again, after the reply that the script is unknown, is of a call that began before.
    const beganAt = this.#ofWire.get(call)?.beganAt ?? this.#moment;
    const untilAt = open.isDecision ? this.#ofWire.get(open)?.endedAt : this.#sentAt.get(open);
    if (isOfAnother && untilAt !== undefined && beganAt < untilAt) return;
    const what = call.isDecision ? 'a decision' : 'usage';
    this.#break(`Gateway ${call.gateway} sends ${what} about ${accountId} while an earlier call may still count.`);
  }

  onExecuted(call: WireCall): void {
    call.executedAt = this.#disturbances;
    const asked = this.#ofWire.get(call);
    for (const [i, done] of call.reply!.executed.entries()) {
      if (done.kind === 'decision') this.#judgeDecision(call, done, asked?.requests[i]?.allowance);
      else if (done.kind === 'report') {
        this.#store.reported(done);
        this.#inFlight.noted(call.gateway, done.holder, done.accountId);
      } else if (done.kind === 'settlement') {
        this.#judgeSettlement(done);
        this.#report(this.#store.settled(done));
      } else {
        this.#report(this.#store.added(done));
        this.#disturbances++;
        for (const [name, account] of this.#accounts)
          if (name.endsWith(` ${done.accountId}`)) account.cutsAtMs.push(performance.now());
      }
    }
  }

  #judgeDecision(call: WireCall, done: Extract<Executed, { kind: 'decision' }>, plan: Allowance | undefined): void {
    for (const [i, { accountId }] of done.accounts.entries())
      if ((done.decision.inFlight?.[i] ?? -1) >= 0) this.#inFlight.noted(call.gateway, done.holder, accountId);
    if (plan === undefined) {
      for (const { accountId } of done.accounts) this.#store.disturbedOne(accountId);
      return;
    }
    this.#report(this.#store.decided(plan, done));
    const budgets = budgetsOf(done.consumerId, plan);
    const isCrowded = this.#waitingAt(call.gateway) >= MOST_WAITING;
    this.#report(this.#leases.decided({ gateway: call.gateway, plan, budgets, isCrowded }, done));
    if (isLate(done)) this.#disturbances++;
  }

  /** How many requests of a gateway wait for units. */
  #waitingAt(gateway: string): number {
    let count = 0;
    for (const request of this.#waiting) if (request.gateway === gateway && request.isWaiting) count++;
    return count;
  }

  onEnded(call: WireCall): void {
    for (const { accountId, adds } of call.counts) {
      const account = this.#account(call.gateway, accountId);
      if (call.state !== 'unknown') account.open.delete(call);
      if (call.state === 'undone' && !call.isGivenUp) for (const { to, cost } of adds) add(account.sent, to, -cost);
    }
    if (call.state !== 'answered') return;
    // The gateway learns nothing from the answer.
    if (call.isReturn) return;
    for (const accountId of call.accountIds) {
      const account = this.#account(call.gateway, accountId);
      if (call.isDecision) account.seen = call.executedAt!;
      if (call.counts.length > 0) continue;
      // The store has answered a call that counts nothing, so all calls before it have had their effect.
      for (const open of account.open) {
        if (open.number > call.number) continue;
        account.open.delete(open);
        account.disturbedAtMs = performance.now();
      }
    }
  }

  /** The store has lost writes, or its clock was set. */
  storeDisturbed(): void {
    this.#store.disturbed();
    this.#inFlight.disturbed();
    this.#leases.storeDisturbed();
    this.#storeDisturbedAtMs = performance.now();
    this.#haveHistoriesSuffered = true;
    this.#disturbances++;
    this.#lastOfStore = this.#disturbances;
    this.#disturbAll();
  }

  /** @param areMixed whether gateways have different plans from now on */
  reloaded(areMixed: boolean): void {
    this.#areMixed = areMixed;
    this.#leases.reloaded(areMixed);
    this.#disturbances++;
    this.#disturbAll();
  }

  /** A gateway's link is faulty from now on, or for some time; 0 ms: it is well again. */
  faulty(gateway: string, forMs: number): void {
    this.#leases.faulty(gateway, forMs);
  }

  lifted(accountId: string, gateways: readonly string[]): void {
    this.#store.disturbedOne(accountId);
    for (const gateway of gateways) {
      const account = this.#account(gateway, accountId);
      account.isLiftPending = true;
      account.disturbedAtMs = performance.now();
    }
  }

  liftAnnounced(gateway: string, accountId: string): void {
    this.#account(gateway, accountId).isLiftPending = false;
  }

  killed(gateway: string): void {
    this.#killed.add(gateway);
    this.#inFlight.killed(gateway);
    this.#leases.killed(gateway);
    this.#haveHistoriesSuffered = true;
    for (const request of this.#waiting) if (request.gateway === gateway) this.#waiting.delete(request);
  }

  /** Judges what must hold at any time. Called after each callback, when all promises are settled. */
  check(): void {
    if (this.broken !== null) return;
    this.#report(this.#inFlight.check(this.#server.model));
    for (const call of this.#calls) if (call.hasEnded) this.#judgeAnswers(call);
    if (performance.now() > this.#nextDueAtMs) this.#judgeWaits();
    for (const [name, { owed, sent, isUncertain }] of this.#accounts) {
      if (isUncertain) continue;
      for (const [window, cost] of sent) {
        if (cost > (owed.get(window) ?? 0)) {
          this.#break(
            `Gateway and account ${name}: ${cost} was sent to be added to the ${window}, of ${owed.get(window) ?? 0} owed.`,
          );
        }
      }
    }
  }

  #judgeWaits(): void {
    this.#nextDueAtMs = Number.POSITIVE_INFINITY;
    for (const { gateway, consumerId, dueAtMs, isWaiting } of this.#waiting) {
      this.#nextDueAtMs = Math.min(this.#nextDueAtMs, dueAtMs);
      if (performance.now() <= dueAtMs) continue;
      const than = isWaiting ? 'units may return' : 'redis.timeout';
      this.#break(`Gateway ${gateway} lets a request of ${consumerId} wait longer than ${than}.`);
    }
  }

  /** Judges what must hold when everything has been well again for a while. */
  end(): void {
    if (this.#waiting.size > 0) this.#break('A request was never answered.');
    for (const [name, { owed, sent, isUncertain }] of this.#accounts) {
      if (this.#killed.has(name.split(' ')[0]!) || isUncertain) continue;
      for (const place of ['week', 'history'] as const) {
        const [due = 0, came = 0] = [owed.get(place), sent.get(place)];
        if (came !== due)
          this.#break(
            `Gateway and account ${name}: of ${due} that the store never counted in the ${place}, ${came} was sent to it.`,
          );
      }
    }
    this.#judgeHistories();
    this.#report(this.#leases.end(this.#server.model.histories));
  }

  /** The histories of units have exactly what requests have used. Called when all of them have ended and are settled. */
  endOfUnits(): void {
    if (this.#haveHistoriesSuffered || this.#isUseUncertain) return;
    const { histories } = this.#server.model;
    for (const [id, used] of this.#used) {
      const cost = histories.get(id) ?? 0;
      if (cost !== used) this.#break(`The history of ${id} has ${cost}; its requests have used ${used}.`);
    }
    for (const [place, left] of this.#due) if (left > 0) this.#break(`Of ${place}, ${left} was never settled.`);
  }

  /** The history of a customer is the sum of those of its keys. */
  #judgeHistories(): void {
    if (this.#haveHistoriesSuffered) return;
    const sums = new Map<string, number>();
    const { histories } = this.#server.model;
    for (const [accountId, cost] of histories) {
      const [customerId, keyId] = accountId.split('/') as [string, string?];
      const whole = `${customerId}${keyId?.slice(keyId.indexOf('%') < 0 ? keyId.length : keyId.indexOf('%')) ?? ''}`;
      if (keyId !== undefined) sums.set(whole, (sums.get(whole) ?? 0) + cost);
    }

    for (const [customerId, sum] of sums) {
      const cost = histories.get(customerId) ?? 0;
      if (cost !== sum) this.#break(`The history of ${customerId} has ${cost}; those of its keys have ${sum}.`);
    }
  }

  /** The gateway has answered all requests of a call exactly as the store decided, or none of them so. */
  #judgeAnswers(call: LedgerCall): void {
    this.#calls.delete(call);
    this.#judged = [...this.#judged.slice(-LAST_CALLS), call];
    if (this.#killed.has(call.gateway)) return;
    const executed = call.wire?.state === 'answered' ? call.wire.reply!.executed : [];
    // Requests that differ only in their deadlines are apart in the call, and the judge cannot tell them apart.
    const asked = [...call.entries.keys()].filter((i) => call.entries[i]!.length > 0);
    const alike = Map.groupBy(asked, (i) => {
      const { consumerId, plan, cost, amounts } = call.entries[i]![0]!;
      return `${consumerId} ${cost} ${JSON.stringify(amounts)} ${JSON.stringify(plan)}`;
    });
    for (const entries of alike.values()) {
      const told = entries.flatMap((i) => call.entries[i]!).filter(({ answer }) => answer === 'store');
      const admitted = told.filter(({ isAdmitted }) => isAdmitted).length;
      const decided = { n: 0, admitted: 0 };
      for (const i of entries) {
        const done = executed[i];
        if (done?.kind !== 'decision') continue;
        decided.n += done.decision.waitMs !== undefined ? done.decision.admitted : done.decision.n;
        if (done.decision.waitMs !== undefined) this.#noteWait(call.entries[i]![0]!, done.decision);
        decided.admitted += done.decision.admitted;
      }
      // Those that wait are asked about again.
      for (const i of entries)
        for (const request of call.entries[i]!) if (request.answer === 'none') request.call = null;
      if (told.length === 0 || (told.length === decided.n && admitted === decided.admitted)) continue;
      if (entries.length > 1 && told.length < decided.n && admitted <= decided.admitted) continue;
      this.#break(
        `The store admitted ${decided.admitted} of ${decided.n}; the gateway told ${admitted} of ${told.length} so.`,
      );
    }
  }

  /** Requests wait for units: all that the judge cannot tell from them may be those. */
  #noteWait(one: Request, { waitMs = 0 }: Decision): void {
    const nowMs = performance.now();
    if (waitMs > MAX_WAIT_MS) this.#break(`The store lets requests wait for ${waitMs} ms.`);
    const kinds = this.#waitedAt.get(one.plan) ?? new Map<string, number>();
    this.#waitedAt.set(one.plan, kinds.set(kindOf(one), nowMs));
    const withinMs = this.#leases.isWell ? RECALLED_WITHIN_MS : waitMs + TIMEOUT_MS + LATE_MS;
    for (const request of this.#waiting) {
      if (request.isWaiting || !isAlike(request, one)) continue;
      request.isWaiting = true;
      request.dueAtMs = Math.max(request.dueAtMs, nowMs + withinMs);
    }
  }

  /** Whether requests like this one have just waited for units. */
  #hasWaited(request: Request): boolean {
    const atMs = this.#waitedAt.get(request.plan)?.get(kindOf(request));
    return atMs !== undefined && performance.now() < atMs + MAX_WAIT_MS + 2 * TIMEOUT_MS;
  }

  #judgeMemory(request: Request): void {
    const { gateway, budgets, plan, cost, amounts } = request;
    if (request.isAdmitted) this.#break('The gateway admitted a request from memory.');
    const accounts = budgets.map(({ accountId }) => this.#account(gateway, accountId));
    if (this.#areMixed || accounts.some(({ isLiftPending, seen }) => isLiftPending || seen < this.#disturbances))
      return;
    const states = budgets.map(({ accountId }) => this.#server.model.account(accountId) ?? UNSEEN);
    const nowMs = this.#server.nowMs();
    const { admitted, waitMs } = decide(states, plan, nowMs, cost, 1, [], amounts);
    // Before the store moves a count to another form, all requests wait, also those that cost more than a limit and never fit.
    const unused = states.map(({ leases, ...state }) => ({ ...state, windows: {} }));
    const couldFit = decide(unused, plan, nowMs, cost, 1, [], amounts).admitted > 0;
    // After the clock was set, the store may take a lease for unended that has ended.
    const isStale = performance.now() <= this.#storeDisturbedAtMs + KNOWN_FOR_MS;
    const mayWait = waitMs !== undefined && couldFit && !isStale;
    if (admitted === 0 && !mayWait) return;
    this.#break(
      `Gateway ${gateway} refused a request of ${request.consumerId} from memory, which the store would admit.`,
    );
  }

  #judgeLocal(request: Request): void {
    const { call, budgets } = request;
    const isOwed = call === null || (call.hasEnded && (call.wire === null || call.wire.state === 'undone'));
    if (!isOwed) this.#isUseUncertain = true;
    if (this.#hasWaited(request)) {
      for (const { accountId } of budgets) this.#account(request.gateway, accountId).isUncertain = true;
      return;
    }
    if (!request.isAdmitted || !isOwed) return;
    this.#noteAdmitted(request);
    for (const other of this.#waiting) other.isUnknown ||= sharesAccount(other, request);
    for (const budget of budgets) this.#judgeLocalBudget(request, budget);
    for (const [unit, amount] of Object.entries(request.amounts ?? {})) {
      for (const id of historiesOfUnit(request.consumerId, unit)) {
        if (amount > 0) add(this.#account(request.gateway, id).owed, 'history', amount);
      }
    }
  }

  /** A gateway by itself keeps each budget, except for one call that it had sent (contract section 6). */
  #judgeLocalBudget({ gateway, cost, amounts, plan }: Request, budget: JudgedBudget): void {
    const { accountId, limits, hasHistory, unit } = budget;
    const account = this.#account(gateway, accountId);
    const { charge } = chargedIn(budget, cost, amounts);
    for (const { window } of limits) add(account.owed, window, charge);
    if (hasHistory) add(account.owed, 'history', charge);
    // What is given back may be admitted again.
    if (unit !== null) return;
    const nowMs = performance.now();
    const hasMissed = account.seen < this.#lastOfStore || [...account.open].some(({ isDecision }) => !isDecision);
    if (hasMissed) account.disturbedAtMs = nowMs;
    const form = formOf(plan, limits);
    for (const { window, lengthMs, limit, slices } of limits) {
      if (account.disturbedAtMs > nowMs - 2 * lengthMs) continue;
      const fromMs = nowMs - lengthMs + CLOCK_SLACK_MS;
      const most =
        slices === undefined ? limit * (2 + account.cutsAtMs.filter((atMs) => atMs > fromMs - lengthMs).length) : limit;
      const inSpan = account.admitted.filter((one) => one.plan === form && one.atMs > fromMs && !one.isOfCall);
      const admitted = inSpan.reduce((sum, one) => sum + one.cost, 0);
      if (admitted > most) {
        this.#break(
          `Gateway ${gateway} has admitted ${admitted} of ${accountId} in a ${window} of ${limit} by itself.`,
        );
      }
    }
  }

  #account(gateway: string, accountId: string): Account {
    const name = `${gateway} ${accountId}`;
    const known = this.#accounts.get(name);
    if (known !== undefined) return known;
    const made: Account = {
      owed: new Map(),
      sent: new Map(),
      open: new Set(),
      admitted: [],
      disturbedAtMs: this.#disturbedAtMs,
      cutsAtMs: [],
      seen: -1,
      isLiftPending: false,
      isUncertain: false,
    };
    this.#accounts.set(name, made);
    return made;
  }

  #disturbAll(): void {
    this.#disturbedAtMs = performance.now();
    for (const account of this.#accounts.values()) account.disturbedAtMs = this.#disturbedAtMs;
  }

  #report(wrong: string | null): void {
    if (wrong !== null) this.#break(wrong);
  }

  #break(wrong: string): void {
    this.broken ??= wrong;
  }
}

/** How many calls that it has judged the judge knows: a command may be sent again after them. */
const LAST_CALLS = 50;

/** Whether a lease was returned so late that gateways may refuse requests by what they know. */
function isLate({ leaseTerms: { returned }, accounts, decision: { nowMs } }: ExecutedDecision): boolean {
  const leases = accounts.flatMap(({ before }) => before?.leases ?? []);
  return leases.some(({ id, endsAtMs }) => id === returned?.id && nowMs >= endsAtMs + RETURN_WITHIN_MS);
}

/** Whether the judge cannot tell two requests apart. */
function isAlike(
  one: Request,
  { gateway, consumerId, plan, cost, amounts }: Pick<Request, 'gateway' | 'consumerId' | 'plan' | 'cost' | 'amounts'>,
): boolean {
  const isHere = one.gateway === gateway && one.consumerId === consumerId;
  return isHere && one.plan === plan && one.cost === cost && sameAmounts(one.amounts, amounts);
}

function sharesAccount(one: Request, { gateway, budgets }: Request): boolean {
  const isOf = ({ accountId }: JudgedBudget) => budgets.some((budget) => budget.accountId === accountId);
  return one.gateway === gateway && one.budgets.some(isOf);
}

function kindOf({ gateway, consumerId, cost }: Request): string {
  return `${gateway} ${consumerId} ${cost}`;
}

/** Whether an account counts the requests of several consumers. */
function isShared(accountId: string): boolean {
  return accountId.startsWith('cus_') && !accountId.includes('/');
}

/** What makes counts of one account comparable: the limits under which it was charged. */
function formOf({ bans }: Allowance, limits: readonly WindowLimit[]): string {
  return JSON.stringify([bans, limits]);
}

function add(sums: Map<Place, number>, place: Place, cost: number): void {
  sums.set(place, (sums.get(place) ?? 0) + cost);
}
