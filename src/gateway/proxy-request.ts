import { Readable } from 'node:stream';
import type { Verdict } from '../admit/verdict.ts';
import { type ErrorResponse, plainError } from '../annotate/errors.ts';
import { type ResponseCache, targetKey } from '../forward/cache/response-cache.ts';
import { CompressedResponse } from '../forward/compressed-response.ts';
import { type ForwardResult, QueueFullError } from '../forward/faults.ts';
import { type AnswerBodyReader, type ForwardHooks, forward, type ResponseTimeouts } from '../forward/forward.ts';
import type { ForwardRequest, RequestBody, Trailers } from '../forward/request-body.ts';
import type { RetryRules } from '../forward/retries.ts';
import type { ConsumerShare, Upstream } from '../forward/upstream/upstream.ts';
import type { UpgradeResult } from '../forward/websocket/upgrade.ts';
import {
  type ClientAddress,
  type ClientRequest,
  type ClientResponse,
  isTrailerStream,
  type ResponseBody,
  type TrailerStream,
} from '../http1/client.ts';
import {
  acceptedCodings,
  type Coding,
  type CompressionRules,
  codingFor,
  fieldsOfCompressed,
  fieldsWithoutLength,
  mayBeCompressed,
} from '../http1/content-coding.ts';
import { cookieValues } from '../http1/cookies.ts';
import type { FieldNames } from '../http1/field-names.ts';
import { type FieldRules, withFields, withoutDropped, withRules } from '../http1/field-rules.ts';
import { linesOf, onlyValue, responseLinesOf, valuesOf } from '../http1/fields.ts';
import { requestFields, requestTrailers, responseFields } from '../http1/forwarded-fields.ts';
import { REPLACED_BY } from '../http1/own-fields.ts';
import type { Head } from '../http1/request-head.ts';
import { SAFE } from '../http1/request-line.ts';
import type { ResponseHead } from '../http1/response-head.ts';
import { closeAfter } from '../io/graceful-close.ts';
import type { ConsumerTime } from '../io/thread-time.ts';
import { askingFor } from '../meter/asked-answer.ts';
import { writePath } from '../routing/path-template.ts';
import type { Match } from '../routing/router.ts';
import { type Caller, CLIENT_CLOSED_REQUEST, type ExchangeRecorder } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import type { Metering } from './metering.ts';
import { declaredLength, queryToPass } from './received-request.ts';
import type { Refusal } from './refusals.ts';
import { ownLinesOf, variablesOf } from './replies.ts';
import type { Waiter } from './resume.ts';
import { fieldsOfKong, passesAuthorization, prefixOf, returnedFields, servicePlaceOf } from './service-fields.ts';

/*
 * The admitted request goes to the service: forwarded, or, if it asks for another protocol, by an upgrade (upgrade-request.ts).
 */

/** One admitted request, with everything needed to forward it. */
export interface AdmittedRequest {
  readonly head: Head;
  readonly match: Match;
  readonly record: ExchangeRecorder;
  /** The gateway's own trace fields; null if the client's are forwarded instead. */
  readonly traceFields: readonly string[] | null;
  readonly caller: Caller;
  /** Charged with the work of the thread on the response, or in the tunnel. */
  readonly time: ConsumerTime;
  readonly verdict: Verdict;
  readonly origin: ClientAddress;
  readonly flow: ProxyFlow;
  /** Null if the request charges no unit. */
  readonly metering: Metering | null;
  /** The body, if it has been read whole to be checked; else null. */
  readonly checkedBody: Buffer | null;
  /** Replaces the Accept-Encoding of the client, so that the cost in the answer can be read; null if nothing is replaced. */
  readonly acceptEncoding: string | null;
  /** Fields for the service that the policies of the route have set; null if they have set none. */
  readonly fieldsOfPolicies: Readonly<Record<string, string>> | null;
}

/** How forwarding ended; `refused` if there was no room for another WebSocket, so that no upstream was asked. */
export type ProxyResult = UpgradeResult | { readonly kind: 'refused'; readonly error: ErrorResponse };

/** The part of the request's flow that forwarding uses. */
export interface ProxyFlow extends Waiter {
  /** Whether the client's connection ends with the response. Called when the response begins. */
  closes(): boolean;
  /** The fields that the gateway adds to the response. */
  ownFields(): readonly string[];
  forwarded(result: ProxyResult): void;
  /** The tunnel that the request has become has ended. */
  leavePlace(): void;
}

export const SWITCHING_PROTOCOLS = 101;
const BAD_GATEWAY = 502;
/** Trailers have no Content-Length, as a status of 1xx. */
const TRAILERS = 100;
/** Of the IETF's Resumable Uploads for HTTP. */
const UPLOAD_RESUMPTION_SUPPORTED = 104;

/** The fields that decide what a page may read. With `cors`, only the gateway sets them. */
const CORS_FIELDS = REPLACED_BY.get('cors')!;

/** How a forwarded request ends: with the response already sent, or with a refusal that the gateway has yet to send. */
type ForwardedEnd =
  | { readonly kind: 'ended'; readonly status: number; readonly code: string | null; readonly cause: string | null }
  | { readonly kind: 'refused'; readonly error: ErrorResponse; readonly cause: string | null };

/** @param status of the response, if it has begun */
export function forwardedEnd(result: ProxyResult, status: number): ForwardedEnd {
  if (result.kind === 'answered') return { kind: 'ended', status, code: null, cause: null };
  if (result.kind === 'upgraded') return { kind: 'ended', status: SWITCHING_PROTOCOLS, code: null, cause: null };
  if (result.kind === 'client_gone') {
    return { kind: 'ended', status: CLIENT_CLOSED_REQUEST, code: null, cause: result.cause };
  }
  if (result.kind === 'refused') return { kind: 'refused', error: result.error, cause: null };
  const { code, cause } = result.fault;
  if (result.kind === 'broken') return { kind: 'ended', status, code, cause };
  return { kind: 'refused', error: plainError(result.fault.code, result.fault.retryAfterMs), cause };
}

/** How a request gets to its service: it is forwarded, or its connection becomes a tunnel. */
export interface Passage {
  /**
   * Takes a place for a request of the caller, before it is counted.
   *
   * Attack: a dozen customers hold all connections and the whole queue, or all WebSockets, and the requests of another one, whose
   * share is unused, were counted and got 503.
   * @returns the caller's share of the upstream, with the place that was taken in it; null if the request needs none; `used_up` if the
   *   caller has as many in flight as its share allows
   */
  takePlace(deps: GatewayDeps, match: Match, caller: Caller): ConsumerShare | null | 'used_up';
  /** The refusal if others have now taken every place. @param share in which it has a place @returns null if not */
  full(deps: GatewayDeps, match: Match, caller: Caller, share: ConsumerShare | null): Refusal | null;
  /**
   * Sends the admitted request.
   * @returns to break it off from outside; null if it has ended
   */
  start(
    deps: GatewayDeps,
    share: ConsumerShare | null,
    request: ClientRequest,
    response: ClientResponse,
    admitted: AdmittedRequest,
  ): { readonly breakOff: (reason: Error) => void } | null;
}

/** The upstream of a route that has one. */
export function upstreamOf({ upstreams }: Pick<GatewayDeps, 'upstreams'>, { route }: Match): Upstream {
  return upstreams.get(route.upstream)!;
}

/** The Host that the service gets (`host` of the upstream); null for the authority of the target. */
export function hostFor(deps: Pick<GatewayDeps, 'upstreams'>, { head, match }: AdmittedRequest): string | null {
  const { host } = upstreamOf(deps, match).options;
  return host === 'keep' ? head.host : (host ?? null);
}

/** What the request shares with others that get the same target (`sticky` of the upstream); null if it may get any. */
export function affinityOf(
  deps: Pick<GatewayDeps, 'upstreams'>,
  { head, match, caller, origin }: AdmittedRequest,
): string | null {
  const { sticky = null } = upstreamOf(deps, match).options;
  if (sticky === null) return null;
  if (sticky.by === 'cookie') return cookieValues(valuesOf(head.fields.rawHeaders, 'cookie'), sticky.name)[0] ?? null;
  return (sticky.by === 'key' ? caller.consumer?.id : null) ?? origin.address;
}

/**
 * The passage of a request that is forwarded. Rewrites its fields, bounds its body and merges the response's fields with the
 * gateway's.
 */
export const FORWARDED: Passage = {
  takePlace: (deps, match, { shareId }) => upstreamOf(deps, match).takePlace(shareId) ?? 'used_up',
  full: (_deps, match, _caller, share) => {
    if (share === null || share.hasPlace()) return null;
    return { error: plainError('overloaded'), cause: new QueueFullError().message, upstream: match.route.upstream };
  },
  start: forwardRequest,
};

function forwardRequest(
  deps: GatewayDeps,
  share: ConsumerShare | null,
  request: ClientRequest,
  response: ClientResponse,
  admitted: AdmittedRequest,
): ReturnType<Passage['start']> {
  if (share === null) throw new Error('a request without room at its upstream');
  const { passing, body } = passingOf(deps, request, response, admitted);
  return forward(upstreamOf(deps, admitted.match), share, passing, body, passing);
}

/** The request to the service, with what becomes of the response, and where the body of that is written. */
export function passingOf(
  deps: GatewayDeps,
  request: ClientRequest,
  response: ClientResponse,
  admitted: AdmittedRequest,
): { readonly passing: Passing; readonly body: ResponseBody } {
  const compressed = compressedFor(deps, response, admitted);
  return { passing: new Passing(deps, request, response, compressed, admitted), body: compressed ?? response };
}

/** The response in the form that may be compressed; null if the route or the client does not want compression. */
function compressedFor(
  deps: GatewayDeps,
  response: ClientResponse,
  { head, match, caller }: AdmittedRequest,
): CompressedResponse | null {
  const rules = match.route.compression;
  if (rules === null || head.method === 'HEAD' || !wantsCompression(head, rules)) return null;
  const { fairShare } = upstreamOf(deps, match).options;
  return new CompressedResponse(response, deps.compressors, caller.shareId, fairShare);
}

function wantsCompression({ httpVersion, fields }: Head, rules: CompressionRules): boolean {
  if (httpVersion !== '1.1' || codingFor(fields.derived(acceptedCodings), rules).coding === null) return false;
  // See `mayBeCompressed` for the cookie.
  return valuesOf(fields.rawHeaders, 'cookie').length === 0;
}

class Passing implements ForwardRequest, ForwardHooks {
  readonly method: string;
  readonly target: string;
  readonly affinity: string | null;
  readonly host: string | null;
  readonly lines: string;
  readonly sent: (() => void) | null;
  readonly body: RequestBody | null;
  readonly writeTimeoutMs: number;
  readonly timeouts: ResponseTimeouts | null;
  readonly retries: RetryRules | null;
  readonly reader: AnswerBodyReader | null;
  readonly record: ExchangeRecorder;
  readonly time: ConsumerTime;
  readonly #deps: GatewayDeps;
  readonly #response: ClientResponse;
  readonly #compressed: CompressedResponse | null;
  readonly #admitted: AdmittedRequest;

  constructor(
    deps: GatewayDeps,
    request: ClientRequest,
    response: ClientResponse,
    compressed: CompressedResponse | null,
    admitted: AdmittedRequest,
  ) {
    const { head, match } = admitted;
    this.method = head.method;
    this.target = targetFor(deps, admitted);
    this.affinity = affinityOf(deps, admitted);
    this.host = hostFor(deps, admitted);
    const { checkedBody } = admitted;
    this.body =
      checkedBody === null
        ? bodyOf(request, head, match.route.maxBodyBytes ?? deps.maxBodyBytes)
        : { framing: 'whole', text: checkedBody.toString('latin1') };
    this.lines = requestLinesOf(deps, admitted);
    this.writeTimeoutMs = deps.writeTimeoutMs;
    this.timeouts = match.route.timeouts;
    this.retries = match.route.retries;
    const { metering } = admitted;
    this.reader = metering;
    this.record = admitted.record;
    this.time = admitted.time;
    this.sent = metering === null ? null : () => metering.sent(deps.monotonicMs());
    this.#deps = deps;
    this.#response = response;
    this.#compressed = compressed;
    this.#admitted = admitted;
  }

  /** @param servedBy the target that has sent it */
  head(head: ResponseHead, servedBy = this.record.target): null {
    const [response, admitted] = [this.#response, this.#admitted];
    const { match, verdict, record } = admitted;
    if (this.#deps.cache !== null) this.#noteChange(this.#deps.cache, head.status);
    if (admitted.flow.closes()) closeAfter(response, false);
    admitted.metering?.head(head.status, head);
    const status = statusFor(head.status, admitted.origin);
    const { route } = match;
    const isAllPassed = this.#deps.cors === null && route.announcement === null && route.responseHeaders === null;
    if (
      isAllPassed &&
      route.returns === null &&
      route.compression === null &&
      head.lines !== null &&
      response.writeLines !== undefined
    ) {
      response.writeLines(status, head.lines, ownLinesOf(this.#deps, verdict, record.requestId));
      return null;
    }
    const fields = responseFieldsOf(this.#deps, admitted, status, head.fields, servedBy);
    const { compression } = route;
    if (compression === null) response.writeHead(status, fields);
    else this.#writeCompressible(head, status, fields, compression);
    return null;
  }

  /** What a request may have changed is no longer answered from the cache (RFC 9111 section 4.4). */
  #noteChange(cache: ResponseCache, status: number): void {
    if (status < 400 && !SAFE.has(this.method))
      cache.changed(targetKey(this.#admitted.match.route.upstream, this.target));
  }

  /** Writes a head of a route with `compression`, and begins to compress if the client and the response allow it. */
  #writeCompressible(head: ResponseHead, status: number, fields: string[], rules: CompressionRules): void {
    // A field that the service sent counts even if a rule of the operator has removed it.
    const isHead = this.method === 'HEAD';
    const framing = isHead ? 'length' : head.framing;
    const isCompressible = [fields, head.fields].every((one) => mayBeCompressed({ status, framing }, one));
    // The response depends on Accept-Encoding whether this one is compressed or not (RFC 9110 section 12.5.5).
    if (isCompressible || status === 304) fields.push('Vary', 'Accept-Encoding');
    if (isHead) {
      // Its Content-Length would be that of GET (RFC 9110 section 8.6), which is not known before GET is compressed.
      const length = onlyValue(head.fields, 'content-length');
      const isChanged =
        isCompressible &&
        wantsCompression(this.#admitted.head, rules) &&
        this.#codingFor(length === null ? null : Number(length), rules) !== null;
      this.#response.writeHead(status, isChanged ? fieldsWithoutLength(fields) : fields);
      return;
    }
    const length = framing === 'length' ? head.length : null;
    let coding = isCompressible && this.#compressed !== null ? this.#codingFor(length, rules) : null;
    if (coding !== null && !this.#compressed!.takePlace()) coding = null;
    this.#response.writeHead(status, coding === null ? fields : fieldsOfCompressed(fields, coding));
    if (coding !== null) this.#compressed!.compress(coding);
  }

  /** @param length of the uncompressed body; null if the service has not declared it */
  #codingFor(length: number | null, rules: CompressionRules): Coding | null {
    const { coding, refusesPlain } = codingFor(this.#admitted.head.fields.derived(acceptedCodings), rules);
    return length !== null && length < rules.minBytes && !refusesPlain ? null : coding;
  }

  information(status: number, fields: readonly string[]): boolean {
    const { head, match, origin } = this.#admitted;
    if (!takesInformation(status, head, origin)) return false;
    const passed = responseFields(fields, replacedBy(this.#deps, match), status);
    const rules = match.route.responseHeaders;
    this.#response.writeInformation(status, rules === null ? passed : withoutDropped(passed, rules));
    return true;
  }

  done(result: ForwardResult): void {
    this.#admitted.flow.forwarded(result);
  }

  get trailers(): Trailers | null {
    const { socket } = this.#response.req;
    return isTrailerStream(socket) ? passedTrailers(this.#deps, this.#admitted, socket) : null;
  }
}

/** The trailers of a request and of its response, under the same rules as their fields. */
function passedTrailers(deps: GatewayDeps, { match }: AdmittedRequest, stream: TrailerStream): Trailers {
  const { allowedNames, keySources: keyPlaces, isAsKong } = deps;
  const { requestHeaders, responseHeaders } = match.route;
  const passed = (fields: string[], rules: FieldRules | null) =>
    rules === null ? fields : withoutDropped(fields, rules);
  return {
    ofRequest: () =>
      passed(requestTrailers(stream.requestTrailers, { allowedNames, keyPlaces, isAsKong }), requestHeaders),
    await: () => stream.awaitTrailers(),
    ofResponse: (fields) =>
      stream.sendTrailers(passed(responseFields(fields, replacedBy(deps, match), TRAILERS), responseHeaders)),
  };
}

/**
 * Whether a client may get an interim response of the service.
 *
 * Fault: some clients of HTTP/1.1 (Python's http.client, Perl's LWP) take any interim response but 100 for the final one,
 * and the final one for the response to their next request, which may be another caller's. RFC 8297 section 3 warns of that.
 * So over HTTP/1.1 only a client gets one that shows that it expects it: a browser that navigates, and for 104 a client that
 * uploads resumably. A proxy in front passes the fields by which a client shows it, but need not take interim responses itself.
 */
function takesInformation(status: number, { httpVersion, fields }: Head, origin: ClientAddress): boolean {
  if (origin.httpVersion !== null) return true;
  if (httpVersion !== '1.1' || origin.trustedPeer) return false;
  const { rawHeaders } = fields;
  if (status === UPLOAD_RESUMPTION_SUPPORTED) return valuesOf(rawHeaders, 'upload-complete').length > 0;
  return onlyValue(rawHeaders, 'sec-fetch-mode') === 'navigate';
}

/**
 * The status that the client gets. RFC 9110 section 15 has a client take one from 600 to 999 for one of 5xx. It is passed
 * on as it is over HTTP/1.1; node:http2 sends none.
 */
function statusFor(status: number, { httpVersion }: ClientAddress): number {
  return status > 599 && httpVersion !== null ? BAD_GATEWAY : status;
}

/**
 * Path and query for the service, without a key. The path is rewritten only here, after everything that is checked and decided by it.
 */
export function targetFor(
  deps: Pick<GatewayDeps, 'keySources'>,
  { head, match }: Pick<AdmittedRequest, 'head' | 'match'>,
): string {
  const { rewrite } = match.route;
  if (rewrite === null && deps.keySources === null) return head.target;
  return (rewrite === null ? head.path : writePath(rewrite, head.path)) + queryToPass(deps, head);
}

function bodyOf(request: ClientRequest, { body, contentLength }: Head, maxBytes: number): RequestBody | null {
  if (body === 'none') return null;
  const { wholeBody } = request;
  if (typeof wholeBody === 'string') {
    // Attack: the upstream would read bytes beyond the declared length as another request.
    if (wholeBody.length !== contentLength) throw new Error('a body that is not as long as it was declared');
    return { framing: 'whole', text: wholeBody };
  }
  if (!(request instanceof Readable)) throw new Error('a body from a reader that takes none');
  // An empty write sends nothing, but fails on a connection that was reset.
  return { source: request, framing: body, maxBytes, probe: () => request.socket.write('') };
}

/** The fields of the response that the client gets. */
export function responseFieldsOf(
  deps: GatewayDeps,
  admitted: AdmittedRequest,
  status: number,
  fields: readonly string[],
  servedBy = admitted.record.target,
): string[] {
  const { match, flow, head } = admitted;
  const rules = match.route.responseHeaders;
  const passed = responseFields(fields, replacedBy(deps, match), status);
  const received =
    match.route.returns === null
      ? passed
      : returnedFields(passed, servicePlaceOf(servedBy!, hostFor(deps, admitted), head, match.route));
  const all = rules === null ? received : withRules(received, rules, variablesOf(admitted));
  for (const field of flow.ownFields()) all.push(field);
  return all;
}

/** The names of the response fields that only the gateway sets here. */
function replacedBy({ cors }: GatewayDeps, { route: { announcement } }: Match): readonly FieldNames[] {
  return [
    ...(cors === null ? [] : [CORS_FIELDS]),
    ...(announcement?.settings ?? []).map((setting) => REPLACED_BY.get(setting)!),
  ];
}

/** What the fields for the upstream are made of. */
type FieldsFor = Pick<
  AdmittedRequest,
  'head' | 'match' | 'caller' | 'origin' | 'traceFields' | 'checkedBody' | 'acceptEncoding' | 'fieldsOfPolicies'
> & { readonly record: Pick<ExchangeRecorder, 'requestId'> };

/** The fields of the request that the upstream gets: for an upgrade, or if rules or policies change them. */
export function requestFieldsOf(deps: GatewayDeps, admitted: FieldsFor): string[] {
  const { match, acceptEncoding, fieldsOfPolicies } = admitted;
  const repeated = repeatedFields(inputOf(deps, admitted));
  const own = [
    ...(acceptEncoding === null ? repeated : askingFor(acceptEncoding, repeated)),
    ...uniqueFields(admitted),
  ];
  const rules = match.route.requestHeaders;
  const fields = rules === null ? own : withRules(own, rules, variablesOf(admitted));
  return fieldsOfPolicies === null ? fields : withFields(fields, fieldsOfPolicies);
}

function requestLinesOf(deps: GatewayDeps, admitted: AdmittedRequest): string {
  const { match, acceptEncoding, fieldsOfPolicies } = admitted;
  // The lines that are kept with the fields of a connection are those of requests whose fields nothing changes.
  if (match.route.requestHeaders !== null || acceptEncoding !== null || fieldsOfPolicies !== null)
    return linesOf(requestFieldsOf(deps, admitted));
  const repeated = admitted.head.fields.derived(newRepeatedLines).of(inputOf(deps, admitted));
  const own = `${repeated}X-Request-Id: ${admitted.record.requestId}\r\n`;
  return admitted.traceFields === null ? own : own + responseLinesOf(admitted.traceFields);
}

/**
 * Everything that determines the fields for the upstream, except those that are unique to one request, and the field block itself. The
 * settings that matter are in `deps` and in the route, which are other objects after a reload.
 */
interface FieldsInput {
  readonly deps: GatewayDeps;
  readonly match: Match;
  readonly head: Head;
  readonly contentLength: string | null;
  readonly caller: Caller;
  readonly origin: ClientAddress;
  /** Whether the client's own trace fields are replaced. */
  readonly isTraced: boolean;
}

function inputOf(deps: GatewayDeps, { head, match, traceFields, caller, origin, checkedBody }: FieldsFor): FieldsInput {
  // A body that came in chunks, and was read whole, is sent with its length.
  const contentLength = checkedBody === null ? declaredLength(head) : String(checkedBody.length);
  return { deps, match, head, contentLength, caller, origin, isTraced: traceFields !== null };
}

/**
 * The lines built for the last request with a field block. They are kept with the block, because the next request
 * mostly has the same lines.
 */
class RepeatedLines {
  #input: FieldsInput | null = null;
  #lines = '';

  of(input: FieldsInput): string {
    if (this.#input === null || !isSame(this.#input, input)) {
      this.#lines = linesOf(repeatedFields(input));
      this.#input = input;
    }
    return this.#lines;
  }
}

function newRepeatedLines(): RepeatedLines {
  return new RepeatedLines();
}

/** Whether two requests with the same field block have the same lines. */
function isSame(one: FieldsInput, other: FieldsInput): boolean {
  const { route } = one.match;
  return (
    one.deps === other.deps &&
    route === other.match.route &&
    (route.strips === 0 || one.head.path === other.head.path) &&
    one.head.httpVersion === other.head.httpVersion &&
    one.contentLength === other.contentLength &&
    one.caller.consumer === other.caller.consumer &&
    one.origin.peer === other.origin.peer &&
    one.origin.scheme === other.origin.scheme &&
    one.origin.trustedPeer === other.origin.trustedPeer &&
    one.origin.httpVersion === other.origin.httpVersion &&
    one.isTraced === other.isTraced
  );
}

/** The fields that the next request may have too. */
function repeatedFields({ deps, match, head, contentLength, caller, origin, isTraced }: FieldsInput): string[] {
  const { via, allowedNames, keySources, isAsKong, readsAuthorization } = deps;
  const { authorization, perAddress, strips } = match.route;
  const { consumer } = caller;
  const mayPass = !readsAuthorization || authorization !== null || perAddress !== null;
  return requestFields(head.fields.rawHeaders, head.connectionNames, contentLength, {
    isTraced,
    consumerId: (isAsKong ? consumer?.customer?.id : null) ?? consumer?.id ?? null,
    plan: consumer?.plan ?? null,
    asKong: isAsKong ? fieldsOfKong(caller) : null,
    passesAuthorization: mayPass && passesAuthorization(deps, match, head),
    prefix: strips === 0 ? null : prefixOf(head.path, strips),
    peer: origin.peer,
    scheme: origin.scheme,
    host: head.host,
    trustedPeer: origin.trustedPeer,
    via,
    allowedNames,
    keyPlaces: keySources,
    httpVersion: origin.httpVersion ?? head.httpVersion,
  });
}

/** The fields that only this request has. */
function uniqueFields({ record, traceFields }: FieldsFor): string[] {
  const fields = ['X-Request-Id', record.requestId];
  if (traceFields !== null) fields.push(...traceFields);
  return fields;
}
