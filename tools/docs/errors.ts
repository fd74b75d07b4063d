import {
  type AdminErrorCode,
  ERROR_CODES,
  ERRORS,
  type ErrorCode,
  errors,
  OWN_FIELDS,
  plainAllowance,
} from './sources.ts';

const { errorResponse, plainError } = errors;
type ErrorResponse = ReturnType<typeof errorResponse>;

/** Sunday, 22 November 2026, 10:00 UTC. */
const NOW_MS = 1_795_341_600_000;
const WINDOW = { window: 'minute', lengthMs: 60_000, limit: 300 } as const;
const BINDING = {
  ...{ ...WINDOW, name: 'minute' as const, unit: null, needed: 1 },
  ...{ used: 300, remaining: 0, resetAtMs: NOW_MS + 42_000 },
};
const VERDICT = {
  allowance: {
    ...plainAllowance('pro', [WINDOW]),
    bans: { after: 10, withinMs: 60_000, firstMs: 60_000, factor: 2, longestMs: 86_400_000, forgetMs: 86_400_000 },
  },
  windows: [BINDING],
  inFlight: null,
  binding: BINDING,
  strike: null,
  scope: 'key' as const,
  cost: 1,
  nowMs: NOW_MS,
};

/** One of the messages of `invalid_request`, which are made elsewhere than with their code. */
export const QUOTED = 'Authorization must come once.';

/** The examples of codes that `plainError` cannot make, and of two whose plain response would show less. */
const EXAMPLES: Readonly<
  Record<Exclude<ErrorCode, errors.PlainErrorCode> | 'invalid_request' | 'not_implemented', ErrorResponse>
> = {
  invalid_request: errorResponse('invalid_request', QUOTED),
  request_invalid: errorResponse(
    'request_invalid',
    ERRORS.request_invalid.sentence('The body, at /name,', 'must be text.'),
  ),
  missing_api_key: errors.unauthorized('missing_api_key'),
  invalid_api_key: errors.unauthorized('invalid_api_key'),
  expired_api_key: errors.unauthorized('expired_api_key'),
  insufficient_scope: errors.insufficientScope(['orders:write'], null),
  route_not_found: errorResponse('route_not_found', ERRORS.route_not_found.sentence('/v1/dogs')),
  method_not_allowed: errorResponse('method_not_allowed', ERRORS.method_not_allowed.sentence('GET, HEAD'), {
    fields: ['Allow', 'GET, HEAD'],
  }),
  endpoint_removed: errors.endpointRemoved('/v2/pets'),
  uri_too_long: errorResponse('uri_too_long', ERRORS.uri_too_long.sentence(8192)),
  rate_limit_exceeded: errors.rateLimitExceeded({
    ...{ ...VERDICT, kind: 'refused' },
    retryAtMs: BINDING.resetAtMs,
  }),
  api_key_banned: errors.apiKeyBanned({
    ...{ ...VERDICT, kind: 'banned', number: 2, imposed: false },
    ...{ untilMs: NOW_MS + 120_000, retryAtMs: NOW_MS + 120_000 },
  }),
  // The gateway closes the connections of these two where it sends them, not because of their code.
  too_many_failed_attempts: {
    ...errors.tooManyFailedAttempts({ limit: 30, remaining: 0, resetAtMs: NOW_MS + 25_000 }, NOW_MS),
    closes: true,
  },
  not_implemented: { ...plainError('not_implemented'), closes: true },
  too_many_in_flight: errors.tooManyInFlight(),
  in_flight_limit_exceeded: errors.refusal({ ...VERDICT, kind: 'crowded', limit: 20, scope: 'key' }),
};

function exampleOf(code: ErrorCode): ErrorResponse {
  return hasExample(code) ? EXAMPLES[code] : plainError(code);
}

function hasExample(code: ErrorCode): code is keyof typeof EXAMPLES {
  return Object.hasOwn(EXAMPLES, code);
}

const ADMIN_ERRORS: Readonly<Record<AdminErrorCode, readonly [status: number, when: string]>> = {
  invalid_request: [400, 'A parameter or a member of the body is wrong; the message names it.'],
  missing_admin_token: [401, 'The request has no token.'],
  invalid_admin_token: [
    401,
    'The gateway does not accept the token, the sign-in code was used or is too old, or the token of the authenticating proxy, or what the OpenID provider says of a sign-in, is not valid.',
  ],
  forbidden: [
    403,
    'The role of the sender is too low, the authenticating proxy or the OpenID provider gives the person no role, the gateway has no admin token, so that the API is closed, or plans.yaml is to be written without `admin.editPlans`.',
  ],
  cross_origin: [
    403,
    'A browser sends the request from a page of another origin, or the body of a change within a session is not application/json.',
  ],
  not_found: [404, 'There is no such path, key or ban.'],
  method_not_allowed: [405, 'The path has other methods, which `Allow` lists.'],
  request_timeout: [408, 'The body of a sign-in did not arrive within two seconds.'],
  conflict: [
    409,
    'The state of the key does not allow it: a revoked key is changed, a key that still works is deleted. Or plans.yaml cannot be read or replaced, or live keys use a plan that the new text lacks.',
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
    'Ten wrong tokens came from the address within a minute; the right one still passes. Or the sender has looked up ten secrets within a minute that no key has, or the address 60; all other requests are still served.',
  ],
  too_many_streams: [
    429,
    'The gateway has 20 streams of events open, and no other sender has more of them. Close one, or ask another gateway.',
  ],
  internal_error: [500, 'A defect.'],
  store_corrupt: [
    500,
    'The store has the record or the counts that were asked for, and cannot read them: they are damaged, or another program has written them. The message says where, and what to do. Nothing was changed.',
  ],
  audit_unavailable: [503, 'The change cannot be recorded, and `audit.required` asks for that. It was not made.'],
  identity_unavailable: [
    503,
    'The keys that verify the token of the authenticating proxy are not available, or the OpenID provider cannot be used.',
  ],
  busy: [
    503,
    'Too many drafts of plans.yaml wait for this gateway already, large bodies use all the memory for them, 20 request ids are being searched, 32 lists of the sender wait, eight people are signing in at the OpenID provider, or the gateway serves 80 requests to the API (40 of one address).',
  ],
  store_unavailable: [503, 'The store does not answer. The change may have been made.'],
};

const BEGIN = '<!-- The rest of this page is generated: npm run docs:generate. -->';

/** The table of the gateway's own fields. It stands above the mark, because the page begins with it. */
const TABLE_OF_FIELDS = /(\| header \| says \| example \|\n\|---\|---\|---\|\n)(?:\|.*\n)*/;

function fieldRows(): string {
  return OWN_FIELDS.map(({ name, says, example }) => `| \`${name}\` | ${says} | \`${example}\` |\n`).join('');
}

/** The page, whose part above the mark is written by hand but for that table, with a section for each error code. */
export function headersAndErrorsPage(page: string): string {
  const byHand = page
    .split(BEGIN)[0]!
    .trimEnd()
    .replace(TABLE_OF_FIELDS, (_, head) => `${head}${fieldRows()}`);
  const codes = [...ERROR_CODES].sort((one, other) => ERRORS[one].status - ERRORS[other].status);
  const index = codes.map((code) => `| ${ERRORS[code].status} | [\`${code}\`](#${code}) | ${ERRORS[code].when} |`);
  const sections = codes.map((code) => {
    const { status, when, remedy, counted } = ERRORS[code];
    const example = exampleOf(code);
    return [
      `### ${code}`,
      when,
      `- **Status**: ${status}`,
      `- **What to do**: ${remedy}`,
      `- **Counted**: ${counted}`,
      `- **Connection**: ${example.closes ? 'closed' : 'kept, where the request was read to its end'}`,
      '',
      httpOf(example),
    ].join('\n');
  });
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

function httpOf({ status, fields, body }: ErrorResponse): string {
  const lines = fields.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${fields[i + 1]}`] : []));
  const head = [`HTTP/1.1 ${status}`, 'Content-Type: application/json', ...lines].join('\n');
  return `\`\`\`http\n${head}\n\n${JSON.stringify(JSON.parse(body), null, 2)}\n\`\`\``;
}
