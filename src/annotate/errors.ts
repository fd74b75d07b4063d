import type { Banned, Refused } from '../admit/verdict.ts';
import type { JwtRefusal } from '../identify/jwt.ts';
import { type AddressBudget, retryAfterSeconds } from './rate-limit.ts';

/** Every error code of the gateway with its status (contract section 4). The only such table. */
const STATUS = {
  invalid_request: 400,
  request_invalid: 400,
  missing_api_key: 401,
  invalid_api_key: 401,
  expired_api_key: 401,
  route_not_found: 404,
  no_usage_history: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  endpoint_removed: 410,
  payload_too_large: 413,
  uri_too_long: 414,
  expectation_failed: 417,
  rate_limit_exceeded: 429,
  api_key_banned: 429,
  too_many_failed_attempts: 429,
  too_many_in_flight: 429,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  upstream_unavailable: 502,
  store_unavailable: 503,
  identity_unavailable: 503,
  overloaded: 503,
  no_upstream: 503,
  upstream_timeout: 504,
  http_version_not_supported: 505,
  loop_detected: 508,
} as const;

export type ErrorCode = keyof typeof STATUS;

export const ERROR_CODES = Object.keys(STATUS) as readonly ErrorCode[];

/** Codes after which the gateway closes the connection, even if it has read the whole request. */
const CLOSING: ReadonlySet<ErrorCode> = new Set([
  'invalid_request',
  'request_timeout',
  'payload_too_large',
  'uri_too_long',
  'headers_too_large',
  'http_version_not_supported',
]);

const REALM = 'tollgate';

/** An error response of the gateway. */
export interface ErrorResponse {
  readonly code: ErrorCode;
  readonly status: number;
  /** Fields that belong to this error alone, name and value in turn. */
  readonly fields: readonly string[];
  /** The interface's Error as JSON text. */
  readonly body: string;
  readonly closes: boolean;
  /** Whether the whole connection ends with this response, even if it carries other requests (HTTP/2). */
  readonly endsSession?: boolean;
}

/**
 * An error as the interface describes it: `{"code", "message", "status"}`.
 * @param message a sentence for the developer of the client, without internals of the gateway
 */
export function errorResponse(
  code: ErrorCode,
  message: string,
  { fields = [], details }: { fields?: readonly string[]; details?: object } = {},
): ErrorResponse {
  const status = STATUS[code];
  // Faster than JSON.stringify during a flood of refusals. Only the message may need escapes.
  const more = details === undefined ? '' : `,"details":${JSON.stringify(details)}`;
  const body = `{"code":"${code}","message":${JSON.stringify(message)},"status":${status}${more}}`;
  return { code, status, fields, body, closes: CLOSING.has(code) };
}

/** The messages of errors whose message depends on the code alone. */
const SENTENCES = {
  invalid_request: 'The body of the request is malformed.',
  no_usage_history: 'This gateway keeps no history of usage. GET /usage tells what is left of each window.',
  request_timeout: 'The request did not arrive in time.',
  headers_too_large: 'The trailers of the request are too large.',
  payload_too_large: 'The body of the request is too large.',
  loop_detected: 'This request has come through this gateway before.',
  store_unavailable: 'The request cannot be decided at the moment. Retry shortly.',
  identity_unavailable: 'The token cannot be checked at the moment. Retry shortly, with the same token.',
  upstream_unavailable: 'The service behind the gateway cannot be reached or gave no valid answer.',
  upstream_timeout: 'The service behind the gateway did not answer in time.',
  overloaded: 'Too many requests are waiting for the service behind the gateway. Retry shortly.',
  no_upstream: 'The service behind the gateway is away. Retry shortly.',
  internal_error: 'Something in the gateway broke. Quote the request id to whoever runs it.',
} as const;

/** An error whose message depends on its code alone. @param retryAfterMs for Retry-After of a 503, which is at least 1 s */
export function plainError(code: keyof typeof SENTENCES, retryAfterMs = 0): ErrorResponse {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1000));
  return errorResponse(code, SENTENCES[code], STATUS[code] === 503 ? { fields: ['Retry-After', String(seconds)] } : {});
}

/** The messages about JSON Web Tokens, for the developer of the client. */
const TOKEN_SENTENCES: Readonly<Record<JwtRefusal, string>> = {
  malformed: 'This is no JSON Web Token that can be read. Check that it is complete.',
  too_long: 'This token is too long. Ask for one of at most 8192 characters.',
  algorithm: 'This token is not signed in a way that is accepted here.',
  unknown_key: 'This token names no key of the issuer (`kid`). Ask for a new one.',
  signature: 'The signature of this token is not that of the issuer.',
  issuer: 'This token comes from another issuer (`iss`) than those accepted here.',
  audience: 'This token is meant for another audience (`aud`).',
  expired: 'This token has expired (`exp`). Ask for a new one.',
  no_expiry: 'This token does not say when it expires (`exp`).',
  not_yet: 'This token is not valid yet (`nbf`, `iat`). Check the clock of its issuer.',
  subject: 'This token does not say whose it is (`sub`).',
  plan: 'This token names no plan that there is here. Ask whoever issues it.',
};

/**
 * 401 with the challenge of RFC 6750 section 3, which has no `error` if the request had no credentials.
 * @param token what is wrong with the token; null if the request had an API key, or no credentials
 * @param where the places where a key may be, and the one where a request without a key has what may be meant as one, all in words
 */
export function unauthorized(
  code: 'missing_api_key' | 'invalid_api_key' | 'expired_api_key',
  token: JwtRefusal | null = null,
  {
    places = '`Authorization: Bearer <API_KEY>`',
    unread = null,
  }: { readonly places?: string | undefined; readonly unread?: string | null } = {},
): ErrorResponse {
  const challenge =
    code === 'missing_api_key' ? `Bearer realm="${REALM}"` : `Bearer realm="${REALM}", error="invalid_token"`;
  const message = {
    missing_api_key:
      unread === null
        ? `No API key was sent. Send one as ${places}.`
        : `${unread} is not read here; send the key as ${places}.`,
    invalid_api_key: 'This API key is not valid. Check that it is complete and has not been revoked.',
    expired_api_key: 'This API key has expired. Ask for a new one.',
  }[code];
  const sentence = token === null ? message : TOKEN_SENTENCES[token];
  return errorResponse(code, sentence, { fields: ['WWW-Authenticate', challenge] });
}

/** 429 for an address that has spent its failed-authentication budget (contract section 4). `nowMs` in Unix milliseconds. */
export function tooManyFailedAttempts({ limit, resetAtMs }: AddressBudget, nowMs: number): ErrorResponse {
  const seconds = retryAfterSeconds(resetAtMs, nowMs);
  return errorResponse(
    'too_many_failed_attempts',
    `Too many requests without a valid API key came from this address. Retry after ${seconds} s, with a valid key.`,
    {
      fields: ['Retry-After', String(seconds)],
      details: { window: 'minute', limit, resetAt: Math.ceil(resetAtMs / 1000) },
    },
  );
}

/** 429 for a quota (contract section 4). */
export function rateLimitExceeded({
  binding,
  retryAtMs,
  nowMs,
  costExceedsLimit,
  cost,
  allowance,
}: Refused): ErrorResponse {
  const seconds = retryAfterSeconds(retryAtMs, nowMs);
  const { window, limit } = binding;
  const quota = `${limit} per ${window}`;
  // A key's own limit is not in its plan, so the message must not name the plan as its source.
  const source = allowance.own?.includes(window) === true ? 'this API key' : `plan ${allowance.plan}`;
  const message = costExceedsLimit
    ? `This request costs ${cost} and ${source} allows ${quota}: waiting will not help. Ask for a higher limit.`
    : `The quota of ${source}, ${quota}, is used up. Retry after ${seconds} s${allowance.bans === null ? '' : '; going on earlier leads to a ban'}.`;
  return errorResponse('rate_limit_exceeded', message, {
    fields: ['Retry-After', String(seconds)],
    details: { window, limit, resetAt: Math.ceil(binding.resetAtMs / 1000) },
  });
}

/** 429 for a ban (contract section 4). */
export function apiKeyBanned({ number, untilMs, retryAtMs, nowMs }: Banned): ErrorResponse {
  const seconds = retryAfterSeconds(retryAtMs, nowMs);
  return errorResponse(
    'api_key_banned',
    `This API key is banned because it went on after being told to wait. Retry after ${seconds} s; each further ban lasts longer.`,
    { fields: ['Retry-After', String(seconds)], details: { bannedUntil: Math.ceil(untilMs / 1000), ban: number } },
  );
}

/** The 429 for a verdict. */
export function refusal(verdict: Refused | Banned): ErrorResponse {
  return verdict.kind === 'banned' ? apiKeyBanned(verdict) : rateLimitExceeded(verdict);
}

/** 429 for a consumer that uses its whole share of the upstream. The request is not counted. */
export function tooManyInFlight(): ErrorResponse {
  return errorResponse(
    'too_many_in_flight',
    'Too many requests of this caller are in flight. Wait for answers before sending more. This request was not counted.',
    { fields: ['Retry-After', '1'] },
  );
}

/** 410 during a brownout of a deprecated route. Times in Unix milliseconds. */
export function endpointAway(successor: string | null, untilMs: number, nowMs: number): ErrorResponse {
  const seconds = retryAfterSeconds(untilMs, nowMs);
  const instead = successor === null ? '' : ` Use ${successor} instead.`;
  const message = `This endpoint is about to be removed and away until ${new Date(untilMs).toISOString()}, as announced.${instead}`;
  return errorResponse('endpoint_removed', message, { fields: ['Retry-After', String(seconds)] });
}

/** 410 after a route's sunset. */
export function endpointRemoved(successor: string | null): ErrorResponse {
  const instead = successor === null ? '' : ` Use ${successor} instead.`;
  return errorResponse('endpoint_removed', `This endpoint has been removed.${instead}`);
}
