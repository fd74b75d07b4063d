import {
  type ErrorResponse,
  endpointAway,
  endpointRemoved,
  errorResponse,
  plainError,
  tooManyFailedAttempts,
  tooManyInFlight,
  unauthorized,
} from '../annotate/errors.ts';
import { ERRORS } from '../errors/catalogue.ts';
import type { ClientAddress } from '../http1/client.ts';
import type { Head } from '../http1/request-head.ts';
import type { Budget } from '../identify/failed-attempts.ts';
import { unreadKeyPlace } from '../identify/key-sources.ts';
import type { Judgement } from '../model/refusal.ts';
import { brownoutEndMs } from '../routing/brownouts.ts';
import type { Deprecation } from '../routing/route.ts';
import type { AmbiguousPath, Match } from '../routing/router.ts';
import type { Identified } from './caller.ts';
import type { GatewayDeps } from './gateway-deps.ts';

/** How a request is refused. */
export interface Refusal {
  /** For log and metrics; left out if the request has been admitted before. */
  readonly judgement?: Judgement;
  readonly error: ErrorResponse;
  /** The rate-limit fields, if they have been built already. */
  readonly limitFields?: string[];
  /** The cause of the refusal, for operators only; left out or null if nothing has failed. */
  readonly cause?: string | null | undefined;
  /** `memory` if the store was not asked: the log summarises many of them. */
  readonly source?: 'memory';
  /** The upstream that was full, which log and metrics name; left out or null if none was. */
  readonly upstream?: string | null;
}

/** The refusals that are the same for every request. */
export const REFUSALS = {
  /** Its path matches another route when it is decoded. */
  ambiguousPath: { judgement: 'malformed', error: ambiguousPath() },
  /** Its caller has had its share of the thread. */
  late: {
    judgement: 'shed',
    error: tooManyInFlight(),
    cause: 'its requests had to wait too long for their turn on the serving thread',
    source: 'memory',
  },
  /** Its caller is known, so this is no failed attempt of its address. It does not learn by whom and why it was suspended. */
  ofSuspended: { judgement: 'forbidden', error: plainError('suspended'), source: 'memory' },
  /** Its caller has as many requests in flight as its share of the upstream allows. */
  tooManyInFlight: { judgement: 'shed', error: tooManyInFlight(), source: 'memory' },
  /** The store has not decided about it in time. */
  undecided: { judgement: 'undecided', error: plainError('store_unavailable') },
} as const satisfies Record<string, Refusal>;

function ambiguousPath(): ErrorResponse {
  return errorResponse(
    'invalid_request',
    'To a service the path may name another route: decoded, without path parameters (;…), dots and blanks at the end of a segment, or in small letters. Write it plainly: encode only what must be encoded.',
  );
}

/** The refusal of a request that different readers take for one of different routes: by its path, or by a field that it has several times. */
export function ambiguousRequest({ field }: AmbiguousPath): Refusal {
  if (field === undefined) return REFUSALS.ambiguousPath;
  const message = `${field} has several values, and this path has different routes for them. Send it once, with one value.`;
  return { judgement: 'malformed', error: errorResponse('invalid_request', message) };
}

/**
 * Makes the refusal of a request whose caller is not identified (contract section 4): 401, or 429 if the client address
 * has used up its failed-authentication budget, with or without a look at its token; 403 if the caller is known and the request does not come
 * from where its route or its key may be used; 400 for two Authorization fields or two keys; 503 if the gateway cannot find out
 * who the caller is, and 500 if plans.yaml has no plan for the key. Neither 503 nor 500 counts as a failed
 * authentication.
 * @param waitedMs how long the request has already waited for the store
 */
export function notIdentified(
  { failedAttempts, rateLimitFields, keySources, resourceMetadata, wallMs }: GatewayDeps,
  { fields, target, path }: Head,
  { address, trustedPeer }: ClientAddress,
  identified: Exclude<Identified, { kind: 'caller' }>,
  waitedMs: number,
): Refusal | Promise<Refusal> {
  if (identified.kind === 'ambiguous') {
    const message =
      keySources === null
        ? 'Authorization must come once.'
        : `A request must have one API key, once: as ${keySources.places}.`;
    const error = errorResponse('invalid_request', message);
    return { judgement: 'malformed', error };
  }
  if (identified.kind === 'unavailable') {
    return { judgement: 'undecided', error: plainError(identified.code, identified.retryAfterMs) };
  }
  if (identified.kind === 'planless' || identified.kind === 'unreadable') {
    const cause =
      identified.kind === 'unreadable'
        ? identified.cause
        : `plans.yaml has no usable plan '${identified.plan}' for ${identified.id}`;
    return { judgement: 'undecided', error: plainError('internal_error'), cause };
  }
  const answer = (budget: Budget): Refusal => {
    const nowMs = wallMs();
    const limitFields = rateLimitFields.ofBudget(budget, nowMs);
    if (identified.kind === 'unknown' && budget.allowed) {
      const { code, token, cause } = identified;
      const unread =
        code === 'missing_api_key'
          ? (keySources?.unreadCookie(fields.rawHeaders) ??
            unreadKeyPlace(fields.rawHeaders, target.slice(path.length), keySources?.readsAuthorization ?? true))
          : null;
      const error = unauthorized(code, token, {
        places: keySources?.places,
        unread,
        readsBasic: keySources?.readsBasic,
        metadata: resourceMetadata,
      });
      return { judgement: 'unauthenticated', error, limitFields, cause };
    }
    if (identified.kind === 'not_from_here' && budget.allowed) {
      const { code, cause } = identified;
      return { judgement: 'unauthenticated', error: plainError(code), limitFields, cause };
    }
    // An address without budget left also loses its connection. A trusted proxy does not, because its connection
    // carries the requests of other clients.
    const error = { ...tooManyFailedAttempts(budget, nowMs), closes: !trustedPeer, endsSession: !trustedPeer };
    const cause = identified.kind === 'unverified' ? 'the signature of the token was not verified' : identified.cause;
    return { judgement: 'unauthenticated', error, limitFields, cause };
  };
  // It may be valid, so it is not counted.
  if (identified.kind === 'unverified') return answer(failedAttempts.peek(address));
  const budget = failedAttempts.fail(address, waitedMs);
  return budget instanceof Promise ? budget.then(answer) : answer(budget);
}

/** How many characters of a path a response repeats at most. */
const SHOWN_PATH = 200;

/**
 * Refuses an admitted request without a route, with a method that the route lacks, with Max-Forwards used up, or for a
 * route that is gone. Otherwise returns its match.
 * @param nowMs Unix milliseconds
 */
export function routeRefusal(
  match: Match | null,
  head: Head,
  nowMs: number,
): { readonly kind: 'match'; readonly match: Match } | { readonly kind: 'error'; readonly error: ErrorResponse } {
  if (match === null) {
    const message = ERRORS.route_not_found.sentence(head.path.slice(0, SHOWN_PATH));
    return { kind: 'error', error: errorResponse('route_not_found', message) };
  }
  const { allow, route } = match;
  if (!route.methods.includes(head.method)) {
    const message = ERRORS.method_not_allowed.sentence(allow);
    const error = errorResponse('method_not_allowed', message, { fields: ['Allow', allow] });
    return { kind: 'error', error };
  }
  if (head.endsHere) {
    const others = allow
      .split(', ')
      .filter((method) => method !== head.method)
      .join(', ');
    const message = 'Max-Forwards is 0, so this gateway has to answer, and it has no OPTIONS of its own.';
    return { kind: 'error', error: errorResponse('method_not_allowed', message, { fields: ['Allow', others] }) };
  }
  const gone = route.deprecated === null ? null : goneAt(route.deprecated, nowMs);
  return gone === null ? { kind: 'match', match } : { kind: 'error', error: gone };
}

/**
 * Null if a deprecated route is still served. If a brownout lasts until the sunset, the route counts as removed from
 * its beginning.
 */
function goneAt({ brownouts, successor, sunsetMs }: Deprecation, nowMs: number): ErrorResponse | null {
  if (sunsetMs !== null && nowMs >= sunsetMs) return endpointRemoved(successor);
  const untilMs = brownoutEndMs(brownouts, nowMs);
  if (untilMs === null) return null;
  return sunsetMs !== null && untilMs >= sunsetMs
    ? endpointRemoved(successor)
    : endpointAway(successor, untilMs, nowMs);
}
