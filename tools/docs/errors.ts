import { type AdminErrorCode, errors } from './sources.ts';

const { errorResponse, plainError } = errors;
type ErrorResponse = ReturnType<typeof errorResponse>;
type ErrorCode = ErrorResponse['code'];

interface ErrorPage {
  readonly when: string;
  /** What the caller should do. */
  readonly remedy: string;
  readonly counted: string;
  /** Whether the connection is closed, where the code alone does not say it. */
  readonly closes?: boolean;
  readonly example: ErrorResponse;
}

/** Sunday, 22 November 2026, 10:00 UTC. */
const NOW_MS = 1_795_341_600_000;
const WINDOW = { window: 'minute', lengthMs: 60_000, limit: 300 } as const;
const BINDING = { ...WINDOW, remaining: 0, resetAtMs: NOW_MS + 42_000 };
const VERDICT = {
  allowance: {
    plan: 'pro',
    limits: [WINDOW],
    unlimited: [],
    bans: { after: 10, withinMs: 60_000, firstMs: 60_000, factor: 2, longestMs: 86_400_000, forgetMs: 86_400_000 },
  },
  standings: [BINDING],
  binding: BINDING,
  windows: {},
  strike: null,
  cost: 1,
  nowMs: NOW_MS,
};

/** Messages of the examples that are written here again, each up to what changes from answer to answer. */
const QUOTED: string[] = [];

/** An error whose message is made elsewhere than with its code. */
function said(code: ErrorCode, message: string, changes = '', fields: readonly string[] = []): ErrorResponse {
  QUOTED.push(message);
  return errorResponse(code, `${message}${changes}`, { fields });
}

/** Each error code in the order of the page. A code that is missing here does not pass the type check. */
const ERRORS: Readonly<Record<ErrorCode, ErrorPage>> = {
  invalid_request: {
    when: 'The request is malformed, ambiguous or in a form that the gateway refuses: two lengths, two `Authorization` fields, two keys, a body on GET, a path with dot segments or encoded slashes.',
    remedy: 'Correct the request. Sending it again as it is does not help.',
    counted: 'no',
    example: said('invalid_request', 'Authorization must come once.'),
  },
  request_invalid: {
    when: 'The route has `validate`, and the request does not fit its OpenAPI description: a parameter, the media type, a body of JSON (also one with `Content-Encoding`), or a path or method that is not described. `details` has where (`in`: `path`, `query`, `header` or `body`), the name of a parameter or field, the JSON Pointer to what is wrong and the rule. No value of the request is repeated.',
    remedy: 'Correct the request. Sending it again as it is does not help.',
    counted: 'yes',
    example: said(
      'request_invalid',
      'The request does not fit the description of this service. ',
      'The body, at /name, must be text.',
    ),
  },
  missing_api_key: {
    when:
      'The request has no credentials, or credentials of another scheme than Bearer. If it has a key where other gateways read one, ' +
      'the message names that place: `X-API-Key` is not read here; send the key as … The places are `X-API-Key`, `X-ApiKey`, `API-Key`, ' +
      '`ApiKey`, `X-Auth-Token`, `X-Access-Token`, `?api_key=`, `?api-key=`, `?apikey=`, `?access_token=` and `Authorization` without `Bearer`.',
    remedy: 'Send the key as `Authorization: Bearer <API_KEY>`, or in a place that `keys.from` of gateway.yaml names.',
    counted: 'no; it costs one failed authentication of the address',
    example: errors.unauthorized('missing_api_key'),
  },
  invalid_api_key: {
    when: 'The key is unknown, revoked, deleted or mistyped, or the JSON Web Token is not accepted. `WWW-Authenticate` and the message say what is wrong with a token.',
    remedy: 'Check that the key is complete. Ask the operator for a new one.',
    counted: 'no; it costs one failed authentication of the address',
    example: errors.unauthorized('invalid_api_key'),
  },
  expired_api_key: {
    when: 'The key has reached its end.',
    remedy: 'Ask the operator for a new key.',
    counted: 'no; it costs one failed authentication of the address',
    example: errors.unauthorized('expired_api_key'),
  },
  route_not_found: {
    when: 'The key is good and no route has this path.',
    remedy: 'Check the path. Paths are compared with their case and a trailing slash.',
    counted: 'yes',
    example: said('route_not_found', 'There is no route for ', '/v1/dogs.'),
  },
  no_usage_history: {
    when: '`GET /usage?history`, and gateway.yaml has `usage: { history: off }`.',
    remedy: 'Use `GET /usage` without `history`.',
    counted: 'no',
    example: plainError('no_usage_history'),
  },
  method_not_allowed: {
    when: 'The route does not serve this method. `Allow` lists the methods that it serves.',
    remedy: 'Use one of the methods in `Allow`.',
    counted: 'yes',
    example: said('method_not_allowed', 'This route allows ', 'GET, HEAD.', ['Allow', 'GET, HEAD']),
  },
  request_timeout: {
    when: 'The head did not arrive within `listen.headersTimeout`, or the request not within `listen.requestTimeout`.',
    remedy: 'Send the request again on a new connection.',
    counted: 'a late head no, a late body yes',
    example: plainError('request_timeout'),
  },
  endpoint_removed: {
    when: 'The route is past its sunset, or in a brownout. `Link` names the successor, and in a brownout `Retry-After` its end.',
    remedy: 'Use the successor.',
    counted: 'yes',
    example: errors.endpointRemoved('/v2/pets'),
  },
  payload_too_large: {
    when: 'The body is larger than `listen.maxBodyBytes`, or than `maxBodyBytes` of its route, or it is cut into too many chunks.',
    remedy: 'Send less, or in parts. Send chunks of at least 64 bytes.',
    counted: 'a declared length no, a body that turns out too large yes',
    example: plainError('payload_too_large'),
  },
  uri_too_long: {
    when: 'The request target is longer than `listen.maxUrlBytes`.',
    remedy: 'Shorten the path or the query.',
    counted: 'no',
    example: said('uri_too_long', 'The request target is longer than ', '8192 bytes.'),
  },
  expectation_failed: {
    when: '`Expect` asks for something other than `100-continue`.',
    remedy: 'Leave `Expect` out.',
    counted: 'no',
    example: said('expectation_failed', 'The only expectation that can be met is 100-continue.'),
  },
  rate_limit_exceeded: {
    when: 'A window of the key is used up. The answer is a strike. `details` names the window that resets last.',
    remedy: 'Wait as long as `Retry-After` says. Going on earlier leads to a ban.',
    counted: 'no',
    example: errors.rateLimitExceeded({
      ...{ ...VERDICT, kind: 'refused', costExceedsLimit: false },
      retryAtMs: BINDING.resetAtMs,
    }),
  },
  api_key_banned: {
    when: 'The caller went on after 429 and is banned. `details` has the end of the ban and which ban it is.',
    remedy:
      'Wait as long as `Retry-After` says. Requests during the ban do not lengthen it; each further ban lasts longer.',
    counted: 'no',
    example: errors.apiKeyBanned({
      ...{ ...VERDICT, kind: 'banned', number: 2, imposed: false },
      ...{ untilMs: NOW_MS + 120_000, retryAtMs: NOW_MS + 120_000 },
    }),
  },
  too_many_failed_attempts: {
    when: 'The address has used up `failed-authentication`. A good key from the same address still passes, and so does a good token that was verified lately.',
    remedy: 'Send a valid key, or wait as long as `Retry-After` says.',
    counted: 'no',
    closes: true,
    example: errors.tooManyFailedAttempts({ limit: 30, remaining: 0, resetAtMs: NOW_MS + 25_000 }, NOW_MS),
  },
  too_many_in_flight: {
    when: 'The caller has as many requests in flight as its fair share of the upstream allows (`upstreams.NAME.fairShare`), or its requests had to wait too long because it used more than its share of the serving thread. It is no strike.',
    remedy: 'Wait for answers before sending more.',
    counted: 'no',
    example: errors.tooManyInFlight(),
  },
  headers_too_large: {
    when: 'The head, or the trailers, are larger than `listen.maxHeaderBytes`.',
    remedy: 'Send fewer or shorter fields.',
    counted: 'no',
    example: plainError('headers_too_large'),
  },
  internal_error: {
    when: 'The gateway has a defect, or plans.yaml has lost the plan of the key.',
    remedy: 'Report the request id to the operator, who finds the cause in the log.',
    counted: 'where it came after admission',
    example: plainError('internal_error'),
  },
  not_implemented: {
    when: 'The method or the transfer coding is none that the gateway forwards, such as CONNECT or `Transfer-Encoding: gzip`.',
    remedy: 'Use another method, or send the body without the coding.',
    counted: 'no',
    closes: true,
    example: said('not_implemented', 'The only transfer coding that is understood is chunked.'),
  },
  upstream_unavailable: {
    when: 'The service behind the gateway cannot be reached, closed the connection, or sent something that is no valid answer.',
    remedy: 'Try again later. The service may have received the request.',
    counted: 'yes',
    example: plainError('upstream_unavailable'),
  },
  store_unavailable: {
    when: 'The store does not answer, and the request cannot be decided without it: the key is not known to this gateway, or `redis.onFailure` is `closed`.',
    remedy: 'Try again as `Retry-After` says, with the same key.',
    counted: 'no',
    example: plainError('store_unavailable'),
  },
  identity_unavailable: {
    when: "The gateway has no keys of the tokens' issuer.",
    remedy: 'Try again as `Retry-After` says, with the same token.',
    counted: 'no',
    example: plainError('identity_unavailable'),
  },
  overloaded: {
    when: 'The connections and the queue of the upstream are full, as many WebSockets are open as may be, or too many bodies wait to be checked (`validate`).',
    remedy: 'Try again as `Retry-After` says.',
    counted: 'yes',
    example: plainError('overloaded'),
  },
  no_upstream: {
    when: 'Every target of the upstream is left out.',
    remedy: 'Try again as `Retry-After` says.',
    counted: 'yes',
    example: plainError('no_upstream'),
  },
  upstream_timeout: {
    when: 'The service did not accept a connection within `connectTimeout`, or did not begin its answer within `responseTimeout`.',
    remedy: 'Try again later. The service may have done what the request asked for.',
    counted: 'yes',
    example: plainError('upstream_timeout'),
  },
  http_version_not_supported: {
    when: 'The request line names another version than HTTP/1.1 or HTTP/1.0.',
    remedy: 'Use HTTP/1.1, or HTTP/2 over TLS.',
    counted: 'no',
    example: said('http_version_not_supported', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.'),
  },
  loop_detected: {
    when: 'The request has come through this gateway before: `Via` has its name.',
    remedy: 'This is a fault of the setup: the upstream sends the request back to the gateway.',
    counted: 'no',
    example: plainError('loop_detected'),
  },
};

const ADMIN_ERRORS: Readonly<Record<AdminErrorCode, readonly [status: number, when: string]>> = {
  invalid_request: [400, 'A parameter or a member of the body is wrong; the message names it.'],
  missing_admin_token: [401, 'No token came.'],
  invalid_admin_token: [
    401,
    'The token is none that the gateway accepts, the sign-in code was used or is too old, or the token of the authenticating proxy is not valid.',
  ],
  forbidden: [
    403,
    'The role of the sender is too low, the authenticating proxy gives the person no role, the gateway has no admin token, so that the API is closed, or plans.yaml is to be written without `admin.editPlans`.',
  ],
  cross_origin: [
    403,
    'A browser sends the request from a page of another origin, or a change with a session is not application/json.',
  ],
  not_found: [404, 'There is no such path, key or ban.'],
  method_not_allowed: [405, 'The path has other methods, which `Allow` lists.'],
  request_timeout: [408, 'The body of a sign-in did not arrive within two seconds.'],
  conflict: [
    409,
    'The state of the key does not allow it: a revoked key is changed, a key that still works is deleted. Or plans.yaml cannot be read or replaced, or live keys use a plan that it would lose.',
  ],
  precondition_failed: [412, 'The key, or plans.yaml, has changed since the ETag in `If-Match` was read.'],
  payload_too_large: [413, 'The body is too large.'],
  unsupported_media_type: [415, 'The body is not declared as JSON.'],
  idempotency_key_reused: [422, 'The same `Idempotency-Key` came with another body within 24 hours.'],
  invalid_plans: [422, 'The text that is to replace plans.yaml has `faults`. Nothing was written.'],
  too_costly: [
    422,
    'The check or simulation of a draft of plans.yaml took too long or too much memory, and was ended.',
  ],
  precondition_required: [428, '`If-Match` is missing from a request that replaces plans.yaml.'],
  too_many_failed_attempts: [
    429,
    'Ten wrong tokens came from the address within a minute; the right one still passes. Or the sender has looked up ten secrets of no key within a minute, or the address 60; everything else stays possible.',
  ],
  too_many_streams: [
    429,
    'The gateway has 20 streams of events open, and the sender has as many of them as anybody else. Close one, or ask another gateway.',
  ],
  internal_error: [500, 'A defect, or something in the store that this version cannot read.'],
  audit_unavailable: [503, 'The change cannot be recorded, and `audit.required` asks for that. It was not made.'],
  identity_unavailable: [503, 'The keys that verify the token of the authenticating proxy cannot be had.'],
  busy: [
    503,
    'Too many drafts of plans.yaml wait for this gateway already, large bodies take all the room, 20 request ids are looked for, 32 lists of the sender wait, or the gateway serves 80 requests to the API (40 of one address).',
  ],
  store_unavailable: [503, 'The store does not answer. The change may have been made.'],
};

const BEGIN = '<!-- The rest of this page is generated: npm run docs:generate. -->';

/** The page, whose part above the mark is written by hand, with a section for each error code. */
export function headersAndErrorsPage(page: string): string {
  const byHand = page.split(BEGIN)[0]!.trimEnd();
  const codes = Object.entries(ERRORS).sort(([, one], [, other]) => one.example.status - other.example.status);
  const index = codes.map(([code, { example, when }]) => `| ${example.status} | [\`${code}\`](#${code}) | ${when} |`);
  const sections = codes.map(([code, { when, remedy, counted, example, closes = example.closes }]) =>
    [
      `### ${code}`,
      when,
      `- **Status**: ${example.status}`,
      `- **What to do**: ${remedy}`,
      `- **Counted**: ${counted}`,
      `- **Connection**: ${closes ? 'closed' : 'kept, where the request was read to its end'}`,
      '',
      exampleOf(example),
    ].join('\n'),
  );
  const admin = Object.entries(ADMIN_ERRORS).map(([code, [status, when]]) => `| ${status} | \`${code}\` | ${when} |`);
  return `${byHand}

${BEGIN}

## Errors

| status | code | when |
|---|---|---|
${index.join('\n')}

${sections.map((section) => section.replace('\n', '\n\n').replace('\n- **Status', '\n\n- **Status')).join('\n\n')}

## Errors of the admin API

The [admin API](admin-api.md) answers errors in the same form. A Host by which the admin listener is not known gets 421
\`misdirected_request\`.

| status | code | when |
|---|---|---|
${admin.join('\n')}

## Headers of the console

The files below \`/console/\` have \`Content-Security-Policy\` (scripts, styles, pictures and requests of this host only, nothing inline, no
frame around the page, no text parsed as HTML), \`Cross-Origin-Opener-Policy\` and \`Cross-Origin-Resource-Policy: same-origin\`,
\`Permissions-Policy\`, \`Referrer-Policy: no-referrer\`, \`X-Content-Type-Options: nosniff\` and \`X-Frame-Options: DENY\`. They are sent with
\`Content-Encoding: gzip\` if \`Accept-Encoding\` allows it, and have an \`ETag\`.
`;
}

function exampleOf({ status, fields, body }: ErrorResponse): string {
  const lines = fields.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${fields[i + 1]}`] : []));
  const head = [`HTTP/1.1 ${status}`, 'Content-Type: application/json', ...lines].join('\n');
  return `\`\`\`http\n${head}\n\n${JSON.stringify(JSON.parse(body), null, 2)}\n\`\`\``;
}

/** What the examples quote of messages, for the test that looks for each in the source. */
export function quotedMessages(): readonly string[] {
  return QUOTED;
}
