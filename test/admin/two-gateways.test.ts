import { writeFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openReplica, type TestGateway } from '../support/gateway.ts';
import { privateRedis } from '../support/redis.ts';
import { ask, openWithAdmin, STORES, startWithAdmin } from './operator.ts';

describe('two gateways on one Redis', () => {
  let one: TestGateway;
  let other: TestGateway;
  beforeAll(async () => {
    one = await openWithAdmin(await STORES.Redis!());
    other = await openReplica(one);
  });
  const statusesOf = async (key: string) =>
    Promise.all([one, other].map(async (gateway) => (await gateway.get('/v1/pets', key)).status));

  test('a key that is made through one works on both at once', async () => {
    const { key } = (await ask(one, 'POST', '/admin/keys', { plan: 'free' })).body;
    expect(await statusesOf(key)).toEqual([200, 200]);
  });

  test('a key that is revoked through one is refused by both within a second', async () => {
    for (let round = 0; round < 5; round++) {
      const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'endless' })).body;
      expect(await statusesOf(key)).toEqual([200, 200]);
      await ask(round % 2 ? one : other, 'DELETE', `/admin/keys/${id}`);
      await eventually(async () => expect(await statusesOf(key)).toEqual([401, 401]), { withinMs: 1_000 });
    }
  });

  test('a limit that is changed through one binds on both within a second', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'free' })).body;
    await statusesOf(key);
    await ask(other, 'PATCH', `/admin/keys/${id}`, { limits: { minute: 17 } });
    await eventually(
      async () => {
        for (const gateway of [one, other]) {
          expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-limit')).toBe('17');
        }
      },
      { withinMs: 1_000 },
    );
  });

  test('a ban that is lifted through one is over on both within a second', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'small' })).body;
    for (let i = 0; i < 14; i++) await (i % 2 ? one : other).get('/v1/pets', key);
    const codesOf = (): Promise<unknown[]> =>
      Promise.all(
        [one, other].map(
          async (gateway) => ((await (await gateway.get('/v1/pets', key)).json()) as { code: string }).code,
        ),
      );
    await eventually(async () => expect(await codesOf()).toEqual(['api_key_banned', 'api_key_banned']));
    await ask(other, 'DELETE', `/admin/bans/${id}`);
    await eventually(async () => expect(await codesOf()).not.toContain('api_key_banned'), { withinMs: 1_000 });
  });
});

test('a gateway of several workers has one admin API, and what it changes binds in all of them', async () => {
  const gateway = await startWithAdmin({ ...(await STORES.Redis!()), WORKERS: '2' });
  const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'endless' });
  expect(made.status).toBe(201);
  const statuses = () =>
    Promise.all(
      Array.from({ length: 6 }, async () => {
        const response = await gateway.get('/v1/pets', made.body.key, { headers: { Connection: 'close' } });
        return response.status;
      }),
    );
  expect(await statuses()).toEqual(Array(6).fill(200));
  await ask(gateway, 'DELETE', `/admin/keys/${made.body.id}`);
  await eventually(async () => expect(await statuses()).toEqual(Array(6).fill(401)), { withinMs: 1_000 });
  expect((await gateway.process.stop()).code).toBe(0);
});

test('while Redis is away a change is 503 with Retry-After, and made when it is back', async () => {
  const server = await privateRedis();
  const gateway = await openWithAdmin({ REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' });
  await server.pause();
  const told = await ask(gateway, 'POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': 'once' });
  expect([told.status, told.body.code, told.headers.get('retry-after')]).toEqual([503, 'store_unavailable', '1']);
  for (const path of ['/admin/keys', '/admin/bans', '/admin/keys/key_x', '/admin/deprecations']) {
    expect([path, (await ask(gateway, 'GET', path)).status]).toEqual([path, 503]);
  }
  expect((await ask(gateway, 'GET', '/admin/plans')).status).toBe(200);
  await server.resume();
  const made = await eventually(
    async () => {
      const again = await ask(gateway, 'POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': 'once' });
      expect(again.status).toBe(201);
      return again;
    },
    { withinMs: 5_000 },
  );
  // The call that was given up may have been carried out: it is the same key all the same.
  const { keys } = (await ask(gateway, 'GET', '/admin/keys')).body;
  expect(keys.map(({ id }: { id: string }) => id)).toEqual([made.body.id]);
});

test('a gateway that does not follow its files makes no key of a plan that another one has removed (reliability 392)', async () => {
  const plans = 'plans:\n  kept: { limits: { minute: 100 } }\n  gone: { limits: { minute: 100 } }\n';
  const follows = await startWithAdmin(await STORES.Redis!(), { plans });
  const stays = await openReplica(follows);
  const inForce = async () => (await ask(follows, 'GET', '/admin/plans')).body.versions.plans;
  const create = (plan: string, once: string) =>
    ask(stays, 'POST', '/admin/keys', { plan }, { 'Idempotency-Key': once });
  const { id } = (await create('gone', 'before')).body;
  await ask(stays, 'DELETE', `/admin/keys/${id}`);
  const before = await inForce();
  await writeFile(follows.env.TOLLGATE_PLANS!, plans.replace(/.*gone.*\n/, ''));
  await eventually(async () => {
    expect(await inForce()).not.toBe(before);
    expect((await ask(follows, 'GET', '/admin/plans/history')).body.versions).toHaveLength(2);
  });
  const why = expect.stringContaining('a later plans.yaml without the plan gone');
  expect(await create('gone', 'after')).toMatchObject({ status: 409, body: { code: 'conflict', message: why } });
  expect(await ask(stays, 'POST', '/admin/keys', { plan: 'gone' })).toMatchObject({ status: 409 });
  const { body } = await create('kept', 'other');
  const edited = await ask(stays, 'PATCH', `/admin/keys/${body.id}`, { plan: 'gone' });
  expect(edited).toMatchObject({ status: 409, body: { message: why } });
  expect((await follows.get('/v1/pets', body.key)).status).toBe(200);
  expect((await ask(follows, 'GET', '/admin/keys')).body.keys).toMatchObject([{ id: body.id, plan: 'kept' }]);
});

test('a gateway makes keys of a plan that no gateway has had yet', async () => {
  const plans = (name: string) => `plans:\n  ${name}: { limits: { minute: 100 } }\n`;
  const one = await startWithAdmin(await STORES.Redis!(), { plans: plans('old') });
  await eventually(async () => expect((await ask(one, 'GET', '/admin/plans/history')).body.versions).toHaveLength(1));
  await writeFile(one.env.TOLLGATE_PLANS!, plans('new'));
  expect(await one.createKey('new')).toMatchObject({ id: expect.stringMatching(/^key_/) });
});
