import type { Allowance, Budget } from '../admit/allowance.ts';
import type { Banned, CountedWindow, Crowded, Refused } from '../admit/verdict.ts';
import { ERRORS, type ErrorCode } from '../errors/catalogue.ts';
import type { JwtRefusal } from '../identify/jwt.ts';
import type { WindowName } from '../model/values.ts';
import { type AddressBudget, retryAfterSeconds } from './rate-limit.ts';

const REALM = 'tollgate';

/** An error response of the gateway. */
export interface ErrorResponse {
  /** One of the catalogue, or one that a policy has chosen. */
  readonly code: string;
  readonly status: number;
  /** Fields that belong to this error alone, name and value in turn. */
  readonly fields: readonly string[];
  /** The interface's Error as JSON text. */
  readonly body: string;
  readonly closes: boolean;
  /** The names of the policies, as in RateLimit-Policy, that had too little left for the request; absent if it was not that. */
  readonly violated?: readonly string[];
  /** Whether the whole connection ends with this response, even if it carries other requests (HTTP/2). */
  readonly endsSession?: boolean;
}

/** The response in which a client gets an error, without the fields that every response has. */
export interface ErrorForm {
  readonly status: number;
  /** Names and values in turn. */
  readonly fields: readonly string[];
  readonly body: string | Buffer;
}

/** What of a request decides about the form of its errors. */
export interface FormRequest {
  /** As they were received, whether or not the head passed its checks; names and values in turn. */
  readonly rawHeaders: readonly string[];
  /** Null if it could not be read. */
  readonly method: string | null;
  /** Whether the client may get trailers: on a stream of HTTP/2. */
  readonly takesTrailers: boolean;
}

/**
 * An error as the interface describes it: `{"code", "message", "status"}`.
 * @param message a sentence for the developer of the client, without internals of the gateway
 */
export function errorResponse(
  code: ErrorCode,
  message: string,
  { fields = [], details, violated }: Partial<Pick<ErrorResponse, 'fields' | 'violated'>> & { details?: object } = {},
): ErrorResponse {
  const { status, closes } = ERRORS[code];
  // Faster than JSON.stringify during a flood of refusals. Only the message may need escapes.
  const more = details === undefined ? '' : `,"details":${JSON.stringify(details)}`;
  const body = `{"code":"${code}","message":${JSON.stringify(message)},"status":${status}${more}}`;
  return violated === undefined
    ? { code, status, fields, body, closes }
    : { code, status, fields, body, closes, violated };
}

/** A code whose sentence does not depend on the request, and whose response has no field but the Retry-After of a 503. */
export type PlainErrorCode = Exclude<
  { [Code in ErrorCode]: (typeof ERRORS)[Code]['sentence'] extends string ? Code : never }[ErrorCode],
  'invalid_api_key' | 'expired_api_key' | 'too_many_in_flight'
>;

/** An error whose response depends on its code alone. @param retryAfterMs for Retry-After of a 503, which is at least 1 s */
export function plainError(code: PlainErrorCode, retryAfterMs = 0): ErrorResponse {
  const { status, sentence } = ERRORS[code];
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1000));
  return errorResponse(code, sentence, status === 503 ? { fields: ['Retry-After', String(seconds)] } : {});
}

/** The messages about JSON Web Tokens, for the developer of the client. */
const TOKEN_SENTENCES: Readonly<Record<JwtRefusal, string>> = {
  malformed: 'The token is not a valid JSON Web Token. Check that it is complete.',
  too_long: 'This token is too long. Ask for one of at most 8192 characters.',
  algorithm: 'The signature algorithm of this token is not accepted here.',
  unknown_key:
    'The issuer has no key for this token: none with its `kid`, or of the type of its `alg`. Ask for a new token.',
  signature: 'The signature of this token is not that of the issuer.',
  issuer: 'This token comes from another issuer (`iss`) than those accepted here.',
  audience: 'This token is meant for another audience (`aud`).',
  expired: 'This token has expired (`exp`). Ask for a new one.',
  no_expiry: 'This token has no expiry (`exp`).',
  not_yet: 'This token is not valid yet (`nbf`, `iat`). Check the clock of its issuer.',
  subject: 'This token has no subject (`sub`).',
  certificate: 'This token is bound to another client certificate (`cnf`) than that of the connection.',
  plan: 'This token names no plan, or one that does not exist here. Ask its issuer.',
  customer: 'This token names a customer that does not exist here. Ask its issuer.',
  customer_expired: 'The access of the customer that this token names has ended.',
};

/**
 * 401 with the challenge of RFC 6750 section 3, which has no `error` if the request had no credentials.
 * @param token what is wrong with the token; null if the request had an API key, or no credentials
 * @param where in words: the places where a key may be, and the place where a request without a key has a value that may be meant as one
 */
export function unauthorized(
  code: 'missing_api_key' | 'invalid_api_key' | 'expired_api_key',
  token: JwtRefusal | null = null,
  {
    places = '`Authorization: Bearer <API_KEY>`',
    unread = null,
    readsBasic = false,
    metadata = null,
  }: {
    readonly places?: string | undefined;
    readonly unread?: string | null;
    readonly readsBasic?: boolean | undefined;
    /** The URL of the metadata of the protected resource (RFC 9728). */
    readonly metadata?: string | null;
  } = {},
): ErrorResponse {
  const challenge =
    code === 'missing_api_key' ? `Bearer realm="${REALM}"` : `Bearer realm="${REALM}", error="invalid_token"`;
  const message = code === 'missing_api_key' ? ERRORS.missing_api_key.sentence(places, unread) : ERRORS[code].sentence;
  const sentence = token === null ? message : TOKEN_SENTENCES[token];
  // Git and browsers send the password of a URL only after a challenge for it.
  const basic = readsBasic ? ['WWW-Authenticate', `Basic realm="${REALM}"`] : [];
  return errorResponse(code, sentence, {
    fields: ['WWW-Authenticate', challenge + metadataPart(metadata), ...basic],
  });
}

/** RFC 9728 section 5.1. */
function metadataPart(url: string | null): string {
  return url === null ? '' : `, resource_metadata="${url}"`;
}

/**
 * 403 with the challenge of RFC 6750 section 3.1.
 * @param scopes those that the route requires, all of them
 * @param metadata the URL of the metadata of the protected resource (RFC 9728); null without `jwt.resource`
 */
export function insufficientScope(scopes: readonly string[], metadata: string | null): ErrorResponse {
  const needed = scopes.join(' ');
  // No scope has a character that must be escaped in a quoted string (RFC 6749 section 3.3).
  const challenge = `Bearer realm="${REALM}", error="insufficient_scope", scope="${needed}"${metadataPart(metadata)}`;
  const message = ERRORS.insufficient_scope.sentence(needed);
  return errorResponse('insufficient_scope', message, { fields: ['WWW-Authenticate', challenge] });
}

/** 429 for an address that has spent its failed-authentication budget (contract section 4). `nowMs` in Unix milliseconds. */
export function tooManyFailedAttempts({ limit, resetAtMs }: AddressBudget, nowMs: number): ErrorResponse {
  const seconds = retryAfterSeconds(resetAtMs, nowMs);
  return errorResponse('too_many_failed_attempts', ERRORS.too_many_failed_attempts.sentence(seconds), {
    fields: ['Retry-After', String(seconds)],
    details: { window: 'minute', limit, resetAt: Math.ceil(resetAtMs / 1000) },
    violated: ['failed-authentication'],
  });
}

/** A program whose caller waits for it should not sleep for longer, seconds. */
const LONG_WAIT_S = 60;

/**
 * When, and whether, to repeat a request. The official clients of OpenAI and Anthropic sleep for as long as Retry-After says, be that days, and
 * repeat an error without it at once; `X-Should-Retry: false` ends both.
 * @param seconds null if waiting does not help
 */
function waitFields(seconds: number | null): readonly string[] {
  const fields = seconds === null ? [] : ['Retry-After', String(seconds)];
  return seconds === null || seconds > LONG_WAIT_S ? [...fields, 'X-Should-Retry', 'false'] : fields;
}

/** 429 for a quota (contract section 4). */
export function rateLimitExceeded({ binding, windows, retryAtMs, nowMs, allowance }: Refused): ErrorResponse {
  const seconds = retryAtMs === null ? null : retryAfterSeconds(retryAtMs, nowMs);
  const { window, name, limit, unit, needed, remaining } = binding;
  const budget = refusingBudget(allowance, binding);
  const message = ERRORS.rate_limit_exceeded.sentence({
    source: sourceOf(allowance, budget, window),
    quota: `${limit}${unit === null ? '' : ` ${unit}`} per ${window}${budget.group ? ` for ${budget.group}` : ''}`,
    needed,
    unit,
    remaining,
    retryAfterSeconds: seconds,
    mayBeBanned: allowance.bans !== null,
  });
  const details = { window, limit, resetAt: Math.ceil(binding.resetAtMs / 1000) };
  return errorResponse('rate_limit_exceeded', message, {
    fields: waitFields(seconds),
    details:
      allowance.budgets.length === 1
        ? details
        : { ...details, name, ...(unit === null ? {} : { unit }), scope: budget.scope },
    violated: windows.filter((one) => one.remaining < one.needed).map((one) => one.name),
  });
}

function refusingBudget({ budgets }: Allowance, { name, window }: CountedWindow): Budget {
  return budgets.find(({ prefix }) => name === `${prefix}${window}`) ?? budgets[0];
}

/** Whose limit it is, in words. A limit of a key or customer itself is not in the plan, so the message must not name the plan. */
function sourceOf({ plan, budgets }: Allowance, budget: Budget, window: WindowName): string {
  const isShared = budget.scope === 'customer';
  if (budget.own?.includes(window) === true) return isShared ? 'this customer' : 'this API key';
  if (isShared) return `plan ${plan} for all keys of this customer`;
  return budget === budgets[0] && budgets[1]?.scope === 'customer' ? `plan ${plan} for each key` : `plan ${plan}`;
}

/** 429 for as many requests in flight as may be. The request is not counted, and it is no strike. */
function inFlightLimitExceeded({ limit, scope }: Crowded): ErrorResponse {
  return errorResponse('in_flight_limit_exceeded', ERRORS.in_flight_limit_exceeded.sentence(limit, scope), {
    fields: ['Retry-After', '1'],
    details: { limit, scope },
  });
}

/** 429 for a ban (contract section 4). */
export function apiKeyBanned({ number, untilMs, retryAtMs, nowMs, scope, allowance }: Banned): ErrorResponse {
  const seconds = retryAfterSeconds(retryAtMs, nowMs);
  const details = { bannedUntil: Math.ceil(untilMs / 1000), ban: number };
  return errorResponse('api_key_banned', ERRORS.api_key_banned.sentence(seconds, scope), {
    fields: waitFields(seconds),
    details: allowance.budgets.length === 1 ? details : { ...details, scope },
  });
}

/** The 429 for a verdict. */
export function refusal(verdict: Refused | Banned | Crowded): ErrorResponse {
  if (verdict.kind === 'crowded') return inFlightLimitExceeded(verdict);
  return verdict.kind === 'banned' ? apiKeyBanned(verdict) : rateLimitExceeded(verdict);
}

/** 429 for a consumer that uses its whole share of the upstream. The request is not counted. */
export function tooManyInFlight(): ErrorResponse {
  return errorResponse('too_many_in_flight', ERRORS.too_many_in_flight.sentence, { fields: ['Retry-After', '1'] });
}

/** The refusal that a policy has chosen (`policies` of a route). A 401 has the challenge that RFC 9110 section 15.5.2 asks for. */
export function policyRefusal(status: number, code: string, message: string): ErrorResponse {
  const fields = status === 401 ? ['WWW-Authenticate', `Bearer realm="${REALM}"`] : [];
  return { code, status, fields, body: JSON.stringify({ code, message, status }), closes: false };
}

/** 410 during a brownout of a deprecated route. Times in Unix milliseconds. */
export function endpointAway(successor: string | null, untilMs: number, nowMs: number): ErrorResponse {
  const seconds = retryAfterSeconds(untilMs, nowMs);
  const message = ERRORS.endpoint_removed.sentence(successor, untilMs);
  return errorResponse('endpoint_removed', message, { fields: ['Retry-After', String(seconds)] });
}

/** 410 after a route's sunset. */
export function endpointRemoved(successor: string | null): ErrorResponse {
  return errorResponse('endpoint_removed', ERRORS.endpoint_removed.sentence(successor, null));
}
