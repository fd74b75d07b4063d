import type { Verdict } from '../admit/verdict.ts';
import type { CorsFields } from '../annotate/cors.ts';
import { deprecationFields } from '../annotate/deprecation.ts';
import type { ClientAddress } from '../http1/client.ts';
import { onlyValue } from '../http1/field-values.ts';
import type { Head } from '../http1/request-head.ts';
import type { Match } from '../routing/router.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';

/** Everything known about a request when the gateway answers it. */
export interface KnownCaller {
  readonly requestId: string;
  readonly origin: ClientAddress;
  readonly match: Match | null;
  /** Null if it could not be read. */
  readonly head: Head | null;
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
    fields.push(...deps.cors.ofAnswer(known.head === null ? null : onlyValue(known.head.fields.rawHeaders, 'origin')));
  }
  const deprecated = known.match?.route.deprecated ?? null;
  if (deprecated !== null) fields.push(...deprecationFields(deprecated));
  return fields;
}

/** The same fields as lines, each with its CRLF, for a response without fields for CORS or a deprecation. */
export function ownLinesOf({ rateLimitFields }: GatewayDeps, verdict: Verdict, requestId: string): string {
  return `${rateLimitFields.linesOfVerdict(verdict)}X-Request-Id: ${requestId}\r\n`;
}

function limitFieldsOf(deps: GatewayDeps, { verdict, caller, origin }: KnownCaller): string[] {
  const { rateLimitFields, admitter } = deps;
  if (verdict !== null) return rateLimitFields.ofVerdict(verdict);
  if (caller !== null) return rateLimitFields.ofVerdict(admitter.standing(caller.id, caller.allowance));
  return budgetFields(deps, origin);
}

/** The rate-limit fields of a client address whose caller is not known. */
export function budgetFields(
  { rateLimitFields, failedAttempts, wallMs }: GatewayDeps,
  origin: ClientAddress,
): string[] {
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
 * The fields of the response to a preflight. Browsers send preflights without a key, so they need none and cost
 * nothing.
 */
export function preflightFields(cors: CorsFields, { fields }: Head, match: Match | null): string[] {
  return cors.ofPreflight(onlyValue(fields.rawHeaders, 'origin'), match?.allow ?? null);
}
