import { IncomingMessage } from 'node:http';
import type { Verdict } from '../admit/verdict.ts';
import { CORS_FIELDS } from '../annotate/cors.ts';
import type { AnswerHead } from '../forward/answer-head.ts';
import type { RequestBody } from '../forward/body.ts';
import type { ClientRequest, ClientResponse } from '../forward/client.ts';
import { answerLinesOf } from '../forward/field-lines.ts';
import { FieldNames } from '../forward/field-names.ts';
import { type ForwardHooks, type ForwardRequest, type ForwardResult, forward } from '../forward/forward.ts';
import { answerFields, requestFields } from '../forward/headers.ts';
import type { ConsumerShare, Upstream } from '../forward/upstream.ts';
import type { Head } from '../listen/head.ts';
import type { Caller } from './caller.ts';
import type { Recording } from './exchange.ts';
import type { LastLines, LinesFrom } from './last-lines.ts';
import { ownLinesOf } from './own-fields.ts';
import type { Origin, Parts } from './parts.ts';
import { declaredLength } from './received.ts';
import type { Match } from './route.ts';

/** One admitted request, as it is handed to its upstream. */
export interface Admitted {
  readonly head: Head;
  readonly match: Match;
  readonly record: Recording;
  /** What carries the trace on; null: the client's own fields do. */
  readonly traceFields: readonly string[] | null;
  readonly caller: Caller;
  readonly verdict: Verdict;
  readonly origin: Origin;
  readonly flow: Flow;
  /** Of its connection. */
  readonly lastLines: LastLines;
}

/** The request's own flow, as far as it is concerned with what is forwarded. */
export interface Flow {
  /** Asked when the answer begins: whether the client's connection ends with it. */
  closes(): boolean;
  /** What the gateway adds to the answer. */
  ownFields(): readonly string[];
  forwarded(result: ForwardResult): void;
}

/** What a deprecated route says of itself counts, not what the service behind it says. */
const DEPRECATION = ['deprecation', 'sunset'];
/** By whether pages of other origins are served, and whether the route is deprecated. */
const REPLACED: readonly (readonly FieldNames[])[] = [[], CORS_FIELDS].map((cors) =>
  [[], DEPRECATION].map((deprecation) => new FieldNames([...cors, ...deprecation])),
);

/**
 * Forwards an admitted request: its fields rewritten, its body bounded, the answer's fields merged with the gateway's.
 * @param share of its consumer, in which room is reserved for the request
 */
export function passOn(
  parts: Parts,
  upstream: Upstream,
  share: ConsumerShare,
  request: ClientRequest,
  response: ClientResponse,
  admitted: Admitted,
) {
  const passing = new Passing(parts, request, response, admitted);
  return forward(upstream, share, passing, response, passing);
}

class Passing implements ForwardRequest, ForwardHooks {
  readonly method: string;
  readonly target: string;
  readonly lines: string;
  readonly body: RequestBody | null;
  readonly writeTimeoutMs: number;
  readonly #parts: Parts;
  readonly #response: ClientResponse;
  readonly #admitted: Admitted;

  constructor(parts: Parts, request: ClientRequest, response: ClientResponse, admitted: Admitted) {
    const { head } = admitted;
    this.method = head.method;
    this.target = head.target;
    this.lines = requestLinesOf(parts, admitted);
    this.body = bodyOf(request, head, parts.maxBodyBytes);
    this.writeTimeoutMs = parts.writeTimeoutMs;
    this.#parts = parts;
    this.#response = response;
    this.#admitted = admitted;
  }

  taken(target: string): void {
    this.#admitted.record.target = target;
  }

  head(head: AnswerHead): void {
    const [response, admitted] = [this.#response, this.#admitted];
    const { match, verdict, record } = admitted;
    if (admitted.flow.closes()) response.shouldKeepAlive = false;
    const isAllPassed = this.#parts.cors === null && match.route.deprecated === null;
    if (isAllPassed && head.lines !== null && response.writeLines !== undefined) {
      response.writeLines(head.status, head.lines, ownLinesOf(this.#parts, verdict, record.requestId));
    } else response.writeHead(head.status, answerFieldsOf(this.#parts, admitted, head.status, head.fields));
  }

  earlyHints(fields: readonly string[]): void {
    const { head, match } = this.#admitted;
    if (head.httpVersion !== '1.1') return;
    this.#response.writeInformation(103, answerFields(fields, replacedBy(this.#parts, match), 103));
  }

  chunk(bytes: number): void {
    this.#admitted.record.bytesOut += bytes;
  }

  done(result: ForwardResult): void {
    this.#admitted.flow.forwarded(result);
  }
}

function bodyOf(request: ClientRequest, { body, contentLength }: Head, maxBytes: number): RequestBody | null {
  if (body === 'none') return null;
  const { wholeBody } = request;
  if (typeof wholeBody === 'string') {
    // Attack: what goes beyond the length that the upstream is told would be another request to it.
    if (wholeBody.length !== contentLength) throw new Error('a body that is not as long as it was declared');
    return { framing: 'whole', text: wholeBody };
  }
  if (!(request instanceof IncomingMessage)) throw new Error('a body from a reader that takes none');
  // A write of nothing sends nothing, and fails on a connection that was reset.
  return { source: request, framing: body, maxBytes, probe: () => request.socket.write('') };
}

/** The fields of the answer as the client gets them. */
export function answerFieldsOf(
  parts: Parts,
  { match, flow }: Admitted,
  status: number,
  fields: readonly string[],
): string[] {
  const all = answerFields(fields, replacedBy(parts, match), status);
  for (const field of flow.ownFields()) all.push(field);
  return all;
}

/** The names of which the gateway's own word alone counts. */
function replacedBy({ cors }: Parts, { route }: Match): FieldNames {
  return REPLACED[cors === null ? 0 : 1]![route.deprecated === null ? 0 : 1]!;
}

/** The fields of the request as the upstream gets them, for one that is sent by somebody else. */
export function requestFieldsOf(parts: Parts, admitted: Admitted): string[] {
  return [...lastingFields(fromOf(parts, admitted)), ...passingFields(admitted)];
}

function requestLinesOf(parts: Parts, admitted: Admitted): string {
  return admitted.lastLines.of(fromOf(parts, admitted), lastingFields) + answerLinesOf(passingFields(admitted));
}

function fromOf({ via, allowedNames }: Parts, { head, traceFields, caller, origin }: Admitted): LinesFrom {
  const contentLength = declaredLength(head);
  return { head, contentLength, caller, origin, via, allowedNames, isTraced: traceFields !== null };
}

/** What may be the same in the next request. */
function lastingFields(from: LinesFrom): string[] {
  const { head, contentLength, caller, origin, via, allowedNames, isTraced } = from;
  return requestFields(head.rawHeaders, head.connectionNames, contentLength, {
    isTraced,
    consumerId: caller.consumer?.id ?? null,
    plan: caller.consumer?.plan ?? null,
    peer: origin.peer,
    scheme: origin.scheme,
    host: head.host,
    trustedPeer: origin.trustedPeer,
    via,
    allowedNames,
    httpVersion: origin.httpVersion ?? head.httpVersion,
  });
}

/** What is of this request alone. */
function passingFields({ record, traceFields }: Admitted): string[] {
  const fields = ['X-Request-Id', record.requestId];
  if (traceFields !== null) fields.push(...traceFields);
  return fields;
}
