import { z } from 'zod';
import { PAGE } from '../operations/operation-values.ts';
import { oidcBegun, SIGN_IN, SIGN_OUT, session } from './sign-in.ts';

// What the OpenAPI description has beside the operations: what it is about, what all operations have in common, and the paths of the
// admin API itself.

export type Json = Readonly<Record<string, unknown>>;

export const ABOUT = {
  openapi: '3.1.0',
  info: {
    title: 'Tollgate admin API',
    version: '1.0.0',
    summary: 'API keys, bans, plans, deprecations and the record of changes of a Tollgate gateway.',
    description: `On the admin listener (127.0.0.1:9090 by default), with ADMIN_TOKEN or a token of ADMIN_TOKENS_FILE, with the cookie of a
session that a token or a sign-in began, or with the token of an authenticating proxy. A viewer may read everything, find a key by its secret,
and check, compare and simulate plans. An operator may also lift bans, top up and reset usage, change, move, rotate, suspend, resume and revoke
keys, end secrets, and change, suspend and resume customers. An admin may also create and delete keys and customers, and replace plans.yaml if
gateway.yaml allows it. Every gateway on one store gives the same responses; what is changed through one of them applies to all within a second.
The API does what the commands \`tollgate keys\`, \`customers\`, \`bans\`, \`usage\`, \`now\`, \`plans\`, \`deprecations\` and \`audit\` do, but imports,
exports, backups and \`keys apply\` are commands only. A request whose Host is no IP address, nor localhost, ADMIN_HOST or a
name in \`admin.hosts\`, is 421.

A change gets 200 or 201 when the store will keep it, whichever of its servers fails next. 202 and \`"durability": "unknown"\` mean that it was
made and applies, and that a failover of Redis may undo it, for example while a replica of Redis is away. The gateway then makes it again
as long as it runs, and logs how that ended; the same request waits once more, and gets 200 when the change is settled. Do not repeat a
rotation: that makes another secret. After 503 it is not known whether anything was done.

Each change is recorded in the store before it is made, and its outcome before the response; \`GET /audit\` lists them. Where gateway.yaml has
\`audit: { required: true }\`, a change that cannot be recorded is not made: 503 with the code \`audit_unavailable\`.`,
    license: { name: 'MIT', identifier: 'MIT' },
  },
  servers: [{ url: 'http://127.0.0.1:9090/admin' }],
  security: [{ adminToken: [] }, { session: [] }],
  tags: [
    { name: 'session', description: 'Sign-in and sign-out.' },
    { name: 'keys', description: 'API keys.' },
    { name: 'customers', description: 'Customers, whose keys share one plan and its limits.' },
    { name: 'bans', description: 'Bans in force.' },
    { name: 'gateway', description: 'The settings of the gateway and what it records.' },
    { name: 'live', description: 'Gateways, traffic and single requests, at this moment.' },
  ],
} as const;

export const SECURITY = {
  adminToken: {
    type: 'http',
    scheme: 'bearer',
    description:
      'ADMIN_TOKEN of the gateway, or a token of its ADMIN_TOKENS_FILE. The response to a wrong one comes after 250 ms, and after ten in a minute it is 429. The right one always passes.',
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'tollgate',
    description:
      'The cookie that `POST /session` sets; `__Host-tollgate` over TLS. With it, or with the token of an authenticating proxy, every ' +
      'request except GET and HEAD must come from a page of this listener (`Sec-Fetch-Site: same-origin`, or without that field an `Origin` ' +
      "that is this listener's) and have `Content-Type: application/json`, and GET must not come from a page of another site; otherwise the " +
      'response is 403 `cross_origin`.',
  },
};

export const PARAMETERS: Json = {
  id: { name: 'id', in: 'path', required: true, schema: { type: 'string', minLength: 1, maxLength: 256 } },
  ...Object.fromEntries(
    Object.entries(PAGE).map(([name, member]) => {
      const { $schema: _, description, ...schema } = z.toJSONSchema(member, { io: 'input' });
      return [name, { name, in: 'query', description, schema }];
    }),
  ),
  ifMatch: {
    name: 'If-Match',
    in: 'header',
    description:
      'The ETag of the key or customer as it was read. If it has been changed since, nothing is done. Without it, or with `*`, any version will do.',
    schema: { type: 'string' },
  },
  ifMatchRequired: {
    name: 'If-Match',
    in: 'header',
    required: true,
    description: 'The ETag of the file as it was read, or `*`. If it has been changed since, nothing is done.',
    schema: { type: 'string' },
  },
  idempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Makes the change once: the same change under the same name changes nothing for 24 hours. With the quotes of a structured field or without ' +
      'them.',
    schema: { type: 'string', minLength: 1, maxLength: 257 },
  },
};

export const HEADERS: Json = {
  'Idempotency-Replayed': {
    description: 'Present if it was done before.',
    schema: { type: 'string', enum: ['true'] },
  },
  'Change-Outcome': {
    description: 'Present if it already was as requested, or was done before.',
    schema: { type: 'string', enum: ['unchanged'] },
  },
  'X-Request-Id': {
    description:
      "The client's own if it is up to 64 letters, digits and ._-; otherwise a new one. It is in the audit line.",
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' },
  },
  ETag: {
    description: 'The version, for If-Match.',
    required: true,
    schema: { type: 'string', pattern: '^"[A-Za-z0-9_-]+"$' },
  },
  Link: {
    description: 'The next page, as rel="next"; absent on the last one.',
    schema: { type: 'string', pattern: '^</admin/[^>]+>; rel="next"$' },
  },
  Location: {
    description: 'The path of the key or the customer.',
    required: true,
    schema: { type: 'string', pattern: '^/admin/(keys|customers)/' },
  },
  LocationOfMade: {
    description: 'The path of the key or the customer that was made; absent if none was made.',
    schema: { type: 'string', pattern: '^/admin/(keys|customers)/' },
  },
  'Retry-After': { description: 'Whole seconds.', required: true, schema: { type: 'integer', minimum: 1 } },
};

/** The responses that several operations have in common. The status is that of the example. */
export const RESPONSES = {
  Invalid: error(400, 'invalid_request', 'plan is missing: it must be the name of a plan.', {
    description: 'The query or the body is not as it must be; the message names what is wrong.',
  }),
  Unauthorized: error(401, 'invalid_admin_token', 'This is not an admin token.', {
    description: 'No token and no session, or a wrong token.',
    headers: {
      'WWW-Authenticate': { required: true, schema: { type: 'string', pattern: '^Bearer realm="tollgate admin"' } },
    },
  }),
  Forbidden: error(403, 'forbidden', 'This needs the role operator, and jo has the role viewer.', {
    description:
      '`forbidden`: the role of the sender is too low, or the gateway has no admin token, so the API cannot be used. `cross_origin`: a browser ' +
      'sends the request from a page of another origin, or a change with a session is not application/json.',
  }),
  Unknown: error(404, 'not_found', 'There is no key key_none.', {
    description: 'There is no such key or customer, or it is not banned.',
  }),
  Conflict: error(409, 'conflict', 'Key key_0 is revoked and cannot be rotated.', {
    description: 'The present state of the key does not allow it, for example because it is revoked.',
  }),
  Changed: error(412, 'precondition_failed', 'The key has been changed since.', {
    description: 'The key or customer is another version than If-Match names. Nothing was done.',
  }),
  ChangedFile: error(412, 'precondition_failed', 'plans.yaml has been changed since.', {
    description: 'The file is another version than If-Match names. Nothing was done.',
    headers: { ETag: { $ref: '#/components/headers/ETag' } },
  }),
  NoVersion: error(428, 'precondition_required', 'Send If-Match with the ETag of what is replaced.', {
    description: 'If-Match is missing.',
  }),
  TooLarge: error(413, 'payload_too_large', 'The body is larger than 65536 bytes.', {
    description:
      'The body is larger than 64 KiB, or for a draft of plans.yaml or a slice of a file larger than its limit.',
  }),
  NoJson: error(415, 'unsupported_media_type', 'Content-Type must be application/json.', {
    description: 'The body is not declared as JSON.',
  }),
  KeyReused: error(422, 'idempotency_key_reused', 'This Idempotency-Key came with another change of this key before.', {
    description: 'Another request came with this Idempotency-Key in the last 24 h.',
  }),
  TooMany: error(429, 'too_many_failed_attempts', 'Too many wrong admin tokens have come. Retry after 60 s.', {
    description:
      'Too many wrong tokens have come; the right one passes all the same. Or the sender has looked up too many secrets of no key, which ' +
      'refuses further look-ups and nothing else.',
    headers: { 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
  }),
  TooManyStreams: error(429, 'too_many_streams', 'This gateway has 20 streams of events open, which is the most.', {
    description:
      'Too many wrong tokens have come, or the gateway has 20 streams of events open (`too_many_streams`). The oldest stream of the sender ' +
      'with the most ends for a sender who has fewer even with the new one.',
    headers: { 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
  }),
  StoreAway: error(503, 'store_unavailable', 'The store does not answer at the moment.', {
    description:
      'The store does not answer. A change may have been made or not; read the key, or send the request again. With the code ' +
      '`audit_unavailable` it was not made: it could not be recorded, which gateway.yaml requires. With the code `busy` the gateway had too ' +
      'many requests at a time.',
    headers: { 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
  }),
  Other: error(405, 'method_not_allowed', 'This is used with GET, HEAD, POST.', {
    description:
      '408 for a sign-in whose body takes longer than two seconds, 404 for another path, 405 with Allow for another method, 500 for a defect (`internal_error`) or a record that the store has and cannot read (`store_corrupt`, whose message says where it is and what to do), ' +
      '503 `identity_unavailable` while the keys of the authenticating proxy, or the OpenID provider, cannot be had.',
  }),
};

function error(
  status: number,
  code: string,
  message: string,
  { description, headers = {} }: { readonly description: string; readonly headers?: Json },
) {
  return {
    description,
    headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' }, ...headers },
    content: {
      'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: { code, message, status } },
    },
  };
}

/** The paths that are no operations: sessions, and this description. */
export const OWN_PATHS: readonly {
  readonly line: string;
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security?: readonly [];
  readonly input?: z.ZodType;
  readonly output: z.ZodType;
  readonly headers?: Json;
  readonly responses: readonly (keyof typeof RESPONSES)[];
}[] = [
  {
    line: 'GET /session',
    operationId: 'showSession',
    tags: ['session'],
    summary: 'Shows who sends the request, and until when that holds.',
    output: session,
    responses: ['Unauthorized', 'Forbidden', 'TooMany'],
  },
  {
    line: 'POST /session',
    operationId: 'signIn',
    tags: ['session'],
    summary: 'Signs in with a token, the code of a link, or the response of the OpenID provider.',
    description:
      'The session ends after 30 minutes without a request, after 8 hours, at the sign-out, when its token is removed from the file, and when the ' +
      'gateway ends. It belongs to this gateway. Streams of events do not keep a session from ending. A session that the request already has ' +
      'ends. A code is that of a link that `tollgate start` or `tollgate console` has printed. It is valid ' +
      'once and for ten minutes; that of `tollgate start` with the admin listener on loopback any number of times until the process ends, over loopback alone.',
    security: [],
    input: SIGN_IN,
    output: session,
    headers: {
      'Set-Cookie': {
        description:
          'The cookie, for this host only and out of reach of scripts. The secret of the session is nowhere else.',
        required: true,
        schema: {
          type: 'string',
          pattern: '^(__Host-)?tollgate=[A-Za-z0-9_-]{43}; HttpOnly; SameSite=Strict; Path=/',
        },
      },
    },
    responses: ['Invalid', 'Unauthorized', 'Forbidden', 'TooLarge', 'NoJson', 'TooMany'],
  },
  {
    line: 'POST /session/oidc',
    operationId: 'beginSignIn',
    tags: ['session'],
    summary: 'Begins a sign-in at the OpenID provider of `admin.oidc`.',
    description:
      'For the sign-in page of the console: the browser goes to `url`, and comes back to `/console/sign-in` with a query that `POST /session` ' +
      'takes as `oidc` within ten minutes, on any gateway of the store, from the same browser.',
    security: [],
    output: oidcBegun,
    headers: {
      'Set-Cookie': {
        description: 'Binds the sign-in to this browser.',
        required: true,
        schema: {
          type: 'string',
          pattern: '^(__Host-)?tollgate-sign-in=\\d{10}-[A-Za-z0-9_-]{43}; HttpOnly; SameSite=Strict; Path=/',
        },
      },
    },
    responses: ['Invalid', 'Forbidden', 'Unknown'],
  },
  {
    line: 'DELETE /session',
    operationId: 'signOut',
    tags: ['session'],
    summary: 'Signs out, and removes the cookie.',
    input: SIGN_OUT,
    output: z.strictObject({ ended: z.int().min(0).describe('How many sessions ended.') }),
    headers: {
      'Set-Cookie': {
        description: 'Removes the cookie.',
        required: true,
        schema: { type: 'string', pattern: 'Max-Age=0$' },
      },
    },
    responses: ['Invalid', 'Unauthorized', 'Forbidden', 'TooMany'],
  },
  {
    line: 'GET /openapi.json',
    operationId: 'describe',
    tags: ['gateway'],
    summary: 'This description.',
    output: z.looseObject({ openapi: z.string(), info: z.looseObject({}), paths: z.looseObject({}) }),
    responses: ['Unauthorized', 'Forbidden', 'TooMany'],
  },
];
