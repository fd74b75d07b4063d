import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { AUDIENCE, ISSUER, jwksOf, type SigningKey, signingKey } from '../identify/jwt-issuer.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// What the record of a customer says of its callers: those with its keys, and those with tokens that name it.

const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/orders, methods: [GET], upstream: store, scopes: [orders:read, orders:write] }
  - path: /v1/meta
    methods: [GET]
    upstream: store
    headers: { request: { set: { X-Team: '{consumer.meta.team}', X-Tier: '{consumer.meta.tier}' } } }
`;

let gateway: TestGateway;
let upstream: Upstream;
let issuer: SigningKey;

beforeAll(async () => {
  upstream = await startUpstream();
  issuer = await signingKey();
  const jwks = join(await temporaryFolder(), 'jwks.json');
  await writeFile(jwks, jwksOf(issuer));
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    // The test is a trusted proxy, so that it can be any client.
    listen: { trustedProxies: '[127.0.0.1]' },
    more: `jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256], customerClaim: org }`,
  });
});

const json = async (...words: string[]) => JSON.parse((await gateway.command(...words, '--json')).stdout);
const customerWith = (...options: string[]) => json('customers', 'create', '--plan', 'endless', ...options);
const keyOf = (customer: { readonly id: string }, ...options: string[]) =>
  json('keys', 'create', '--customer', customer.id, ...options);
const tokenOf = ({ id }: { readonly id: string }, claims = {}) => issuer.sign({ org: id, ...claims });
const statusOf = async (key: string, path = '/v1/pets', headers = {}) =>
  (await gateway.get(path, key, { headers })).status;

test('a caller may do what its key or token, or its customer, may do', async () => {
  const customer = await customerWith('--scope', 'orders:read');
  const [none, some] = [await keyOf(customer), await keyOf(customer, '--scope', 'orders:write')];
  const callers = [none.key, some.key, await tokenOf(customer), await tokenOf(customer, { scope: 'orders:write' })];
  const statuses = () => Promise.all(callers.map((one) => statusOf(one, '/v1/orders')));
  expect(await statuses()).toEqual([403, 200, 403, 200]);
  await gateway.command('customers', 'edit', customer.id, '--scope', 'orders:read', '--scope', 'orders:write');
  await eventually(async () => expect(await statuses()).toEqual([200, 200, 200, 200]), { withinMs: 1_000 });
  await gateway.command('customers', 'edit', customer.id, '--scope', '');
  await eventually(async () => expect(await statuses()).toEqual([403, 403, 403, 403]), { withinMs: 1_000 });
});

test('a request must come from an address of the list of its key and of that of its customer', async () => {
  const customer = await customerWith('--address', '192.0.2.0/24', '--address', '2001:db8::/32');
  const [free, bound] = [
    await keyOf(customer),
    await keyOf(customer, '--address', '192.0.2.7', '--address', '10.0.0.1'),
  ];
  const token = await tokenOf(customer);
  const from = (address: string) =>
    Promise.all([free.key, bound.key, token].map((key) => statusOf(key, '/v1/pets', { 'X-Forwarded-For': address })));
  expect(await from('192.0.2.7')).toEqual([200, 200, 200]);
  expect(await from('192.0.2.8')).toEqual([200, 403, 200]);
  expect(await from('2001:db8::1')).toEqual([200, 403, 200]);
  expect(await from('10.0.0.1')).toEqual([403, 403, 403]);
  expect(await from('::ffff:10.0.0.1')).toEqual([403, 403, 403]);
  const [line] = await gateway.process.until(/^.*"cause":"cus_\w+ may not .*$/m);
  expect(JSON.parse(line)).toMatchObject({ cause: `${customer.id} may not be used from 10.0.0.1` });
  expect(await statusOf(free.key, '/usage', { 'X-Forwarded-For': '10.0.0.2' })).toBe(403);
  await gateway.command('customers', 'edit', customer.id, '--address', '');
  await eventually(async () => expect(await from('10.0.0.1')).toEqual([200, 200, 200]), { withinMs: 1_000 });
});

test('a request must come from an origin of the list of its key and of that of its customer', async () => {
  const customer = await customerWith('--origin', 'https://*.example.com');
  const [free, bound] = [await keyOf(customer), await keyOf(customer, '--origin', 'https://a.example.com')];
  const of = (Origin?: string) =>
    Promise.all([free.key, bound.key].map((key) => statusOf(key, '/v1/pets', Origin === undefined ? {} : { Origin })));
  expect(await of('https://a.example.com')).toEqual([200, 200]);
  expect(await of('https://b.example.com')).toEqual([200, 403]);
  expect(await of('https://example.org')).toEqual([403, 403]);
  expect(await of()).toEqual([403, 403]);
});

test('the service gets the metadata of the customer, and the pair of a key in place of one of the same name', async () => {
  const customer = await customerWith('--meta', 'team=blue', '--meta', 'tier=gold');
  const [plain, own] = [await keyOf(customer), await keyOf(customer, '--meta', 'tier=own')];
  const seenBy = async (key: string) => {
    await gateway.get('/v1/meta', key);
    const seen = upstream.requests.at(-1)!;
    return [...seen.values('x-team'), ...seen.values('x-tier')];
  };
  expect(await seenBy(plain.key)).toEqual(['blue', 'gold']);
  expect(await seenBy(own.key)).toEqual(['blue', 'own']);
  expect(await seenBy(await tokenOf(customer))).toEqual(['blue', 'gold']);
  await gateway.command('customers', 'edit', customer.id, '--meta', 'tier=', '--meta', 'team=red');
  await eventually(async () => expect(await seenBy(plain.key)).toEqual(['red']), { withinMs: 1_000 });
  await eventually(async () => expect(await seenBy(own.key)).toEqual(['red', 'own']), { withinMs: 1_000 });
});

test('403 suspended for all callers of a suspended customer, within a second and uncounted, until it is resumed (reliability 263)', async () => {
  const [customer, other] = [await customerWith(), await customerWith()];
  const [one, two] = [await keyOf(customer), await keyOf(customer)];
  const callers = [one.key, two.key, await tokenOf(customer), (await keyOf(other)).key];
  const statuses = () => Promise.all(callers.map((caller) => statusOf(caller)));
  expect(await statuses()).toEqual([200, 200, 200, 200]);
  await gateway.command('customers', 'suspend', customer.id, '--reason', 'unpaid-bills');
  await eventually(async () => expect(await statuses()).toEqual([403, 403, 403, 200]), { withinMs: 1_000 });
  const forwarded = upstream.requests.length;
  for (const caller of callers.slice(0, 3)) {
    for (const path of ['/v1/pets', '/usage', '/v1/none']) {
      const answer = await gateway.get(path, caller);
      expect(answer.status).toBe(403);
      const body = await answer.text();
      expect(JSON.parse(body)).toMatchObject({ code: 'suspended' });
      expect(body + JSON.stringify([...answer.headers])).not.toMatch(/unpaid|cus_/);
    }
  }
  expect(upstream.requests).toHaveLength(forwarded);
  // A key that is suspended itself is not resumed with its customer.
  await gateway.command('keys', 'suspend', two.id);
  await gateway.command('customers', 'resume', customer.id);
  await eventually(async () => expect(await statuses()).toEqual([200, 403, 200, 200]), { withinMs: 1_000 });
});
