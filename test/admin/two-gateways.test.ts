import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openReplica, startReplica, type TestGateway } from '../support/gateway.ts';
import { runTollgate, temporaryFolder } from '../support/processes.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { ask, openWithAdmin, STORES, startWithAdmin } from './operator.ts';

describe('two gateways on one Redis', () => {
  let one: TestGateway;
  let other: TestGateway;
  beforeAll(async () => {
    one = await openWithAdmin(await STORES.Redis!());
    other = await openReplica(one);
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
  const why = expect.stringContaining('a plans.yaml without the plan gone came into force after the one here');
  expect(await create('gone', 'after')).toMatchObject({ status: 409, body: { code: 'conflict', message: why } });
  expect(await ask(stays, 'POST', '/admin/keys', { plan: 'gone' })).toMatchObject({ status: 409 });
  const { body } = await create('kept', 'other');
  const edited = await ask(stays, 'PATCH', `/admin/keys/${body.id}`, { plan: 'gone' });
  expect(edited).toMatchObject({ status: 409, body: { message: why } });
  expect((await follows.get('/v1/pets', body.key)).status).toBe(200);
  expect((await ask(follows, 'GET', '/admin/keys')).body.keys).toMatchObject([{ id: body.id, plan: 'kept' }]);
});

/** A gateway that follows its files, one that does not, and what removes the plan `gone` on the first. */
async function withRemoval() {
  const plans = 'plans:\n  kept: { limits: { minute: 100 } }\n  gone: { limits: { minute: 100 } }\n';
  const follows = await startWithAdmin(await STORES.Redis!(), { plans });
  const stays = await openReplica(follows);
  const inForce = async () => (await ask(follows, 'GET', '/admin/plans')).body.versions.plans;
  const before = await inForce();
  const remove = async () => {
    await writeFile(follows.env.TOLLGATE_PLANS!, plans.replace(/.*gone.*\n/, ''));
    await eventually(async () => expect(await inForce()).not.toBe(before));
  };
  const versionsAre = (count: number) =>
    eventually(async () => {
      expect((await ask(follows, 'GET', '/admin/plans/history')).body.versions).toHaveLength(count);
    });
  await versionsAre(1);
  return { follows, stays, plans, remove, versionsAre };
}

test('a gateway or a command with an earlier plans.yaml gives no customer and no key a plan that was removed (reliability 426)', async () => {
  const { follows, stays, plans, remove, versionsAre } = await withRemoval();
  const customer = (await ask(stays, 'POST', '/admin/customers', { plan: 'kept' })).body.id;
  const { id } = (await ask(stays, 'POST', '/admin/keys', { customer })).body;
  await remove();
  await versionsAre(2);
  const refused = {
    status: 409,
    body: { code: 'conflict', message: expect.stringContaining('without the plan gone') },
  };
  const once = { 'Idempotency-Key': 'once' };
  expect(await ask(stays, 'POST', '/admin/customers', { plan: 'gone' })).toMatchObject(refused);
  expect(await ask(stays, 'POST', '/admin/customers', { plan: 'gone' }, once)).toMatchObject(refused);
  expect(await ask(stays, 'PATCH', `/admin/customers/${customer}`, { plan: 'gone' })).toMatchObject(refused);
  expect(await ask(stays, 'POST', `/admin/keys/${id}/move`, { customer: null, plan: 'gone' })).toMatchObject(refused);

  const folder = await temporaryFolder();
  const [old, keys, rows] = ['plans.yaml', 'keys.yaml', 'keys.ndjson'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await writeFile(old, plans);
  await writeFile(keys, 'set: all\nkeys: { late: { plan: gone } }\ncustomers: { last: { plan: gone } }\n');
  await writeFile(rows, `{"sha256":"${'ab'.repeat(32)}","plan":"gone"}\n`);
  const env = { ...follows.env, TOLLGATE_PLANS: old };
  for (const words of [
    ['keys', 'apply', keys, '--secrets', folder],
    ['keys', 'import', rows],
    ['keys', 'create', '--plan', 'gone'],
    ['customers', 'create', '--plan', 'gone'],
  ]) {
    const { code, stderr } = await runTollgate(words, { env });
    expect([words[1], code, stderr]).toEqual([words[1], 1, expect.stringContaining('without the plan gone')]);
  }
  expect((await ask(follows, 'GET', '/admin/keys')).body.keys).toMatchObject([{ id, customer: { id: customer } }]);
  expect((await ask(follows, 'GET', '/admin/customers')).body.customers).toMatchObject([
    { id: customer, plan: 'kept' },
  ]);
});

test('a key of a plan that is made after a gateway has looked for its keys, and before the history shows that it was removed, is named in the log (reliability 427)', async () => {
  const { follows, stays, remove, versionsAre } = await withRemoval();
  // The history cannot be written, so the plan is removed and the other gateway cannot know it.
  const { REDIS_URL } = follows.env;
  await redisCommand(REDIS_URL!, 'RENAME', 'tg:plans:history', 'kept');
  await redisCommand(REDIS_URL!, 'SET', 'tg:plans:history', 'of another program');
  await remove();
  expect(await ask(stays, 'POST', '/admin/keys', { plan: 'gone' })).toMatchObject({ status: 201 });
  await redisCommand(REDIS_URL!, 'RENAME', 'kept', 'tg:plans:history');
  await versionsAre(2);
  await eventually(() => {
    const lines = follows.process.stdout.split('\n').filter((line) => line.includes('live keys have a plan'));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ plan: 'gone', keys: 1 }]);
  });
});

test('a gateway that starts with an earlier plans.yaml makes that the newest version, and until it has the others’ no key gets a plan that it lacks (reliability 429)', async () => {
  const plansWith = (...names: readonly string[]) =>
    `plans:\n${names.map((name) => `  ${name}: { limits: { minute: 100 } }\n`).join('')}`;
  const one = await startWithAdmin(await STORES.Redis!(), { plans: plansWith('kept') });
  const own = join(await temporaryFolder(), 'plans.yaml');
  await writeFile(own, plansWith('kept'));
  const env = { ...one.env, TOLLGATE_PLANS: own };
  const start = () => startReplica({ env });
  const versions = async () =>
    (await ask(one, 'GET', '/admin/plans/history')).body.versions.map(({ version }: { version: string }) => version);
  const create = () => ask(one, 'POST', '/admin/keys', { plan: 'added' });
  const other = await start();
  await eventually(async () => expect(await versions()).toHaveLength(1));
  await writeFile(one.env.TOLLGATE_PLANS!, plansWith('kept', 'added'));
  await eventually(async () => expect(await versions()).toHaveLength(2));
  const [later, earlier] = await versions();
  expect((await create()).status).toBe(201);

  await other.process.stop();
  const again = await start();
  await eventually(async () => expect(await versions()).toEqual([earlier, later, earlier]));
  const [change] = (await ask(one, 'GET', '/admin/audit?action=plans.load')).body.changes;
  expect(change).toMatchObject({ before: { version: later }, after: { version: earlier } });
  expect(await create()).toMatchObject({ status: 409, body: { message: expect.stringContaining('plans history') } });
  await eventually(async () => {
    const { gateways } = (await ask(one, 'GET', '/admin/gateways')).body;
    const inForce = gateways.map((gateway: { versions: { plans: string } }) => gateway.versions.plans);
    // Those of earlier tests may be there still.
    expect(inForce).toEqual(expect.arrayContaining([earlier, later]));
  });

  await again.process.stop();
  await writeFile(own, plansWith('kept', 'added'));
  await start();
  await eventually(async () => expect((await versions())[0]).toBe(later));
  expect((await create()).status).toBe(201);
});

test('a gateway makes keys of a plan that no gateway has had yet', async () => {
  const plans = (name: string) => `plans:\n  ${name}: { limits: { minute: 100 } }\n`;
  const one = await startWithAdmin(await STORES.Redis!(), { plans: plans('old') });
  await eventually(async () => expect((await ask(one, 'GET', '/admin/plans/history')).body.versions).toHaveLength(1));
  await writeFile(one.env.TOLLGATE_PLANS!, plans('new'));
  expect(await one.createKey('new')).toMatchObject({ id: expect.stringMatching(/^key_/) });
});
