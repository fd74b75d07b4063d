import { beforeAll, describe, expect, test } from 'vitest';
import { mint } from '../../src/identify/api-key.ts';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ask, auditLines, openWithAdmin, STORES } from './operator.ts';

/** A secret in Tollgate's form, checksum included, that no key has. */
const NOBODYS = mint((bytes) => new Uint8Array(bytes));
const FOREIGN = 'old_0123456789abcdef0123456789abcdef';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[name]!(), {
      more: 'keys: { formats: [{ prefix: old_, length: 36, characters: hex }] }',
    });
  });
  const it = (method: string, path: string, body?: unknown) => ask(gateway, method, path, body);
  const make = async (body: object) => (await it('POST', '/admin/keys', { plan: 'free', ...body })).body;
  const found = async (query: string) => {
    const told = await it('GET', `/admin/keys?${query}`);
    expect([query, told.status]).toEqual([query, 200]);
    return told.body.keys.map(({ id }: { id: string }) => id);
  };

  test('keys are found by a part of their name, by plan, owner and end, and by all of it together', async () => {
    const owner = `${crypto.randomUUID()} & Söhne`;
    const one = await make({ name: 'Shop of Jo', owner, expiresAt: '10d' });
    const two = await make({ name: 'shop of Ann', owner, plan: 'small' });
    const of = `owner=${encodeURIComponent(owner)}`;
    expect(await found(of)).toEqual([one.id, two.id]);
    expect(await found(`${of}&q=SHOP`)).toEqual([one.id, two.id]);
    expect(await found(`${of}&q=of+jo`)).toEqual([one.id]);
    expect(await found(`${of}&plan=small`)).toEqual([two.id]);
    expect(await found(`${of}&expiring=30d`)).toEqual([one.id]);
    expect(await found(`${of}&expiring=9d`)).toEqual([]);
    expect(await found(`${of}&expiring=30d&plan=small`)).toEqual([]);
    expect(await found(`q=${two.key.slice(-4)}`)).toContain(two.id);
    expect(await found(`q=${one.id}`)).toEqual([one.id]);
    // They were made today.
    expect(await found(`${of}&unused=1d`)).toEqual([]);
    await it('DELETE', `/admin/keys/${two.id}`);
    expect(await found(of)).toEqual([one.id]);
    expect(await found(`${of}&all=true`)).toEqual([one.id, two.id]);
  });

  test('the pages of a search follow each other by cursor and by Link, and say how many keys were looked at', async () => {
    const owner = crypto.randomUUID();
    for (let i = 0; i < 3; i++) await make({ owner });
    const first = await it('GET', `/admin/keys?owner=${owner}&limit=2`);
    expect([first.body.keys.length, first.body.searched > 1]).toEqual([2, true]);
    const [, next] = /<([^>]*)>; rel="next"/.exec(first.headers.get('link')!)!;
    expect(next).toContain(`owner=${owner}`);
    const second = await it('GET', next!);
    expect([second.body.keys.length, second.body.cursor]).toEqual([1, null]);
  });

  test.each([
    ['q=', /^q is empty/],
    ['plan=', /^plan is empty/],
    ['owner=', /^owner is empty/],
    ['q=a&q=b', /more than once/],
    ['expiring=soon', /^expiring must be a duration/],
    ['expiring=4000d', /^expiring must be a duration/],
    ['unused=0d', /^unused must be whole days from 1d to 92d/],
    ['unused=93d', /^unused must be/],
    ['unused=36h', /^unused must be/],
    ['cursor=key_none', /cursor/],
    ['search=x', /no parameter "search"/],
  ])('?%s is refused with a sentence', async (query, message) => {
    const { status, body } = await it('GET', `/admin/keys?${query}`);
    expect([status, body.code, body.message]).toEqual([400, 'invalid_request', expect.stringMatching(message)]);
  });

  test.each([
    ['q', NOBODYS],
    ['q', 'tg_live_part'],
    ['q', `Bearer ${NOBODYS}`],
    ['q', `"${NOBODYS}"`],
    ['q', FOREIGN],
    ['q', ` ${FOREIGN} `],
    ['owner', NOBODYS],
    ['plan', NOBODYS],
  ])(
    '%s=%s has the form of a secret: the response says what to use instead, and repeats nothing of it',
    async (parameter, text) => {
      const { status, body, text: all } = await it('GET', `/admin/keys?${parameter}=${encodeURIComponent(text)}`);
      expect([status, body.message]).toEqual([400, expect.stringContaining('POST /admin/keys/find')]);
      expect(all).not.toContain(text.trim().slice(0, 12));
    },
  );

  test('a pasted secret finds its key: the present one, the one before in its overlap and after it, and of a revoked key', async () => {
    const { id, key: first } = await make({});
    const find = async (secret: string) => (await it('POST', '/admin/keys/find', { secret })).body;
    const shown = async () => (await it('GET', `/admin/keys/${id}`)).body;
    expect(await find(first)).toEqual({ key: await shown(), isCurrent: true });
    expect(await find(` ${first}\n`)).toMatchObject({ isCurrent: true });
    const { key: second } = (await it('POST', `/admin/keys/${id}/rotate`, { overlap: '1h' })).body;
    for (const secret of [first, second]) expect(await find(secret)).toMatchObject({ key: { id }, isCurrent: true });
    await it('POST', `/admin/keys/${id}/rotate`, { overlap: '0s' });
    for (const secret of [first, second]) {
      expect(await find(secret)).toEqual({ key: await shown(), isCurrent: false });
    }
    await it('DELETE', `/admin/keys/${id}`);
    expect(await find(second)).toMatchObject({ key: { id, revokedAt: expect.any(String) }, isCurrent: false });
    await it('POST', `/admin/keys/${id}/delete`);
    expect(await find(second)).toMatchObject({ code: 'not_found' });
  });

  test('what no key has is 404 in the same words, whatever its form; a body that is none is 400', async () => {
    const told = await Promise.all(
      [NOBODYS, 'x', FOREIGN, `${NOBODYS}x`, '🐟'.repeat(1_000)].map((secret) =>
        it('POST', '/admin/keys/find', { secret }),
      ),
    );
    for (const { status, text } of told) {
      expect([status, text]).toEqual([404, '{"code":"not_found","message":"No key has this secret.","status":404}']);
    }
    for (const body of [{}, { secret: '' }, { secret: 5 }, { secret: FOREIGN, more: 1 }, `"${FOREIGN}"`]) {
      const { status, text } = await it('POST', '/admin/keys/find', body);
      expect([status, text.includes(FOREIGN)]).toEqual([400, false]);
    }
    expect((await it('GET', '/admin/keys/find')).status).toBe(405);
  });

  test('a secret that was looked for is in no log line and no record of changes', async () => {
    const { key } = await make({});
    const records = async () => (await it('GET', '/admin/audit?limit=1000')).body.changes.length;
    const recordsBefore = await records();
    for (const secret of [key, NOBODYS, FOREIGN]) {
      await it('POST', '/admin/keys/find', { secret });
      await it('GET', `/admin/keys?q=${secret}`);
    }
    expect(await records()).toBe(recordsBefore);
    // A later line shows that those before it have been written.
    const last = { 'X-Request-Id': crypto.randomUUID() };
    await ask(gateway, 'DELETE', '/admin/bans/key_none', undefined, last);
    await eventually(() =>
      expect(auditLines(gateway)).toContainEqual(expect.objectContaining({ requestId: last['X-Request-Id'] })),
    );
    for (const secret of [key, NOBODYS, FOREIGN]) expect(gateway.process.stdout).not.toContain(secret.slice(4, 20));
  });

  test('a key says when it was used last and what it calls that is deprecated', async () => {
    const { id, key } = await make({});
    const path = `/admin/keys/${id}`;
    expect((await it('GET', path)).body.lastUsedOn).toBeNull();
    expect((await it('GET', `${path}/deprecations`)).body).toEqual({ routes: [] });
    const today = new Date().toISOString().slice(0, 10);
    for (let i = 0; i < 3; i++) await gateway.get('/v1/pets/1', key);
    await gateway.get('/v1/pets', key);
    await eventually(async () => {
      const { routes } = (await it('GET', `${path}/deprecations?days=1`)).body;
      expect(routes).toEqual([
        {
          route: '/v1/pets/{petId}',
          methods: expect.arrayContaining(['GET']),
          since: expect.any(String),
          sunset: expect.any(String),
          successor: '/v1/pets',
          calls: 3,
          lastDay: expect.toSatisfy((day) => day >= today),
        },
      ]);
    });
    expect((await it('GET', path)).body.lastUsedOn >= today).toBe(true);
    expect((await it('GET', `/admin/keys/jwt_${'a'.repeat(32)}/deprecations`)).body).toEqual({ routes: [] });
    expect((await it('GET', '/admin/keys/key_none/deprecations')).status).toBe(404);
    expect((await it('GET', `${path}/deprecations?days=93`)).status).toBe(400);
  });

  test('the usage of a key has the kind of each window, its top-up, the rung and how long the next ban lasts', async () => {
    const { id, key } = await make({ plan: 'small', limits: { hour: 'unlimited' } });
    const usage = async () => (await it('GET', `/admin/keys/${id}/usage`)).body;
    expect(await usage()).toMatchObject({
      windows: {
        minute: { limit: 3, used: 0, remaining: 3, form: 'fixed', topUp: null },
        hour: { limit: 'unlimited', form: 'fixed', topUp: null },
      },
      ...{ strikes: 0, ban: null },
      rung: 0,
      nextBanSeconds: 60,
    });
    const topUp = (await it('POST', `/admin/keys/${id}/topups`, { window: 'minute', amount: 2 })).body;
    expect((await usage()).windows.minute).toMatchObject({ limit: 5, topUp: { amount: 2, until: topUp.until } });
    for (let i = 0; i < 5 + 11; i++) await gateway.get('/v1/pets', key);
    expect(await usage()).toMatchObject({ ban: { number: 1 }, rung: 1, nextBanSeconds: expect.any(Number) });
    expect((await usage()).nextBanSeconds).toBeGreaterThan(60);
    // The holder of the key sees what the contract says and no more.
    const { key: other } = await make({ plan: 'small' });
    const seen = JSON.parse(await (await gateway.get('/usage', other)).text());
    expect(Object.keys(seen)).toEqual(['id', 'plan', 'windows', 'strikes', 'ban']);
    expect(Object.keys(seen.windows.minute)).toEqual(['limit', 'used', 'remaining', 'resetAt']);
  });
});

test('without the usage history, no key can be said to be unused', async () => {
  const gateway = await openWithAdmin(await STORES['the embedded store']!(), { more: 'usage: { history: off }' });
  const { status, body } = await ask(gateway, 'GET', '/admin/keys?unused=30d');
  expect([status, body.message]).toEqual([400, expect.stringContaining('usage: { history: on }')]);
});
