import type { Admission, Asker } from '../admit/admit.ts';
import type { Verdict } from '../admit/verdict.ts';
import type { CorsFields } from '../annotate/cors.ts';
import * as errors from '../annotate/error.ts';
import type { ClientRequest, ClientResponse } from '../forward/client.ts';
import { ClientBodyError, type ClientFault } from '../forward/faults.ts';
import type { ConsumerShare, Upstream } from '../forward/upstream.ts';
import type { Head, HeadFault } from '../listen/head.ts';
import type { RequestTrace } from '../telemetry/trace-context.ts';
import { type Caller, type ClientConnection, callerOf, type Identified } from './caller.ts';
import { isPreflight, preflightFields } from './cross-origin.ts';
import { CLIENT_CLOSED_REQUEST, type Recording, type Shadow } from './exchange.ts';
import { forwardedEnd } from './forwarded.ts';
import { notIdentified, type Refusal } from './not-identified.ts';
import { budgetFields, ownFieldsOf } from './own-fields.ts';
import type { Origin, Parts } from './parts.ts';
import { type Flow, passOn } from './pass-on.ts';
import { ambiguousPath, endsConnection, formFault, isUnread, recordingOf } from './received.ts';
import { closeAfter, replyWithError, replyWithJson, replyWithNothing } from './reply.ts';
import type { Match } from './route.ts';
import { servable } from './servable.ts';
import { admissionOf, countInShadow } from './shadow.ts';
import { tellUsage } from './tell-usage.ts';
import { type UpgradeOnResult, upgradeOn } from './upgrade-on.ts';
import type { ToldUsage } from './usage.ts';
import { asksForUsage } from './usage-route.ts';
import { type Waiter, whenThere } from './when-there.ts';

/**
 * One request on its way: route, identify, reserve, admit, annotate, forward or answer (the README's "way of a request").
 * Every way out ends in `#finish`, once.
 */
export class RequestFlow implements Asker, Flow, Waiter {
  readonly #parts: Parts;
  readonly #request: ClientRequest;
  readonly #response: ClientResponse;
  readonly #connection: ClientConnection;
  readonly #origin: Origin;
  /** What log and metrics will learn of it. */
  readonly #record: Recording;
  readonly #trace: RequestTrace;
  #head: Head | null = null;
  #match: Match | null = null;
  /** The path has two readings and no match; where both ask for a key, it is refused when the caller is known. */
  #isAmbiguous = false;
  #caller: Caller | null = null;
  /** Of its route; null until room is reserved there. */
  #upstream: Upstream | null = null;
  /** Of the caller, with room reserved in it for this request until `#finish`. */
  #share: ConsumerShare | null = null;
  #verdict: Verdict | null = null;
  #forwarding: { breakOff(reason: Error): void } | null = null;
  /** How it stands against limits that are only watched. */
  #shadow: Promise<Shadow | null> | null = null;
  #finished = false;

  constructor(parts: Parts, request: ClientRequest, response: ClientResponse, connection: ClientConnection) {
    this.#parts = parts;
    this.#request = request;
    this.#response = response;
    this.#connection = connection;
    this.#origin = parts.originOf(request);
    this.#trace = parts.traceOf(request.rawHeaders);
    this.#record = recordingOf(parts, request, this.#trace.traceId, this.#origin.address);
  }

  run(head: Head | HeadFault): void {
    try {
      this.#begin(head);
    } catch (error) {
      this.onDefect(error);
    }
  }

  /** Ends a request whose body turns out too slow or malformed. False when its answer has begun or it is over. */
  breakOff(code: ClientFault): boolean {
    if (this.#finished || this.#response.headersSent) return false;
    if (this.#forwarding !== null) this.#forwarding.breakOff(new ClientBodyError(code));
    else this.#refuse(errors.plainError(code));
    return true;
  }

  #begin(head: Head | HeadFault): void {
    if (head.kind === 'fault') {
      this.#refuse(errors.errorAnswer(head.code, head.message));
      return;
    }
    const parts = this.#parts;
    const found = parts.router.match(head.path);
    const isAmbiguous = found?.route === null;
    const match = isAmbiguous ? null : found;
    this.#head = head;
    this.#match = match;
    this.#isAmbiguous = isAmbiguous;
    this.#record.routed(head, match);
    const wrong = isAmbiguous && !found.asksForKey ? ambiguousPath() : formFault(head, match, parts.via);
    if (wrong !== null) this.#refuse(wrong);
    else if (parts.cors !== null && isPreflight(head)) this.#answerPreflight(parts.cors, head);
    else {
      this.#record.judgement = 'unauthenticated';
      this.#await(callerOf(parts, head, match, this.#origin, this.#connection.authorization), this.#onIdentified);
    }
  }

  #await<T>(value: T | Promise<T>, next: (this: RequestFlow, value: T) => void): void {
    whenThere(this, value, this.#parts.monotonicMs, next);
  }

  /**
   * Whether there is still somebody to answer: the client may have left while something was awaited.
   * @param waitedMs how long the store, or the token's issuer, took
   */
  goesOn(waitedMs: number): boolean {
    this.#record.storeMs += waitedMs;
    if (this.#finished || this.#response.headersSent) return false;
    if (!this.#response.destroyed && !this.#request.socket.destroyed) return true;
    this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    return false;
  }

  onDefect(error: unknown): void {
    this.#parts.onDefect(error, this.#record.requestId);
    if (this.#response.headersSent) this.#response.destroy();
    else this.#refuse(errors.plainError('internal_error'));
    this.#finish(500, 'internal_error', error instanceof Error ? error.message : String(error));
  }

  #answerPreflight(cors: CorsFields, head: Head): void {
    this.#record.judgement = 'preflight';
    const fields = [...budgetFields(this.#parts, this.#origin), 'X-Request-Id', this.#record.requestId];
    replyWithNothing(this.#response, [...fields, ...preflightFields(cors, head, this.#match)], this.closes());
    this.#finish(this.#response.statusCode, null, null);
  }

  #onIdentified(identified: Identified): void {
    if (identified.kind === 'caller') this.#admit(identified.caller);
    else this.#await(notIdentified(this.#parts, this.#origin, identified, this.#record.storeMs), this.#refuseAs);
  }

  #refuseAs({ judgement, error, told, cause }: Refusal): void {
    this.#record.judgement = judgement;
    this.#refuse(error, cause ?? null, told);
  }

  #admit(caller: Caller): void {
    this.#caller = caller;
    this.#record.identified(caller);
    if (this.#isAmbiguous) {
      this.#refuseAs({ judgement: 'malformed', error: ambiguousPath(), told: null });
      return;
    }
    const { storeMs } = this.#record;
    if (asksForUsage(this.#match)) {
      this.#await(tellUsage(this.#parts, this.#match, this.#head!, caller, storeMs), this.#onUsage);
      return;
    }
    if (!this.#reserve(caller)) {
      // As with a refusal from memory: the store is not asked, and the log sums many of them up.
      this.#record.source = 'memory';
      this.#refuseAs({ judgement: 'shed', error: errors.tooManyInFlight(), told: null });
      return;
    }
    const admission = admissionOf(this.#parts, caller, this.#match?.route.cost ?? 1, storeMs, this);
    if (admission !== null) this.#onAdmission(admission);
    else this.#record.asked(this.#parts.monotonicMs());
  }

  /**
   * Reserves room with the upstream, before the request is counted. Nothing is reserved where there is no route, and for
   * an upgrade, whose connection has limits of its own.
   * @returns false where the caller has as many requests in flight as its share allows
   */
  #reserve({ shareId }: Caller): boolean {
    if (this.#match === null || this.#connection.client !== null) return true;
    this.#upstream = this.#parts.upstreams.get(this.#match.route.upstream)!;
    this.#share = this.#upstream.reserve(shareId);
    return this.#share !== null;
  }

  /** What was asked of the store has been decided. */
  onAdmission(admission: Admission): void {
    try {
      this.#record.answered(this.#parts.monotonicMs());
      this.#onAdmission(admission);
    } catch (error) {
      this.onDefect(error);
    }
  }

  #onAdmission(admission: Admission): void {
    const isDecided = admission.kind === 'decided';
    // What has been counted stands in the record, whoever is left to hear of it.
    if (isDecided) this.#record.decided(admission.verdict, admission.source);
    if (!this.goesOn(0)) return;
    if (isDecided) this.#decided(admission.verdict);
    else this.#refuseAs({ judgement: 'undecided', error: errors.plainError('store_unavailable'), told: null });
  }

  #onUsage(answer: ToldUsage | Refusal): void {
    if ('error' in answer) {
      this.#refuseAs(answer);
      return;
    }
    this.#record.judgement = 'usage';
    this.#verdict = answer.verdict;
    this.#record.bytesOut = replyWithJson(this.#response, answer.report, this.ownFields(), this.closes());
    this.#finish(200, null, null);
  }

  #decided(verdict: Verdict): void {
    this.#verdict = verdict;
    if (verdict.kind !== 'admitted') {
      this.#refuse(errors.refusal(verdict));
      return;
    }
    this.#shadow = countInShadow(this.#parts.admitter, this.#caller!, verdict.cost);
    const found = servable(this.#match, this.#head!, this.#parts.wallMs());
    if (found.kind === 'match') this.#forward(this.#head!, found.match);
    else this.#refuse(found.error);
  }

  #forward(head: Head, match: Match): void {
    if (head.expectsContinue) this.#response.writeContinue();
    this.#record.forwarded(match.route.upstream, this.#parts.monotonicMs());
    const admitted = {
      head,
      match,
      record: this.#record,
      traceFields: this.#trace.forward(),
      caller: this.#caller!,
      origin: this.#origin,
      verdict: this.#verdict!,
      flow: this,
      lastLines: this.#connection.lastLines,
    };
    this.#forwarding =
      this.#connection.client === null
        ? passOn(this.#parts, this.#upstream!, this.#share!, this.#request, this.#response, admitted)
        : upgradeOn(this.#parts, this.#connection.client, this.#response, admitted, (result) => this.forwarded(result));
  }

  forwarded(result: UpgradeOnResult): void {
    if (result.kind === 'answered' && isUnread(this.#request, this.#head)) closeAfter(this.#response, true);
    const end = forwardedEnd(result, this.#response.statusCode);
    if (end.kind === 'refused') this.#refuse(end.error, end.cause);
    else this.#finish(end.status, end.code, end.cause);
  }

  #refuse(error: errors.ErrorAnswer, cause: string | null = null, told: string[] | null = null): void {
    if (this.#finished || this.#response.headersSent) return;
    // What could not be read without doubt is followed by nothing that can.
    if (this.#head === null || this.#head.httpVersion === '1.0' || this.#parts.isDraining())
      this.#response.shouldKeepAlive = false;
    const unread = isUnread(this.#request, this.#head);
    this.#record.bytesOut = replyWithError(this.#response, error, this.ownFields(told), unread);
    this.#finish(error.status, error.code, cause);
  }

  ownFields(told: string[] | null = null): string[] {
    const [head, match, caller, verdict] = [this.#head, this.#match, this.#caller, this.#verdict];
    const known = { requestId: this.#record.requestId, origin: this.#origin, head, match, caller, verdict };
    return ownFieldsOf(this.#parts, known, told);
  }

  closes(): boolean {
    return endsConnection(this.#parts, this.#request, this.#head!);
  }

  #finish(status: number, code: string | null, cause: string | null): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#share?.release();
    this.#record.ended(status, code, cause, this.#parts.monotonicMs());
    if (this.#shadow === null) this.#close(null);
    else void this.#shadow.then((shadow) => this.#close(shadow));
  }

  #close(shadow: Shadow | null): void {
    this.#record.shadow = shadow;
    this.#trace.end(this.#record);
    this.#parts.close(this.#record);
  }
}
