import { IncomingMessage } from 'node:http';
import { shadowIdOf } from '../admit/account-id.ts';
import type { Admitter } from '../admit/admit.ts';
import type { AdmissionListener } from '../admit/batch.ts';
import { ALL_UNSEEN, type Amounts } from '../admit/decide.ts';
import type { Allowance } from '../admit/plan.ts';
import {
  type Admission,
  type Admitted,
  type Banned,
  type Crowded,
  type Refused,
  type Verdict,
  verdictOnBudgets,
} from '../admit/verdict.ts';
import type { CorsFields } from '../annotate/cors.ts';
import * as errors from '../annotate/errors.ts';
import { type ErrorResponse, plainError } from '../annotate/errors.ts';
import { ClientBodyError, type ClientBodyErrorCode, isClientBodyError, QueueFullError } from '../forward/faults.ts';
import type { ConsumerShare, Upstream } from '../forward/upstream/upstream.ts';
import type { UpgradeClient } from '../forward/websocket/upgrade.ts';
import type { ClientAddress, ClientRequest, ClientResponse } from '../http1/client.ts';
import { FieldBlock } from '../http1/field-block.ts';
import type { Head, HeadFault } from '../http1/request-head.ts';
import { closeAfter } from '../io/graceful-close.ts';
import type { ConsumerTime } from '../io/thread-time.ts';
import type { Charge } from '../meter/charge.ts';
import type { Decoding } from '../meter/decoders.ts';
import type { Ruling } from '../policies/chain.ts';
import type { Allowed } from '../policies/result.ts';
import type { RouteReply } from '../routing/route.ts';
import { asksForUsage, type Match } from '../routing/router.ts';
import type { BodyCheck } from '../validate/validator.ts';
import type { Checked } from './body-checks.ts';
import { callerOf, type Identified } from './caller.ts';
import { checkHead, heldBytesOfOne, MAX_CHECKED_BYTES, refusalOfBody, tooLargeToCheck } from './described-request.ts';
import { type Caller, CLIENT_CLOSED_REQUEST, type ExchangeRecorder, type Shadow } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { HeldBody, type HeldResult } from './held-body.ts';
import {
  amountsOf,
  chargesOf,
  type Decompression,
  type Ended,
  leastAmountsOf,
  Metering,
  type PaidUnits,
  readsBody,
  unpaid,
} from './metering.ts';
import { callerAllowed, policyCallerOf, policyRequestOf } from './policy-request.ts';
import { forwardedEnd, noRoom, type ProxyFlow, type ProxyResult, proxyRequest, proxyUpgrade } from './proxy-request.ts';
import { ambiguousPath, endsConnection, formFault, isUnread, queryToPass, recordingOf } from './received-request.ts';
import { notIdentified, type Refusal, routeRefusal } from './refusals.ts';
import {
  budgetFields,
  isPreflight,
  ownFieldsOf,
  preflightFields,
  replyOfRoute,
  replyWithError,
  replyWithErrorLines,
  replyWithJson,
  replyWithNothing,
} from './replies.ts';
import { resumeWith, type Waiter } from './resume.ts';
import type { RequestTrace } from './trace-context.ts';
import type { UsageBody } from './usage.ts';
import { usageResponse } from './usage-response.ts';
import { callerFromElsewhere, scopeRefusal } from './who-may-call.ts';

/** What the gateway keeps about all requests that have not ended. */
export interface RunningRequests {
  count: number;
  /** Requests that have ended, whose record waits for what they cost or for limits that are only watched. */
  readonly closing: Set<Promise<void>>;
  /** By connection, its request that was not read whole when it began, until it ends. A fault may be found in its body. */
  readonly unread: WeakMap<object, RequestFlow>;
  /** By connection, the consumer whose body is read from it. */
  readonly bodyReaders: WeakMap<object, ConsumerTime>;
}

/**
 * The flow of one request: route, identify, ask policies, reserve, admit, annotate, forward or answer, close
 * (docs/internals/way-of-a-request.md). The methods follow in this order. A step that asks a store may have to wait, so
 * the flow has three parts: `run`, `#onIdentified` and `#onAdmitted`. A step that refuses the request ends it. Every
 * request ends in `#finish`, exactly once.
 */
export class RequestFlow implements AdmissionListener, ProxyFlow, Waiter {
  readonly #deps: GatewayDeps;
  readonly #request: ClientRequest;
  readonly #response: ClientResponse;
  readonly #received: Head | HeadFault;
  /** The client's connection, if the request asks for another protocol on it. */
  readonly #upgradeClient: UpgradeClient | null;
  readonly #running: RunningRequests;
  readonly #origin: ClientAddress;
  /** Everything that log and metrics will report about the request. */
  readonly #record: ExchangeRecorder;
  readonly #trace: RequestTrace;
  #head: Head | null = null;
  #match: Match | null = null;
  /**
   * The path can be read in two ways, so it has no match. If both routes need a key, it is refused once the caller is
   * known.
   */
  #isAmbiguous = false;
  #caller: Caller | null = null;
  /** To whom the thread's work for this request is charged: its caller, or its address without one. Null until that is known. */
  #time: ConsumerTime | null = null;
  /** Milliseconds of work that is not charged yet. */
  #unchargedMs = 0;
  /** What the policies of the route allow; null without policies. */
  #allowed: Allowed | null = null;
  /** The upstream of the route; null until room is reserved there. */
  #upstream: Upstream | null = null;
  /** The caller's share of the upstream, with room reserved in it for this request until `#finish`. */
  #share: ConsumerShare | null = null;
  #verdict: Verdict | null = null;
  /** What it charges in units; null if nothing, or not known yet. */
  #charging: Charging | null = null;
  /** The verdict of limits that are only watched. */
  #shadow: Promise<Admission | null> | null = null;
  /** The body, while it is read to be checked and until the request has ended. */
  #held: HeldBody | null = null;
  /** The body, if it has been read whole; and the refusal of one that was too large for that. */
  #body: Buffer | null = null;
  #bodyFault: errors.ErrorResponse | null = null;
  /** Finds what the request costs in units; null if it charges none. */
  #metering: Metering | null = null;
  #ended: Ended = 'failed';
  #forwarding: { breakOff(reason: Error): void } | null = null;
  /** The allowance by which the request has a place among those in flight; null if it has none. */
  #place: Allowance | null = null;
  #finished = false;

  constructor(
    deps: GatewayDeps,
    request: ClientRequest,
    response: ClientResponse,
    received: Head | HeadFault,
    upgradeClient: UpgradeClient | null,
    running: RunningRequests,
  ) {
    this.#deps = deps;
    this.#request = request;
    this.#response = response;
    this.#received = received;
    this.#upgradeClient = upgradeClient;
    this.#running = running;
    this.#origin = deps.addresses.of(request);
    const fields = received.kind === 'head' ? received.fields : new FieldBlock(request.rawHeaders);
    this.#trace = deps.traceOf(fields, this.#origin.scheme);
    this.#record = recordingOf(deps, request, fields, this.#trace.traceId, this.#origin.address);
  }

  /** The first part: routes the request and identifies its caller. */
  run(): void {
    const head = this.#received;
    try {
      if (head.kind === 'fault') this.#refuseForm(errors.errorResponse(head.code, head.message));
      else if (this.#route(head)) this.#identify(head);
    } catch (error) {
      this.onDefect(error);
    }
    this.worked(this.#record.startedAtMs, this.#deps.monotonicMs());
  }

  /** The second part, once the caller is known: asks the policies of the route, reserves room and admits the request. */
  #onIdentified(identified: Identified): void {
    if (identified.kind !== 'caller') {
      this.#refuseUnidentified(identified);
      return;
    }
    const { caller } = identified;
    this.#record.identified(caller);
    const elsewhere = callerFromElsewhere(this.#deps, caller, this.#origin, this.#head!);
    if (elsewhere !== null) {
      this.#refuseUnidentified(elsewhere);
      return;
    }
    this.#caller = caller;
    this.#inTurn(this.#deps.thread.of(caller.shareId), this.#onTurn);
  }

  /** It is the caller's turn on the serving thread. @param isLate whether the request had to wait too long for it */
  #onTurn(isLate: boolean): void {
    const caller = this.#caller!;
    if (isLate) {
      this.#deps.thread.late++;
      this.#shed('its requests had to wait too long for their turn on the serving thread');
    } else if (caller.isSuspended) this.#refuseSuspended();
    else if (this.#isAmbiguous) this.#refuseAs({ judgement: 'malformed', error: ambiguousPath(), limitFields: null });
    else if (asksForUsage(this.#match)) this.#askUsage(this.#head!, caller);
    else if (this.#match === null || this.#match.route.policies === null) this.#admit(caller);
    else this.#askPolicies(this.#head!, this.#match, caller);
  }

  /** The third part, once the request is counted: forwards it, or refuses it if its route does not serve it. */
  #onAdmitted(head: Head, caller: Caller, verdict: Verdict): void {
    this.#shadow = countInShadow(this.#deps.admitter, caller.id, verdict, this.#charging?.amounts);
    if (this.#bodyFault !== null) {
      this.#refuse(this.#bodyFault);
      return;
    }
    const found = routeRefusal(this.#match, head, this.#deps.wallMs());
    const forbidden = found.kind === 'error' ? found.error : scopeRefusal(found.match.route, caller);
    if (found.kind === 'error' || forbidden !== null) this.#refuse(forbidden!);
    else if (found.match.route.reply !== null) this.#replyOfRoute(found.match.route.reply, head, caller);
    else if (found.match.route.description !== null) this.#check(found.match.route.description, found.match, head);
    else this.#forward(head, found.match, caller, verdict, this.#body);
  }

  // Route

  /** @returns false if the request has been answered, because it is malformed or a preflight */
  #route(head: Head): boolean {
    const { router, via, cors } = this.#deps;
    const found = router.match(head.path, head.method);
    const isAmbiguous = found?.route === null;
    const match = isAmbiguous ? null : found;
    this.#head = head;
    this.#match = match;
    this.#isAmbiguous = isAmbiguous;
    this.#record.routed(head, match);
    const fault = isAmbiguous && !found.asksForKey ? ambiguousPath() : formFault(head, match, via);
    if (fault !== null) {
      this.#refuseForm(fault);
      return false;
    }
    if (cors !== null && isPreflight(head)) {
      this.#inTurnOfAddress(() => this.#answerPreflight(cors, head));
      return false;
    }
    return true;
  }

  #answerPreflight(cors: CorsFields, head: Head): void {
    this.#record.judgement = 'preflight';
    const fields = [...budgetFields(this.#deps, this.#origin), 'X-Request-Id', this.#record.requestId];
    replyWithNothing(this.#response, [...fields, ...preflightFields(cors, head, this.#match)], this.closes());
    this.#finish(this.#response.statusCode, null, null);
  }

  // Identify

  #identify(head: Head): void {
    this.#record.judgement = 'unauthenticated';
    this.#await(callerOf(this.#deps, head, this.#match, this.#origin), this.#onIdentified);
  }

  #refuseUnidentified(identified: Exclude<Identified, { kind: 'caller' }>): void {
    this.#inTurnOfAddress(() => this.#refuseIdentity(identified));
  }

  #refuseIdentity(identified: Exclude<Identified, { kind: 'caller' }>): void {
    this.#await(
      notIdentified(this.#deps, this.#head!, this.#origin, identified, this.#record.waitedMs),
      this.#refuseAs,
    );
  }

  /** The caller is known, so this is no failed attempt of its address. It does not learn by whom and why it was suspended. */
  #refuseSuspended(): void {
    // The log summarises many of them, as other refusals from memory.
    this.#record.source = 'memory';
    this.#refuseAs({ judgement: 'forbidden', error: errors.plainError('suspended'), limitFields: null });
  }

  // Usage: a request for `GET /usage` ends here, and is not counted.

  #askUsage(head: Head, caller: Caller): void {
    this.#await(usageResponse(this.#deps, this.#match, head, caller, this.#record.waitedMs), this.#onUsage);
  }

  #onUsage(answer: UsageBody | Refusal): void {
    if ('error' in answer) {
      this.#refuseAs(answer);
      return;
    }
    this.#record.judgement = 'usage';
    this.#verdict = answer.verdict;
    this.#record.bytesOut = replyWithJson(this.#response, answer.report, this.ownFields(), this.closes());
    this.#finish(200, null, null);
  }

  // Policies, on a route that has some

  #askPolicies(head: Head, match: Match, caller: Caller): void {
    const request = policyRequestOf(this.#deps, head, match, this.#record, this.#origin);
    const ruling = this.#deps.policies.get(match.route)!.run(request, policyCallerOf(this.#deps, head, caller));
    if (ruling instanceof Promise) void ruling.then((later) => this.#onLaterRuling(later));
    else this.#onRuling(ruling);
  }

  #onLaterRuling(ruling: Ruling): void {
    const fromMs = this.#deps.monotonicMs();
    try {
      if (this.clientStillWaiting(0)) this.#onRuling(ruling);
    } catch (error) {
      this.onDefect(error);
    }
    this.worked(fromMs, this.#deps.monotonicMs());
  }

  /** A request that a policy refuses is not counted, and neither is one whose policy failed. */
  #onRuling(ruling: Ruling): void {
    if (ruling.kind === 'allowed') {
      this.#allowed = ruling;
      this.#caller = callerAllowed(this.#caller!, ruling);
      this.#admit(this.#caller);
      return;
    }
    this.#record.policy = ruling.policy;
    // The store is not asked, as with other refusals from memory, and the log summarises many of them.
    this.#record.source = 'memory';
    if (ruling.kind === 'refused') {
      const error = errors.policyRefusal(ruling.status, ruling.code, ruling.message);
      this.#refuseAs({ judgement: 'denied', error, limitFields: null });
    } else {
      const error = errors.plainError('policy_failed');
      this.#refuseAs({ judgement: 'undecided', error, limitFields: null, cause: ruling.reason });
    }
  }

  // Reserve

  /**
   * Reserves room at the upstream before the request is counted. Reserves nothing without a route, for a route
   * without a service, or for an upgrade, whose connection has limits of its own.
   *
   * Attack: a dozen customers hold all connections and the whole queue, or all WebSockets, and the requests of another one, whose
   * share is unused, were counted and got 503.
   *
   * Attack: while others hold every place, the requests of a key beyond its limit get 503 without a strike, so that it is never banned.
   * So what is known to be refused is decided as always.
   * @returns false if the request has been refused, because the caller has as many in flight as its share allows, or because others
   *   have taken every place
   */
  #reserve(caller: Caller, allowance: Allowance, cost: number, charges: readonly Charge[] | null): boolean {
    if (this.#match === null || this.#match.route.reply !== null) return true;
    if (this.#upgradeClient !== null) {
      if (this.#deps.webSockets.fullFor(caller) !== 'max') return true;
      if (this.#expectsRefusal(caller, allowance, cost, charges)) return true;
      this.#full(noRoom('max'));
      return false;
    }
    this.#upstream = this.#deps.upstreams.get(this.#match.route.upstream)!;
    this.#share = this.#upstream.reserve(caller.shareId);
    if (this.#share !== null) return this.#hasPlace(caller, allowance, cost, charges);
    this.#shed();
    return false;
  }

  /** @returns false if the request has been refused, because others have taken every place at the upstream */
  #hasPlace(caller: Caller, allowance: Allowance, cost: number, charges: readonly Charge[] | null): boolean {
    if (this.#share === null || this.#upstream!.hasPlace(this.#share)) return true;
    if (this.#expectsRefusal(caller, allowance, cost, charges)) return true;
    this.#full(plainError('overloaded'), this.#causeOfFull());
    return false;
  }

  /** The log and the metrics name the upstream that was full. */
  #causeOfFull(): string {
    this.#record.upstream = this.#match!.route.upstream;
    return new QueueFullError().message;
  }

  #expectsRefusal({ id }: Caller, allowance: Allowance, cost: number, charges: readonly Charge[] | null): boolean {
    const amounts = charges === null ? undefined : leastAmountsOf(charges, this.#head!);
    return this.#deps.admitter.expectsRefusal(id, allowance, cost, amounts);
  }

  /** Refuses the request before it is counted, because its caller has had its share. */
  #shed(cause?: string): void {
    // The store is not asked, as with other refusals from memory, and the log summarises many of them.
    this.#record.source = 'memory';
    this.#refuseAs({ judgement: 'shed', error: errors.tooManyInFlight(), limitFields: null, cause });
  }

  /** Refuses the request before it is counted, because others have taken every place. */
  #full(error: ErrorResponse, cause?: string): void {
    this.#refuseAs({ judgement: 'shed', error, limitFields: null, cause });
  }

  // Admit

  /**
   * Decides about the request, or asks the store to; but first reserves room for it, and reads its body, if that says what it takes in
   * advance.
   */
  #admit(caller: Caller): void {
    const { admitter, allowances } = this.#deps;
    const head = this.#head!;
    const charged = this.#match?.route.charges ?? null;
    const allowance = allowances.ofRequest(
      caller.allowance,
      head.path,
      head.method,
      this.#allowed?.groups ?? null,
      charged,
    );
    const cost = this.#allowed?.cost ?? this.#match?.route.cost ?? 1;
    const charges = charged === null ? null : chargesOf(allowance, charged);
    if (!this.#reserve(caller, allowance, cost, charges)) return;
    if (charges === null) this.#ask(caller.id, allowance, cost);
    else if (!readsBody(charges, head)) this.#askForUnits(caller, allowance, cost, charges);
    else {
      // A key that is refused anyway gets no body read.
      const refusal = admitter.refusal(caller.id, allowance, cost, leastAmountsOf(charges, head));
      if (refusal === null) {
        const next = () => {
          if (this.#hasPlace(caller, allowance, cost, charges)) this.#askForUnits(caller, allowance, cost, charges);
        };
        this.#hold(this.#match!, head, (result) => this.#onBody(result, next));
      } else {
        this.#charging = { charges, amounts: amountsOf(charges, head, null) };
        this.#onDecision(refusal);
      }
    }
  }

  #onBody(result: HeldResult, next: () => void): void {
    if (result.kind === 'gone') this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    else if (!this.clientStillWaiting(0)) return;
    else if (result.kind === 'no_room') {
      this.#refuseAs({ judgement: 'shed', error: plainError('overloaded'), limitFields: null, cause: TOO_MANY_HELD });
    } else {
      // A body that is too large is refused once the request has been counted.
      if (result.kind === 'whole') this.#body = result.bytes;
      next();
    }
  }

  #askForUnits({ id }: Caller, allowance: Allowance, cost: number, charges: readonly Charge[]): void {
    this.#charging = { charges, amounts: amountsOf(charges, this.#head!, this.#body) };
    this.#ask(id, allowance, cost);
  }

  /** If the caller's plan is not enforced, the verdict is one without limits. */
  #ask(id: string, allowance: Allowance, cost: number): void {
    const { admitter, wallMs } = this.#deps;
    if (allowance.isShadowOnly) {
      const verdict = verdictOnBudgets(ALL_UNSEEN, allowance, wallMs(), cost);
      this.#onDecision({ kind: 'decided', verdict, source: null });
      return;
    }
    const admission = admitter.ask(id, allowance, cost, this.#record.waitedMs, this, this.#charging?.amounts);
    if (admission !== null) this.#onDecision(admission);
    else this.#record.asked(this.#deps.monotonicMs());
  }

  /** The store has decided, or has not answered in time. */
  onAdmission(admission: Admission): void {
    const nowMs = this.#deps.monotonicMs();
    try {
      this.#record.answered(nowMs);
      this.#onDecision(admission);
    } catch (error) {
      this.onDefect(error);
    }
    this.worked(nowMs, this.#deps.monotonicMs());
  }

  #onDecision(admission: Admission): void {
    const verdict = admission.kind === 'decided' ? admission.verdict : null;
    // The record has what was counted, even if the client has disconnected.
    if (admission.kind === 'decided')
      this.#record.decided(admission.verdict, admission.source, this.#charging?.amounts);
    if (verdict?.kind === 'admitted') this.#taken(verdict);
    if (!this.clientStillWaiting(0)) return;
    this.#verdict = verdict;
    if (verdict === null) {
      this.#refuseAs({ judgement: 'undecided', error: errors.plainError('store_unavailable'), limitFields: null });
    } else if (verdict.kind !== 'admitted') this.#refuseByVerdict(verdict);
    else this.#onAdmitted(this.#head!, this.#caller!, verdict);
  }

  /** The store has counted the request: maybe as one in flight, and maybe something in advance. */
  #taken(verdict: Admitted): void {
    if (this.#charging !== null) {
      const { charges, amounts } = this.#charging;
      this.#verdict = verdict;
      this.#metering = new Metering(charges, amounts, this.#decompression(this.#caller!));
      // The client disconnected while the store was asked: its record has been reported, and it pays nothing.
      if (this.#finished) this.#deps.admitter.settle(this.#caller!.id, verdict, unpaid(amounts));
    }
    if (verdict.allowance.boundsInFlight) {
      this.#place = verdict.allowance;
      if (this.#finished) this.leavePlace();
    }
  }

  // Annotate

  /**
   * The fields that the gateway adds to every response.
   * @param limitFields the rate-limit fields, if they have been built already
   */
  ownFields(limitFields: string[] | null = null): string[] {
    const [match, caller, verdict] = [this.#match, this.#caller, this.#verdict];
    const { rawHeaders } = this.#request;
    const known = { requestId: this.#record.requestId, origin: this.#origin, rawHeaders, match, caller, verdict };
    return ownFieldsOf(this.#deps, known, limitFields);
  }

  closes(): boolean {
    return endsConnection(this.#deps, this.#request, this.#head!);
  }

  // Check, on a route with a description

  #check(description: string, match: Match, head: Head): void {
    const checked = checkHead(this.#deps, description, match, head);
    if ('error' in checked) this.#refuse(checked.error, checked.cause);
    else if (checked.bodyCheck === null) this.#forward(head, match, this.#caller!, this.#verdict!, this.#body);
    else if (this.#body !== null) this.#checkBody(match, head, checked.bodyCheck, this.#body);
    else {
      const check = checked.bodyCheck;
      this.#hold(match, head, (result) => this.#onHeld(match, head, check, result));
    }
  }

  /** Reads the body whole. It is forwarded only then, with the bytes that were sent. */
  #hold(match: Match, head: Head, next: (result: HeldResult) => void): void {
    const { wholeBody } = this.#request;
    if (typeof wholeBody === 'string') {
      next({ kind: 'whole', bytes: Buffer.from(wholeBody, 'latin1') });
      return;
    }
    const maxBytes = Math.min(match.route.maxBodyBytes ?? this.#deps.maxBodyBytes, MAX_CHECKED_BYTES);
    const end = (result: HeldResult) => {
      if (result.kind === 'too_large') this.#bodyFault = tooLargeToCheck(maxBytes);
      next(result);
    };
    if (head.contentLength > maxBytes) {
      end({ kind: 'too_large' });
      return;
    }
    if (!(this.#request instanceof IncomingMessage)) throw new Error('a body from a reader that takes none');
    if (head.expectsContinue) this.#response.writeContinue();
    const memory = this.#deps.heldBodies.of(
      this.#caller!.shareId,
      heldBytesOfOne(this.#upstream?.options.fairShare ?? OWN_SHARE),
    );
    this.#held = new HeldBody(this.#request, maxBytes, memory, this.#share, (result) => {
      try {
        end(result);
      } catch (error) {
        this.onDefect(error);
      }
    });
  }

  #onHeld(match: Match, head: Head, check: BodyCheck, result: HeldResult): void {
    if (result.kind === 'gone') this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    else if (!this.clientStillWaiting(0)) return;
    else if (result.kind === 'too_large') this.#refuse(this.#bodyFault!);
    else if (result.kind !== 'whole') this.#refuse(plainError('overloaded'), TOO_MANY_HELD);
    else if (this.#upstream!.hasPlace(this.#share!)) this.#checkBody(match, head, check, result.bytes);
    else this.#refuse(plainError('overloaded'), this.#causeOfFull());
  }

  #checkBody(match: Match, head: Head, check: BodyCheck, bytes: Buffer): void {
    const next = (checked: Checked) => {
      if (!this.clientStillWaiting(0)) return;
      const refused = refusalOfBody(checked);
      if (refused !== null) this.#refuse(refused.error, refused.cause);
      else this.#forward(head, match, this.#caller!, this.#verdict!, bytes);
    };
    const isWanted = () => this.clientStillWaiting(0);
    const checked = this.#deps.bodyChecks.check(this.#caller!.shareId, check, bytes, isWanted);
    if (checked instanceof Promise) checked.then(next).catch((error) => this.onDefect(error));
    else next(checked);
  }

  // Forward

  /** @param checkedBody the body, if it has been read to be checked */
  #forward(head: Head, match: Match, caller: Caller, verdict: Verdict, checkedBody: Buffer | null): void {
    // 100 Continue has already been sent.
    if (head.expectsContinue && checkedBody === null) this.#response.writeContinue();
    this.#record.forwarded(match.route.upstream, this.#deps.monotonicMs());
    const traceFields = this.#trace.forward(head, match);
    const admitted = {
      head,
      match,
      record: this.#record,
      traceFields,
      caller,
      origin: this.#origin,
      verdict,
      flow: this,
      metering: this.#metering,
      checkedBody,
      acceptEncoding: this.#metering?.asks(head) ?? null,
      fieldsOfPolicies: this.#allowed?.headers ?? null,
    };
    this.#forwarding =
      this.#upgradeClient === null
        ? proxyRequest(this.#deps, this.#upstream!, this.#share!, this.#request, this.#response, admitted)
        : proxyUpgrade(this.#deps, this.#upgradeClient, this.#response, admitted);
  }

  forwarded(result: ProxyResult): void {
    if (result.kind === 'answered' && isUnread(this.#request, this.#head)) closeAfter(this.#response, true);
    const isClientFault = 'fault' in result && isClientBodyError(result.fault.code);
    this.#ended = isClientFault ? 'left' : ENDED[result.kind];
    const end = forwardedEnd(result, this.#response.statusCode);
    if (end.kind === 'refused') this.#refuse(end.error, end.cause);
    else this.#finish(end.status, end.code, end.cause);
  }

  // Or answer

  #replyOfRoute(reply: RouteReply, head: Head, caller: Caller): void {
    const counted = { caller, record: this.#record, origin: this.#origin };
    const unread = isUnread(this.#request, head);
    const own = this.ownFields();
    const query = queryToPass(this.#deps, head);
    this.#ended = 'replied';
    this.#record.bytesOut = replyOfRoute(this.#response, reply, head, counted, query, own, this.closes(), unread);
    this.#finish(reply.status, null, null);
  }

  /** Refuses a request for its form, before its caller is known. */
  #refuseForm(error: errors.ErrorResponse): void {
    this.#inTurnOfAddress(() => this.#refuse(error));
  }

  #refuseAs({ judgement, error, limitFields, cause }: Refusal): void {
    this.#record.judgement = judgement;
    this.#refuse(error, cause ?? null, limitFields);
  }

  /** Refuses a request by its verdict. Most such requests get the same lines as the one before. */
  #refuseByVerdict(verdict: Refused | Banned | Crowded): void {
    const { refusalLines, cors, errorDocs } = this.#deps;
    const hasFurtherFields = cors !== null || errorDocs !== null || (this.#match?.route.deprecated ?? null) !== null;
    if (hasFurtherFields || verdict.kind === 'crowded' || this.#response.writeLines === undefined) {
      this.#refuse(errors.refusal(verdict));
    } else {
      const { error, lines } = refusalLines.of(verdict);
      const unread = this.#closeIfUncertain();
      const requestIdLine = `X-Request-Id: ${this.#record.requestId}\r\n`;
      this.#record.bytesOut = replyWithErrorLines(this.#response, error, lines, requestIdLine, unread);
      this.#finish(error.status, error.code, null);
    }
  }

  #refuse(error: errors.ErrorResponse, cause: string | null = null, limitFields: string[] | null = null): void {
    if (this.#finished || this.#response.headersSent) return;
    const unread = this.#closeIfUncertain();
    this.#record.bytesOut = replyWithError(
      this.#response,
      error,
      this.ownFields(limitFields),
      unread,
      this.#deps.errorDocs,
    );
    this.#finish(error.status, error.code, cause);
  }

  /**
   * After a request that could not be read, nothing on its connection can be read with certainty.
   * @returns whether part of the request has not been read
   */
  #closeIfUncertain(): boolean {
    if (this.#head === null || this.#head.httpVersion === '1.0' || this.#deps.draining.hasBegun) {
      closeAfter(this.#response, false);
    }
    return isUnread(this.#request, this.#head);
  }

  // Close

  #finish(status: number, code: string | null, cause: string | null): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#held?.release();
    // Fault: while a connection was idle, it kept its last request, which V8 then took for long-lived.
    if (this.#request.wholeBody === undefined) this.#running.unread.delete(this.#request.socket);
    const nowMs = this.#deps.monotonicMs();
    this.#record.ended(status, code, cause, nowMs);
    if (this.#request.socket.confirmRead?.(this) === true) this.#share?.pause();
    else this.#leave();
    const paid = this.#metering === null ? null : this.#pay(this.#metering, nowMs);
    if (this.#shadow === null && paid === null) this.#close(null);
    else {
      const { closing } = this.#running;
      const closed = this.#closeLater(paid).finally(() => closing.delete(closed));
      closing.add(closed);
    }
  }

  /** The record waits for the verdict of limits that are only watched, and for a cost that is still being read. */
  async #closeLater(paid: Promise<void> | null): Promise<void> {
    await paid;
    const shadow = await this.#shadow;
    const { units } = this.#record;
    if (units !== null && shadow?.kind === 'decided') this.#settleShadow(shadow, units);
    this.#close(shadowOf(shadow));
  }

  #settleShadow({ verdict, source }: Extract<Admission, { kind: 'decided' }>, used: PaidUnits): void {
    const { admitter } = this.#deps;
    const id = shadowIdOf(this.#caller!.id);
    const amounts = this.#charging?.amounts;
    if (verdict.kind === 'admitted') admitter.settle(id, verdict, used);
    else if (amounts !== undefined && source === 'store') admitter.settleWatched(id, verdict, amounts, used);
  }

  /** The request has ended: finds what it cost. @returns null if that is known at once */
  #pay(metering: Metering, nowMs: number): Promise<void> | null {
    const paid = metering.end(this.#ended, this.#record.status, nowMs);
    if (paid instanceof Promise) {
      // Attack: a client reads or leaves answers faster than they are decompressed. Beyond a few, each stays in flight until it is.
      const share = this.#deps.decoders.hasMany(this.#caller!.shareId) ? this.#share : null;
      share?.hold();
      share?.pause();
      return paid.then((later) => {
        share?.resume();
        share?.release();
        this.#settle(later);
      });
    }
    this.#settle(paid);
    return null;
  }

  /** The store learns what the request cost. */
  #settle(paid: PaidUnits): void {
    this.#record.units = paid;
    if (this.#verdict?.kind === 'admitted') {
      this.#deps.admitter.settle(this.#caller!.id, this.#verdict, paid);
    }
  }

  /**
   * The client has read the response, or left. Only then the request is no longer in flight.
   *
   * Attack: a client of HTTP/2 asks on thousands of streams and reads nothing. Each response was a request that had ended, in
   * no share, and took 60 KB outside the heap.
   */
  onRead(): void {
    this.#share?.resume();
    this.#leave();
  }

  #leave(): void {
    this.#share?.release();
    this.#running.count--;
    if (this.#place !== null && this.#record.status !== SWITCHING_PROTOCOLS) this.leavePlace();
  }

  /** The request is no longer in flight, for limits of those (`in-flight`). That of a tunnel ends with the tunnel. */
  leavePlace(): void {
    if (this.#place === null) return;
    this.#deps.admitter.ended(this.#caller!.id, this.#place);
    this.#place = null;
  }

  #close(shadow: Shadow | null): void {
    this.#record.shadow = shadow;
    this.#trace.end(this.#record);
    this.#deps.records.close(this.#record);
  }

  #decompression({ shareId }: Caller): Decompression {
    const { decoders } = this.#deps;
    return {
      take: () => decoders.take(shareId),
      leave: () => decoders.leave(shareId),
      start: (coding, first, read) => this.#decode(coding, first, shareId, read),
    };
  }

  /** Begins to read a compressed answer for its cost. That is work for the caller, also once the answer has passed. */
  #decode(coding: string, first: number, shareId: string, read: (bytes: Buffer) => boolean): Decoding {
    const { decoders, monotonicMs, thread } = this.#deps;
    return decoders.start(coding, first, shareId, {
      read: (bytes) => {
        const fromMs = monotonicMs();
        const readsOn = read(bytes);
        this.worked(fromMs, monotonicMs());
        return readsOn;
      },
      waitForTurn: (next) => {
        if (!thread.mustWait(this.#time!)) return false;
        thread.wait(this.#time!, next);
        return true;
      },
    });
  }

  // The thread's time

  worked(fromMs: number, toMs: number): void {
    this.#unchargedMs += toMs - fromMs;
    if (this.#time === null) return;
    this.#deps.thread.spent(this.#time, this.#unchargedMs, toMs);
    this.#unchargedMs = 0;
  }

  /** Continues with `next`, a method of this class: at once, or when it is the turn of the consumer. */
  #inTurn(time: ConsumerTime, next: (this: RequestFlow, isLate: boolean) => void): void {
    const { thread } = this.#deps;
    this.#time = time;
    if (!this.#request.complete) this.#running.bodyReaders.set(this.#request.socket, time);
    if (!thread.mustWait(time)) next.call(this, false);
    else {
      thread.wait(time, (isLate) => {
        try {
          if (this.clientStillWaiting(0)) next.call(this, isLate);
        } catch (error) {
          this.onDefect(error);
        }
      });
    }
  }

  #inTurnOfAddress(next: (this: RequestFlow) => void): void {
    const { thread, failedAttempts } = this.#deps;
    this.#inTurn(thread.of(failedAttempts.networkOf(this.#origin.address)), next);
  }

  // Interruptions, which may happen during any step

  /**
   * Ends a request whose body is too slow, too large or malformed.
   * @returns false if its response has begun or it has ended
   */
  breakOff(code: ClientBodyErrorCode): boolean {
    if (this.#finished || this.#response.headersSent) return false;
    if (this.#forwarding !== null) this.#forwarding.breakOff(new ClientBodyError(code));
    else this.#refuse(errors.plainError(code));
    return true;
  }

  onDefect(error: unknown): void {
    this.#deps.records.defect(error, this.#record.requestId);
    if (this.#response.headersSent) this.#response.destroy();
    else this.#refuse(errors.plainError('internal_error'));
    this.#finish(500, 'internal_error', error instanceof Error ? error.message : String(error));
  }

  /**
   * The client may have disconnected while a step was waiting.
   * @param tookMs how long the store, or the token's issuer, took
   * @param waitedMs the same by the `REPLY_CLOCK`
   */
  clientStillWaiting(tookMs: number, waitedMs = 0): boolean {
    this.#record.storeMs += tookMs;
    this.#record.waitedMs += waitedMs;
    if (this.#finished || this.#response.headersSent) return false;
    if (!this.#response.destroyed && !this.#request.socket.destroyed) return true;
    this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    return false;
  }

  #await<T>(value: T | Promise<T>, next: (this: RequestFlow, value: T) => void): void {
    resumeWith(this, value, this.#deps.monotonicMs, next);
  }
}

/** What a request charges in units, with at least one, and what it takes of them in advance. */
interface Charging {
  readonly charges: readonly Charge[];
  readonly amounts: Amounts;
}

const SWITCHING_PROTOCOLS = 101;

/** The part of the memory for held bodies that one caller may have on a route without a service. */
const OWN_SHARE = 0.25;

const TOO_MANY_HELD = 'too many bodies are held to be checked';

/** How a forwarded request has ended, for what it costs. */
const ENDED: Readonly<Record<ProxyResult['kind'], Ended>> = {
  answered: 'whole',
  upgraded: 'upgraded',
  client_gone: 'left',
  broken: 'cut',
  failed: 'failed',
  refused: 'failed',
};

/**
 * Counts an admitted request against the limits of its caller that are only watched (contract section 2, `enforce` and
 * `shadow`). It refuses no request, and only the request's record waits for it.
 * @returns null without such limits. Never rejects.
 */
function countInShadow(
  admitter: Pick<Admitter, 'admit'>,
  id: string,
  { allowance, cost }: Verdict,
  amounts: Amounts | undefined,
): Promise<Admission> | null {
  if (allowance.shadow === undefined) return null;
  const ofShadow = allowance.shadow.inUnits === undefined ? undefined : amounts;
  return Promise.resolve(admitter.admit(shadowIdOf(id), allowance.shadow, cost, 0, ofShadow));
}

/** The verdict of limits that are only watched; null if there are none, or the store did not answer. */
function shadowOf(admission: Admission | null): Shadow | null {
  if (admission === null || admission.kind === 'unavailable') return null;
  const { kind, binding } = admission.verdict;
  if (kind === 'crowded') return null;
  return { judgement: kind, window: kind === 'admitted' ? null : binding.name };
}
