import { type ErrorResponse, errorResponse, plainError } from '../annotate/errors.ts';
import { ERRORS } from '../errors/catalogue.ts';
import type { Head } from '../http1/request-head.ts';
import { MAX_TOTAL_BYTES } from '../io/held-bytes.ts';
import { pointerText, type Table } from '../meter/cost.ts';
import type { Match } from '../routing/router.ts';
import type { BodyCheck, Misfit } from '../validate/validator.ts';
import { TOO_MUCH } from '../validate/work.ts';
import type { Checked } from './body-checks.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { targetFor } from './proxy-request.ts';

/*
 * Requests of routes with `validate`: the parts that the gateway checks against the OpenAPI description, and the response if they do not
 * fit, or do not name what they cost by.
 */

/** The largest body that the gateway checks, in bytes. It holds the body in memory until the request has ended. */
export const MAX_CHECKED_BYTES = 1024 * 1024;

/**
 * The maximum of bytes that the gateway holds of all bodies of one consumer.
 * @param fairShare of the upstream
 */
export function heldBytesOfOne(fairShare: number): number {
  return Math.max(MAX_CHECKED_BYTES, Math.floor(MAX_TOTAL_BYTES * fairShare));
}

/** A request that does not fit its description. */
export interface Unfit {
  readonly error: ErrorResponse;
  /** For operators. */
  readonly cause: string;
}

/** Checks everything but the body, as the service gets it. */
export function checkHead(
  deps: Pick<GatewayDeps, 'validators' | 'keySources'>,
  description: string,
  match: Match,
  head: Head,
): Unfit | { readonly bodyCheck: BodyCheck | null } {
  const target = targetFor(deps, { head, match });
  const mark = target.indexOf('?');
  const [path, query] = mark === -1 ? [target, ''] : [target.slice(0, mark), target.slice(mark + 1)];
  const hasBody = head.body === 'chunked' || head.contentLength > 0;
  const { method } = head;
  const checked = deps.validators.get(description)!.checkHead(path, query, {
    method,
    rawHeaders: passedFields(head),
    hasBody,
  });
  return 'rule' in checked ? unfit(checked) : checked;
}

/**
 * The fields that the gateway forwards.
 *
 * Attack: a client lists Content-Type in Connection, so that it is checked as text and the service, which then gets no
 * type, reads it as JSON.
 */
function passedFields({ fields: { rawHeaders }, connectionNames }: Head): readonly string[] {
  if (connectionNames.size === 0) return rawHeaders;
  return rawHeaders.filter((_, i) => !connectionNames.has(rawHeaders[i - (i % 2)]!.toLowerCase()));
}

/** The response to a body that has been checked. @returns null if it fits */
export function refusalOfBody(checked: Checked): Unfit | null {
  if (checked === null) return null;
  if (checked === 'busy') return { error: plainError('overloaded'), cause: 'too many large bodies wait to be checked' };
  if (checked === 'late') return { error: plainError('overloaded'), cause: 'the body was not checked in time' };
  const fault = checked === 'too_much' ? { pointer: '', rule: TOO_MUCH } : checked;
  return unfit({ in: 'body', name: null, ...fault });
}

/** 413 for a body that is larger than the gateway holds to check it. */
export function tooLargeToCheck(maxBytes: number): ErrorResponse {
  return errorResponse(
    'payload_too_large',
    `The body is larger than ${maxBytes} bytes, the most that is checked here.`,
  );
}

/** The response to a request that does not name a row of a table, in one way that can be read. */
export function noSuchRow({ by }: Table): ErrorResponse {
  const inField = by.of === 'request' && by.source.kind === 'header' ? by.source.name : null;
  const pointer = by.of === 'request' && by.source.kind === 'json' ? pointerText(by.source.pointer) : '';
  return unfit({ in: inField === null ? 'body' : 'header', name: inField, pointer, rule: NO_ROW }).error;
}

const NO_ROW = 'must be one of the names by which this service charges.';

const PLACES: Readonly<Record<Misfit['in'], string>> = {
  path: 'path',
  query: 'query',
  header: 'field',
  body: 'body',
};

/** 400 with where the request does not fit and the rule. It repeats no value of the request. */
function unfit({ in: place, name, pointer, rule }: Misfit): Unfit {
  const what = name === null ? `The ${PLACES[place]}` : `${name} in the ${place}`;
  const where = pointer === '' ? what : `${what}, at ${pointer},`;
  const message = ERRORS.request_invalid.sentence(where, rule);
  const details = { in: place, ...(name === null ? {} : { name }), pointer, rule };
  return { error: errorResponse('request_invalid', message, { details }), cause: `${where} ${rule}` };
}
