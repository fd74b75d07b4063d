import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Allowance } from '../admit/plan.ts';
import type { Verdict } from '../admit/verdict.ts';
import { deprecationFields } from '../annotate/deprecation.ts';
import * as errors from '../annotate/error.ts';
import { ClientBodyError } from '../forward/faults.ts';
import type { ForwardResult } from '../forward/forward.ts';
import { readBearer } from '../identify/bearer.ts';
import type { Consumer } from '../identify/identify.ts';
import type { Head, HeadFault } from '../listen/head.ts';
import type { RequestTrace } from '../telemetry/trace-context.ts';
import { CLIENT_CLOSED_REQUEST, decisionOf, type Exchange, type Judgement } from './exchange.ts';
import type { Origin, Parts } from './parts.ts';
import { passOn } from './pass-on.ts';
import { announcesBody, formFault, requestIdOf } from './received.ts';
import { closeAfter, replyWithError } from './reply.ts';
import type { Match } from './route.ts';
import { servable } from './servable.ts';

/**
 * One request on its way: route, identify, admit, annotate, forward or answer (the README's "way of a request").
 * Every way out ends in `#finish`, once.
 */
export class RequestFlow {
  readonly #parts: Parts;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #origin: Origin;
  readonly #requestId: string;
  readonly #startedAtMs: number;
  readonly #trace: RequestTrace;
  #head: Head | null = null;
  #match: Match | null = null;
  #consumer: Consumer | null = null;
  #allowance: Allowance | null = null;
  #verdict: Verdict | null = null;
  #source: Exchange['source'] = null;
  #judgement: Judgement = 'malformed';
  #storeMs = 0;
  #forwardedAtMs: number | null = null;
  #bytesOut = 0;
  #forwarding: { breakOff(reason: Error): void } | null = null;
  #finished = false;

  constructor(parts: Parts, request: IncomingMessage, response: ServerResponse) {
    this.#parts = parts;
    this.#request = request;
    this.#response = response;
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
  breakOff(code: 'request_timeout' | 'invalid_request'): boolean {
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
    if (!(await this.#identify(head)) || this.#isOver()) return;
    if (!(await this.#admit()) || this.#isOver()) return;
    const found = servable(this.#match, head, this.#parts.wallMs());
    if (found.kind === 'match') this.#forward(head, found.match);
    else this.#refuse(found.error);
  }

  /** @returns false when the request has been answered */
  async #identify(head: Head): Promise<boolean> {
    this.#judgement = 'unauthenticated';
    const credentials = readBearer(head.rawHeaders);
    if (credentials.kind === 'ambiguous') {
      this.#judgement = 'malformed';
      this.#refuse(errors.errorAnswer('invalid_request', 'Authorization must come once.'));
      return false;
    }
    if (credentials.kind !== 'token') {
      await this.#refuseUnknown(credentials.kind === 'missing' ? 'missing_api_key' : 'invalid_api_key');
      return false;
    }
    const askedAtMs = this.#parts.monotonicMs();
    const identifying = this.#parts.identifier.identify(credentials.token);
    const identity = identifying instanceof Promise ? await identifying : identifying;
    this.#storeMs += this.#parts.monotonicMs() - askedAtMs;
    if (identity.kind === 'refused') {
      await this.#refuseUnknown(identity.code);
      return false;
    }
    if (identity.kind === 'unavailable') {
      this.#judgement = 'undecided';
      this.#refuse(errors.plainError('store_unavailable'));
      return false;
    }
    this.#consumer = identity.key;
    this.#allowance = this.#parts.allowanceFor(identity.key);
    if (this.#allowance === null) throw new Error(`key ${identity.key.id}: its plan is gone or lacks a limit`);
    return true;
  }

  /** @returns false when the request has been answered */
  async #admit(): Promise<boolean> {
    const askedAtMs = this.#parts.monotonicMs();
    const cost = this.#match?.route.cost ?? 1;
    const admitting = this.#parts.admitter.admit(this.#consumer!.id, this.#allowance!, cost);
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
    this.#forwarding = passOn(this.#parts, this.#request, this.#response, {
      head,
      match,
      requestId: this.#requestId,
      traceFields: this.#trace.forward(),
      consumer: this.#consumer!,
      origin: this.#origin,
      ownFields: this.#ownFields(),
      closes: () => this.#closes(head),
      sent: (bytes) => {
        this.#bytesOut += bytes;
      },
      done: (result) => this.#forwarded(result),
    });
  }

  #forwarded(result: ForwardResult): void {
    if (result.kind === 'answered') {
      if (this.#isUnread()) closeAfter(this.#response, true);
      this.#finish(this.#response.statusCode, null, null);
    } else if (result.kind === 'client_gone') this.#finish(CLIENT_CLOSED_REQUEST, null, 'the client left');
    else if (result.kind === 'broken') this.#finish(this.#response.statusCode, result.fault.code, result.fault.cause);
    else this.#refuse(errors.plainError(result.fault.code), result.fault.cause);
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

  /** What every answer carries: where the caller stands, the request's id, and what the route announces. */
  #ownFields(told: string[] | null = null): string[] {
    const fields = told ?? this.#standingFields();
    fields.push('X-Request-Id', this.#requestId);
    const deprecated = this.#match?.route.deprecated ?? null;
    if (deprecated !== null) fields.push(...deprecationFields(deprecated));
    return fields;
  }

  #standingFields(): string[] {
    const { rateLimitFields, admitter, failedAttempts, wallMs } = this.#parts;
    if (this.#verdict !== null) return rateLimitFields.ofVerdict(this.#verdict);
    if (this.#consumer !== null && this.#allowance !== null) {
      return rateLimitFields.ofVerdict(admitter.standing(this.#consumer.id, this.#allowance));
    }
    return rateLimitFields.ofBudget(failedAttempts.peek(this.#origin.address), wallMs());
  }

  #isUnread(): boolean {
    return !this.#request.complete && (this.#head === null ? announcesBody(this.#request) : this.#head.body !== 'none');
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
      consumerId: this.#consumer?.id ?? null,
      plan: this.#consumer?.plan ?? null,
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
