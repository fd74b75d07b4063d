import { beforeAll, describe, expect, test } from 'vitest';
import { DURABLE, type FinalDurability } from '../../src/admit/ledger.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { eventually } from '../support/conditions.ts';
import { startReplica, type TestGateway } from '../support/gateway.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { entriesOf } from '../support/run-command.ts';
import { FakeAuditStore } from './fake-audit-store.ts';
import { adminApiWith } from './in-process.ts';
import { ask, auditLines, openWithAdmin, STORES, startWithAdmin, TOKEN } from './operator.ts';

interface Change {
  readonly action: string;
  readonly outcome: string;
  readonly code: string | null;
  readonly target: string | null;
  readonly actor: object;
  readonly before: Record<string, unknown> | null;
  readonly after: Record<string, unknown> | null;
}

describe.each(Object.keys(STORES))('on %s', (name) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[name]!());
  });
  const changesOf = async (query: string): Promise<Change[]> =>
    (await ask(gateway, 'GET', `/admin/audit?${query}`)).body.changes;

  test('each change is recorded when it is answered: by whom, what, before and after, and no secret', async () => {
    const header = { 'X-Request-Id': 'recorded' };
    const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', owner: 'o' }, header);
    const { id } = made.body;
    await ask(gateway, 'PATCH', `/admin/keys/${id}`, { plan: 'small', limits: { minute: 7 } }, header);
    const rotated = await ask(gateway, 'POST', `/admin/keys/${id}/rotate`, { overlap: '0s' }, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/secrets/end`, { last4: rotated.body.key }, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/suspend`, { reason: 'r' }, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/suspend`, { reason: 'r' }, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/resume`, undefined, header);
    await ask(gateway, 'POST', `/admin/keys/${id}/resume`, undefined, header);
    await ask(gateway, 'DELETE', `/admin/keys/${id}`, undefined, header);
    await ask(gateway, 'DELETE', `/admin/keys/${id}`, undefined, header);
    await ask(gateway, 'PATCH', `/admin/keys/${id}`, { plan: 'free' }, header);
    await ask(gateway, 'DELETE', `/admin/bans/${id}`, undefined, header);
    const told = await ask(gateway, 'GET', `/admin/audit?key=${id}`);
    const changes: Change[] = told.body.changes;
    expect(changes.toReversed()).toMatchObject([
      { action: 'key.create', outcome: 'done', before: null, after: { plan: 'free', owner: 'o', limits: {} } },
      {
        action: 'key.update',
        outcome: 'done',
        before: { plan: 'free' },
        after: { plan: 'small', limits: { minute: 7 } },
      },
      { action: 'key.rotate', before: { secrets: [made.body.key.slice(-4)] } },
      { action: 'secret.end', outcome: 'refused', code: 'invalid_request', before: null, after: null },
      { action: 'key.suspend', outcome: 'done', after: { suspended: { until: null, reason: 'r' } } },
      { action: 'key.suspend', outcome: 'unchanged' },
      { action: 'key.resume', outcome: 'done', before: { suspended: { until: null, reason: 'r' } } },
      { action: 'key.resume', outcome: 'unchanged' },
      { action: 'key.revoke', outcome: 'done', before: { revokedAt: null }, after: { revokedAt: expect.any(String) } },
      { action: 'key.revoke', outcome: 'unchanged', code: null },
      { action: 'key.update', outcome: 'refused', code: 'conflict', before: null, after: null },
      { action: 'ban.lift', outcome: 'refused', code: 'not_found' },
    ]);
    for (const change of changes) {
      const actor = { kind: 'token', name: 'ADMIN_TOKEN' };
      expect(change).toMatchObject({ target: id, actor, requestId: 'recorded', clientAddress: '127.0.0.1' });
      expect(change).toMatchObject({ id: expect.stringMatching(/^[0-9a-f-]{36}$/), time: expect.stringMatching(/Z$/) });
    }
    for (const secret of [made.body.key, rotated.body.key]) expect(told.text).not.toContain(secret.slice(8, -4));
    expect(told.text).not.toContain(TOKEN);
  });

  test('changes of commands and of gateways are one history, listed in pages and by key, actor and time', async () => {
    const { id } = await gateway.createKey('free', '--name', 'of a command');
    await ask(gateway, 'PATCH', `/admin/keys/${id}`, { name: 'of the API' });
    expect(await changesOf(`key=${id}`)).toMatchObject([
      { action: 'key.update', actor: { kind: 'token' }, before: { name: 'of a command' } },
      { action: 'key.create', actor: { kind: 'shell', user: expect.any(String), host: expect.any(String) } },
    ]);
    expect(await changesOf(`key=${id}&actor=ADMIN_TOKEN`)).toHaveLength(1);
    expect(await changesOf(`key=${id}&since=1h`)).toHaveLength(2);
    expect(await changesOf(`key=${id}&since=2099-01-01`)).toEqual([]);
    const pages: unknown[] = [];
    for (let path = '/admin/audit?limit=1'; ; ) {
      const { body, headers } = await ask(gateway, 'GET', path);
      expect(body.changes).toHaveLength(1);
      pages.push(...body.changes);
      if (body.cursor === null) break;
      path = /^<(.*)>; rel="next"$/.exec(headers.get('link')!)![1]!;
    }
    expect(pages).toEqual(await changesOf('limit=1000'));
    for (const query of ['limit=0', 'cursor=x', 'since=soon', 'who=me']) {
      expect((await ask(gateway, 'GET', `/admin/audit?${query}`)).body).toMatchObject({ code: 'invalid_request' });
    }
  });

  test('a secret that was taken for an id is not recorded', async () => {
    const { key } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).body;
    expect((await ask(gateway, 'DELETE', `/admin/keys/${key}`)).status).toBe(404);
    const [change] = await changesOf('limit=1');
    expect(change).toMatchObject({ action: 'key.revoke', outcome: 'refused', code: 'not_found', target: null });
  });
});

test('the record outlives its gateway, killed right after the answer (reliability 163)', async () => {
  const gateway = await startWithAdmin(await STORES['the embedded store']!());
  const { id } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).body;
  expect((await ask(gateway, 'DELETE', `/admin/keys/${id}`)).status).toBe(200);
  process.kill(gateway.process.pid!, 'SIGKILL');
  await gateway.process.exit;
  const { stdout } = await gateway.command('audit', '--key', id, '--json');
  expect(entriesOf(stdout)).toMatchObject([
    { action: 'key.revoke', outcome: 'done' },
    { action: 'key.create', outcome: 'done' },
  ]);
});

test('of a gateway that is killed in the middle of a change the record says that nobody knows what became of it (reliability 163)', async () => {
  const keys = new FakeStore();
  const { it, audit } = await adminApiWith(keys);
  let seen: unknown = null;
  keys.create = async () => {
    seen = (await audit.list({ limit: 1, before: null })).map(({ text }) => JSON.parse(text));
    return DURABLE;
  };
  await it('POST', '/admin/keys', { plan: 'free' });
  expect(seen).toMatchObject([{ action: 'key.create', outcome: 'unknown', code: null, target: null }]);
});

describe('audit.required', () => {
  test('refuses a change that cannot be recorded, and nothing is changed', async () => {
    const [keys, audit] = [new FakeStore(), new FakeAuditStore()];
    const { it, lines } = await adminApiWith(keys, { audit, required: true });
    const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
    const before = keys.updates;
    audit.fails = () => true;
    const told = await it('DELETE', `/admin/keys/${id}`);
    expect([told.status, told.body.code, told.headers.get('retry-after')]).toEqual([503, 'audit_unavailable', '1']);
    expect([keys.updates, keys.keys.get(id)!.revokedAtMs]).toEqual([before, null]);
    expect(lines.at(-1)).toMatchObject({ action: 'key.revoke', outcome: 'refused', code: 'audit_unavailable', id });
  });

  test('holds on a real Redis, for the API and for commands that read the same gateway.yaml', async () => {
    const server = await privateRedis();
    const env = { REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' };
    const gateway = await openWithAdmin(env, { more: 'audit: { required: true }' });
    const { id } = await gateway.createKey('free');
    await redisCommand(server.url, 'DEL', 'tg:audit');
    await redisCommand(server.url, 'SET', 'tg:audit', 'foreign');
    expect((await ask(gateway, 'DELETE', `/admin/keys/${id}`)).body).toMatchObject({ code: 'audit_unavailable' });
    const { code, stderr } = await gateway.command('keys', 'revoke', id);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^The change was not made, because it could not be recorded/),
    ]);
    expect((await ask(gateway, 'GET', `/admin/keys/${id}`)).body.revokedAt).toBeNull();
  });
});

describe('without audit.required', () => {
  test('a change that cannot be recorded is made, counted, and an error line', async () => {
    const [keys, audit] = [new FakeStore(), new FakeAuditStore()];
    const { it, lines, failures } = await adminApiWith(keys, { audit });
    audit.fails = () => true;
    const told = await it('POST', '/admin/keys', { plan: 'free' });
    expect([told.status, failures()]).toEqual([201, 1]);
    expect(lines.at(-1)).toMatchObject({ level: 50, action: 'key.create', id: told.body.id });
  });

  test('one write that fails is made up for when the change has ended', async () => {
    const audit = new FakeAuditStore();
    const { it, failures } = await adminApiWith(new FakeStore(), { audit });
    audit.fails = (write) => write === 1;
    await it('POST', '/admin/keys', { plan: 'free' });
    expect([audit.written.at(-1)!.outcome, failures()]).toEqual(['done', 0]);
  });

  test('the count is in the metrics, of one process and of several workers', async () => {
    for (const WORKERS of ['1', '2']) {
      const server = await privateRedis();
      await redisCommand(server.url, 'SET', 'tg:audit', 'foreign');
      const env = { REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use', WORKERS };
      const gateway = await startWithAdmin(env);
      expect((await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).status).toBe(201);
      const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
      expect(metrics).toMatch(/^tollgate_audit_failures_total 1$/m);
    }
  });
});

test('of a change that a failover may undo the record says so, and later what became of it', async () => {
  const keys = new FakeStore();
  const { it, audit } = await adminApiWith(keys);
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  const { promise: final, resolve } = Promise.withResolvers<FinalDurability>();
  keys.durability = { kind: 'unknown', final };
  expect((await it('PATCH', `/admin/keys/${id}`, { name: 'n' })).status).toBe(202);
  const latest = () => JSON.parse(audit.kept.at(-1)!.text);
  expect(latest()).toMatchObject({ outcome: 'unknown', target: id, after: { name: 'n' } });
  resolve('superseded');
  await eventually(() => expect(latest()).toMatchObject({ outcome: 'lost', target: id, after: { name: 'n' } }));
  expect(audit.kept).toHaveLength(2);
});

test('a wrong admin token is a log line and no record: strangers cannot push the records of changes out', async () => {
  const gateway = await openWithAdmin(await STORES['the embedded store']!());
  const { status } = await ask(gateway, 'DELETE', '/admin/keys/x', undefined, { Authorization: 'Bearer wrong' });
  expect(status).toBe(401);
  await eventually(() => expect(auditLines(gateway)).toHaveLength(1));
  expect((await ask(gateway, 'GET', '/admin/audit')).body).toEqual({ changes: [], unreadable: [], cursor: null });
});

test('two gateways on one Redis tell one history, also where they have several workers', async () => {
  const one = await startWithAdmin({ ...(await STORES.Redis!()), WORKERS: '2' });
  const other = await startReplica(one);
  const { id } = (await ask(one, 'POST', '/admin/keys', { plan: 'free' })).body;
  await ask(other, 'DELETE', `/admin/keys/${id}`);
  for (const gateway of [one, other]) {
    const { changes } = (await ask(gateway, 'GET', `/admin/audit?key=${id}`)).body;
    expect(changes.map(({ action }: Change) => action)).toEqual(['key.revoke', 'key.create']);
  }
});
