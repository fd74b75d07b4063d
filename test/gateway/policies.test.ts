import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { AUDIENCE, ISSUER, jwksOf, type SigningKey, signingKey } from '../identify/jwt-issuer.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, PLANS, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// `policies` of a route: what they see, what they may answer, and what becomes of a request whose policy fails.

const POLICIES: Readonly<Record<string, string>> = {
  // Answers with all that it sees.
  'seen.ts': `import type { Policy } from 'tollgate';
export default ((request, caller) => ({
  headers: { 'X-Seen': encodeURIComponent(JSON.stringify({ request, caller, prototype: Object.getPrototypeOf(request.headers) })) },
})) satisfies Policy;`,
  // Does what the client asks for.
  'obey.mjs': `export default async (request) => {
  const wish = new URLSearchParams(request.query).get('do');
  if (wish === 'throw') throw new Error('internal detail');
  if (wish === 'never') return new Promise(() => {});
  if (wish === 'late') return new Promise((resolve) => setTimeout(resolve, 10_000, { refuse: { status: 403, code: 'late', message: 'Late.' } }));
  if (wish === 'loop') for (const end = performance.now() + 80; performance.now() < end; );
  return wish === null || wish === 'loop' ? undefined : JSON.parse(wish);
};`,
  'sync.js': `export default (request) => {
  const wish = new URLSearchParams(request.query).get('do');
  if (wish === 'throw') throw 'a text';
  if (wish === 'loop') for (const end = performance.now() + 80; performance.now() < end; );
  return wish === null || wish === 'loop' ? undefined : JSON.parse(wish);
};`,
  'first.js': `export default () => ({ cost: 2, headers: { 'X-One': 'first', 'x-two': 'first' } });`,
  'second.js': `export default async () => ({ cost: 3, headers: { 'X-Two': 'second' } });`,
};

const ROUTES = (folder: string) => `
  - { path: '/seen/{tenant}/files/**', methods: [GET], upstream: store, policies: ['${folder}/seen.ts'] }
  - { path: /public, methods: [GET], upstream: store, auth: none, limits: { minute: 100 }, policies: ['${folder}/seen.ts'] }
  - { path: /async, methods: [GET, POST], upstream: store, websocket: true, policies: ['${folder}/obey.mjs'] }
  - { path: /sync, methods: [GET, POST], upstream: store, policies: ['${folder}/sync.js'] }
  - { path: /both, methods: [GET], upstream: store, cost: 7, headers: { request: { set: { X-One: route } } }, policies: ['${folder}/first.js', '${folder}/second.js'] }
  - { path: /scoped, methods: [GET], upstream: store, scopes: [orders:write], headers: { request: { set: { X-Team: '{consumer.meta.team}' } } }, policies: ['${folder}/sync.js'] }
  - { path: /without, methods: [GET], upstream: store }
`;

let upstream: Upstream;
let gateway: TestGateway;
let folder: string;
let signer: SigningKey;

beforeAll(async () => {
  folder = await temporaryFolder();
  for (const [name, text] of Object.entries(POLICIES)) await writeFile(join(folder, name), text);
  signer = await signingKey('one');
  await writeFile(join(folder, 'jwks.json'), jwksOf(signer));
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES(folder),
    plans: PLANS.replace(
      '\nbans:',
      '\n  grouped: { limits: { minute: 60 }, groups: { search: { routes: [/none], limits: { minute: 1 } } } }\nbans:',
    ),
    more: `keys: { from: [authorization, { header: X-Api-Key }, { query: api_key }] }
headers: { allow: [X_Cookie, X_Tenant] }
jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${folder}/jwks.json', algorithms: [ES256] }`,
    env: { ADMIN_TOKEN: 'admin-token-of-this-test-0123456789' },
  });
});

interface Seen {
  readonly request: { headers: Record<string, string>; query: string; path: string; route: object } & Record<
    string,
    unknown
  >;
  readonly caller: Record<string, unknown>;
  readonly prototype: unknown;
}

const seenBy = (last = upstream.requests.at(-1)!): Seen =>
  JSON.parse(decodeURIComponent(last.values('x-seen')[0]!)) as Seen;
const wish = (what: object | string) =>
  `?do=${encodeURIComponent(typeof what === 'string' ? what : JSON.stringify(what))}`;
const REFUSAL = { refuse: { status: 403, code: 'wrong_tenant', message: 'This key is of "another" tenant.' } };

const NO_ACCESS = { scopes: [], metadata: {} };

describe('a policy sees', () => {
  test('the head, the caller and the route, and never a secret or a copy of a field of the gateway (reliability 276)', async () => {
    const { id, key } = await gateway.createKey('endless', '--name', 'Zoë', '--owner', 'acme');
    const fields = [
      ...['Cookie: session=s3cret', 'Proxy-Authorization: Basic s3cret', 'Referer: https://a/?api_key=s3cret&x=1'],
      ...[
        'X_Cookie: fine',
        'X_Tenant: fine',
        'X-Consumer-Id: s3cret',
        'X-Consumer-Plan: s3cret',
        'X.Consumer.Id: s3cret',
      ],
      ...[
        'X-Forwarded-For: s3cret',
        'Forwarded: for=s3cret',
        'X-Real-IP: s3cret',
        'X-Request-Id: mine',
        '__proto__: s3cret',
      ],
      ...['Connection: X-Hop', 'X-Hop: s3cret', 'Accept: a/b', 'ACCEPT: c/d', 'Content-Length: 0', `X-Api-Key: ${key}`],
    ];
    const target = '/seen/%61cme/files/a%20b/c?x=1&tenant=y';
    await rawExchange(gateway.port, `GET ${target} HTTP/1.1\r\nHost: api.example\r\n${fields.join('\r\n')}\r\n\r\n`);
    expect(seenBy()).toEqual({
      request: {
        ...{ id: 'mine', method: 'GET', path: '/seen/%61cme/files/a%20b/c', query: 'x=1&tenant=y' },
        headers: {
          ...{ host: 'api.example', accept: 'a/b, c/d', 'content-length': '0' },
          ...{ referer: 'https://a/?x=1', x_tenant: 'fine', x_cookie: 'fine' },
        },
        clientAddress: '127.0.0.1',
        route: { path: '/seen/{tenant}/files/**', names: { tenant: 'acme' }, rest: 'a b/c' },
      },
      caller: { id, name: 'Zoë', owner: 'acme', plan: 'endless', customer: null, ...NO_ACCESS, claims: null },
      prototype: null,
    });
    const seen = upstream.requests.at(-1)!.values('x-seen')[0]!;
    expect(decodeURIComponent(seen)).not.toMatch(/s3cret|tg_live/);

    await rawExchange(gateway.port, `GET /seen/a/files/?x=1&api_key=${key}&y HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect(seenBy().request.query).toBe('x=1&y');
    await rawExchange(gateway.port, `GET /seen/a/files/ HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    expect(Object.keys(seenBy().request.headers)).toEqual(['host']);
  });

  test('the verified claims of a token, but not the token', async () => {
    const token = await signer.sign({ sub: 'u1', plan: 'endless', tenant: { id: 'acme' } });
    expect((await gateway.get('/seen/a/files/', token)).status).toBe(200);
    const { caller, request } = seenBy();
    expect(caller).toMatchObject({ id: expect.stringMatching(/^jwt_/), name: null, plan: 'endless' });
    expect(caller.claims).toMatchObject({ iss: ISSUER, sub: 'u1', tenant: { id: 'acme' } });
    expect(JSON.stringify({ caller, request })).not.toContain(token.split('.')[2]);
  });

  test('no caller on a route without keys', async () => {
    expect((await gateway.get('/public')).status).toBe(200);
    expect(seenBy().caller).toEqual({
      id: null,
      name: null,
      owner: null,
      plan: 'public',
      customer: null,
      ...NO_ACCESS,
      claims: null,
    });
  });
});

describe.each(['/async', '/sync'])('a policy of %s', (path) => {
  test('refuses with its own status, code and sentence, and nothing is counted', async () => {
    const { key } = await gateway.createKey('small');
    const forwarded = upstream.requests.length;
    for (let i = 0; i < 12; i++) {
      const answer = await gateway.get(`${path}${wish(REFUSAL)}`, key);
      expect(answer.status).toBe(403);
      expect(await answer.json()).toEqual({
        code: 'wrong_tenant',
        message: 'This key is of "another" tenant.',
        status: 403,
      });
      expect(answer.headers.get('x-ratelimit-limit')).not.toBeNull();
      expect(answer.headers.get('x-request-id')).not.toBeNull();
    }
    expect(upstream.requests.length).toBe(forwarded);
    expect(await usageOf(key)).toMatchObject({ windows: { minute: { used: 0 } }, ban: null });
  });

  test('gives a 401 the challenge that it must have', async () => {
    const { key } = await gateway.createKey('free');
    const answer = await gateway.get(`${path}${wish({ refuse: { ...REFUSAL.refuse, status: 401 } })}`, key);
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="tollgate"');
  });

  test('chooses the cost, which is counted and may be too high', async () => {
    const { key } = await gateway.createKey('free');
    expect((await gateway.get(`${path}${wish({ cost: 50 })}`, key)).status).toBe(200);
    expect((await gateway.get(path, key)).status).toBe(200);
    const refused = await gateway.get(`${path}${wish({ cost: 10 })}`, key);
    expect([refused.status, await refused.json()]).toEqual([
      429,
      expect.objectContaining({ code: 'rate_limit_exceeded' }),
    ]);
    expect((await gateway.get(`${path}${wish({ cost: 9 })}`, key)).status).toBe(200);
    expect((await usageOf(key)).windows.minute.used).toBe(60);
  });

  test('sets fields for the service in place of those of the client', async () => {
    const { key } = await gateway.createKey('endless');
    const fields = { 'X-Tenant': 'root', X_Tenant: 'root' };
    await gateway.get(`${path}${wish({ headers: { 'x-tenant': 'acme {plan}' } })}`, key, { headers: fields });
    expect(upstream.requests.at(-1)!.values('x-tenant')).toEqual(['acme {plan}']);
    expect(upstream.requests.at(-1)!.rawHeaders.join()).not.toContain('root');
  });

  test.each([
    ['a line break', { headers: { 'X-A': 'b\r\nX-Consumer-Id: root' } }],
    ['a wide character', { headers: { 'X-A': 'Zoë' } }],
    ['a field of the gateway', { headers: { 'x-consumer-id': 'root' } }],
    ['a field that folds into one of the gateway', { headers: { X_Consumer_Id: 'root' } }],
    ['a length', { headers: { 'Content-Length': '3' } }],
    ['framing', { headers: { 'Transfer-Encoding': 'chunked' } }],
    ['a name that is no name', { headers: { 'X A': 'b' } }],
    ['a name twice', { headers: { 'X-A': '1', 'x-a': '2' } }],
    ['a value that is no text', { headers: { 'X-A': 1 } }],
    ['a list of fields', { headers: ['X-A'] }],
    ['a cost of 0', { cost: 0 }],
    ['half a cost', { cost: 1.5 }],
    ['too high a cost', { cost: 1_000_000_001 }],
    ['a cost in words', { cost: '2' }],
    ['a result in words', '"refuse"'],
    ['a list', '[]'],
    ['null', 'null'],
    ['a member that there is not', { refused: REFUSAL.refuse }],
    ['a refusal with 200', { refuse: { ...REFUSAL.refuse, status: 200 } }],
    ['a refusal with 101', { refuse: { ...REFUSAL.refuse, status: 101 } }],
    ['a refusal with 307', { refuse: { ...REFUSAL.refuse, status: 307 } }],
    ['a refusal with 405, which must have Allow', { refuse: { ...REFUSAL.refuse, status: 405 } }],
    ['a code of the gateway', { refuse: { ...REFUSAL.refuse, code: 'api_key_banned' } }],
    ['a code in capitals', { refuse: { ...REFUSAL.refuse, code: 'Wrong' } }],
    ['no message', { refuse: { status: 403, code: 'wrong' } }],
    ['a refusal and a cost', { ...REFUSAL, cost: 1 }],
  ])(
    'with %s as its result fails the request, which is not counted or forwarded (reliability 278)',
    async (_what, result) => {
      const { key } = await gateway.createKey('free');
      const forwarded = upstream.requests.length;
      const answer = await gateway.get(`${path}${wish(result)}`, key);
      await expectFailure(answer);
      expect(upstream.requests.length).toBe(forwarded);
      expect((await usageOf(key)).windows.minute.used).toBe(0);
    },
  );
});

test.each([
  ['throws', '/async', 'throw'],
  ['throws a text', '/sync', 'throw'],
  ['never answers', '/async', 'never'],
  ['answers late', '/async', 'late'],
])('a policy that %s fails the request, and the next one is served (reliability 277)', async (_what, path, what) => {
  const { key } = await gateway.createKey('free');
  await expectFailure(await gateway.get(`${path}${wish(what)}`, key));
  expect((await gateway.get(path, key)).status).toBe(200);
  expect((await usageOf(key)).windows.minute.used).toBe(1);
});

test('a policy chooses the scopes and the metadata of a request, beside those of the key', async () => {
  const { key } = await gateway.createKey('free', '--meta', 'team=red');
  expect((await gateway.get('/scoped', key)).status).toBe(403);
  const allowed = await gateway.get(`/scoped${wish({ scopes: ['orders:write'] })}`, key);
  expect([allowed.status, upstream.requests.at(-1)!.values('x-team')]).toEqual([200, ['red']]);
  await gateway.get(`/scoped${wish({ scopes: ['orders:write'], metadata: { team: 'blue' } })}`, key);
  expect(upstream.requests.at(-1)!.values('x-team')).toEqual(['blue']);
  const scoped = await gateway.createKey('free', '--scope', 'orders:write');
  expect((await gateway.get(`/scoped${wish({ scopes: [] })}`, scoped.key)).status).toBe(403);
});

test('a policy counts a request by groups of the plan, and groups that the plan lacks have no effect', async () => {
  const { key } = await gateway.createKey('grouped');
  const search = `/sync${wish({ budgets: { groups: ['search', 'other'] } })}`;
  expect((await gateway.get(search, key)).headers.get('ratelimit-policy')).toContain('"search-minute";q=1;w=60');
  expect((await gateway.get(search, key)).status).toBe(429);
  expect((await gateway.get('/sync', key)).status).toBe(200);
  const { key: other } = await gateway.createKey('free');
  expect((await gateway.get(search, other)).status).toBe(200);
});

test('a body that comes with a refused request is not read as another request', async () => {
  const { key } = await gateway.createKey('free');
  const head = `POST /async${wish(REFUSAL)} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 50\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, [head, 'GET /without HTTP/1.1\r\nHost: a\r\n\r\n']);
  expect(responses.map(({ status }) => status)).toEqual([403]);
});

test('of several policies each sees the request, the last cost counts, and fields are joined', async () => {
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/both', key)).status).toBe(200);
  const { values } = upstream.requests.at(-1)!;
  expect([values('x-one'), values('x-two')]).toEqual([['first'], ['second']]);
  expect((await usageOf(key)).windows.minute.used).toBe(3);
});

test('on one connection fields of a policy stay with their request', async () => {
  const { key } = await gateway.createKey('endless');
  const line = (target: string) => `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const targets = [
    `/sync${wish({ headers: { 'X-T': 'one' } })}`,
    '/sync',
    `/sync${wish({ headers: { 'X-T': 'two' } })}`,
    '/without',
  ];
  const seen = upstream.requests.length;
  await rawExchange(gateway.port, targets.map(line), { until: 4, pauseMs: 20 });
  expect(upstream.requests.slice(seen).map((request) => request.values('x-t'))).toEqual([['one'], [], ['two'], []]);
});

test('a WebSocket is refused, or opened with the fields of the policy', async () => {
  const service = await startWebSocketUpstream();
  const open = await openGateway({ upstream: service.origin, routes: ROUTES(folder) });
  const { key } = await open.createKey('free');
  await expect(openWebSocket(open, key, `/async${wish(REFUSAL)}`)).rejects.toThrow('403');
  expect(service.asked).toEqual([]);
  await openWebSocket(open, key, `/async${wish({ headers: { 'X-T': 'one' } })}`, { headers: { 'X-T': 'root' } });
  expect(service.asked.at(-1)!.headers).toMatchObject({ 'x-t': 'one' });
});

interface Usage {
  readonly windows: { readonly minute: { readonly used: number } };
}

async function usageOf(key: string): Promise<Usage> {
  return (await (await gateway.get('/usage', key)).json()) as Usage;
}

async function expectFailure(answer: Response): Promise<void> {
  const body = await answer.text();
  expect(answer.status, body).toBe(500);
  const message = 'The gateway could not decide whether this request is allowed. Send the request id to its operator.';
  expect(JSON.parse(body)).toEqual({ code: 'policy_failed', message, status: 500 });
}

interface Line {
  readonly msg: string;
  readonly policy?: string;
  readonly reason?: string;
  readonly count?: number;
  readonly requestId?: string;
  readonly judgement?: string;
  readonly code?: string;
  readonly cause?: string | null;
}

const linesOf = ({ process }: TestGateway) =>
  process.stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []));

describe('operators', () => {
  const admin = { headers: { Authorization: 'Bearer admin-token-of-this-test-0123456789' } };

  test('find the policy and its code in the log and in Explain', async () => {
    const { key } = await gateway.createKey('free');
    const refused = await gateway.get(`/sync${wish(REFUSAL)}`, key);
    const failed = await gateway.get(`/sync${wish('throw')}`, key);
    const [one, other] = [refused, failed].map(({ headers }) => headers.get('x-request-id')!);
    await eventually(() => {
      const line = linesOf(gateway).find(({ requestId }) => requestId === one);
      expect(line).toMatchObject({ judgement: 'denied', code: 'wrong_tenant', policy: `${folder}/sync.js` });
      expect(linesOf(gateway).find(({ requestId }) => requestId === other)).toMatchObject({
        ...{ judgement: 'undecided', code: 'policy_failed', policy: `${folder}/sync.js`, cause: 'it threw a text' },
      });
    });
    const explain = async (id: string) => {
      const answer = await fetch(`http://127.0.0.1:${gateway.adminPort}/admin/refusals/${id}`, admin);
      return ((await answer.json()) as { refusals: readonly object[] }).refusals[0];
    };
    expect(await explain(one!)).toMatchObject({
      ...{ code: 'wrong_tenant', status: 403, judgement: 'denied', policy: `${folder}/sync.js` },
      sentence: `The policy ${folder}/sync.js of this route refused the request with the code wrong_tenant and the status 403.`,
    });
    expect(await explain(other!)).toMatchObject({
      policy: `${folder}/sync.js`,
      sentence: expect.stringMatching(/A policy of this route failed.* The gateway noted: it threw a text\.$/),
    });
  });

  test('get one line a second of a policy that fails for a flood of requests, and few series of metrics (reliability 279)', async () => {
    const own = await openGateway({ upstream: upstream.origin, routes: ROUTES(folder) });
    const { key } = await own.createKey('endless');
    const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const failing = Array.from({ length: 300 }, () => `GET /sync${wish('throw')} HTTP/1.1\r\n${fields}`);
    const codes = Array.from({ length: 50 }, (_, i) => {
      return `GET /sync${wish({ refuse: { ...REFUSAL.refuse, code: `tenant_${i}` } })} HTTP/1.1\r\n${fields}`;
    });
    const startedMs = performance.now();
    await rawExchange(own.port, [failing.join('') + codes.join('')], { until: 350 });
    const seconds = Math.ceil((performance.now() - startedMs) / 1000);
    const failures = () => linesOf(own).filter(({ msg }) => msg === 'a policy failed');
    await eventually(() => {
      expect(failures().reduce((sum, { count }) => sum + count!, 0)).toBe(300);
    });
    expect(failures()[0]).toMatchObject({ policy: `${folder}/sync.js`, reason: 'it threw a text', count: 1 });
    expect(failures().length).toBeLessThanOrEqual(seconds + 1);
    const metrics = await (await fetch(`http://127.0.0.1:${own.adminPort}/metrics`)).text();
    expect(metrics).toContain(`tollgate_policy_runs_total{policy="${folder}/sync.js",outcome="failed"} 300`);
    expect(metrics).toContain(`tollgate_policy_runs_total{policy="${folder}/sync.js",outcome="refused"} 50`);
    expect(metrics).toContain(`tollgate_policy_runs_total{policy="${folder}/seen.ts",outcome="allowed"} 0`);
    expect(metrics).toMatch(/tollgate_requests_total\{[^}]*judgement="denied",status="4xx",code="policy"[^}]*\} 50/);
    expect(metrics).not.toContain('tenant_1');
  });
});
