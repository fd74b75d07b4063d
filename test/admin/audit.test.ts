import { expect, test } from 'vitest';
import { RESOURCES } from '../../src/admin/resources.ts';
import { DURABLE, type Settlement } from '../../src/admit/ledger.ts';
import { Failure } from '../../src/failure.ts';
import type { StoredKey } from '../../src/identify/key-store.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { eventually } from '../support/conditions.ts';
import { adminApiWith } from './in-process.ts';

/** A store that does what it is asked, and whose answer is lost. */
class SilentStore extends FakeStore {
  isSilent = false;
  override async create(key: StoredKey) {
    const durability = await super.create(key);
    this.#lose();
    return durability;
  }
  override async update(id: string, change: (key: StoredKey) => StoredKey) {
    if (!this.keys.has(id)) return null as never;
    const next = await super.update(id, change);
    this.#lose();
    return next;
  }
  #lose() {
    if (this.isSilent) throw new Failure('store_unavailable', 'no answer');
  }
}

const api = async () => {
  const keys = new SilentStore();
  return { keys, ...(await adminApiWith(keys)) };
};

test('a change that is refused is an audit line that says why, and changes nothing', async () => {
  const { it, lines } = await api();
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  await it('POST', '/admin/keys', { plan: 'gold' });
  await it('PATCH', `/admin/keys/${id}`, { name: 'n' }, { 'If-Match': '"x"' });
  await it('DELETE', '/admin/keys/none');
  await it('DELETE', '/admin/bans/none');
  await it('DELETE', `/admin/keys/${id}`);
  await it('POST', `/admin/keys/${id}/rotate`);
  await it('GET', '/admin/keys/none');
  const told = lines.map(({ action, outcome, code, id: of }) => [action, outcome, code, of]);
  expect(told).toEqual([
    ['key.create', 'done', null, id],
    ['key.create', 'refused', 'invalid_request', null],
    ['key.update', 'refused', 'precondition_failed', id],
    ['key.revoke', 'refused', 'not_found', 'none'],
    ['ban.lift', 'refused', 'not_found', 'none'],
    ['key.revoke', 'done', null, id],
    ['key.rotate', 'refused', 'conflict', id],
  ]);
  for (const line of lines.filter(({ outcome }) => outcome === 'refused')) {
    expect(line).toMatchObject({ msg: 'audit', who: 'admin', clientAddress: '127.0.0.1', before: null, after: null });
  }
});

test('a change whose answer the store did not give is an audit line, because it may have been made', async () => {
  const { it, keys, lines } = await api();
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  keys.isSilent = true;
  expect((await it('DELETE', `/admin/keys/${id}`)).status).toBe(503);
  expect(keys.keys.get(id)!.revokedAtMs).not.toBeNull();
  expect(lines.at(-1)).toMatchObject({ action: 'key.revoke', outcome: 'unknown', code: 'store_unavailable', id });
  // A key that was made all the same is told with its id when it is asked for again.
  const header = { 'Idempotency-Key': 'k' };
  expect((await it('POST', '/admin/keys', { plan: 'free' }, header)).status).toBe(503);
  expect(lines.at(-1)).toMatchObject({ action: 'key.create', outcome: 'unknown', id: null });
  keys.isSilent = false;
  const made = await it('POST', '/admin/keys', { plan: 'free' }, header);
  expect(made.status).toBe(201);
  expect(lines.at(-1)).toMatchObject({ action: 'key.create', outcome: 'repeated', id: made.body.id });
});

test('a change that a failover may undo is answered with 202 and told twice: that it is unknown, and how it ended', async () => {
  const { it, keys, lines } = await api();
  const { id } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  for (const [settlement, outcome] of [
    ['durable', 'done'],
    ['superseded', 'lost'],
    ['given_up', 'unknown'],
  ] as const) {
    const { promise: settled, resolve } = Promise.withResolvers<Settlement>();
    keys.durability = { kind: 'unknown', settled };
    const told = await it('PATCH', `/admin/keys/${id}`, { name: settlement });
    expect([told.status, told.body]).toMatchObject([202, { id, name: settlement, durability: 'unknown' }]);
    expect(lines.at(-1)).toMatchObject({
      action: 'key.update',
      outcome: 'unknown',
      code: null,
      after: { name: settlement },
    });
    const before = lines.length;
    resolve(settlement);
    await eventually(() => expect(lines).toHaveLength(before + 1));
    expect(lines.at(-1)).toEqual({ ...lines.at(-2), outcome, time: expect.anything() });
  }
});

test('a key whose creation a failover may undo is answered with its secret, and asked for again until that is known', async () => {
  const { it, keys } = await api();
  keys.durability = { kind: 'unknown', settled: new Promise(() => {}) };
  const create = () => it('POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': 'k' });
  const [first, second] = [await create(), await create()];
  expect([first.status, second.status]).toEqual([202, 202]);
  expect(first.body).toMatchObject({ key: expect.stringMatching(/^tg_live_/), durability: 'unknown' });
  expect(second.body).toEqual(first.body);
  keys.durability = DURABLE;
  const third = await create();
  expect([third.status, third.body.key, 'durability' in third.body]).toEqual([201, first.body.key, false]);
});

test('a wrong admin token is an audit line until the address is no longer listened to, and the token stands nowhere', async () => {
  const { it, lines } = await api();
  for (let i = 0; i < 15; i++) {
    await it('DELETE', '/admin/keys/some', undefined, { Authorization: 'Bearer wrongtoken', 'X-Request-Id': 'r' });
  }
  const line = {
    action: 'admin.access',
    outcome: 'refused',
    code: 'invalid_admin_token',
    who: 'stranger',
    requestId: 'r',
  };
  expect(lines).toEqual(Array(10).fill(expect.objectContaining({ ...line, clientAddress: '127.0.0.1', id: null })));
  expect(JSON.stringify(lines)).not.toContain('wrongtoken');
});

test('each method that changes something has its name in the audit', () => {
  for (const { methods, changes = {}, onlyAsks = false } of RESOURCES) {
    const reads = onlyAsks ? ['GET', 'POST'] : ['GET'];
    expect(Object.keys(changes)).toEqual(Object.keys(methods).filter((method) => !reads.includes(method)));
  }
});
