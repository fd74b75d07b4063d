import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { isWellFormed } from '../../src/identify/api-key.ts';
import type { Plan } from '../../src/model/plan.ts';
import { createOnce, type MadeKey } from '../../src/operations/create-once.ts';
import type { KeyAttributes } from '../../src/operations/key-changes.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { eventually } from '../support/conditions.ts';
import { openReplica, type TestGateway } from '../support/gateway.ts';
import { redisCommand } from '../support/redis.ts';
import { ask, auditLines, openWithAdmin, STORES } from './operator.ts';

const HOUR_MS = 3_600_000;

describe.each(Object.keys(STORES))('a creation with an Idempotency-Key, on %s', (name) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[name]!());
  });
  const create = (key: string, body: object | string = { plan: 'free', name: 'n' }, of = gateway) =>
    ask(of, 'POST', '/admin/keys', body, { 'Idempotency-Key': key });

  test('gives the same answer when it is asked for again, and makes one key', async () => {
    const key = randomUUID();
    const first = await create(key, { plan: 'free', name: 'n', expiresAt: '90d', limits: { minute: 5, day: 6 } });
    // The order of members and white space make no other body; the quotes of a structured field no other name.
    const other = '{ "name": "n", "limits": {"day":6,"minute":5}, "expiresAt": "90d", "plan": "free" }';
    const again = await create(`"${key}"`, other);
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([201, null]);
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect(again.text).toBe(first.text);
    for (const field of ['etag', 'location']) expect(again.headers.get(field)).toBe(first.headers.get(field));
    expect(isWellFormed(first.body.key)).toBe(true);
    expect((await gateway.get('/v1/pets', again.body.key)).status).toBe(200);
    await eventually(() => {
      const told = auditLines(gateway).filter(({ id }) => id === first.body.id);
      expect(told.map(({ outcome }) => outcome)).toEqual(['done', 'repeated']);
    });
  });

  test('gives the same answer whatever has become of the key since, while its secret works', async () => {
    const key = randomUUID();
    const first = await create(key);
    await ask(gateway, 'PATCH', `/admin/keys/${first.body.id}`, { name: 'other', limits: { minute: 1 } });
    await ask(gateway, 'POST', `/admin/keys/${first.body.id}/rotate`, { overlap: '1h' });
    expect((await create(key)).text).toBe(first.text);
    expect((await gateway.get('/v1/pets', first.body.key)).status).toBe(200);
  });

  test.each([
    ['the key is revoked', (id: string) => ask(gateway, 'DELETE', `/admin/keys/${id}`), 'is revoked'],
    [
      'its secret was rotated away',
      (id: string) => ask(gateway, 'POST', `/admin/keys/${id}/rotate`, { overlap: '0s' }),
      'has another secret since',
    ],
    [
      'the key was deleted',
      async (id: string) => {
        await ask(gateway, 'DELETE', `/admin/keys/${id}`);
        await ask(gateway, 'POST', `/admin/keys/${id}/delete`);
      },
      'was deleted',
    ],
  ])('is 409 without the secret once %s', async (_, end, what) => {
    const key = randomUUID();
    const first = await create(key);
    await end(first.body.id);
    const again = await create(key);
    expect([again.status, again.body.code]).toEqual([409, 'conflict']);
    expect(again.body.message).toContain(`Key ${first.body.id}, which this Idempotency-Key made, ${what}.`);
    expect(again.headers.get('location')).toBe(`/admin/keys/${first.body.id}`);
    expect(again.text).not.toContain(first.body.key);
    await eventually(() => {
      const told = auditLines(gateway).filter(({ action, code }) => action === 'key.create' && code === 'conflict');
      expect(told.length).toBeGreaterThan(0);
    });
  });

  test('makes one key when it is asked for many times at once', async () => {
    const key = randomUUID();
    const told = await Promise.all(Array.from({ length: 8 }, () => create(key)));
    expect(new Set(told.map(({ text }) => text)).size).toBe(1);
    expect(told.filter(({ headers }) => headers.get('idempotency-replayed') === null)).toHaveLength(1);
  });

  test('is refused with 422 when its key came with another body, and makes nothing', async () => {
    const key = randomUUID();
    await create(key);
    for (const body of [{ plan: 'small', name: 'n' }, { plan: 'free' }, { plan: 'free', name: 'n', limits: {} }]) {
      const told = await create(key, body);
      expect([told.status, told.body.code]).toEqual([422, 'idempotency_key_reused']);
    }
  });

  test('that was refused may be asked for again with what is right', async () => {
    const key = randomUUID();
    expect((await create(key, { plan: 'gold' })).status).toBe(400);
    expect((await create(key, { plan: 'free' })).status).toBe(201);
  });

  test.each(['', 'é', 'x'.repeat(256), '"', 'a"b'])('needs a name that can be one, not %j', async (key) => {
    const told = await ask(
      gateway,
      'POST',
      '/admin/keys',
      { plan: 'free' },
      { 'Idempotency-Key': Buffer.from(key).toString('latin1') },
    );
    expect([told.status, told.body.code]).toEqual([400, 'invalid_request']);
  });

  test('leaves nothing in the store from which its secret could be had', async () => {
    const key = randomUUID();
    const first = await create(key);
    const { secret } = { secret: first.body.key.slice(8, -6) };
    const stored =
      gateway.env.REDIS_URL === undefined
        ? Buffer.concat(
            readdirSync(gateway.env.TOLLGATE_DATA!, { withFileTypes: true })
              .filter((one) => one.isFile())
              .map(({ name }) => readFileSync(join(gateway.env.TOLLGATE_DATA!, name))),
          ).toString('latin1')
        : String(await redisCommand(gateway.env.REDIS_URL, 'GET', `tg:key:{${first.body.id}}`));
    expect(stored).toContain(first.body.id);
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain(key);
  });
});

test('two gateways that are asked at the same time make one key', async () => {
  const one = await openWithAdmin(await STORES.Redis!());
  const other = await openReplica(one);
  const key = randomUUID();
  const told = await Promise.all(
    Array.from({ length: 10 }, (_, i) =>
      ask(i % 2 ? one : other, 'POST', '/admin/keys', { plan: 'free' }, { 'Idempotency-Key': key }),
    ),
  );
  expect(new Set(told.map(({ text }) => text)).size).toBe(1);
  expect((await ask(other, 'GET', '/admin/keys')).body.keys).toHaveLength(1);
  // Each of them had a salt, and so a digest, of its own: those of the ones that came too late are gone.
  expect(await redisCommand(one.env.REDIS_URL!, 'KEYS', 'tg:digest:*')).toHaveLength(1);
});

describe('by the clock', () => {
  const plan: Plan = { name: 'free', limits: { minute: 5 }, bans: null, enforce: true, shadow: {} };
  const wishes = { plan: 'free', limits: {}, name: null, owner: null, expiresAtMs: null };
  const creator = (keys: FakeStore, peppers = ['new'], wished: KeyAttributes = wishes) => {
    let n = 0;
    return (nowMs: number, by = peppers) =>
      createOnce({ name: 'a', body: 'b' }, () => wished, {
        keys,
        peppers: by,
        plans: new Map([['free', plan]]),
        random: (bytes) => new Uint8Array(bytes).fill(++n),
        nowMs,
      });
  };

  test.each([0, 1, 23.9])('a name stands for its key for 24 h, begun %d h into the day', async (hours) => {
    const create = creator(new FakeStore());
    const atMs = 1_800_000_000_000 - (1_800_000_000_000 % 86_400_000) + hours * HOUR_MS;
    const first = await create(atMs);
    expect(first.kind).toBe('made');
    const again = await create(atMs + 24 * HOUR_MS - 1);
    expect(again).toEqual({ ...first, kind: 'repeated' });
    const later = await create(atMs + 24 * HOUR_MS);
    expect(later.kind).toBe('made');
    expect(later).not.toMatchObject({ record: { id: (first as MadeKey).record.id } });
  });

  test('a name stands for its key at a gateway whose clock is behind, around midnight', async () => {
    const create = creator(new FakeStore());
    const midnightMs = 1_800_000_000_000 - (1_800_000_000_000 % 86_400_000);
    const first = await create(midnightMs + 50);
    expect(await create(midnightMs - 50)).toEqual({ ...first, kind: 'repeated' });
  });

  test('a name is told to have ended when its key expires', async () => {
    const create = creator(new FakeStore(), ['new'], { ...wishes, expiresAtMs: 1_800_000_005_000 });
    const first = await create(1_800_000_000_000);
    expect(await create(1_800_000_004_999)).toEqual({ ...first, kind: 'repeated' });
    expect(await create(1_800_000_005_000)).toMatchObject({ kind: 'ended', how: 'expired' });
  });

  test('a name stands for its key while the pepper is changed', async () => {
    const create = creator(new FakeStore());
    const first = await create(1_800_000_000_000, ['old']);
    expect(await create(1_800_000_001_000, ['new', 'old'])).toEqual({ ...first, kind: 'repeated' });
  });
});
