import { beforeAll, expect, test } from 'vitest';
import type { TestGateway } from '../support/gateway.ts';
import { ask, openWithAdmin, STORES } from './operator.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await openWithAdmin(await STORES['the embedded store']!());
});

interface Member {
  readonly name: string;
  readonly given: unknown;
  readonly faults: readonly (readonly [unknown, RegExp])[];
}

const MEMBERS: readonly Member[] = [
  {
    name: 'scopes',
    given: ['orders:read', 'orders:write'],
    faults: [
      [['a b'], /^scopes\.0 must be 1 to 128 visible characters/],
      [['ok', 7], /^scopes\.1 must be/],
      ['orders:read', /^scopes must be a list of at most 32 scopes/],
      [Array.from({ length: 33 }, (_, i) => `s${i}`), /at most 32/],
    ],
  },
  {
    name: 'addresses',
    given: ['192.0.2.7', '2001:db8::/32'],
    faults: [
      [['a'], /^addresses\.0 must be an IP address or network/],
      [['10.0.0.1/8'], /10\.0\.0\.0\/8/],
      [Array.from({ length: 65 }, (_, i) => `10.0.0.${i}`), /^addresses must be a list of at most 64/],
    ],
  },
  {
    name: 'origins',
    given: ['https://app.example.com', 'https://*.example.com'],
    faults: [
      [['*'], /^origins\.0 must be an origin/],
      ['https://app.example.com', /^origins must be a list of at most 32/],
    ],
  },
  {
    name: 'certificates',
    given: ['uri:spiffe://example.com/admin', 'dns:admin.internal'],
    faults: [
      [['admin.internal'], /^certificates\.0 must be sha256: and a fingerprint/],
      ['dns:a', /^certificates must be a list of at most 16/],
    ],
  },
  {
    name: 'boundTo',
    given: 'q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s',
    faults: [
      ['abc', /^boundTo must be the SHA-256 of a client certificate/],
      [[], /^boundTo must be/],
    ],
  },
  {
    name: 'meta',
    given: { team: 'blue', tier: 'Gold' },
    faults: [
      [{ Team: 'x' }, /^meta\.Team must be 1 to 32 lower-case/],
      [JSON.parse('{"team":"a","__proto__":"b"}'), /^meta\.__proto__ must be 1 to 32 lower-case/],
      [{ team: 7 }, /^meta\.team must be a text of 1 to 256/],
      [{ team: '' }, /^meta\.team must be a text/],
      [['team'], /^meta must be at most 16 pairs/],
      [Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`n${i}`, 'v'])), /^meta must be at most 16 pairs/],
    ],
  },
];

test.each(MEMBERS)(
  '$name of a key: made, changed under If-Match, recorded, and removed with null or nothing',
  async ({ name, given }) => {
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', [name]: given });
    expect([made.status, made.body[name]]).toEqual([201, given]);
    const path = `/admin/keys/${made.body.id}`;
    const before = (await ask(gateway, 'GET', path)).headers.get('etag')!;
    const removed = await ask(gateway, 'PATCH', path, { [name]: null }, { 'If-Match': before });
    expect([removed.status, name in removed.body]).toEqual([200, false]);
    // The change is a change to whoever had read the key before.
    expect((await ask(gateway, 'PATCH', path, { [name]: given }, { 'If-Match': before })).status).toBe(412);
    expect((await ask(gateway, 'PATCH', path, { [name]: given })).body[name]).toEqual(given);
    const empty = Array.isArray(given) ? [] : null;
    expect((await ask(gateway, 'PATCH', path, { [name]: empty })).body).not.toHaveProperty(name);
    const { body } = await ask(gateway, 'GET', `/admin/audit?key=${made.body.id}`);
    expect(body.changes.find(({ action }: { action: string }) => action === 'key.create')).toMatchObject({
      after: { [name]: given },
    });
  },
);

test.each(MEMBERS)(
  '$name of a key: what is wrong is a 400 that says what is allowed (reliability 480)',
  async ({ name, faults }) => {
    for (const [value, message] of faults) {
      const told = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', [name]: value });
      expect([told.status, told.body.message]).toEqual([400, expect.stringMatching(message)]);
    }
  },
);

test('metadata: null removes one pair, and a search by a pair has the keys that have it', async () => {
  const make = async (meta: object) =>
    (await ask(gateway, 'POST', '/admin/keys', { plan: 'free', meta })).body.id as string;
  const [one, other] = [await make({ squad: 'Zoë & co', tier: 'gold' }), await make({ tier: 'Zoë & co' })];
  const { body } = await ask(gateway, 'PATCH', `/admin/keys/${one}`, { meta: { tier: null, zone: 'eu' } });
  expect(body.meta).toEqual({ squad: 'Zoë & co', zone: 'eu' });
  const found = async (pair: string) => {
    const { body } = await ask(gateway, 'GET', `/admin/keys?q=${encodeURIComponent(pair)}`);
    return body.keys.map(({ id }: { id: string }) => id);
  };
  expect(await found('meta.squad=Zoë & co')).toEqual([one]);
  expect(await found('meta.tier=Zoë & co')).toEqual([other]);
  expect(await found('meta.squad=zoë & co')).toEqual([]);
  const secret = await ask(gateway, 'GET', `/admin/keys?q=meta.squad%3Dtg_live_${'a'.repeat(38)}`);
  expect(secret.status).toBe(400);
});

test('the scopes that routes require are listed once each, for the people who give them to keys', async () => {
  const routes = `
  - { path: /v1/orders, methods: [POST], upstream: store, scopes: [orders:write, orders:read] }
  - { path: /v1/orders, methods: [GET], upstream: store, scopes: [orders:read] }
  - { path: '/v1/**', methods: [GET], upstream: store }
`;
  const { status, body } = await ask(
    await openWithAdmin(await STORES['the embedded store']!(), { routes }),
    'GET',
    '/admin/scopes',
  );
  expect([status, body]).toEqual([200, { scopes: ['orders:read', 'orders:write'] }]);
});
