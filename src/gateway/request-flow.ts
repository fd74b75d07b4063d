import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Verdict } from '../admit/verdict.ts';
import type { CorsFields } from '../annotate/cors.ts';
import * as errors from '../annotate/error.ts';
import { ClientBodyError, type ClientFault } from '../forward/faults.ts';
import type { UpgradeClient } from '../forward/upgrade-client.ts';
import type { Head, HeadFault } from '../listen/head.ts';
import type { RequestTrace } from '../telemetry/trace-context.ts';
import { type Caller, callerOf } from './caller.ts';
import { isPreflight, preflightFields } from './cross-origin.ts';
import { CLIENT_CLOSED_REQUEST, decisionOf, type Exchange, type Judgement } from './exchange.ts';
import { budgetFields, ownFieldsOf } from './own-fields.ts';
import type { Origin, Parts } from './parts.ts';
import { passOn } from './pass-on.ts';
import { formFault, isUnread, requestIdOf } from './received.ts';
import { closeAfter, replyWithError, replyWithNothing } from './reply.ts';
import type { Match } from './route.ts';
import { servable } from './servable.ts';
import { type UpgradeOnResult, upgradeOn } from './upgrade-on.ts';

const SWITCHING_PROTOCOLS = 101;

/**
 * One request on its way: route, identify, admit, annotate, forward or answer (the README's "way of a request").
 * Every way out ends in `#finish`, once.
 */
export class RequestFlow {
  readonly #parts: Parts;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  /** Its connection, where it asks for another protocol on it. */
  readonly #client: UpgradeClient | null;
  readonly #origin: Origin;
  readonly #requestId: string;
  readonly #startedAtMs: number;
  readonly #trace: RequestTrace;
  #head: Head | null = null;
  #match: Match | null = null;
  #caller: Caller | null = null;
  #verdict: Verdict | null = null;
  #source: Exchange['source'] = null;
  #judgement: Judgement = 'malformed';
  #storeMs = 0;
  #forwardedAtMs: number | null = null;
  #bytesOut = 0;
  #forwarding: { breakOff(reason: Error): void } | null = null;
  #finished = false;

  constructor(parts: Parts, request: IncomingMessage, response: ServerResponse, client: UpgradeClient | null = null) {
    this.#parts = parts;
    this.#request = request;
    this.#response = response;
    this.#client = client;
    this.#origin = parts.originOf(request);
    this.#requestId = requestIdOf(request.rawHeaders) ?? parts.newRequestId();
    this.#startedAtMs = parts.monotonicMs();
    this.#trace = parts.traceOf(request.rawHeaders);
  }

  async run(head: Head | HeadFault): Promise<void> {
    try {
      await this.#steps(head);
    } catch (error) {
      this.#parts.onDefect(error, this.#requestId);
      if (this.#response.headersSent) this.#response.destroy();
      else this.#refuse(errors.plainError('internal_error'));
      this.#finish(500, 'internal_error', error instanceof Error ? error.message : String(error));
    }
  }

  /** Ends a request whose body turns out too slow or malformed. False when its answer has begun or it is over. */
  breakOff(code: ClientFault): boolean {
    if (this.#finished || this.#response.headersSent) return false;
    if (this.#forwarding !== null) this.#forwarding.breakOff(new ClientBodyError(code));
    else this.#refuse(errors.plainError(code));
    return true;
  }

  async #steps(head: Head | HeadFault): Promise<void> {
    if (head.kind === 'fault') return this.#refuse(errors.errorAnswer(head.code, head.message));
    this.#head = head;
    this.#match = this.#parts.router.match(head.path);
    const wrong = formFault(head, this.#match, this.#parts.via);
    if (wrong !== null) return this.#refuse(wrong);
    if (this.#parts.cors !== null && isPreflight(head)) return this.#answerPreflight(this.#parts.cors, head);
    if (!(await this.#identify(head)) || this.#isOver()) return;
    if (!(await this.#admit()) || this.#isOver()) return;
    const found = servable(this.#match, head, this.#parts.wallMs());
    if (found.kind === 'match') this.#forward(head, found.match);
    else this.#refuse(found.error);
  }

  #answerPreflight(cors: CorsFields, head: Head): void {
    this.#judgement = 'preflight';
    if (this.#closes(head)) this.#response.shouldKeepAlive = false;
    const fields = [...budgetFields(this.#parts, this.#origin), 'X-Request-Id', this.#requestId];
    replyWithNothing(this.#response, [...fields, ...preflightFields(cors, head, this.#match)]);
    this.#finish(this.#response.statusCode, null, null);
  }

  /** @returns false when the request has been answered */
  async #identify(head: Head): Promise<boolean> {
    this.#judgement = 'unauthenticated';
    const askedAtMs = this.#parts.monotonicMs();
    const identifying = callerOf(this.#parts, head, this.#match, this.#origin);
    const identified = identifying instanceof Promise ? await identifying : identifying;
    this.#storeMs += this.#parts.monotonicMs() - askedAtMs;
    if (identified.kind === 'caller') {
      this.#caller = identified.caller;
      return true;
    }
    if (identified.kind === 'unknown') await this.#refuseUnknown(identified.code);
    else if (identified.kind === 'ambiguous') {
      this.#judgement = 'malformed';
      this.#refuse(errors.errorAnswer('invalid_request', 'Authorization must come once.'));
    } else {
      this.#judgement = 'undecided';
      this.#refuse(errors.plainError('store_unavailable'));
    }
    return false;
  }

  /** @returns false when the request has been answered */
  async #admit(): Promise<boolean> {
    const askedAtMs = this.#parts.monotonicMs();
    const cost = this.#match?.route.cost ?? 1;
    const admitting = this.#parts.admitter.admit(this.#caller!.id, this.#caller!.allowance, cost);
    const admission = admitting instanceof Promise ? await admitting : admitting;
    this.#storeMs += this.#parts.monotonicMs() - askedAtMs;
    if (admission.kind === 'unavailable') {
      this.#judgement = 'undecided';
      this.#refuse(errors.plainError('store_unavailable'));
      return false;
    }
    const { verdict } = admission;
    this.#verdict = verdict;
    this.#source = admission.source;
    this.#judgement = verdict.kind;
    if (verdict.kind === 'admitted') return true;
    this.#refuse(verdict.kind === 'banned' ? errors.apiKeyBanned(verdict) : errors.rateLimitExceeded(verdict));
    return false;
  }

  #forward(head: Head, match: Match): void {
    if (head.expectsContinue) this.#response.writeContinue();
    this.#forwardedAtMs = this.#parts.monotonicMs();
    const admitted = {
      head,
      match,
      requestId: this.#requestId,
      traceFields: this.#trace.forward(),
      caller: this.#caller!,
      origin: this.#origin,
      ownFields: this.#ownFields(),
      closes: () => this.#closes(head),
      sent: (bytes: number) => {
        this.#bytesOut += bytes;
      },
      done: (result: UpgradeOnResult) => this.#forwarded(result),
    };
    this.#forwarding =
      this.#client === null
        ? passOn(this.#parts, this.#request, this.#response, admitted)
        : upgradeOn(this.#parts, this.#client, this.#response, admitted, admitted.done);
  }

  #forwarded(result: UpgradeOnResult): void {
    if (result.kind === 'answered') {
      if (this.#isUnread()) closeAfter(this.#response, true);
      this.#finish(this.#response.statusCode, null, null);
    } else if (result.kind === 'upgraded') this.#finish(SWITCHING_PROTOCOLS, null, null);
    else if (result.kind === 'client_gone') this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    else if (result.kind === 'refused') this.#refuse(result.error);
    else if (result.kind === 'broken') this.#finish(this.#response.statusCode, result.fault.code, result.fault.cause);
    else this.#refuse(errors.plainError(result.fault.code, result.fault.retryAfterMs), result.fault.cause);
  }

  /** 401, or 429 where the address has used up what it may fail. */
  async #refuseUnknown(code: 'missing_api_key' | 'invalid_api_key' | 'expired_api_key'): Promise<void> {
    const failing = this.#parts.failedAttempts.fail(this.#origin.address);
    const budget = failing instanceof Promise ? await failing : failing;
    if (this.#isOver()) return;
    const nowMs = this.#parts.wallMs();
    const error = budget.allowed ? errors.unauthorized(code) : errors.tooManyFailedAttempts(budget, nowMs);
    this.#refuse(error, null, this.#parts.rateLimitFields.ofBudget(budget, nowMs));
  }

  #refuse(error: errors.ErrorAnswer, cause: string | null = null, told: string[] | null = null): void {
    if (this.#finished || this.#response.headersSent) return;
    // What could not be read without doubt is followed by nothing that can.
    const closes = this.#head === null || this.#head.httpVersion === '1.0' || this.#parts.isDraining();
    if (closes) this.#response.shouldKeepAlive = false;
    this.#bytesOut = replyWithError(this.#response, error, this.#ownFields(told), this.#isUnread());
    this.#finish(error.status, error.code, cause);
  }

  #ownFields(told: string[] | null = null): string[] {
    const [head, match, caller, verdict] = [this.#head, this.#match, this.#caller, this.#verdict];
    const known = { requestId: this.#requestId, origin: this.#origin, head, match, caller, verdict };
    return ownFieldsOf(this.#parts, known, told);
  }

  #isUnread(): boolean {
    return isUnread(this.#request, this.#head);
  }

  #closes(head: Head): boolean {
    return head.httpVersion === '1.0' || this.#isUnread() || this.#parts.isDraining();
  }

  /** Whether there is nobody left to answer: the client went away while something was awaited. */
  #isOver(): boolean {
    if (this.#finished || this.#response.headersSent) return true;
    if (!this.#response.destroyed && !this.#request.socket.destroyed) return false;
    this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    return true;
  }

  #finish(status: number, code: string | null, cause: string | null): void {
    if (this.#finished) return;
    this.#finished = true;
    const nowMs = this.#parts.monotonicMs();
    const exchange: Exchange = {
      requestId: this.#requestId,
      traceId: this.#trace.traceId,
      method: this.#request.method ?? '',
      path: this.#head?.path ?? null,
      route: this.#match?.route.path ?? null,
      clientAddress: this.#origin.address,
      consumerId: this.#caller?.consumer?.id ?? null,
      plan: this.#caller?.allowance.plan ?? null,
      judgement: this.#judgement,
      ...decisionOf(this.#verdict),
      source: this.#source,
      status,
      code,
      cause,
      totalMs: nowMs - this.#startedAtMs,
      storeMs: this.#storeMs,
      upstreamMs: this.#forwardedAtMs === null ? 0 : nowMs - this.#forwardedAtMs,
      bytesIn: this.#head?.contentLength ?? 0,
      bytesOut: this.#bytesOut,
    };
    this.#trace.end(exchange);
    this.#parts.close(exchange);
  }
}
