import { beforeAll, describe, expect, test } from 'vitest';
import { shownAttributes } from '../../src/model/attributes.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ask, openWithAdmin, STORES } from './operator.ts';

describe.each(Object.entries(STORES))('customers on %s', (_, emptyStore) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await emptyStore());
  });
  const admin = (method: string, path: string, body?: unknown, headers = {}) =>
    ask(gateway, method, `/admin${path}`, body, headers);
  const create = async (body: object = {}) => (await admin('POST', '/customers', { plan: 'small', ...body })).body;
  const keyOf = async (customer: string, body: object = {}) =>
    (await admin('POST', '/keys', { customer, ...body })).body;

  test('the names of many keys and customers are listed in one request', async () => {
    const { id } = await create({ name: 'Acme' });
    const [named, bare] = [await keyOf(id, { name: 'Web shop' }), await keyOf(id)];
    const ids = [id, named.id, bare.id, 'key_0000000000000000', 'a'];
    const listed = await admin('GET', `/names?ids=${ids.join(',')}`);
    expect([listed.status, listed.body.names]).toEqual([
      200,
      { [id]: 'Acme', [named.id]: 'Web shop', [bare.id]: null, key_0000000000000000: null, a: null },
    ]);
    const tooMany = await admin('GET', `/names?ids=${Array.from({ length: 101 }, (_, i) => `key_${i}`).join(',')}`);
    expect([tooMany.status, tooMany.text]).toEqual([400, expect.stringContaining('at most 100 ids')]);
  });

  test('a customer is made, shown, listed, changed by its version and deleted', async () => {
    const made = await admin('POST', '/customers', {
      plan: 'small',
      name: 'Acme Ltd',
      owner: 'sales',
      notes: 'two\nlines',
      limits: { day: 50 },
      expiresAt: '2030-12-31',
    });
    const { id } = made.body;
    expect(made.status).toBe(201);
    expect(id).toMatch(/^cus_[0-9A-Za-z]{16}$/);
    expect(made.headers.get('location')).toBe(`/admin/customers/${id}`);
    const facts = { id, plan: 'small', name: 'Acme Ltd', owner: 'sales', notes: 'two\nlines', ownLimits: { day: 50 } };
    expect(made.body).toEqual({
      ...shownAttributes('customer', {}),
      ...facts,
      limits: { minute: 3, day: 50 },
      heldTo: { minute: 3, day: 50 },
      createdAt: expect.any(String),
      expiresAt: '2030-12-31T00:00:00.000Z',
    });
    const shown = await admin('GET', `/customers/${id}`);
    expect(shown.body).toEqual({ ...made.body, keys: [], keysCursor: null, unreadable: [] });
    expect(shown.headers.get('etag')).toBe(made.headers.get('etag'));
    expect((await admin('GET', '/customers?q=ACME&plan=small&owner=sales')).body.customers).toEqual([made.body]);
    expect((await admin('GET', '/customers?q=nobody')).body).toMatchObject({ customers: [], cursor: null });

    const version = { 'If-Match': made.headers.get('etag')! };
    const edits = { plan: 'free', name: '', limits: { day: null, minute: 7 }, expiresAt: null };
    const changed = await admin('PATCH', `/customers/${id}`, edits, version);
    const after = { plan: 'free', name: null, limits: { minute: 7, day: 1000 }, ownLimits: { minute: 7 } };
    expect(changed.body).toMatchObject({ ...after, owner: 'sales', expiresAt: null });
    expect((await admin('PATCH', `/customers/${id}`, { name: 'x' }, version)).status).toBe(412);
    expect((await admin('POST', `/customers/${id}/delete`, {}, version)).status).toBe(412);
    expect((await admin('POST', `/customers/${id}/delete`, {})).body).toEqual({
      id,
      deleted: true,
      keysRevoked: 0,
      unreadable: [],
    });
    expect((await admin('POST', `/customers/${id}/delete`, {})).status).toBe(200);
    for (const [method, path] of [
      ['GET', ''],
      ['PATCH', ''],
    ] as const) {
      const body = method === 'GET' ? undefined : { name: 'x' };
      expect((await admin(method, `/customers/${id}${path}`, body)).status).toBe(404);
    }
    const { changes } = (await admin('GET', `/audit?key=${id}`)).body;
    const told = changes.map(({ action, outcome }: Record<string, string>) => `${action} ${outcome}`);
    expect(told.toSorted()).toEqual([
      'customer.create done',
      'customer.delete done',
      'customer.delete refused',
      'customer.delete unchanged',
      'customer.update done',
      'customer.update refused',
    ]);
  });

  test('a customer is suspended and resumed by its version, and the record of changes says so', async () => {
    const { id, ...made } = await create({ name: 'Late' });
    const before = await admin('GET', `/customers/${id}`);
    const version = { 'If-Match': before.headers.get('etag')! };
    const given = { until: '2099-01-01', reason: 'unpaid' };
    const suspended = await admin('POST', `/customers/${id}/suspend`, given, version);
    const suspension = { since: expect.any(String), until: '2099-01-01T00:00:00.000Z', reason: 'unpaid' };
    expect(suspended).toMatchObject({ status: 200, body: { id, ...made, suspended: suspension } });
    expect(suspended.headers.get('etag')).not.toBe(version['If-Match']);
    expect((await admin('POST', `/customers/${id}/resume`, {}, version)).status).toBe(412);
    await admin('POST', `/customers/${id}/suspend`, given);
    // A change of something else leaves it suspended.
    await admin('PATCH', `/customers/${id}`, { owner: 'o', plan: 'free' });
    expect((await admin('GET', '/customers?q=Late')).body.customers).toMatchObject([{ suspended: suspension }]);
    const resumed = await admin('POST', `/customers/${id}/resume`);
    expect([resumed.status, resumed.body.suspended]).toEqual([200, undefined]);
    expect((await admin('POST', `/customers/${id}/resume`)).status).toBe(200);
    for (const body of [{ until: '2020-01-01' }, { until: 5 }, { reason: 'a\nb' }, { why: 'x' }]) {
      expect((await admin('POST', `/customers/${id}/suspend`, body)).status).toBe(400);
    }
    expect((await admin('POST', '/customers/cus_none/suspend')).status).toBe(404);
    const { changes } = (await admin('GET', `/audit?key=${id}`)).body;
    const done = changes.filter(({ outcome }: Record<string, string>) => outcome !== 'refused').toReversed();
    expect(done).toMatchObject([
      { action: 'customer.create' },
      { action: 'customer.suspend', outcome: 'done', after: { plan: 'small', suspended: suspension } },
      { action: 'customer.suspend', outcome: 'unchanged' },
      { action: 'customer.update', outcome: 'done' },
      { action: 'customer.resume', outcome: 'done', before: { suspended: suspension } },
      { action: 'customer.resume', outcome: 'unchanged' },
    ]);
  });

  test('who may call what is given, shown, changed, found and removed, and a customer without it has no more than before', async () => {
    const access = {
      scopes: ['orders:read'],
      addresses: ['192.0.2.7', '2001:db8::/32'],
      origins: ['https://app.example.com'],
      meta: { team: 'blue', tier: 'gold' },
    };
    const { id, ...made } = await create(access);
    expect(made).toMatchObject(access);
    const etag = async () => (await admin('GET', `/customers/${id}`)).headers.get('etag');
    const found = async (q: string) =>
      (await admin('GET', `/customers?q=${encodeURIComponent(q)}`)).body.customers.map((one: { id: string }) => one.id);
    expect(await found('meta.team=blue')).toEqual([id]);
    for (const q of ['meta.team=Blue', 'meta.tier=blue', 'meta.constructor=blue']) expect(await found(q)).toEqual([]);
    const before = await etag();
    await admin('PATCH', `/customers/${id}`, { owner: 'o' });
    expect((await admin('GET', `/customers/${id}`)).body).toMatchObject(access);
    const edits = { scopes: ['orders:write'], addresses: null, meta: { team: null, zone: 'eu' } };
    const edited = await admin('PATCH', `/customers/${id}`, edits);
    expect(edited.body).toMatchObject({ scopes: ['orders:write'], meta: { tier: 'gold', zone: 'eu' } });
    expect(edited.body).not.toHaveProperty('addresses');
    expect(await etag()).not.toBe(before);
    const [change] = (await admin('GET', `/audit?key=${id}`)).body.changes;
    expect(change).toMatchObject({ before: { scopes: ['orders:read'] }, after: { scopes: ['orders:write'] } });
    const bare = await admin('PATCH', `/customers/${id}`, { scopes: null, origins: [], meta: null });
    expect(Object.keys(bare.body).toSorted()).toEqual(Object.keys(await create()).toSorted());
  });

  test.each([
    [{ scopes: ['a b'] }, /^scopes\.0 must be 1 to 128 visible characters/],
    [{ addresses: ['10.0.0.1/8'] }, /10\.0\.0\.0\/8/],
    [{ origins: ['*'] }, /^origins\.0 must be an origin/],
    [{ meta: { Team: 'x' } }, /^meta.* must be 1 to 32 lower-case letters/],
    [{ certificates: ['dns:a.internal'] }, /no member "certificates"/],
    [{ boundTo: 'q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s' }, /no member "boundTo"/],
  ])('%j is given to no customer', async (access, message) => {
    const { id } = await create();
    for (const refused of [
      await admin('POST', '/customers', { plan: 'small', ...access }),
      await admin('PATCH', `/customers/${id}`, access),
    ]) {
      expect(refused).toMatchObject({ status: 400, body: { message: expect.stringMatching(message) } });
    }
  });

  test.each([
    [{ plan: 'none' }, /no plan 'none'/],
    [{ plan: 'enterprise' }, /customer of the plan 'enterprise' brings its own numbers/],
    [{ plan: 'small', name: 'a\nb' }, /name must be/],
    [{ plan: 'small', expiresAt: '2020-01-01' }, /customer is to expire has already passed/],
    [{ plan: 'small', colour: 'red' }, /no member "colour"/],
    [{}, /plan is missing/],
  ])('%j makes none', async (body, message) => {
    expect(await admin('POST', '/customers', body)).toMatchObject({
      status: 400,
      body: { message: expect.stringMatching(message) },
    });
  });

  test('an Idempotency-Key makes one customer, and another body is refused', async () => {
    const named = { 'Idempotency-Key': 'one of a kind' };
    const body = { plan: 'small', name: 'once' };
    const [first, second] = await Promise.all([1, 2].map(() => admin('POST', '/customers', body, named)));
    expect(first!.body.id).toBe(second!.body.id);
    expect((await admin('POST', '/customers', body, named)).headers.get('idempotency-replayed')).toBe('true');
    expect((await admin('POST', '/customers', { ...body, name: 'x' }, named)).status).toBe(422);
    await admin('POST', `/customers/${first!.body.id}/delete`, {});
    expect((await admin('POST', '/customers', body, named)).status).toBe(409);
  });

  test('a key of a customer has its plan, follows it, and is found by it', async () => {
    const customer = await create({ name: 'Acme' });
    const key = await keyOf(customer.id, { name: 'k', limits: { minute: 2 } });
    expect(key).toMatchObject({ plan: 'small', limits: { minute: 2 }, customer: { id: customer.id, name: 'Acme' } });
    await gateway.createKey('small');
    expect(
      (await admin('GET', `/keys?customer=${customer.id}`)).body.keys.map((one: { id: string }) => one.id),
    ).toEqual([key.id]);
    expect((await admin('GET', '/keys?customer=key_x')).status).toBe(400);
    expect((await gateway.get('/v1/pets', key.key)).headers.get('x-ratelimit-limit')).toBe('2');
    await admin('PATCH', `/customers/${customer.id}`, { plan: 'free', name: 'Acme 2' });
    const shown = (await admin('GET', `/customers/${customer.id}`)).body;
    expect(shown.keys).toMatchObject([{ id: key.id, plan: 'free', customer: { name: 'Acme 2' } }]);
    expect((await admin('GET', '/keys?plan=free')).body.keys).toMatchObject([{ id: key.id }]);
    const refused = await admin('PATCH', `/keys/${key.id}`, { plan: 'small' });
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringMatching(/belongs to customer cus_/)]);
    expect((await admin('PATCH', `/keys/${key.id}`, { limits: { minute: 1 } })).body.limits).toEqual({ minute: 1 });
  });

  test.each([
    [{ customer: 'cus_0000000000000000' }, /no customer/],
    [{ customer: 'tg_live_secret' }, /no customer/],
    [{}, /plan is missing/],
  ])('%j makes no key', async (body, message) => {
    const { status, body: error } = await admin('POST', '/keys', body);
    expect([status, error.message]).toEqual([400, expect.stringMatching(message)]);
    const { id } = await create();
    expect((await admin('POST', '/keys', { customer: id, plan: 'small' })).status).toBe(400);
  });

  test('a customer with keys is deleted only with them', async () => {
    const { id } = await create();
    const [one, two] = [await keyOf(id), await keyOf(id)];
    const refused = await admin('POST', `/customers/${id}/delete`, {});
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringMatching(/2 keys that are not revoked/)]);
    expect((await admin('POST', `/customers/${id}/delete`, { keys: 'keep' })).status).toBe(400);
    await admin('DELETE', `/keys/${one.id}`);
    expect((await admin('POST', `/customers/${id}/delete`, { keys: 'revoke' })).body.keysRevoked).toBe(1);
    expect((await admin('GET', `/keys/${two.id}`)).body).toMatchObject({
      revokedAt: expect.any(String),
      customer: { id, name: null },
    });
    expect((await gateway.get('/v1/pets', two.key)).status).toBe(401);
  });

  test('how a customer stands is known from its keys, and one request lifts all their bans, each on record', async () => {
    const [{ id }, other] = [await create({ name: 'Acme' }), await create()];
    const keys = [await keyOf(id), await keyOf(id), await keyOf(id)];
    const standings = async () => (await admin('GET', `/standings?customers=${id},${other.id}`)).body.standings;
    const none = { ban: null, banned: 0, until: null, complete: true };
    // Ten refusals are a ban; the limit of three is shared.
    for (let i = 0; i < 14; i++) for (const { key } of keys.slice(0, 2)) await gateway.get('/v1/pets', key);
    const [acme, idle] = await standings();
    expect(idle).toEqual({ id: other.id, keys: 0, ...none });
    expect(acme).toMatchObject({ id, banned: 2, ban: null, complete: true });
    expect(acme.until * 1_000).toBeGreaterThan(Date.now());
    const refused = await admin('DELETE', `/bans/${keys[0].id}?keys=true`);
    expect([refused.status, refused.body.message]).toEqual([400, expect.stringMatching(/only for a customer/)]);
    const lifted = await admin('DELETE', `/bans/${id}?keys=true&reason=called`);
    expect([lifted.status, lifted.body.keys.toSorted()]).toEqual([200, [keys[0].id, keys[1].id].toSorted()]);
    expect(await standings()).toMatchObject([{ id, ...none }, { id: other.id }]);
    expect((await admin('DELETE', `/bans/${id}?keys=true`)).body.code).toBe('not_found');
    for (const target of [id, keys[0].id, keys[1].id]) {
      const { changes } = (await admin('GET', `/audit?key=${target}&action=ban.lift`)).body;
      expect(changes).toContainEqual(expect.objectContaining({ target, outcome: 'done', after: { reason: 'called' } }));
    }
    expect((await admin('GET', '/standings?customers=key_1')).status).toBe(400);
  });

  test('a key that is moved keeps the ban in force, and nothing else that was counted (reliability 262)', async () => {
    const { id } = await create();
    const key = await gateway.createKey('small');
    const banned = async () => {
      for (let i = 0; i < 13; i++) await gateway.get('/v1/pets', key.key);
      return (await admin('GET', `/keys/${key.id}/usage`)).body;
    };
    const { ban } = await banned();
    expect(ban).toMatchObject({ number: 1 });
    expect((await admin('POST', `/keys/${key.id}/move`, { customer: id })).body.ban).toEqual(ban);
    const usage = (await admin('GET', `/keys/${key.id}/usage`)).body;
    const windows = { 'customer-minute': { used: 0 }, 'customer-day': { used: 0 } };
    expect(usage).toMatchObject({ ban, rung: 1, windows });
    // One ban under the id of the key, although the former account has it too; and so it is lifted.
    const bansOfKey = async () =>
      (await admin('GET', '/bans')).body.bans.filter((one: { id: string }) => one.id === key.id);
    expect(await bansOfKey()).toHaveLength(1);
    expect((await admin('POST', `/keys/${key.id}/move`, { customer: null })).body.ban).toEqual(ban);
    await admin('POST', `/keys/${key.id}/move`, { customer: id });
    expect((await admin('DELETE', `/bans/${key.id}`)).status).toBe(200);
    expect(await bansOfKey()).toEqual([]);
    expect((await admin('GET', `/keys/${key.id}/usage`)).body.ban).toBeNull();
    // The ban that its account from before still has is lifted with it.
    expect((await admin('POST', `/keys/${key.id}/move`, { customer: null })).body.ban).toBeNull();
    expect(await bansOfKey()).toEqual([]);
    await admin('POST', `/keys/${key.id}/move`, { customer: id });
    // What it used before is still known, and its own counts can be topped up and reset.
    const { buckets } = (await admin('GET', `/keys/${key.id}/history`)).body;
    expect(buckets.reduce((sum: number, one: { admitted: number }) => sum + one.admitted, 0)).toBe(3);
    const topUp = { window: 'minute', amount: 5 };
    const refused = await admin('POST', `/keys/${key.id}/topups`, { ...topUp, window: 'customer-minute' });
    expect(refused).toMatchObject({ status: 400, body: { message: expect.stringContaining(`customer ${id}`) } });
    expect((await admin('POST', `/customers/${id}/topups`, topUp)).body).toMatchObject({ id, limit: 8 });
    const byCallers = { ...topUp, window: 'customer-minute' };
    const { body: second } = await admin('POST', `/customers/${id}/topups`, byCallers);
    expect(second).toMatchObject({ id, limit: 13 });
    // The key does not own what its customer was given.
    expect((await admin('DELETE', `/keys/${key.id}/topups/${second.topUp}`)).status).toBe(404);
    const undone = { id, amount: 5, limit: 8, until: second.until };
    expect((await admin('DELETE', `/customers/${id}/topups/${second.topUp}`)).body).toMatchObject(undone);
    expect((await admin('DELETE', `/customers/${id}/topups/customer-minute`)).body).toMatchObject({
      limit: 3,
      until: null,
    });
  });

  test('what its keys used together is shown, topped up and reset by the customer, and is the sum of its keys', async () => {
    const { id } = await create();
    const keys = [await gateway.createKey('small'), await gateway.createKey('small')];
    for (const key of keys) await admin('POST', `/keys/${key.id}/move`, { customer: id });
    const statuses: number[] = [];
    for (let i = 0; i < 6; i++) statuses.push((await gateway.get('/v1/pets', keys[i % 2]!.key)).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
    const usage = (await admin('GET', `/customers/${id}/usage`)).body;
    expect(usage).toMatchObject({ id, windows: { minute: { limit: 3, used: 3 }, day: { used: 3 } }, ban: null });
    const sumOf = async (path: string) => {
      const { buckets } = (await admin('GET', `${path}/history`)).body;
      return buckets.reduce((sum: number, one: { admitted: number }) => sum + one.admitted, 0);
    };
    expect(await sumOf(`/customers/${id}`)).toBe(3);
    expect((await sumOf(`/keys/${keys[0]!.id}`)) + (await sumOf(`/keys/${keys[1]!.id}`))).toBe(3);
    const { byKey } = (await admin('GET', `/customers/${id}/history?keys=true`)).body;
    const admitted = [2, 1].map((times, i) => ({ id: keys[i]!.id, name: null, admitted: times }));
    expect(byKey).toEqual({ keys: admitted, isWhole: true });
    await admin('POST', `/customers/${id}/topups`, { window: 'minute', amount: 1 });
    const topped = (await admin('GET', `/customers/${id}/usage`)).body;
    expect(topped.windows.minute).toMatchObject({ limit: 4, remaining: 1, topUp: { amount: 1 } });
    const reset = await admin('POST', `/customers/${id}/usage/reset`, { windows: ['minute'] });
    expect(reset.body).toEqual({ id, windows: ['minute'], ban: null });
    expect((await admin('GET', `/customers/${id}/usage`)).body.windows).toMatchObject({
      minute: { used: 0 },
      day: { used: 3 },
    });
    expect((await admin('GET', `/customers/cus_0000000000000000/usage`)).status).toBe(404);
  });

  test('what is counted of a key is not changed as that of a customer, nor the other way round (reliability 321)', async () => {
    const { id } = await create();
    const key = await gateway.createKey('small');
    const topUp = { window: 'minute', amount: 1 };
    for (const path of [`/customers/${key.id}`, `/keys/${id}`]) {
      const [noun, other] = path.startsWith('/keys') ? ['key', id] : ['customer', key.id];
      const answers = [
        await admin('GET', `${path}/usage`),
        await admin('GET', `${path}/history`),
        await admin('POST', `${path}/topups`, topUp),
        await admin('POST', `${path}/usage/reset`),
        await admin('DELETE', `${path}/topups/minute`),
      ];
      expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
      for (const { body } of answers) {
        expect(JSON.stringify(body)).toContain(`There is no ${noun} with this id.`);
        expect(JSON.stringify(body)).not.toContain(other);
      }
    }
    expect((await admin('GET', `/keys/${key.id}/usage`)).body.windows.minute.topUp).toBe(null);
  });

  test('a key moves to a customer and away, its secret stays, and what it is asked to become must be possible', async () => {
    const { id } = await create({ plan: 'free' });
    const key = await gateway.createKey('small');
    const moved = await admin('POST', `/keys/${key.id}/move`, { customer: id });
    expect(moved).toMatchObject({ status: 200, body: { plan: 'free', customer: { id }, ban: null } });
    expect((await admin('GET', `/customers/${id}`)).body.keys).toMatchObject([{ id: key.id }]);
    expect((await gateway.get('/v1/pets', key.key)).status).toBe(200);
    const again = await admin('POST', `/keys/${key.id}/move`, { customer: id });
    expect(again.headers.get('etag')).toBe(moved.headers.get('etag'));
    for (const body of [{}, { customer: 'cus_0000000000000000' }, { customer: id, plan: 'free' }, { customer: 5 }]) {
      expect((await admin('POST', `/keys/${key.id}/move`, body)).status).toBe(400);
    }
    for (const plan of ['none', 'enterprise']) {
      expect((await admin('POST', `/keys/${key.id}/move`, { customer: null, plan })).status).toBe(400);
    }
    const left = await admin('POST', `/keys/${key.id}/move`, { customer: null, plan: 'small' });
    expect(left.body).toMatchObject({ plan: 'small' });
    expect(left.body.customer).toBeUndefined();
    expect((await admin('GET', `/customers/${id}`)).body.keys).toEqual([]);
    const stale = { 'If-Match': moved.headers.get('etag')! };
    expect((await admin('POST', `/keys/${key.id}/move`, { customer: id }, stale)).status).toBe(412);
    expect((await admin('POST', '/keys/key_none/move', { customer: null })).status).toBe(404);
    await admin('DELETE', `/keys/${key.id}`);
    expect((await admin('POST', `/keys/${key.id}/move`, { customer: id })).status).toBe(409);
    const { changes } = (await admin('GET', `/audit?key=${key.id}`)).body;
    const moves = changes.filter(
      ({ action, outcome }: Record<string, string>) => `${action} ${outcome}` === 'key.move done',
    );
    expect(moves).toMatchObject([
      { before: { customer: id }, after: { plan: 'small' } },
      { before: { plan: 'small' }, after: { customer: id } },
    ]);
  });
});
