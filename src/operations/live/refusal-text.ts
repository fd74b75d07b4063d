import type { ErrorCode } from '../../annotate/errors.ts';
import type { KeptRefusal } from './shapes.ts';

/** What the texts about a refusal are made of. */
export interface RefusalFacts extends Omit<KeptRefusal, 'sentence' | 'advice'> {
  /** The fault, for operators only; null if there was none. */
  readonly cause: string | null;
  /** A limit is below the cost of the request, so waiting cannot help. */
  readonly costExceedsLimit: boolean;
}

type Texts = Pick<KeptRefusal, 'sentence' | 'advice'>;

/**
 * Why a request was refused and what to do about it, in plain English for support staff. The texts name no moment: the
 * members `retryAt` and `ban.until` have them, and a page shows those in the zone of its reader.
 * @param nowMs Unix milliseconds: what has passed is no longer waited for
 */
export function textsOf(refusal: RefusalFacts, nowMs: number): Texts {
  const isPast = refusal.retryAt !== null && Date.parse(refusal.retryAt) <= nowMs;
  if (refusal.code === 'rate_limit_exceeded') return ofLimit(refusal, isPast);
  if (refusal.code === 'api_key_banned') return ofBan(refusal, isPast);
  const [sentence, advice] = Object.hasOwn(TEXTS, refusal.code) ? TEXTS[refusal.code as keyof typeof TEXTS] : UNKNOWN;
  const cause = refusal.cause === null ? '' : ` The gateway noted: ${refusal.cause.slice(0, LONGEST_CAUSE)}`;
  return { sentence: cause === '' ? sentence : `${sentence}${cause.replace(/\.?$/, '.')}`, advice };
}

const LONGEST_CAUSE = 200;

function ofLimit(refusal: RefusalFacts, isPast: boolean): Texts {
  const { window, limits, cost, costExceedsLimit, strike, plan } = refusal;
  const caller = callerOf(refusal);
  const standing = limits.find((limit) => limit.window === window);
  if (costExceedsLimit) {
    const tooLow = limits.find(({ limit }) => limit < cost) ?? standing;
    return {
      sentence: `The request costs ${cost} and ${caller.toLowerCase()} may use ${tooLow?.limit ?? 0} a ${tooLow?.window ?? window}, so it is refused however long the client waits.`,
      advice: `Raise the limit of the ${tooLow?.window ?? window} for this caller, or move it from the plan ${plan} to a larger one.`,
    };
  }
  const costs = cost === 1 ? '' : ` It costs ${cost}.`;
  const count =
    standing === undefined
      ? `${caller} had used up a limit when this request came.`
      : `${caller} had used ${standing.used} of ${standing.limit} requests a ${window}${notesOn(standing, refusal)} when this request came.`;
  const strikes = strike === null ? '' : ` It was strike ${strike.number} of ${strike.of}.`;
  return {
    sentence: `${count}${costs}${strikes}`,
    advice: isPast ? `The wait is over. ${SINCE}` : waitOr(refusal, `top up the ${window}`),
  };
}

function ofBan(refusal: RefusalFacts, isPast: boolean): Texts {
  const { ban, strike, window } = refusal;
  const caller = callerOf(refusal);
  const which = ban === null ? 'a ban' : `ban ${ban.number}`;
  const sentence = refusal.imposedBan
    ? `${caller} went on after its limit of the ${window} was used up. This request was strike ${strike?.of ?? ''}`.trimEnd() +
      ` and began ${which}.`
    : `${caller} was under ${which}. It had gone on after its limit of the ${window} was used up.`;
  return {
    sentence,
    advice: `${isPast ? `The ban is over. ${SINCE}` : waitOr(refusal, 'lift the ban')} Ask the caller to wait as Retry-After says; each further ban lasts longer.`,
  };
}

function callerOf({ consumerId }: RefusalFacts): string {
  if (consumerId === null) return 'The address';
  return consumerId.startsWith('key_') ? 'The key' : 'The caller with tokens';
}

/** What is particular about a limit, in brackets: that it is not the plan's, and the kind of a window that is not fixed. */
function notesOn({ window, form }: KeptRefusal['limits'][number], { planLimits, plan }: RefusalFacts): string {
  const ofPlan = planLimits[window];
  const notes = [
    ...(ofPlan === undefined ? [] : [`its own limit; the plan ${plan} gives ${ofPlan}`]),
    ...(form === 'fixed' ? [] : [form]),
  ];
  return notes.length === 0 ? '' : ` (${notes.join('; ')})`;
}

function waitOr({ retryAt }: RefusalFacts, otherwise: string): string {
  return retryAt === null
    ? `${otherwise[0]!.toUpperCase()}${otherwise.slice(1)}.`
    : `Wait until the moment below, or ${otherwise}.`;
}

const SINCE = 'If the caller is refused again, see below which limit is used up since.';

const UNKNOWN = ['The gateway refused this request.', 'Look at the code in the reference of errors.'] as const;

/** For each code but those of limits and bans, whose texts have numbers. */
const TEXTS: Readonly<Record<Exclude<ErrorCode, 'rate_limit_exceeded' | 'api_key_banned'>, readonly [string, string]>> =
  {
    invalid_request: [
      'The form of the request is not valid, so the gateway could not be sure what it asks for.',
      'Ask for the request as it was sent: its line, its header fields and its length.',
    ],
    request_invalid: [
      'The request does not fit the description of the API, so it was not forwarded.',
      'The client must send what the description asks for: `details` of its response name the place and the rule. If the service takes such a request, change the description (`validate`).',
    ],
    missing_api_key: [
      'The request came without an API key in a place that the gateway reads.',
      'The client must send the key as `Authorization: Bearer <API_KEY>`.',
    ],
    invalid_api_key: [
      'The API key or token of the request is not valid here: it is incomplete, unknown or revoked.',
      'Find the key by its last four characters. If it is revoked, make another one; else ask the client to send all of it.',
    ],
    expired_api_key: ['The API key of the request has expired.', 'Give the key a later expiry, or make another one.'],
    too_many_failed_attempts: [
      'Too many requests without a valid key came from this address within a minute.',
      'Wait a minute, and send a valid key from then on.',
    ],
    route_not_found: ['No route of the gateway has this path.', 'Check the path, with its case and its slashes.'],
    no_usage_history: ['This gateway keeps no history of usage.', 'Use `GET /usage`, which says what is left.'],
    method_not_allowed: ['The route does not take this method.', 'The Allow field of the response names the methods.'],
    request_timeout: [
      'The request did not arrive in time: its head or its body was too slow.',
      'Look at the network of the client, or send less at a time.',
    ],
    endpoint_removed: [
      'This route was removed, or is switched off for a while before its removal.',
      'Move the client to the route that replaces it (GET /admin/deprecations names it).',
    ],
    payload_too_large: ['The body of the request is larger than allowed.', 'Send less, or raise listen.maxBodyBytes.'],
    uri_too_long: ['The address of the request is too long.', 'Shorten its path or query.'],
    expectation_failed: ['The request expects something that the gateway cannot do.', 'Leave out the field Expect.'],
    too_many_in_flight: [
      'The caller had as many requests in flight as its fair share of the service or of the gateway allows. This request was not counted.',
      'The client must wait for responses before it sends more; the service may also be slow.',
    ],
    headers_too_large: ['The header fields of the request are too large.', 'Send fewer or shorter fields.'],
    internal_error: [
      'Something in the gateway broke.',
      'Look for this request id in the log of the gateway, and report what stands there.',
    ],
    not_implemented: ['The request asks for something that the gateway does not do.', 'Use another method or coding.'],
    upstream_unavailable: [
      'The service behind the gateway could not be reached or gave no valid response.',
      'Look at the targets of the route, and at the log of the service at this time.',
    ],
    store_unavailable: [
      'The store did not answer and the settings refuse requests then (redis.onFailure).',
      'Look at the state of the store. The request can be repeated once it is back.',
    ],
    identity_unavailable: [
      'The token could not be checked, because the keys of its issuer could not be had.',
      'Look at the issuer (jwt.jwks). The request can be repeated with the same token.',
    ],
    overloaded: [
      'Too many requests were waiting for the service behind the gateway.',
      'Look at why the service is slow, or raise maxConnections of the upstream.',
    ],
    no_upstream: [
      'No target of the service behind the gateway was usable.',
      'Look at the targets of the route. The request can be repeated once one is back.',
    ],
    upstream_timeout: [
      'The service behind the gateway did not respond in time.',
      'Look at the log of the service at this time, or raise the timeout of the upstream.',
    ],
    http_version_not_supported: ['The request has a version of HTTP that is not served.', 'Use HTTP/1.1 or HTTP/2.'],
    loop_detected: [
      'This request came through this gateway before.',
      'A target of the route leads back to the gateway.',
    ],
  };
