import type { Socket } from 'node:net';
import type { Banned, Crowded, Refused, Verdict } from '../admit/verdict.ts';
import type { CorsFields } from '../annotate/cors.ts';
import { formOf } from '../annotate/error-form.ts';
import type { ErrorForm, ErrorResponse } from '../annotate/errors.ts';
import { asksInGrpcWeb } from '../annotate/grpc-errors.ts';
import type { RefusalResponse } from '../annotate/refusal-lines.ts';
import { type ClientAddress, type ClientResponse, isTrailerStream } from '../http1/client.ts';
import { type Variables, withRules } from '../http1/field-rules.ts';
import { onlyValue, requestIdOf } from '../http1/fields.ts';
import type { Head } from '../http1/request-head.ts';
import { NO_META } from '../identify/identify.ts';
import { closeAfter } from '../io/graceful-close.ts';
import { writePath } from '../routing/path-template.ts';
import type { RouteReply } from '../routing/route.ts';
import type { Match } from '../routing/router.ts';
import type { Caller, Exchange } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';

/*
 * The responses that the gateway writes itself, and the header fields that it adds to every response.
 */

/** Everything known about a request when the gateway answers it. */
interface KnownCaller {
  readonly requestId: string;
  readonly origin: ClientAddress;
  readonly match: Match | null;
  /** As they were received, whether or not the head passed its checks; names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly caller: Caller | null;
  readonly verdict: Verdict | null;
}

/**
 * The fields that every response has: the rate-limit fields, the request's id, and announcements of the route.
 * @param limitFields the rate-limit fields, if they have been built already
 */
export function ownFieldsOf(deps: GatewayDeps, known: KnownCaller, limitFields: string[] | null): string[] {
  const fields = limitFields ?? limitFieldsOf(deps, known);
  fields.push('X-Request-Id', known.requestId);
  if (deps.cors !== null) {
    fields.push(...deps.cors.ofAnswer(onlyValue(known.rawHeaders, 'origin')));
  }
  fields.push(...(known.match?.route.announcement?.fields ?? []));
  return fields;
}

/** The same fields as lines, each with its CRLF, for a response without fields for CORS and without an announcement of its route. */
export function ownLinesOf({ rateLimitFields }: GatewayDeps, verdict: Verdict, requestId: string): string {
  return `${rateLimitFields.linesOfVerdict(verdict)}X-Request-Id: ${requestId}\r\n`;
}

function limitFieldsOf(deps: GatewayDeps, { verdict, caller, origin }: KnownCaller): string[] {
  const { rateLimitFields, admitter } = deps;
  if (verdict !== null) return rateLimitFields.ofVerdict(verdict);
  if (caller !== null) return rateLimitFields.ofVerdict(admitter.knownVerdict(caller.id, caller.allowance));
  return budgetFields(deps, origin);
}

/** The rate-limit fields of a client address whose caller is not known. */
function budgetFields({ rateLimitFields, failedAttempts, wallMs }: GatewayDeps, origin: ClientAddress): string[] {
  return rateLimitFields.ofBudget(failedAttempts.peek(origin.address), wallMs());
}

/**
 * Whether a request is a browser's CORS preflight, for a page of another origin (Fetch standard, CORS-preflight
 * request).
 */
export function isPreflight({ method, fields, body }: Head): boolean {
  if (method !== 'OPTIONS' || body !== 'none') return false;
  const { rawHeaders } = fields;
  return onlyValue(rawHeaders, 'origin') !== null && onlyValue(rawHeaders, 'access-control-request-method') !== null;
}

/**
 * Answers a preflight. Browsers send preflights without a key, so they need no key and cost nothing.
 * @param closes whether the connection ends with it
 */
export function replyToPreflight(
  deps: GatewayDeps,
  cors: CorsFields,
  response: ClientResponse,
  known: Pick<KnownCaller, 'requestId' | 'origin' | 'match' | 'rawHeaders'>,
  closes: boolean,
): void {
  if (closes) closeAfter(response, false);
  const ofPreflight = cors.ofPreflight(onlyValue(known.rawHeaders, 'origin'), known.match?.allow ?? null);
  response.writeHead(204, [...budgetFields(deps, known.origin), 'X-Request-Id', known.requestId, ...ofPreflight]);
  response.end();
}

/** A stream, which carries one of several requests on a connection. */
interface SessionStream {
  endSession?(): void;
}

/**
 * One of the gateway's own error responses, in the form that its route names or its client asks for.
 * @param fields the fields of every response; the error's own fields follow them
 * @param rawHeaders of the request
 * @param method of the request; null if it could not be read
 * @param socket of the client
 * @param match null if the request has no route
 */
function formed(
  { errorRules }: GatewayDeps,
  error: ErrorResponse,
  fields: readonly string[],
  rawHeaders: readonly string[],
  method: string | null,
  socket: Socket,
  match: Match | null,
): ErrorForm {
  const request = { rawHeaders, method, takesTrailers: isTrailerStream(socket) };
  const form = formOf(error, request, errorRules, match?.route.errorForm ?? null);
  return { ...form, fields: [...fields, ...form.fields] };
}

/**
 * The response to bytes that could not be parsed as a request.
 * @param rawHeaders the fields that could be read all the same
 */
export function formedForUnparsed(
  deps: GatewayDeps,
  error: ErrorResponse,
  socket: Socket,
  rawHeaders: readonly string[],
): ErrorForm {
  const requestId = requestIdOf(rawHeaders) ?? deps.requestIds.next();
  const origin = deps.addresses.of({ socket, rawHeaders });
  const known = { requestId, origin, rawHeaders, match: null, caller: null, verdict: null };
  return formed(deps, error, ownFieldsOf(deps, known, null), rawHeaders, null, socket, null);
}

/**
 * Writes one of the gateway's own error responses, head and body in one piece.
 * @param fields the fields of every response; the error's own fields follow them
 * @param unread whether part of the request has not been read, so that the connection cannot be used again
 * @param match null if the request has no route
 * @returns the bytes of the body
 */
export function replyWithError(
  deps: GatewayDeps,
  response: ClientResponse,
  error: ErrorResponse,
  fields: readonly string[],
  unread: boolean,
  match: Match | null,
): number {
  const { rawHeaders, socket, method = null } = response.req;
  const form = formed(deps, error, fields, rawHeaders, method, socket, match);
  endIfLast(response, error, unread);
  response.writeHead(form.status, [...form.fields]);
  const body = method === 'HEAD' ? '' : form.body;
  response.end(body === '' ? undefined : body);
  return Buffer.byteLength(body);
}

/**
 * The response to a refusal by its verdict, in the lines that it has in common with others.
 * @returns null if it has fields or a form of its own, or is written by another reader than that of the fast path
 */
export function commonRefusal(
  { refusalLines, cors, errorRules }: GatewayDeps,
  response: ClientResponse,
  match: Match | null,
  verdict: Refused | Banned | Crowded,
): RefusalResponse | null {
  if (cors !== null || !errorRules.isPlain) return null;
  if (match !== null && (match.route.announcement !== null || match.route.errorForm !== null)) return null;
  if (verdict.kind === 'crowded' || response.writeLines === undefined) return null;
  const { method, rawHeaders } = response.req;
  if (method === 'POST' && asksInGrpcWeb(rawHeaders)) return null;
  return refusalLines.of(verdict);
}

/** Writes it, with the id of its request. @returns the bytes of the body */
export function replyWithErrorLines(
  response: ClientResponse,
  { error, bodyBytes, lines }: RefusalResponse,
  requestId: string,
  unread: boolean,
): number {
  endIfLast(response, error, unread);
  response.writeLines!(error.status, lines, `X-Request-Id: ${requestId}\r\n`);
  const isHead = response.req.method === 'HEAD';
  response.end(isHead ? undefined : error.body);
  return isHead ? 0 : bodyBytes;
}

function endIfLast(response: ClientResponse, error: ErrorResponse, unread: boolean): void {
  if (error.closes || unread) closeAfter(response, unread);
  if (error.endsSession === true) (response.socket as SessionStream | null)?.endSession?.();
}

/**
 * Writes one of the gateway's own successful responses.
 * @param closes whether the connection ends with it
 * @returns the bytes of the body
 */
export function replyWithJson(
  response: ClientResponse,
  value: object,
  fields: readonly string[],
  closes: boolean,
): number {
  if (closes) closeAfter(response, false);
  const body = JSON.stringify(value);
  const length = String(Buffer.byteLength(body));
  // The body describes one caller at one moment.
  const own = ['Cache-Control', 'no-store', 'Content-Type', 'application/json', 'Content-Length', length];
  response.writeHead(200, [...fields, ...own]);
  response.end(response.req.method === 'HEAD' ? undefined : body);
  return response.req.method === 'HEAD' ? 0 : Buffer.byteLength(body);
}

/** A request that was admitted and counted. */
interface CountedRequest {
  readonly caller: Caller;
  readonly record: Pick<Exchange, 'requestId'>;
  readonly origin: ClientAddress;
}

/** What an operator's fields may say of a request. */
export function variablesOf({ caller, record, origin }: CountedRequest): Variables {
  return {
    'consumer.id': caller.consumer?.id ?? null,
    'consumer.name': caller.consumer?.name ?? null,
    'customer.id': caller.consumer?.customer?.id ?? null,
    'customer.name': caller.consumer?.customer?.name ?? null,
    plan: caller.allowance.plan,
    'request.id': record.requestId,
    'client.address': origin.address,
    meta: caller.consumer?.meta ?? NO_META,
  };
}

/**
 * Writes the response of a route without a service.
 *
 * Attack: `//evil.example` as the path leads a browser that follows the redirect to another host. The path of a Location
 * is written like that of a rewrite (`faultOfTemplate`), so that it begins with one slash and a segment.
 * @param query what a Location ends with: the client's query, without a key
 * @param own the fields of every response
 * @param closes whether the connection ends with it
 * @param unread whether part of the request has not been read, so that the connection cannot be used again
 * @returns the bytes of the body
 */
export function replyOfRoute(
  response: ClientResponse,
  reply: RouteReply,
  head: Head,
  counted: CountedRequest,
  query: string,
  own: readonly string[],
  closes: boolean,
  unread: boolean,
): number {
  if (closes) closeAfter(response, unread);
  const { status } = reply;
  const fields: string[] = [];
  let body = '';
  if (reply.kind === 'redirect') {
    fields.push('Location', reply.origin + writePath(reply.path, head.path) + query);
  } else {
    body = reply.body;
    if (body !== '') fields.push('Content-Type', reply.contentType);
    if (reply.headers !== null) fields.push(...withRules([], reply.headers, variablesOf(counted)));
  }
  const bytes = Buffer.byteLength(body);
  // RFC 9110 section 8.6: a 204 has no Content-Length.
  if (status !== 204 && status !== 304) fields.push('Content-Length', String(bytes));
  response.writeHead(status, [...own, ...fields]);
  if (head.method === 'HEAD' || bytes === 0) response.end();
  else response.end(Buffer.from(body));
  return head.method === 'HEAD' ? 0 : bytes;
}
