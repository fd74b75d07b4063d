import type { Allowance } from '../admit/allowance.ts';
import type { ResultListener } from '../admit/batch.ts';
import { ALL_UNSEEN } from '../admit/decision.ts';
import { type AdmissionResult, type Admitted, type Verdict, verdictOnBudgets } from '../admit/verdict.ts';
import type { CorsFields } from '../annotate/cors.ts';
import { type ErrorResponse, errorResponse, plainError, refusal } from '../annotate/errors.ts';
import { ClientBodyError, type ClientBodyErrorCode } from '../forward/faults.ts';
import type { ConsumerShare } from '../forward/upstream/upstream.ts';
import type { ClientAddress, ClientRequest, ClientResponse } from '../http1/client.ts';
import { FieldBlock } from '../http1/field-block.ts';
import { requestIdOf } from '../http1/fields.ts';
import type { Head, HeadFault } from '../http1/request-head.ts';
import { closeAfter } from '../io/graceful-close.ts';
import type { ConsumerTime } from '../io/thread-time.ts';
import type { PolicyDecision } from '../policies/chain.ts';
import { ALLOWED, type Permission } from '../policies/result.ts';
import { type RouteReply, USAGE } from '../routing/route.ts';
import type { Match } from '../routing/router.ts';
import type { BodyCheck } from '../validate/validator.ts';
import { CachedRequest } from './cached-request.ts';
import { callerOf, type Identified } from './caller.ts';
import { checkHead, type Unfit } from './described-request.ts';
import { type Caller, CLIENT_CLOSED_REQUEST, type ExchangeRecorder } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { chargesOf } from './metering.ts';
import type { UsageBody } from './own-usage.ts';
import { Payment } from './payment.ts';
import { callerAllowed, policyCallerOf, policyRequestOf, refusalByPolicy } from './policy-request.ts';
import {
  FORWARDED,
  forwardedEnd,
  type Passage,
  type ProxyFlow,
  type ProxyResult,
  SWITCHING_PROTOCOLS,
} from './proxy-request.ts';
import { endsConnection, endsIfUncertain, formFault, isUnread, queryToPass, recordingOf } from './received-request.ts';
import { ambiguousRequest, notIdentified, REFUSALS, type Refusal, routeRefusal } from './refusals.ts';
import {
  commonRefusal,
  isPreflight,
  ownFieldsOf,
  replyOfRoute,
  replyToPreflight,
  replyWithError,
  replyWithErrorLines,
  replyWithJson,
} from './replies.ts';
import { attempt, attemptInTurn, resumeWith, resumeWithOwn, type Waiter } from './resume.ts';
import type { RunningRequests } from './running-requests.ts';
import type { RequestTrace } from './trace-context.ts';
import { usageResponse } from './usage-response.ts';
import { callerFromElsewhere, scopeRefusal } from './who-may-call.ts';
import { WholeBody } from './whole-body.ts';

/**
 * The flow of one request: route, identify, ask policies, take a place, admit, annotate, forward or answer, close
 * (docs/internals/way-of-a-request.md). The methods follow in this order. A verb begins a step; a participle is the phase that the
 * request has reached: received, identified, scheduled, policies decided, decided, counted, admitted, forwarded, ended, closed. A
 * step that refuses the request ends it. Every request ends in `#ended`, exactly once.
 */
export class RequestFlow implements ResultListener, ProxyFlow, Waiter {
  readonly #deps: GatewayDeps;
  readonly #request: ClientRequest;
  readonly #response: ClientResponse;
  readonly #received: Head | HeadFault;
  #passage: Passage;
  readonly #running: RunningRequests;
  readonly #origin: ClientAddress;
  /** Everything that log and metrics will report about the request. */
  readonly #record: ExchangeRecorder;
  readonly #trace: RequestTrace;
  #match: Match | null = null;
  /** How the request is refused if it can be read in two ways, so that it has no match. If both need a key, `#scheduled` refuses it. */
  #ambiguity: Refusal | null = null;
  #caller: Caller | null = null;
  /** The consumer that is charged with the thread's work for this request: its caller, or without one its address. Null until that is known. */
  #time: ConsumerTime | null = null;
  /** Milliseconds of work that is not charged yet. */
  #unchargedMs = 0;
  /** What the policies of the route allow. */
  #permission: Permission = ALLOWED;
  /** The caller's share of the upstream, with a place in it for this request until `#leave`. */
  #share: ConsumerShare | null = null;
  #verdict: Verdict | null = null;
  /** Null if it charges no unit and no limit is only watched. */
  #payment: Payment | null = null;
  /** Null if the body is not read whole before it is forwarded. */
  #body: WholeBody | null = null;
  #forwarding: { breakOff(reason: Error): void } | null = null;
  /** Whether it has a place among those in flight (`in-flight`). */
  #hasPlace = false;
  #hasEnded = false;

  constructor(
    deps: GatewayDeps,
    request: ClientRequest,
    response: ClientResponse,
    received: Head | HeadFault,
    passage: Passage,
    running: RunningRequests,
  ) {
    this.#deps = deps;
    this.#request = request;
    this.#response = response;
    this.#received = received;
    this.#passage = passage;
    this.#running = running;
    this.#origin = deps.addresses.of(request);
    const fields = received.kind === 'head' ? received.fields : new FieldBlock(request.rawHeaders);
    this.#trace = deps.traceOf(fields, this.#origin.scheme);
    this.#record = recordingOf(deps, request, fields.derived(requestIdOf), this.#trace.traceId, this.#origin.address);
  }

  /** The head has been received. */
  received(): void {
    const head = this.#received;
    try {
      if (head.kind === 'fault') this.#refuseForm(errorResponse(head.code, head.message));
      else if (this.#route(head)) this.#identify(head);
    } catch (error) {
      this.failed(error);
    }
    this.worked(this.#record.startedAtMs, this.#deps.monotonicMs());
  }

  /** The head, for all steps after the first: a request whose head is at fault ends before them. */
  get #head(): Head {
    if (this.#received.kind === 'fault') throw new Error('a step of a request without a head');
    return this.#received;
  }

  // Route

  /** @returns false if the request has been answered, because it is malformed or a preflight */
  #route(head: Head): boolean {
    const { router, cors } = this.#deps;
    const odd = head.oddity === null ? null : router.faultOfOdd(head.path, head.oddity, head.method, head.host, head);
    if (odd !== null) {
      this.#refuseForm(errorResponse('invalid_request', odd));
      return false;
    }
    const found = router.match(head.path, head.method, head.host, head);
    const ambiguity = found?.route === null ? ambiguousRequest(found) : null;
    const match = found?.route === null ? null : found;
    this.#match = match;
    this.#ambiguity = ambiguity;
    this.#record.routed(head, match);
    if (match !== null && match.route.cache !== null && this.#passage === FORWARDED) {
      this.#passage = new CachedRequest(head, this.#origin);
    }
    const isOpen = found?.route === null && !found.asksForKey;
    const fault = isOpen ? ambiguity!.error : formFault(head, match, this.#origin, this.#deps);
    const withinMs = match?.route.requestTimeoutMs ?? null;
    if (withinMs !== null) (this.#request.timed ?? this.#request.socket).requestWithin?.(withinMs);
    if (fault !== null) this.#refuseForm(fault);
    else if (cors !== null && isPreflight(head)) this.#inTurnOfAddress(() => this.#answerPreflight(cors));
    else return true;
    return false;
  }

  #answerPreflight(cors: CorsFields): void {
    this.#record.judgement = 'preflight';
    const { rawHeaders } = this.#head.fields;
    const known = { requestId: this.#record.requestId, origin: this.#origin, match: this.#match, rawHeaders };
    replyToPreflight(this.#deps, cors, this.#response, known, this.closes());
    this.#ended(this.#response.statusCode, null, null);
  }

  // Identify

  #identify(head: Head): void {
    this.#record.judgement = 'unauthenticated';
    resumeWith(this, callerOf(this.#deps, head, this.#match, this.#origin), this.#deps.monotonicMs, this.#identified);
  }

  #identified(identified: Identified): void {
    if (identified.kind !== 'caller') {
      this.#refuseUnidentified(identified);
      return;
    }
    const { caller } = identified;
    this.#record.identified(caller);
    const elsewhere = callerFromElsewhere(this.#deps, caller, this.#origin, this.#head);
    if (elsewhere !== null) {
      this.#refuseUnidentified(elsewhere);
      return;
    }
    this.#caller = caller;
    this.#inTurn(caller.shareId, this.#scheduled);
  }

  #refuseUnidentified(identified: Exclude<Identified, { kind: 'caller' }>): void {
    if (identified.kind === 'unknown' && identified.ended !== undefined) this.#record.endedSecret = identified.ended;
    this.#inTurnOfAddress(() => {
      const refusal = notIdentified(this.#deps, this.#head, this.#origin, identified, this.#record.waitedMs);
      resumeWith(this, refusal, this.#deps.monotonicMs, this.#refuseAs);
    });
  }

  /** It is the caller's turn on the serving thread. @param isLate whether the request had to wait too long for it */
  #scheduled(isLate: boolean): void {
    const caller = this.#caller!;
    const match = this.#match;
    if (isLate) {
      this.#deps.thread.late++;
      this.#refuseAs(REFUSALS.late);
    } else if (caller.isSuspended) this.#refuseAs(REFUSALS.ofSuspended);
    else if (this.#ambiguity !== null) this.#refuseAs(this.#ambiguity);
    else if (match === null) this.#admit(caller);
    else if (match.route === USAGE) this.#askUsage(caller);
    else if (match.route.policies === null) this.#admit(caller);
    else this.#askPolicies(match, caller);
  }

  // Usage: a request for `GET /usage` ends here, and is not counted.

  #askUsage(caller: Caller): void {
    const usage = usageResponse(this.#deps, this.#match, this.#head, caller, this.#record.waitedMs);
    resumeWith(this, usage, this.#deps.monotonicMs, this.#answerUsage);
  }

  #answerUsage(answer: UsageBody | Refusal): void {
    if ('error' in answer) {
      this.#refuseAs(answer);
      return;
    }
    this.#record.judgement = 'usage';
    this.#verdict = answer.verdict;
    this.#record.bytesOut = replyWithJson(this.#response, answer.report, this.ownFields(), this.closes());
    this.#ended(200, null, null);
  }

  // Policies, on a route that has some

  #askPolicies(match: Match, caller: Caller): void {
    const request = policyRequestOf(this.#deps, this.#head, match, this.#record, this.#origin);
    const decision = this.#deps.policies.get(match.route)!.run(request, policyCallerOf(this.#deps, this.#head, caller));
    resumeWithOwn(this, decision, this.#deps.monotonicMs, this.#policiesDecided);
  }

  /** A request that a policy refuses is not counted, and neither is one whose policy failed. */
  #policiesDecided(decision: PolicyDecision): void {
    if (decision.kind === 'allowed') {
      this.#permission = decision;
      this.#caller = callerAllowed(this.#caller!, decision);
      this.#admit(this.#caller);
      return;
    }
    this.#record.policy = decision.policy;
    this.#refuseAs(refusalByPolicy(decision));
  }

  // Take a place at the upstream

  /**
   * Takes a place at the upstream before the request is counted; takes no place without a route, or for a route without a service.
   * @returns false if the request has been refused, because the caller has as many in flight as its share allows, or because others
   *   have taken every place
   */
  #takePlace(match: Match | null, caller: Caller, allowance: Allowance, cost: number): boolean {
    if (match === null || match.route.reply !== null) return true;
    const share = this.#passage.takePlace(this.#deps, match, caller);
    if (share === 'used_up') {
      this.#refuseAs(REFUSALS.tooManyInFlight);
      return false;
    }
    this.#share = share;
    return this.#hasRoom(match, caller, allowance, cost);
  }

  /**
   * Attack: while others hold every place, the requests of a key beyond its limit get 503 without a strike, so that it is never banned.
   * So the gateway asks the store as always about a request that it expects it to refuse.
   * @returns false if the request has been refused, because others have taken every place
   */
  #hasRoom(match: Match, caller: Caller, allowance: Allowance, cost: number): boolean {
    const full = this.#passage.full(this.#deps, match, caller, this.#share);
    if (full === null) return true;
    if (this.#deps.admitter.expectsRefusal(caller.id, allowance, cost, this.#payment?.least)) return true;
    this.#refuseAs({ judgement: 'shed', ...full });
    return false;
  }

  // Admit

  /**
   * Takes a place for the request, reads its body if that says what the request takes in advance, and then asks for the decision.
   */
  #admit(caller: Caller): void {
    const head = this.#head;
    const match = this.#match;
    const { groups, cost: ownCost } = this.#permission;
    const charged = match?.route.charges ?? null;
    const grouped = match?.isBare === true ? { ...head, isBare: true } : head;
    const allowance = this.#deps.allowances.ofRequest(caller.allowance, grouped, groups, charged);
    const cost = ownCost ?? match?.route.cost ?? 1;
    const charges = charged === null ? null : chargesOf(allowance, charged);
    if (charges !== null) this.#payment = new Payment(this.#deps, caller, head, charges);
    if (!this.#takePlace(match, caller, allowance, cost)) return;
    if (match === null || this.#payment === null || !this.#payment.needsBody) this.#ask(caller, allowance, cost, null);
    else this.#admitByBody(match, caller, allowance, cost, this.#payment);
  }

  #admitByBody(match: Match, caller: Caller, allowance: Allowance, cost: number, payment: Payment): void {
    // The gateway reads no body of a request that it refuses anyway.
    const refusal = this.#deps.admitter.refusal(caller.id, allowance, cost, payment.least);
    if (refusal !== null) {
      payment.reserve(null);
      this.#decided(refusal);
      return;
    }
    this.#readBody(match, caller, ({ bytes, refusal: unread }) => {
      // The store counts a request whose body is too large, and `#admitted` refuses it.
      if (unread !== null && !unread.isTooLarge) this.#refuseAs({ judgement: 'shed', ...unread });
      else if (this.#hasRoom(match, caller, allowance, cost)) this.#ask(caller, allowance, cost, bytes);
    });
  }

  /** If the caller's plan is not enforced, the verdict is one without limits. @param body if it has been read whole */
  #ask({ id }: Caller, allowance: Allowance, cost: number, body: Buffer | null): void {
    const { admitter, wallMs } = this.#deps;
    this.#payment?.reserve(body);
    if (allowance.isShadowOnly) {
      const verdict = verdictOnBudgets(ALL_UNSEEN, allowance, wallMs(), cost);
      this.#decided({ kind: 'decided', verdict, source: null });
      return;
    }
    const result = admitter.ask(id, allowance, cost, this.#record.waitedMs, this, this.#payment?.amounts);
    if (result !== null) this.#decided(result);
    else this.#record.asked(this.#deps.monotonicMs());
  }

  /** Called with the result: the store's, or one of this gateway's own because the store did not answer in time. */
  onResult(result: AdmissionResult): void {
    const nowMs = this.#deps.monotonicMs();
    try {
      this.#record.answered(nowMs);
      this.#decided(result);
    } catch (error) {
      this.failed(error);
    }
    this.worked(nowMs, this.#deps.monotonicMs());
  }

  #decided(result: AdmissionResult): void {
    const verdict = result.kind === 'decided' ? result.verdict : null;
    this.#verdict = verdict;
    // The record has what was counted, even if the client has disconnected.
    if (result.kind === 'decided') this.#record.decided(result.verdict, result.source, this.#payment?.amounts);
    if (verdict?.kind === 'admitted') this.#counted(verdict);
    if (!this.clientStillWaiting(0)) return;
    if (verdict === null) this.#refuseAs(REFUSALS.undecided);
    else if (verdict.kind !== 'admitted') this.#refuseByVerdict(verdict);
    else this.#admitted(this.#caller!, verdict);
  }

  /** The request is admitted: the store, or a lease, may have counted it as one in flight and taken its reserve. */
  #counted(verdict: Admitted): void {
    // The client may have disconnected while the store was asked.
    this.#payment?.taken(verdict, this.#hasEnded);
    this.#hasPlace = verdict.allowance.boundsInFlight;
    if (this.#hasPlace && this.#hasEnded) this.leavePlace();
  }

  /** The client still waits: the route serves the request, or refuses it. */
  #admitted(caller: Caller, verdict: Admitted): void {
    const head = this.#head;
    if (verdict.allowance.shadow !== undefined) {
      this.#payment ??= new Payment(this.#deps, caller, head, null);
      this.#payment.watch(verdict);
    }
    const unread = this.#body === null ? null : this.#body.refusal;
    if (unread !== null) {
      this.#refuse(unread.error);
      return;
    }
    const found = routeRefusal(this.#match, head, this.#deps.wallMs());
    const unpriced = this.#payment === null ? null : this.#payment.refusal;
    const refused =
      found.kind === 'error'
        ? found.error
        : (scopeRefusal(found.match.route, caller, this.#deps.resourceMetadata) ?? unpriced);
    if (found.kind === 'error' || refused !== null) this.#refuse(refused!);
    else if (found.match.route.reply !== null) this.#replyOfRoute(found.match.route.reply, head, caller);
    else if (found.match.route.description === null) this.#forward(found.match, caller, verdict);
    else this.#check(found.match.route.description, found.match, caller, verdict);
  }

  // Annotate

  /** @param limitFields the rate-limit fields, if they have been built already */
  ownFields(limitFields: string[] | null = null): string[] {
    const [match, caller, verdict] = [this.#match, this.#caller, this.#verdict];
    const { rawHeaders } = this.#request;
    const known = { requestId: this.#record.requestId, origin: this.#origin, rawHeaders, match, caller, verdict };
    return ownFieldsOf(this.#deps, known, limitFields);
  }

  closes(): boolean {
    return endsConnection(this.#deps, this.#request, this.#head);
  }

  // Read the body whole, if the route checks it or its reserve stands there

  /** Continues with the body, unless the client has left. */
  #readBody(match: Match, caller: Caller, next: (body: WholeBody) => void): void {
    const body = new WholeBody(this.#deps, match, caller);
    this.#body = body;
    const source = { request: this.#request, response: this.#response, head: this.#head, share: this.#share };
    body.read(source, (isGone) => attempt(this, () => (isGone ? this.#clientLeft() : next(body)), null));
  }

  // Check, on a route with a description

  #check(description: string, match: Match, caller: Caller, verdict: Verdict): void {
    const checked = checkHead(this.#deps, description, match, this.#head);
    if ('error' in checked) this.#refuse(checked.error, checked.cause);
    else if (checked.bodyCheck === null) this.#forward(match, caller, verdict);
    else if (this.#body !== null) this.#checkBody(checked.bodyCheck, this.#body, match, caller, verdict);
    else {
      const { bodyCheck } = checked;
      this.#readBody(match, caller, (body) => {
        const refusal = body.refusal ?? this.#passage.full(this.#deps, match, caller, this.#share);
        if (refusal !== null) this.#refuseAs(refusal);
        else this.#checkBody(bodyCheck, body, match, caller, verdict);
      });
    }
  }

  #checkBody(check: BodyCheck, body: WholeBody, match: Match, caller: Caller, verdict: Verdict): void {
    const unfit = body.check(check, () => this.clientStillWaiting(0));
    resumeWithOwn<RequestFlow, Unfit | null>(this, unfit, this.#deps.monotonicMs, (refused) => {
      if (refused !== null) this.#refuse(refused.error, refused.cause);
      else this.#forward(match, caller, verdict);
    });
  }

  // Forward

  #forward(match: Match, caller: Caller, verdict: Verdict): void {
    const head = this.#head;
    const body = this.#body;
    const metering = this.#payment === null ? null : this.#payment.metering;
    // For a body that it has read, `WholeBody` has sent 100 Continue.
    if (head.expectsContinue && body === null) this.#response.writeContinue();
    this.#record.forwarded(match.route.upstream, this.#deps.monotonicMs());
    this.#forwarding = this.#passage.start(this.#deps, this.#share, this.#request, this.#response, {
      head,
      match,
      record: this.#record,
      traceFields: this.#trace.forward(head, match),
      caller,
      time: this.#time!,
      origin: this.#origin,
      verdict,
      flow: this,
      metering,
      checkedBody: body === null ? null : body.bytes,
      acceptEncoding: metering === null ? null : metering.asks(head),
      fieldsOfPolicies: this.#permission.headers,
    });
  }

  forwarded(result: ProxyResult): void {
    if (result.kind === 'answered' && isUnread(this.#request, this.#head)) closeAfter(this.#response, true);
    this.#payment?.forwarded(result);
    const end = forwardedEnd(result, this.#response.statusCode);
    if (end.kind === 'refused') this.#refuse(end.error, end.cause);
    else this.#ended(end.status, end.code, end.cause);
  }

  // Or answer

  #replyOfRoute(reply: RouteReply, head: Head, caller: Caller): void {
    const counted = { caller, record: this.#record, origin: this.#origin };
    const unread = isUnread(this.#request, head);
    const own = this.ownFields();
    const query = queryToPass(this.#deps, head);
    this.#payment?.replied();
    this.#record.bytesOut = replyOfRoute(this.#response, reply, head, counted, query, own, this.closes(), unread);
    this.#ended(reply.status, null, null);
  }

  /** Refuses a request for its form, before its caller is known. */
  #refuseForm(error: ErrorResponse): void {
    this.#inTurnOfAddress(() => this.#refuse(error));
  }

  #refuseAs({ judgement, error, limitFields, cause, source, upstream }: Refusal): void {
    if (judgement !== undefined) this.#record.judgement = judgement;
    if (source !== undefined) this.#record.source = source;
    if (upstream !== undefined) this.#record.upstream = upstream;
    this.#refuse(error, cause ?? null, limitFields);
  }

  /** Refuses a request by its verdict: mostly in the lines that all requests of the verdict get. */
  #refuseByVerdict(verdict: Exclude<Verdict, Admitted>): void {
    const common = commonRefusal(this.#deps, this.#response, this.#match, verdict);
    if (common === null) {
      this.#refuse(refusal(verdict));
      return;
    }
    const unread = endsIfUncertain(this.#deps, this.#request, this.#response, this.#received);
    this.#record.bytesOut = replyWithErrorLines(this.#response, common, this.#record.requestId, unread);
    this.#ended(common.error.status, common.error.code, null);
  }

  #refuse(error: ErrorResponse, cause: string | null = null, limitFields: string[] | null = null): void {
    if (this.#hasEnded || this.#response.headersSent) return;
    const unread = endsIfUncertain(this.#deps, this.#request, this.#response, this.#received);
    const fields = this.ownFields(limitFields);
    this.#record.bytesOut = replyWithError(this.#deps, this.#response, error, fields, unread, this.#match);
    this.#ended(error.status, error.code, cause);
  }

  // Close

  #ended(status: number, code: string | null, cause: string | null): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#body?.release();
    this.#running.ended(this.#request);
    const nowMs = this.#deps.monotonicMs();
    this.#record.ended(status, code, cause, nowMs);
    if (this.#request.socket.confirmRead?.(this) === true) this.#share?.pause();
    else this.#leave();
    const paid = this.#payment === null ? null : this.#payment.end(status, nowMs, this.#share);
    if (paid === null) this.#closed();
    // A function that makes a closure costs each of its calls an object.
    else this.#running.closeAfter(paid, this.#closed.bind(this));
  }

  #clientLeft(): void {
    this.#ended(CLIENT_CLOSED_REQUEST, null, 'the client left');
  }

  /** The client has read the response, or left. Only then the request is no longer in flight (`ReadConfirming`). */
  onRead(): void {
    this.#share?.resume();
    this.#leave();
  }

  #leave(): void {
    this.#share?.release();
    this.#running.count--;
    if (this.#record.status !== SWITCHING_PROTOCOLS) this.leavePlace();
  }

  /** The request is no longer in flight, for limits of those (`in-flight`). That of a tunnel ends with the tunnel. */
  leavePlace(): void {
    if (!this.#hasPlace || this.#caller === null || this.#verdict === null) return;
    this.#hasPlace = false;
    this.#deps.admitter.ended(this.#caller.id, this.#verdict.allowance);
  }

  #closed(): void {
    if (this.#payment !== null) this.#record.paid(this.#payment);
    this.#trace.end(this.#record);
    this.#deps.records.close(this.#record);
  }

  // The thread's time

  worked(fromMs: number, toMs: number): void {
    this.#unchargedMs += toMs - fromMs;
    if (this.#time === null) return;
    this.#deps.thread.spent(this.#time, this.#unchargedMs, toMs);
    this.#unchargedMs = 0;
  }

  /** Continues with `next`, a method of this class: at once, or when it is the turn of the consumer. */
  #inTurn(consumerId: string, next: (this: RequestFlow, isLate: boolean) => void): void {
    const { thread } = this.#deps;
    const time = thread.of(consumerId);
    const mustWait = thread.mustWait(time);
    this.#time = time;
    this.#running.readFor(this.#request, time);
    if (!mustWait) next.call(this, false);
    else attemptInTurn(this, thread, time, next);
  }

  #inTurnOfAddress(next: (this: RequestFlow) => void): void {
    this.#inTurn(this.#deps.failedAttempts.networkOf(this.#origin.address), next);
  }

  // Interruptions, which may happen during any step

  /** Ends the request because its body is too slow, too large or malformed. @returns false if its response has begun or it has ended */
  breakOff(code: ClientBodyErrorCode): boolean {
    if (this.#hasEnded || this.#response.headersSent) return false;
    if (this.#forwarding !== null) this.#forwarding.breakOff(new ClientBodyError(code));
    else this.#refuse(plainError(code));
    return true;
  }

  failed(error: unknown): void {
    this.#deps.records.defect(error, this.#record.requestId);
    const cause = error instanceof Error ? error.message : String(error);
    if (this.#response.headersSent) this.#response.destroy();
    else this.#refuse(plainError('internal_error'), cause);
    this.#ended(500, 'internal_error', cause);
  }

  /** Ends the request if the client has disconnected while a step waited. @returns whether the request has not ended */
  clientStillWaiting(tookMs: number, waitedMs = 0): boolean {
    this.#record.storeMs += tookMs;
    this.#record.waitedMs += waitedMs;
    if (this.#hasEnded || this.#response.headersSent) return false;
    if (!this.#response.destroyed && !this.#request.socket.destroyed) return true;
    this.#clientLeft();
    return false;
  }
}
