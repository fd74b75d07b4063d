import { decide, UNSEEN } from '../../../src/admit/decide.ts';
import type { DecisionRequest } from '../../../src/admit/ledger.ts';
import type { Allowance } from '../../../src/admit/plan.ts';
import type { Admission } from '../../../src/admit/verdict.ts';
import type { WindowName } from '../../../src/admit/windows.ts';
import type { WireCall, WireListener } from './link.ts';
import type { RedisServer } from './redis-server.ts';
import { StoreJudge } from './store-judge.ts';

/** One request of a client. */
export interface Request {
  readonly gateway: string;
  readonly consumerId: string;
  readonly plan: Allowance;
  readonly cost: number;
  /** When it must be answered, by the monotonic clock, milliseconds. */
  readonly dueAtMs: number;
  call: LedgerCall | null;
  answer: 'none' | 'store' | 'memory' | 'local';
  isAdmitted: boolean;
}

/** What a gateway asks its ledger about in one call. */
interface LedgerCall {
  readonly gateway: string;
  readonly consumerIds: readonly string[];
  readonly entries: readonly (readonly Request[])[];
  /** The command that was sent last for it. */
  wire: WireCall | null;
  hasEnded: boolean;
  isJudged: boolean;
}

/** What a gateway has done about one consumer. */
interface Account {
  /** The cost that it admitted alone and that certainly no call has counted, by window. */
  readonly owed: Map<WindowName, number>;
  /** The cost that it has sent to be added, and that was not certainly refused, by window. */
  readonly sent: Map<WindowName, number>;
  /** Calls that may count and have no certain end. */
  readonly open: Set<WireCall>;
  /** What it admitted: with the store, or owed. */
  readonly admitted: { readonly atMs: number; readonly cost: number; readonly plan: Allowance }[];
  /** Its knowledge was disturbed at this time. */
  disturbedAtMs: number;
  /** Usage has been added to the store at these times, which may have ended windows earlier. */
  readonly cutsAtMs: number[];
  /** The number of disturbances of the store that its last answer from it had seen. */
  seen: number;
  /** A ban was lifted and the gateway does not know it yet. */
  isLiftPending: boolean;
}

/** As `redis.timeout` of gateway.yaml: how long a request may wait for the store. */
export const TIMEOUT_MS = 100;
/** How much later than a deadline a request may be answered: timers count whole milliseconds and wait for a turn. */
const LATE_MS = 3;
/** By how much a gateway's idea of the store's clock may be off. */
const CLOCK_SLACK_MS = 300;

/** Holds a fleet of gateways and their store against the written bounds (contract sections 3 and 6). */
export class Judge implements WireListener {
  /** The first bound that was broken, as a sentence; null as long as all hold. */
  broken: string | null = null;
  /** The number of requests by answer, to show what the histories reach. */
  readonly answers = { store: 0, memory: 0, local: 0 };
  readonly #server: RedisServer;
  readonly #store = new StoreJudge();
  readonly #accounts = new Map<string, Account>();
  readonly #killed = new Set<string>();
  readonly #waiting = new Set<Request>();
  readonly #calls: LedgerCall[] = [];
  readonly #ofWire = new Map<WireCall, LedgerCall>();
  /** Disturbances of each consumer's state that gateways cannot know of. */
  #disturbances = 0;
  #disturbedAtMs = Number.NEGATIVE_INFINITY;
  /** The number of the last one that changed the store's data or clock. */
  #lastOfStore = -1;
  /** Gateways have different plans. */
  #areMixed = false;

  constructor(server: RedisServer) {
    this.#server = server;
  }

  asked(gateway: string, consumerId: string, plan: Allowance, cost: number, waitedMs: number): Request {
    const dueAtMs = performance.now() + Math.max(TIMEOUT_MS - waitedMs, 0) + LATE_MS;
    const request: Request = {
      gateway,
      consumerId,
      plan,
      cost,
      dueAtMs,
      call: null,
      answer: 'none',
      isAdmitted: false,
    };
    this.#waiting.add(request);
    return request;
  }

  answered(request: Request, admission: Admission): void {
    if (this.#killed.has(request.gateway)) return;
    if (request.answer !== 'none') this.#break('A request was answered twice.');
    if (admission.kind === 'unavailable' || admission.source === null) {
      this.#break('A request was not decided.');
      return;
    }
    this.#waiting.delete(request);
    request.answer = admission.source;
    request.isAdmitted = admission.verdict.kind === 'admitted';
    this.answers[admission.source]++;
    if (admission.source === 'memory') this.#judgeMemory(request);
    if (admission.source === 'local') this.#judgeLocal(request);
    if (admission.source !== 'store') return;
    if (request.call === null)
      this.#break('The gateway answered a request as the store did, which was not asked about it.');
    else if (request.isAdmitted)
      this.#of(request).admitted.push({ atMs: performance.now(), cost: request.cost, plan: request.plan });
  }

  /** @returns is to be called when the ledger has answered, before the gateway learns of it */
  ledgerAsked(gateway: string, requests: readonly DecisionRequest[]): () => void {
    const consumerIds = requests.map(({ consumerId }) => consumerId);
    const entries: Request[][] = [];
    const call: LedgerCall = { gateway, consumerIds, entries, wire: null, hasEnded: false, isJudged: false };
    for (const { consumerId, allowance, cost, n } of requests) {
      const found: Request[] = [];
      for (const one of this.#waiting) {
        if (found.length === n) break;
        const isOfBatch = one.plan === allowance && one.cost === cost && one.call === null;
        if (one.gateway === gateway && one.consumerId === consumerId && isOfBatch) found.push(one);
      }
      if (found.length < n && !this.#killed.has(gateway))
        this.#break(`Gateway ${gateway} asks about ${n} requests of ${consumerId}; ${found.length} wait.`);
      for (const request of found) request.call = call;
      entries.push(found);
    }
    this.#calls.push(call);
    return () => {
      call.hasEnded = true;
    };
  }

  /** The gateway's reconciler has answered about a consumer: it waits for no earlier reply. */
  reconciled(gateway: string, consumerId: string): void {
    for (const call of this.#account(gateway, consumerId).open) if (!call.isDecision) call.isGivenUp = true;
  }

  onSent(call: WireCall): void {
    if (call.isDecision) {
      const asked = this.#calls.find((one) => {
        return one.gateway === call.gateway && !one.hasEnded && one.consumerIds.join() === call.consumerIds.join();
      });
      const late =
        asked ??
        this.#calls.findLast(
          (one) => one.gateway === call.gateway && one.consumerIds.join() === call.consumerIds.join(),
        );
      if (late !== undefined) {
        late.wire = call;
        this.#ofWire.set(call, late);
      }
    }
    for (const { consumerId, windows } of call.counts) {
      const account = this.#account(call.gateway, consumerId);
      if (account.open.size > 0 && !call.isDecision) this.#inDoubt(call.gateway, consumerId, 'usage');
      if (account.open.size > 0 && call.isDecision && ![...account.open].every((one) => one === call)) {
        this.#inDoubt(call.gateway, consumerId, 'a decision');
      }
      account.open.add(call);
      for (const { window, spent } of windows) add(account.sent, window, spent);
    }
  }

  #inDoubt(gateway: string, consumerId: string, what: string): void {
    this.#break(`Gateway ${gateway} sends ${what} about ${consumerId} while an earlier call may still count.`);
  }

  onExecuted(call: WireCall): void {
    call.executedAt = this.#disturbances;
    const asked = this.#ofWire.get(call);
    for (const [i, done] of call.reply!.executed.entries()) {
      const id = done.consumerId;
      if (done.kind === 'addition') {
        this.#report(this.#store.added(done));
        this.#disturbances++;
        for (const [name, account] of this.#accounts)
          if (name.endsWith(` ${id}`)) account.cutsAtMs.push(performance.now());
      } else {
        const plan = asked?.entries[i]?.[0]?.plan;
        if (plan === undefined) this.#store.disturbedOne(id);
        else this.#report(this.#store.decided(plan, done));
      }
    }
  }

  onEnded(call: WireCall): void {
    for (const { consumerId, windows } of call.counts) {
      const account = this.#account(call.gateway, consumerId);
      if (call.state !== 'unknown') account.open.delete(call);
      if (call.state === 'undone' && !call.isGivenUp)
        for (const { window, spent } of windows) add(account.sent, window, -spent);
    }
    if (call.state !== 'answered') return;
    for (const consumerId of call.consumerIds) {
      const account = this.#account(call.gateway, consumerId);
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
    this.#disturbances++;
    this.#lastOfStore = this.#disturbances;
    this.#disturbAll();
  }

  /** @param areMixed whether gateways have different plans from now on */
  reloaded(areMixed: boolean): void {
    this.#areMixed = areMixed;
    this.#disturbances++;
    this.#disturbAll();
  }

  lifted(consumerId: string, gateways: readonly string[]): void {
    this.#store.disturbedOne(consumerId);
    for (const gateway of gateways) {
      const account = this.#account(gateway, consumerId);
      account.isLiftPending = true;
      account.disturbedAtMs = performance.now();
    }
  }

  liftAnnounced(gateway: string, consumerId: string): void {
    this.#account(gateway, consumerId).isLiftPending = false;
  }

  killed(gateway: string): void {
    this.#killed.add(gateway);
    for (const request of this.#waiting) if (request.gateway === gateway) this.#waiting.delete(request);
  }

  /** Judges what must hold at any time. Called after each callback, when all promises are settled. */
  check(): void {
    if (this.broken !== null) return;
    for (const { gateway, consumerId, dueAtMs } of this.#waiting) {
      if (performance.now() <= dueAtMs) break;
      this.#break(`Gateway ${gateway} lets a request of ${consumerId} wait longer than redis.timeout.`);
    }
    for (const call of this.#calls) if (call.hasEnded && !call.isJudged) this.#judgeAnswers(call);
    for (const [name, { owed, sent }] of this.#accounts) {
      for (const [window, cost] of sent) {
        if (cost > (owed.get(window) ?? 0)) {
          this.#break(
            `Gateway and consumer ${name}: ${cost} was sent to be added to the ${window}, of ${owed.get(window) ?? 0} owed.`,
          );
        }
      }
    }
  }

  /** Judges what must hold when everything has been well again for a while. */
  end(): void {
    if (this.#waiting.size > 0) this.#break('A request was never answered.');
    for (const [name, { owed, sent }] of this.#accounts) {
      if (this.#killed.has(name.split(' ')[0]!)) continue;
      const [due = 0, came = 0] = [owed.get('week'), sent.get('week')];
      if (came !== due)
        this.#break(`Gateway and consumer ${name}: of ${due} that the store never counted, ${came} was sent to it.`);
    }
  }

  /** The gateway has answered all requests of a call exactly as the store decided, or none of them so. */
  #judgeAnswers(call: LedgerCall): void {
    call.isJudged = true;
    if (this.#killed.has(call.gateway)) return;
    const executed = call.wire?.state === 'answered' ? call.wire.reply!.executed : [];
    // Requests that differ only in their deadlines are apart in the call, and the judge cannot tell them apart.
    const alike = Map.groupBy(call.entries.keys(), (i) => {
      const { consumerId, plan, cost } = call.entries[i]![0]!;
      return `${consumerId} ${cost} ${JSON.stringify(plan)}`;
    });
    for (const entries of alike.values()) {
      const told = entries.flatMap((i) => call.entries[i]!).filter(({ answer }) => answer === 'store');
      const admitted = told.filter(({ isAdmitted }) => isAdmitted).length;
      const decided = { n: 0, admitted: 0 };
      for (const i of entries) {
        const done = executed[i];
        if (done?.kind !== 'decision') continue;
        decided.n += done.outcome.n;
        decided.admitted += done.outcome.admitted;
      }
      if (told.length === 0 || (told.length === decided.n && admitted === decided.admitted)) continue;
      if (entries.length > 1 && told.length < decided.n && admitted <= decided.admitted) continue;
      this.#break(
        `The store admitted ${decided.admitted} of ${decided.n}; the gateway told ${admitted} of ${told.length} so.`,
      );
    }
  }

  #judgeMemory(request: Request): void {
    const account = this.#of(request);
    if (request.isAdmitted) this.#break('The gateway admitted a request from memory.');
    if (account.isLiftPending || this.#areMixed || account.seen < this.#disturbances) return;
    const state = this.#server.model.account(request.consumerId) ?? UNSEEN;
    if (decide(state, request.plan, this.#server.nowMs(), request.cost, 1).admitted === 0) return;
    this.#break(
      `Gateway ${request.gateway} refused a request of ${request.consumerId} from memory, which the store would admit.`,
    );
  }

  #judgeLocal(request: Request): void {
    const { call, cost, plan } = request;
    if (!request.isAdmitted) return;
    const isOwed = call === null || (call.hasEnded && (call.wire === null || call.wire.state === 'undone'));
    if (!isOwed) return;
    const account = this.#of(request);
    for (const { window } of plan.limits) add(account.owed, window, cost);
    const nowMs = performance.now();
    account.admitted.push({ atMs: nowMs, cost, plan });
    const hasMissed = account.seen < this.#lastOfStore || [...account.open].some(({ isDecision }) => !isDecision);
    if (hasMissed) account.disturbedAtMs = nowMs;
    for (const { window, lengthMs, limit, slices } of plan.limits) {
      if (account.disturbedAtMs > nowMs - 2 * lengthMs) continue;
      const fromMs = nowMs - lengthMs + CLOCK_SLACK_MS;
      const most =
        slices === undefined ? limit * (2 + account.cutsAtMs.filter((atMs) => atMs > fromMs - lengthMs).length) : limit;
      const inSpan = account.admitted.filter((one) => one.plan === plan && one.atMs > fromMs);
      const admitted = inSpan.reduce((sum, one) => sum + one.cost, 0);
      if (admitted > most) {
        this.#break(
          `Gateway ${request.gateway} has admitted ${admitted} of ${request.consumerId} in a ${window} of ${limit} by itself.`,
        );
      }
    }
  }

  #of({ gateway, consumerId }: Request): Account {
    return this.#account(gateway, consumerId);
  }

  #account(gateway: string, consumerId: string): Account {
    const name = `${gateway} ${consumerId}`;
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

function add(sums: Map<WindowName, number>, window: WindowName, cost: number): void {
  sums.set(window, (sums.get(window) ?? 0) + cost);
}
