import { beforeAll, describe, expect, test } from 'vitest';
import { openApi } from '../../../src/admin/openapi.ts';
import { pepperCheckOf } from '../../../src/identify/pepper-record.ts';
import { CLIENT, OpenIdProvider } from '../../admin/openid-provider.ts';
import { ask, STORES, startWithAdmin, TOKEN, type Told } from '../../admin/operator.ts';
import { someKey } from '../../identify/some-key.ts';
import { eventually } from '../../support/conditions.ts';
import { PLANS as COMMON, type TestGateway } from '../../support/gateway.ts';
import { type Description, Referee, readDescription } from '../../support/openapi-referee.ts';
import { type PrivateRedis, privateRedis, redisCommand } from '../../support/redis.ts';

/** With a plan whose customers are banned as wholes. */
const PLANS = COMMON.replace('plans:\n', '$&  shared: { limits: { minute: 3 }, bans: { of: customer } }\n');

const described = JSON.parse(JSON.stringify(openApi()));

type What = Parameters<typeof ask> extends [unknown, ...infer Rest] ? Rest : never;

/** A referee that asks, and fails where the answer is not as described. */
class AskingReferee extends Referee {
  async ask(gateway: Pick<TestGateway, 'adminPort'>, ...what: What): Promise<Told> {
    const told = await ask(gateway, ...what);
    const [method, path] = what;
    const faults = this.faultsOf(method, path, { ...told, headers: Object.fromEntries(told.headers) });
    expect([method, path, faults]).toEqual([method, path, []]);
    return told;
  }
}

/** Nothing that a primary takes after that is known to be durable: its replica may have been promoted. */
async function leftByItsReplica({ port, url }: PrivateRedis): Promise<void> {
  const replicas = async () =>
    /connected_slaves:(\d)/.exec(String(await redisCommand(url, 'INFO', 'replication')))?.[1];
  const configArgs = ['--replicaof', `127.0.0.1 ${port}`, '--repl-diskless-sync-delay', '0'];
  const replica = await privateRedis({ asProcess: true, configArgs });
  await eventually(async () => (await replicas()) === '1', { withinMs: 15_000 });
  await replica.stop();
  await eventually(async () => (await replicas()) === '0', { withinMs: 15_000 });
}

const KINDS = ['/keys', '/customers'] as const;

/** The id of a new key, or of a new customer, that is banned. */
async function bannedId(of: TestGateway, kind: (typeof KINDS)[number]): Promise<string> {
  const make = (path: string, body: object) => referee.ask(of, 'POST', `/admin${path}`, body);
  const { id, key = null } = (await make(kind, { plan: kind === '/keys' ? 'small' : 'shared' })).body;
  const caller = key ?? (await make('/keys', { customer: id })).body.key;
  // Three requests are admitted, ten are strikes.
  for (let i = 0; i < 13; i++) await of.get('/v1/pets', caller);
  const { ban } = (await referee.ask(of, 'GET', `/admin${kind}/${id}/usage`)).body;
  expect([kind, ban]).toEqual([kind, expect.objectContaining({ number: 1 })]);
  return id;
}

let description: Description;
let referee: AskingReferee;
beforeAll(async () => {
  description = await readDescription(described);
  referee = new AskingReferee(description, '/admin');
});

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

describe('the OpenAPI description', () => {
  test('is valid OpenAPI 3.1 and is served', async () => {
    expect(description.openapi).toMatch(/^3\.1\./);
    const gateway = await startWithAdmin(await STORES['the embedded store']!());
    const served = await referee.ask(gateway, 'GET', '/admin/openapi.json');
    expect([served.status, served.body]).toEqual([200, described]);
  });

  test('its examples obey its own schemas', () => {
    const { count, wrong } = referee.examples();
    expect([count > 10, wrong]).toEqual([true, []]);
  });
});

describe('the API held to its description', () => {
  test('takes the bodies that the schema takes and refuses those that it refuses', async () => {
    const gateway = await startWithAdmin(await STORES['the embedded store']!());
    const schemaOf = (path: string, method: string) =>
      description.paths[path]![method]!.requestBody!.content['application/json']!.schema;
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free' });
    const bodies = [
      { plan: 'free' },
      { plan: 'free', name: null, owner: 'o', notes: 'x\ny', limits: {}, expiresAt: null },
      { plan: 'free', limits: { minute: 0, day: 'unlimited' } },
      { plan: 'free', limits: { minute: null } },
      { plan: 'free', limits: { minute: -1 } },
      { plan: 'free', limits: { minute: 1e15 } },
      { plan: 'free', limits: { minute: '5' } },
      { plan: 'free', limits: { week: 5, month: 'unlimited' } },
      { plan: 'free', limits: { year: 5 } },
      { plan: 'free', name: 'x'.repeat(100) },
      { plan: 'free', name: '🐟'.repeat(100) },
      { plan: 'free', name: 'x'.repeat(101) },
      { plan: 'free', notes: 'x'.repeat(1001) },
      { plan: 'free', other: 1 },
      { plan: 5 },
      { name: 'n' },
      {},
      [],
      'free',
    ];
    for (const [path, method, on, status] of [
      ['/keys', 'post', '/admin/keys', 201],
      ['/keys/{id}', 'patch', `/admin/keys/${made.body.id}`, 200],
    ] as const) {
      for (const body of bodies) {
        const told = await referee.ask(gateway, method.toUpperCase(), on, JSON.stringify(body));
        const expected = referee.accepts(schemaOf(path, method), body) ? status : 400;
        expect([method, JSON.stringify(body), told.status]).toEqual([method, JSON.stringify(body), expected]);
      }
    }
  });

  test('gives every answer that is described, each as described', async () => {
    const server = await privateRedis({ asProcess: true });
    const store = { REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' };
    const gateway = await startWithAdmin(store, { plans: PLANS });
    const closed = await startWithAdmin({ ...store, ADMIN_TOKEN: '' }, { plans: PLANS });
    const it = (...what: What) => referee.ask(gateway, ...what);
    const { id, key } = (await it('POST', '/admin/keys', { plan: 'small' }, { 'Idempotency-Key': 'a' })).body;
    await it('POST', '/admin/keys', { plan: 'small' }, { 'Idempotency-Key': 'a' });
    await it('POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': 'a' });
    for (let i = 0; i < 14; i++) {
      await gateway.get('/v1/pets', key, { headers: i % 5 === 3 ? { 'X-Request-Id': 'refused' } : {} });
    }
    await gateway.get('/v1/pets', undefined, { headers: { 'X-Request-Id': 'refused' } });
    await gateway.get('/v1/pets/1', (await it('POST', '/admin/keys', { plan: 'free' })).body.key);
    const newCustomer = (plan: string) => it('POST', '/admin/customers', { plan }, { 'Idempotency-Key': 'd' });
    const { id: customer } = (await newCustomer('small')).body;
    for (const plan of ['small', 'free']) await newCustomer(plan);
    const { id: member } = (await it('POST', '/admin/keys', { customer })).body;
    const { number, version } = await eventually(
      async () => (await it('GET', '/admin/plans/history')).body.versions[0] ?? false,
    );
    const backup = { madeAt: '2026-01-01T00:00:00.000Z', peppers: [pepperCheckOf(store.KEY_PEPPER)] };
    const stored = someKey({ id: 'key_0000000000000001', plan: 'lacked' }).key;
    const each: [string, string, unknown?][] = [
      ['GET', '/admin/customers?q=c&plan=small&owner=o&expiring=1d&limit=1'],
      ['GET', `/admin/customers/${customer}`],
      ['PATCH', `/admin/customers/${customer}`, { owner: 'o' }],
      ['GET', `/admin/customers/${customer}/history?keys=true`],
      ...['usage', 'history'].flatMap((of): [string, string][] => [['GET', `/admin/customers/${customer}/${of}`]]),
      ['POST', `/admin/customers/${customer}/topups`, { window: 'minute', amount: 1 }],
      ['POST', `/admin/customers/${customer}/topups`, { window: 'year', amount: 1 }],
      ['DELETE', `/admin/customers/${customer}/topups/minute`],
      ['DELETE', `/admin/customers/${customer}/topups/year-day`],
      ['POST', `/admin/customers/${customer}/usage/reset`, {}],
      ['POST', `/admin/customers/${customer}/delete`, {}],
      ...['suspend', 'resume'].flatMap((action): [string, string, unknown][] => [
        ['POST', `/admin/customers/${customer}/${action}`, {}],
      ]),
      ['POST', `/admin/keys/${member}/move`, { customer: null }],
      ['GET', '/admin/keys?limit=1'],
      ['GET', `/admin/keys/${id}`],
      ['GET', '/admin/keys?q=k&plan=small&owner=o&expiring=1d&unused=1d&all=true'],
      ['POST', '/admin/keys/find', { secret: key }],
      ['POST', '/admin/keys/find', { secret: 'none' }],
      ['GET', `/admin/keys/${id}/deprecations`],
      ['GET', `/admin/keys/${id}/networks`],
      ['GET', `/admin/names?ids=${id},${customer}`],
      ['GET', '/admin/scopes'],
      ['GET', '/admin/secrets'],
      ['GET', `/admin/standings?customers=${customer}`],
      ['GET', '/admin/usage/customers?top=1'],
      ['PATCH', `/admin/keys/${id}`, { owner: 'o' }],
      ['POST', `/admin/keys/${id}/rotate`, { overlap: '1h' }],
      ['POST', `/admin/keys/${id}/secrets/end`, { last4: key.slice(-4) }],
      ['POST', `/admin/keys/${id}/rotate`, { leaked: true }],
      ['POST', `/admin/keys/${id}/suspend`, { until: '1h', reason: 'r' }],
      ['GET', `/admin/keys/${id}`],
      ['POST', `/admin/keys/${id}/resume`],
      ['POST', `/admin/keys/${id}/topups`, { window: 'day', amount: 5 }],
      ['POST', `/admin/keys/${id}/topups`, { window: 'hour', amount: 5 }],
      ['DELETE', `/admin/keys/${id}/topups/day`],
      ['DELETE', `/admin/keys/${id}/topups/hour`],
      ['POST', `/admin/keys/${id}/usage/reset`, { windows: ['day'] }],
      ['GET', `/admin/keys/${id}/usage`],
      ['GET', `/admin/keys/${id}/usage?plan=gold`],
      ['GET', `/admin/keys/jwt_${'a'.repeat(32)}/usage?plan=free`],
      ['GET', `/admin/keys/${id}/history`],
      ['GET', `/admin/keys/${id}/history?step=day&from=30d`],
      ['GET', `/admin/keys/${id}/history?from=30d`],
      ['GET', '/admin/usage?from=1d&step=hour&limit=1'],
      ['GET', '/admin/usage?from=1d&key=none'],
      ['GET', '/admin/now'],
      ['GET', '/admin/now?scan=true&limit=1'],
      ['GET', '/admin/bans'],
      ['POST', '/admin/cache/purges', { route: '/v1/pets', path: null }],
      ['POST', '/admin/cache/purges', { path: '/v1/pets' }],
      ['POST', '/admin/cache/purges', { route: '/v1/pet' }],
      ['GET', '/admin/plans'],
      ['POST', '/admin/plans/check', { text: 'plans: 1' }],
      ['POST', '/admin/plans/check', { text: PLANS.replace('day: 1000', 'day: 1') }],
      [
        'POST',
        '/admin/plans/edit',
        { text: PLANS, edits: [{ path: ['plans', 'free', 'bans'], value: 'off' }], plan: 'free' },
      ],
      ['POST', '/admin/plans/edit', { text: 'plans: [', edits: [] }],
      ['POST', '/admin/plans/diff', { text: 'plans: 1' }],
      ['POST', '/admin/plans/diff', { text: PLANS.replace(/^ {2}small.*\n/m, '') }],
      ['POST', '/admin/plans/simulate', { text: 'plans: 1', record: 'recent' }],
      ['GET', '/admin/plans/file'],
      ['GET', '/admin/plans/history'],
      ['GET', `/admin/plans/history/${version}`],
      ['GET', '/admin/deprecations'],
      ['GET', '/admin/audit'],
      ['GET', '/admin/audit?limit=1&since=1h&actor=ADMIN_TOKEN'],
      ['GET', '/admin/session'],
      ['POST', '/admin/session', { token: TOKEN }],
      ['DELETE', '/admin/session'],
      ['DELETE', '/admin/session?everywhere=maybe'],
      ['GET', '/admin/gateways'],
      ['GET', '/admin/traffic'],
      ['GET', '/admin/traffic/history'],
      ['GET', '/admin/traffic/history?by=plan&range=24h&compare=true&top=2'],
      ['GET', '/admin/near'],
      ['GET', '/admin/refusals?caller=key_0000000000000000'],
      ['GET', '/admin/refusals/refused'],
      ['GET', '/admin/events/now'],
      ['GET', '/admin/events/requests?status=4xx'],
      ['GET', '/admin/openapi.json'],
      ['GET', '/admin/none'],
      ['PUT', '/admin/keys'],
      ['POST', '/admin/keys/import', { file: 'keys.csv', keys: [{ sha256: 'a'.repeat(64), plan: 'free' }, {}] }],
      ['POST', '/admin/keys/import', { keys: [{ sha256: 'b'.repeat(64), plan: 'free' }], dryRun: true }],
      [
        'POST',
        '/admin/keys/apply',
        { set: 'a', customers: { c: { plan: 'free' } }, keys: { k: { customer: 'c' }, l: {} } },
      ],
      ['POST', '/admin/keys/apply', { set: 'a', customers: { c: { plan: 'free' } }, keys: { k: { customer: 'c' } } }],
      ['POST', '/admin/keys/restore', { peppers: ['none'], records: [] }],
      ['POST', '/admin/keys/restore', { ...backup, records: [{}] }],
      ['POST', '/admin/keys/restore', { ...backup, records: [stored] }],
    ];
    for (const [method, path, body] of each) await it(method, path, body);
    const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
      METHODS.filter((method) => method in methods).map((method) => [method, path, methods[method]!] as const),
    );
    const bodyFor = (method: string, path: string) => {
      if (/\/(rotate|suspend|resume|delete|reset)$/.test(path)) return undefined;
      if (path.endsWith('/import')) return { keys: [{}] };
      if (path.endsWith('/apply')) return { set: 'a', customers: { c: { plan: 'free' } } };
      if (path.endsWith('/restore') && path.startsWith('/keys')) return { ...backup, records: [stored] };
      if (path === '/session') return method === 'post' ? { token: 'wrong' } : undefined;
      if (path.endsWith('/purges')) return {};
      if (path.endsWith('/find')) return { secret: key };
      if (path.endsWith('/secrets/end')) return { last4: 'abcd' };
      if (path.endsWith('/move')) return { customer: null };
      if (path.endsWith('/topups')) return { window: 'day', amount: 5 };
      return method === 'patch' ? { owner: 'o' } : method === 'post' ? { plan: 'free' } : undefined;
    };
    /** The path with the ids of a record that exists, or of none. */
    const pathTo = (path: string, of = path.startsWith('/customers') ? customer : id) =>
      `/admin${path.replace('{id}', of).replace(/\{[a-zA-Z]+\}/, '0000')}`;
    for (const [lower, path, { requestBody, parameters = [], responses }] of operations) {
      const [method, body] = [lower.toUpperCase(), bodyFor(lower, path)];
      const has = (status: number) => status in responses;
      // An operation without parameters that is no GET ignores its query.
      const isAskedByQuery = lower === 'get' || parameters.some((one) => one.in === 'query');
      if (has(400) && requestBody !== undefined) await it(method, pathTo(path), { what: 1 });
      else if (has(400) && isAskedByQuery) await it(method, `${pathTo(path)}?what=1`);
      if (has(404)) await it(method, pathTo(path, 'none'), body);
      if (requestBody !== undefined) {
        await it(method, pathTo(path), '{}', { 'Content-Type': 'text/plain' });
        await it(
          method,
          pathTo(path),
          ' '.repeat(/^\/plans|\/(apply|import|restore)$/.test(path) ? 30_000_000 : 70_000),
        );
      }
      if (has(412)) for (const tag of ['"x"', 'x']) await it(method, pathTo(path), body, { 'If-Match': tag });
    }
    for (const amount of [5, 5, 6]) {
      await it('POST', `/admin/keys/${id}/topups`, { window: 'day', amount }, { 'Idempotency-Key': 'b' });
      await it('POST', `/admin/keys/${id}/usage/reset`, { windows: ['day'] }, { 'Idempotency-Key': 'c' });
      await it('POST', `/admin/customers/${customer}/topups`, { window: 'day', amount }, { 'Idempotency-Key': 'd' });
    }
    for (const windows of [['day'], ['minute']]) {
      await it('POST', `/admin/customers/${customer}/usage/reset`, { windows }, { 'Idempotency-Key': 'e' });
    }
    await it('POST', `/admin/keys/${id}/usage/reset`, {}, { 'Idempotency-Key': 'c' });
    const log = await eventually(
      () => /^.*"judgement":"refused".*"msg":"request"\}$/m.exec(gateway.process.stdout)![0],
    );
    await it('POST', '/admin/plans/simulate', { text: PLANS, log });
    const editing = await startWithAdmin(store, { plans: PLANS, admin: { editPlans: 'true' } });
    for (const [text, headers] of [
      [PLANS, { 'If-Match': '"x"' }],
      [PLANS, {}],
      ['plans: 1', { 'If-Match': '*' }],
      [PLANS.replace(/^ {2}small.*\n/m, ''), { 'If-Match': '*' }],
      [PLANS, { 'If-Match': 'x' }],
      [`${PLANS}\n`, { 'If-Match': '*' }],
    ] as const) {
      await referee.ask(editing, 'PUT', '/admin/plans/file', { text }, headers);
    }
    const restore = (of: string, headers: Record<string, string>) =>
      referee.ask(editing, 'POST', `/admin/plans/history/${of}/restore`, undefined, headers);
    for (const headers of [{ 'If-Match': '"x"' }, { 'If-Match': 'x' }, {}]) await restore(version, headers as never);
    await restore('0000', { 'If-Match': '*' });
    // A version of Tollgate with other rules may have had a text in force that this one refuses.
    for (const text of ['plans: 1', PLANS.replace(/^ {2}small.*\n/m, ''), PLANS]) {
      await redisCommand(server.url, 'HSET', 'tg:plans:history', `${number} text`, text);
      await restore(version, { 'If-Match': '*' });
    }
    const changes = [
      ['PATCH', '', { owner: 'p' }],
      ['POST', '/move', { customer }],
      ['POST', '/rotate', undefined],
      ['POST', '/suspend', undefined],
      ['POST', '/resume', undefined],
      ['POST', '/secrets/end', { last4: 'abcd' }],
      ['DELETE', '', undefined],
    ] as const;
    /** What is done to a key or a customer while it is banned. */
    const banChanges = [['DELETE', '/bans/{id}', undefined]] as const;
    const onBan = (path: string, of: string) => `/admin${path.replace('{id}', of)}`;
    const eachBanned = async (of: TestGateway) => {
      for (const [method, path, body] of banChanges) {
        for (const kind of KINDS.filter((one) => path.startsWith('/bans/') || path.startsWith(one))) {
          await referee.ask(of, method, onBan(path, await bannedId(of, kind)), body);
        }
      }
    };
    const usageChanges = [
      ['POST', '/topups', { window: 'day', amount: 5 }],
      ['DELETE', '/topups/day', undefined],
      ['POST', '/usage/reset', undefined],
    ] as const;
    await eachBanned(gateway);
    await it('POST', `/admin/customers/${customer}/delete`, { keys: 'revoke' });
    await newCustomer('small');
    await it('DELETE', `/admin/keys/${id}`);
    await it('POST', '/admin/keys', { plan: 'small' }, { 'Idempotency-Key': 'a' });
    await it('DELETE', '/admin/keys/none');
    const { body: ended } = await it('POST', '/admin/keys', { plan: 'small' });
    for (const of of ['none', ended.id]) await it('POST', `/admin/keys/${of}/delete`);
    await it('DELETE', `/admin/keys/${ended.id}`);
    await it('POST', `/admin/keys/${ended.id}/delete`, { forever: true });
    await it('POST', `/admin/keys/${ended.id}/delete`);
    for (const [method, path, body] of [...changes, ...usageChanges])
      await it(method, `/admin/keys/${id}${path}`, body);
    for (const [method, path, body] of banChanges) await it(method, onBan(path, id), body);
    // A plan that has left plans.yaml: what its keys may do cannot be told.
    const plans = `plans:
  free: { limits: { minute: 60, hour: unlimited }, shadow: { minute: 30 }, bans: off }
  watched: { limits: { minute: 5 }, enforce: false }
  own: { limits: { day: custom } }
  kinds:
    limits: { minute: { limit: 5, window: sliding }, day: { limit: 9, align: calendar, zone: Europe/Berlin }, month: { limit: 99, anchor: 15 } }
    shadow: { minute: { limit: 4, window: sliding, slices: 30 } }`;
    // Before that, because no one gets a plan that another gateway has removed.
    const { id: planless } = (await it('POST', '/admin/customers', { plan: 'small' })).body;
    const without = await startWithAdmin(store, { plans });
    await referee.ask(without, 'GET', `/admin/keys/${id}/usage`);
    await referee.ask(without, 'GET', `/admin/customers/${planless}/usage`);
    for (const [method, path, body] of usageChanges)
      await referee.ask(without, method, `/admin/customers/${planless}${path}`, body);
    for (const [method, path, body] of banChanges) await referee.ask(without, method, onBan(path, planless), body);
    await referee.ask(without, 'GET', '/admin/plans');
    for (const body of [
      { plan: 'free' },
      { plan: 'watched' },
      { plan: 'kinds' },
      { plan: 'own', limits: { day: 'unlimited' } },
    ]) {
      const made = (await referee.ask(without, 'POST', '/admin/keys', body)).body;
      await without.get('/v1/pets', made.key);
      await referee.ask(without, 'GET', `/admin/keys/${made.id}/usage`);
    }
    await leftByItsReplica(server);
    const more = 'redis: { timeout: 2s, durability: { timeout: 100ms } }';
    const unsettled = await startWithAdmin(store, { plans: PLANS, more });
    const itUnsettled = (...what: What) => referee.ask(unsettled, ...what);
    // Until the plans of this gateway are recorded as the latest, its API takes those of `without` for newer ones, and refuses a plan that
    // they lack.
    await eventually(
      async () => (await itUnsettled('GET', '/admin/plans/history')).body.versions[0].version === version,
    );
    const { body: theirs } = await itUnsettled('POST', '/admin/customers', { plan: 'small' });
    const { body: kept } = await itUnsettled('POST', '/admin/keys', { plan: 'small' });
    await eachBanned(unsettled);
    await itUnsettled('POST', `/admin/keys/${kept.id}/rotate`);
    await itUnsettled('POST', '/admin/keys/import', { keys: [{ sha256: 'c'.repeat(64), plan: 'free' }] });
    await itUnsettled('POST', '/admin/keys/apply', { set: 'b', customers: { d: { plan: 'free' } } });
    await itUnsettled('POST', '/admin/keys/restore', { ...backup, records: [someKey().key] });
    await itUnsettled('POST', `/admin/keys/${kept.id}/secrets/end`, { last4: kept.key.slice(-4) });
    for (const [method, path, body] of usageChanges) {
      await itUnsettled(method, `/admin/keys/${kept.id}${path}`, body);
      await itUnsettled(method, `/admin/customers/${theirs.id}${path}`, body);
    }
    await itUnsettled('POST', `/admin/keys/${kept.id}/move`, { customer: theirs.id });
    for (const [method, path, body] of changes) await itUnsettled(method, `/admin/keys/${kept.id}${path}`, body);
    await itUnsettled('POST', `/admin/keys/${kept.id}/delete`);
    await itUnsettled('PATCH', `/admin/customers/${theirs.id}`, { owner: 'p' });
    for (const action of ['suspend', 'resume', 'delete'])
      await itUnsettled('POST', `/admin/customers/${theirs.id}/${action}`);
    const everywhere = async (of: TestGateway, header: Record<string, string>, atOnce = 1) => {
      const left = operations.values();
      const askInTurn = async () => {
        for (const [method, path] of left) {
          await referee.ask(of, method.toUpperCase(), pathTo(path), bodyFor(method, path), header);
        }
      };
      await Promise.all(Array.from({ length: atOnce }, askInTurn));
    };
    const provider = await OpenIdProvider.start();
    const oidc = `{ issuer: '${provider.issuer}', clientId: ${CLIENT.id}, roles: { staff: viewer } }`;
    const signingIn = await startWithAdmin(store, { plans: PLANS, admin: { oidc } });
    const page = { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' };
    await referee.ask(signingIn, 'POST', '/admin/session/oidc', undefined, page);
    const Origin = `http://127.0.0.1:${signingIn.adminPort}`;
    await referee.ask(signingIn, 'POST', '/admin/session/oidc', undefined, { ...page, Origin });
    await everywhere(closed, {});
    await everywhere(gateway, { Authorization: 'Basic x' });
    await server.pause();
    await everywhere(gateway, {});
    for (const path of [`/admin/names?ids=${id}`, `/admin/standings?customers=${customer}`]) await it('GET', path);
    await server.resume();
    const guess = (_: unknown, i: number) =>
      ask(gateway, 'GET', '/admin/keys', undefined, { Authorization: `Bearer ${i}` });
    await Promise.all(Array.from({ length: 11 }, guess));
    // Each waits a quarter of a second, and all are to come within the minute of the guesses.
    await everywhere(gateway, { Authorization: 'Bearer wrong' }, 8);
    const everyAnswer = operations.flatMap(([, , { operationId, responses }]) =>
      Object.keys(responses)
        .filter((status) => status !== 'default')
        .map((status) => `${operationId} ${status}`),
    );
    expect(everyAnswer.filter((one) => !referee.seen.has(one))).toEqual([]);
  });
});
