import type { Verdict } from '../admit/verdict.ts';
import { deprecationFields } from '../annotate/deprecation.ts';
import type { Head } from '../listen/head.ts';
import type { Caller } from './caller.ts';
import { onlyValue } from './cross-origin.ts';
import type { Origin, Parts } from './parts.ts';
import type { Match } from './route.ts';

/** What is known of a request when it is answered. */
export interface Known {
  readonly requestId: string;
  readonly origin: Origin;
  readonly match: Match | null;
  /** Null where it could not be read. */
  readonly head: Head | null;
  readonly caller: Caller | null;
  readonly verdict: Verdict | null;
}

/**
 * What every answer carries: where the caller stands, the request's id, and what the route announces.
 * @param standing the rate-limit fields, where they have been made already
 */
export function ownFieldsOf(parts: Parts, known: Known, standing: string[] | null): string[] {
  const fields = standing ?? standingOf(parts, known);
  fields.push('X-Request-Id', known.requestId);
  if (parts.cors !== null) {
    fields.push(...parts.cors.ofAnswer(known.head === null ? null : onlyValue(known.head.rawHeaders, 'origin')));
  }
  const deprecated = known.match?.route.deprecated ?? null;
  if (deprecated !== null) fields.push(...deprecationFields(deprecated));
  return fields;
}

/** The same as lines, each with its end, of an answer to which no page and no deprecation adds anything. */
export function ownLinesOf({ rateLimitFields }: Parts, verdict: Verdict, requestId: string): string {
  return `${rateLimitFields.linesOfVerdict(verdict)}X-Request-Id: ${requestId}\r\n`;
}

function standingOf(parts: Parts, { verdict, caller, origin }: Known): string[] {
  const { rateLimitFields, admitter } = parts;
  if (verdict !== null) return rateLimitFields.ofVerdict(verdict);
  if (caller !== null) return rateLimitFields.ofVerdict(admitter.standing(caller.id, caller.allowance));
  return budgetFields(parts, origin);
}

/** Where an address stands whose caller is not known. */
export function budgetFields({ rateLimitFields, failedAttempts, wallMs }: Parts, origin: Origin): string[] {
  return rateLimitFields.ofBudget(failedAttempts.peek(origin.address), wallMs());
}
