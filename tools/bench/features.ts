import { join } from 'node:path';
import { LIMITS } from './limits.ts';
import { bearer, type Expected, KEY, type LoadRequest, type OwnLoad } from './request.ts';

/** `with-…`: a gateway with the feature. `plain-…`: one without any, under the same load. */
export type FeatureName = `with-${string}` | `plain-${string}`;

/** What is different in the settings of a gateway of the bench. */
export interface Settings {
  /** Put in front of the path of every route. */
  readonly pathPrefix?: string;
  /** Settings of every route. */
  readonly route?: Readonly<Record<string, unknown>>;
  /** Settings of the upstream. */
  readonly upstream?: Readonly<Record<string, unknown>>;
  /** Settings of gateway.yaml beside upstreams and routes. */
  readonly gateway?: Readonly<Record<string, unknown>>;
  /** How the windows of a day and a minute are, beside their limit. */
  readonly windows?: Readonly<Record<string, string>>;
  /** What its plan has beside the limits of the load. */
  readonly plan?: Readonly<Record<string, unknown>>;
  /** Whether the keys belong to a customer. */
  readonly ofCustomer?: true;
  /** Whether spans are exported. */
  readonly traces?: true;
  /** How long each command, and each reply, is on its way between the gateway and Redis, milliseconds. */
  readonly redisDelayMs?: number;
}

/** One row of the table of features: a gateway and the load on it. */
export interface Feature {
  readonly name: FeatureName;
  readonly title: string;
  /** The gateway under the same load without the feature; null for these themselves. */
  readonly plain: FeatureName | null;
  readonly settings: Settings;
  readonly load: OwnLoad;
  /** Only a gateway with the feature answers this request with this status. */
  readonly proof: { readonly request: LoadRequest; readonly status: number } | null;
}

/** The row that every other is compared with as well. */
export const PLAIN_GET: FeatureName = 'plain-get';

const DESCRIPTION = join(import.meta.dirname, 'servers', 'description.yaml');
const POLICY = join(import.meta.dirname, 'servers', 'policy.ts');
const DOCS = 'https://docs.example.com/errors';
const ORIGIN = 'https://app.example.com';
const PLAN = 'good';
/** 10 KiB of JSON, see servers/upstream.ts. */
const LIST_BYTES = 10 * 1024;

const SMALL: Expected = { status: 200, field: null, bodyBytes: 284 };
const LIST: Expected = { status: 200, field: null, bodyBytes: LIST_BYTES };
const REFUSED: Expected = { status: 429, field: null, bodyBytes: null };

const GET = get('/v1/pets');
const POST = post(petOf(1_024));
/** The parameters are part of the load beside it too: a query costs something by itself. */
const PARAMETERS = get('/v1/pets/4711?limit=20&status=available');
const AS_PROBLEM = get('/v1/pets', { Accept: 'application/problem+json' });

const WINDOW_S = { minute: 60, day: 86_400 } as const;

/** The value of RateLimit-Policy with these windows. */
function policyOf(...names: readonly string[]): string {
  const lengthOf = (name: string) => WINDOW_S[name.slice(name.lastIndexOf('-') + 1) as keyof typeof WINDOW_S];
  return names.map((name) => `"${name}";q=${UNREACHED};w=${lengthOf(name)}`).join(', ');
}

/** A limit that no load reaches. */
const UNREACHED = LIMITS.good.minute;
const HOSTS = Array.from({ length: 1_000 }, (_, i) => `h${i}.example.com`);
const WITHOUT_LEASES = { redis: { leases: 'off' } };
const GROUPS = { pets: { routes: ['/v1/pets'], limits: { minute: UNREACHED } } };

/** What a language model is limited in, beside requests. */
/** Whole numbers of 32 bits, as limits in use are: V8 handles larger ones as doubles. */
const UNITS = { units: { tokens: { minute: 2_000_000_000, day: 2_000_000_000 } } };
const TOKENS = {
  cost: { tokens: { reserve: 1_000, from: [{ json: '/usage/total_tokens' }, { sse: '/usage/total_tokens' }] } },
};
const OF_UNITS = `${policyOf('minute', 'day')}, "tokens-minute";q=2000000000;w=60;qu="tokens", "tokens-day";q=2000000000;w=86400;qu="tokens"`;

/** Every feature after the gateway that it is compared with. A new one is a further entry. */
export const FEATURES: readonly Feature[] = [
  plain(PLAIN_GET, 'GET, 284 bytes of JSON', GET),
  feature('rewrite', 'rewrite: the prefix of the path stripped', {
    settings: { pathPrefix: '/public', route: { rewrite: { stripPrefix: '/public' } } },
    // The service has nothing outside /v1.
    request: get('/public/v1/pets'),
  }),
  feature('hosts', 'hosts: 1,000 names', {
    settings: { route: { hosts: HOSTS } },
    request: get('/v1/pets', { Host: HOSTS[500]! }),
    proof: { request: GET, status: 404 },
  }),
  feature('cache', 'cache: shared, every request a hit', {
    settings: { route: { cache: { shared: true } } },
    request: get('/v1/fresh'),
    proof: { request: get('/v1/fresh', { 'Cache-Control': 'only-if-cached' }), status: 200 },
  }),
  feature('headers', 'headers: two set in the request and one in the response, with variables', {
    settings: {
      route: {
        headers: {
          request: { set: { 'X-Plan': '{plan}', 'X-Caller': '{consumer.id}' } },
          response: { set: { 'X-Served-Plan': '{plan}' } },
        },
      },
    },
    expects: { ...SMALL, field: ['X-Served-Plan', PLAN] },
    proof: { request: get('/v1/needs/x-plan'), status: 200 },
  }),
  feature('policies', 'policies: one that compares and sets a field', {
    settings: { route: { policies: [POLICY] } },
    proof: { request: get('/v1/needs/x-plan'), status: 200 },
  }),
  feature('timeouts', 'timeouts of the route', {
    settings: { route: { timeouts: { response: '2s', body: '2s' } } },
    proof: { request: get('/v1/silent'), status: 504 },
  }),
  feature('retries', 'retries, none of which is needed', {
    settings: { route: { retries: { attempts: 2, on: ['connection', 503], attemptTimeout: '1s' } } },
    // Both attempts are late.
    proof: { request: get('/v1/silent'), status: 504 },
  }),
  feature('key-in-header', 'keys.from: X-API-Key', {
    settings: { gateway: { keys: { from: [{ header: 'X-API-Key' }] } } },
    request: { ...GET, headers: { 'X-API-Key': KEY } },
    proof: { request: GET, status: 401 },
  }),
  feature('key-in-query', 'keys.from: a parameter of the query', {
    settings: { gateway: { keys: { from: [{ query: 'api_key' }] } } },
    request: { ...get(`/v1/pets?api_key=${KEY}`), headers: {} },
    proof: { request: GET, status: 401 },
  }),
  feature('cors', 'cors, for a request with Origin', {
    settings: { gateway: { cors: { origins: [ORIGIN] } } },
    request: get('/v1/pets', { Origin: ORIGIN }),
    expects: { ...SMALL, field: ['Access-Control-Allow-Origin', ORIGIN] },
  }),
  feature('deprecated', 'deprecated, with sunset and successor', {
    settings: { route: { deprecated: { since: '2026-01-01', sunset: '2099-01-01', successor: '/v2/pets' } } },
    expects: { ...SMALL, field: ['Deprecation', '@1767225600'] },
  }),
  feature('respond', 'respond: a fixed response, no service asked', {
    settings: { route: { respond: { body: '.'.repeat(284), contentType: 'application/json' } } },
    proof: { request: get('/v1/silent'), status: 200 },
  }),
  feature('redirect', 'redirect, no service asked', {
    settings: { route: { redirect: { to: '/v2/pets' } } },
    expects: { status: 308, field: ['Location', '/v2/pets'], bodyBytes: null },
  }),
  feature('sliding', 'sliding windows of a minute and a day', { settings: { windows: { window: 'sliding' } } }),
  feature('calendar', 'a calendar day, in the time of Berlin', {
    settings: { windows: { align: 'calendar', zone: 'Europe/Berlin' } },
  }),
  feature('shadow', 'a shadow limit beside those of the plan', {
    settings: { plan: { shadow: { minute: UNREACHED } } },
  }),
  feature('customer', 'the key of a customer, who has the limits of the plan', { settings: { ofCustomer: true } }),
  feature('each-key', 'the same with a minute of its own for each key', {
    settings: { ofCustomer: true, plan: { 'each-key': { minute: UNREACHED } } },
  }),
  feature('group', 'a group of routes with a minute of its own', { settings: { plan: { groups: GROUPS } } }),
  feature('customer-and-group', 'the key of a customer, and a group of routes', {
    settings: { ofCustomer: true, plan: { groups: GROUPS } },
    expects: {
      ...SMALL,
      field: ['RateLimit-Policy', policyOf('customer-minute', 'customer-day', 'customer-pets-minute')],
    },
  }),
  feature('in-flight', 'in-flight: how many requests may be under way at a time', {
    settings: { plan: { 'in-flight': 1_000_000 } },
  }),
  feature('traces', 'traces exported over OTLP, every request', {
    settings: { traces: true },
    proof: { request: get('/v1/needs/traceparent'), status: 200 },
  }),
  feature('leases-off', 'redis.leases: off, a key that is always busy', { settings: { gateway: WITHOUT_LEASES } }),
  ...[1, 5].flatMap((redisDelayMs) => [
    feature(`redis-${redisDelayMs}ms-away`, `a Redis that is ${redisDelayMs} ms away, each way`, {
      settings: { redisDelayMs },
    }),
    feature(`redis-${redisDelayMs}ms-away-leases-off`, 'the same with redis.leases: off', {
      settings: { redisDelayMs, gateway: WITHOUT_LEASES },
    }),
  ]),
  plain('plain-parameters', 'GET with a path parameter and two in the query', PARAMETERS),
  feature('validate-parameters', 'validate: path and query', {
    plain: 'plain-parameters',
    settings: { route: { validate: DESCRIPTION } },
    request: PARAMETERS,
    proof: { request: get('/v1/pets/4711?limit=0'), status: 400 },
  }),
  plain('plain-post', 'POST of 1 KiB of JSON', POST),
  feature('body-limit', 'maxBodyBytes of the route', {
    plain: 'plain-post',
    settings: { route: { maxBodyBytes: '2KiB' } },
    request: POST,
    proof: { request: post(petOf(3_000)), status: 413 },
  }),
  feature('validate-body', 'validate: the body', {
    plain: 'plain-post',
    settings: { route: { validate: DESCRIPTION } },
    request: POST,
    proof: { request: post('{"name":"Biscuit"}'), status: 400 },
  }),
  plain('plain-list', 'GET, 10 KiB of JSON', get('/v1/list', { 'Accept-Encoding': 'gzip' }), LIST),
  ...(['gzip', 'br', 'zstd'] as const).map((encoding) =>
    feature(encoding, `compression: ${encoding}`, {
      plain: 'plain-list',
      // What one consumer may have compressed at a time is its share of the upstream, and the load is of one.
      settings: { route: { compression: {} }, upstream: { fairShare: 1 } },
      request: get('/v1/list', { 'Accept-Encoding': encoding }),
      expects: { ...LIST, field: ['Content-Encoding', encoding] },
    }),
  ),
  plain('plain-chat', 'GET, 2 KiB of JSON', get('/v1/chat'), { ...SMALL, bodyBytes: 2 * 1024 }),
  feature('reserved-chat', 'units: tokens taken in advance', {
    plain: 'plain-chat',
    settings: { route: { cost: { tokens: { reserve: 1_000 } } }, plan: UNITS },
    request: get('/v1/chat'),
    expects: { status: 200, field: ['RateLimit-Policy', OF_UNITS], bodyBytes: 2 * 1024 },
  }),
  feature('settled-chat', 'units: tokens taken in advance, settled by the answer', {
    plain: 'plain-chat',
    settings: { route: TOKENS, plan: UNITS },
    request: get('/v1/chat'),
    expects: { status: 200, field: ['RateLimit-Policy', OF_UNITS], bodyBytes: 2 * 1024 },
  }),
  plain('plain-stream', 'GET, a stream of 200 events', get('/v1/stream'), { ...SMALL, bodyBytes: null }),
  feature('settled-stream', 'units: the same, settled by the last event of a stream', {
    plain: 'plain-stream',
    settings: { route: TOKENS, plan: UNITS },
    request: get('/v1/stream'),
    expects: { status: 200, field: ['RateLimit-Policy', OF_UNITS], bodyBytes: null },
  }),
  plain('plain-refused', 'a refusal: a spent key', GET, REFUSED),
  feature('error-links', 'errors.docs: the refusal with a Link', {
    plain: 'plain-refused',
    settings: { gateway: { errors: { docs: DOCS } } },
    expects: { ...REFUSED, field: ['Link', `<${DOCS}#rate_limit_exceeded>; rel="help"`] },
  }),
  feature('problem-details', 'errors.docs: the refusal as application/problem+json', {
    plain: 'plain-refused',
    settings: { gateway: { errors: { docs: DOCS } } },
    request: AS_PROBLEM,
    expects: { ...REFUSED, field: ['Content-Type', 'application/problem+json'] },
  }),
];

export function featureOf(name: string): Feature | undefined {
  return FEATURES.find((feature) => feature.name === name);
}

interface Differing {
  readonly plain?: FeatureName;
  readonly settings: Settings;
  readonly request?: LoadRequest;
  readonly expects?: Expected;
  readonly proof?: Feature['proof'];
}

function feature(name: string, title: string, differing: Differing): Feature {
  const { plain = PLAIN_GET, settings, request = GET, expects = SMALL, proof = null } = differing;
  return { name: `with-${name}`, title, plain, settings, load: loadOf(request, expects), proof };
}

function plain(name: FeatureName, title: string, request: LoadRequest, expects = SMALL): Feature {
  return { name, title, plain: null, settings: {}, load: loadOf(request, expects), proof: null };
}

function loadOf(request: LoadRequest, expects: Expected): OwnLoad {
  return { request, keyKind: expects.status === 429 ? 'spent' : 'good', expects };
}

function get(target: string, headers: Readonly<Record<string, string>> = {}): LoadRequest {
  return { method: 'GET', target, headers: { ...bearer(), ...headers }, body: '' };
}

function post(body: string): LoadRequest {
  const headers = { ...bearer(), 'Content-Type': 'application/json' };
  return { method: 'POST', target: '/v1/pets', headers, body };
}

/** JSON that the description accepts, of exactly `bytes`. */
function petOf(bytes: number): string {
  const tag = (id: number) => `{"id":${id},"name":"a tag of this animal"}`;
  const whole = (tags: readonly string[]) =>
    `{"name":"Biscuit","categoryId":1,"status":"available","tags":[${tags.join(',')}]}`;
  const tags: string[] = [];
  while (whole([...tags, tag(100 + tags.length)]).length <= bytes) tags.push(tag(100 + tags.length));
  return whole(tags).padEnd(bytes);
}
