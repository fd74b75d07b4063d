import { describe, expect, test } from 'vitest';
import { operationsOn } from '../../src/cli/operations.ts';
import { Failure } from '../../src/failure.ts';
import { byReadability } from '../../src/model/record.ts';
import { takenBack } from '../../src/operations/create-once.ts';
import type { Operations } from '../../src/operations/operations.ts';
import { type OpenStore, withStore } from '../../src/serve/open-store.ts';
import { STORES } from '../cli/ledger-commands.ts';
import { someKey } from '../identify/some-key.ts';

/** A store that does something else just before one of some calls, once. */
function racing<T extends object>(store: T, calls: readonly (keyof T)[], before: () => Promise<unknown>): T {
  let isDone = false;
  return new Proxy(store, {
    get(target, key) {
      const name = key as keyof T;
      const method = (target[name] as (...words: unknown[]) => unknown).bind(target);
      if (!calls.includes(name)) return method;
      return async (...words: unknown[]) => {
        if (!isDone) {
          isDone = true;
          await before();
        }
        return method(...words);
      };
    },
  });
}

const attributes = { limits: {}, name: null, owner: null, notes: null, expiresAtMs: null };

describe.each(Object.keys(STORES))('on %s', (name) => {
  const open = async (work: (store: OpenStore, operations: Operations, customer: string) => Promise<void>) =>
    withStore({ ...(await STORES[name]!()) }, async (store) => {
      const operations = operationsOn(store);
      const { record: customer } = await operations.customers.create(() => ({ ...attributes, plan: 'pro' }));
      await work(store, operations, customer.id);
      return 0;
    });
  const gone = (operations: Operations, id: string) => () => operations.customers.delete(id, { revokesKeys: true });

  test('a key that is made while its customer is deleted is taken back (reliability 367)', async () => {
    await open(async (store, operations, customer) => {
      const keys = racing(store.keys, ['create'], gone(operations, customer));
      const made = operationsOn({ ...store, keys }).create(() => ({ ...attributes, plan: 'pro', customer }));
      await expect(made).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining(customer) });
      expect((await store.keys.list({ limit: 9, cursor: null })).records).toEqual([]);
      const repeatable = { name: 'once', body: 'b' };
      const other = (await operations.customers.create(() => ({ ...attributes, plan: 'pro' }))).record.id;
      const again = racing(store.keys, ['create'], gone(operations, other));
      const once = operationsOn({ ...store, keys: again });
      const of = () => ({ ...attributes, plan: 'pro', customer: other });
      await expect(once.createOnce(repeatable, of)).rejects.toMatchObject({ code: 'conflict' });
      expect(await once.createOnce(repeatable, of)).toMatchObject({ kind: 'ended', how: 'deleted' });
    });
  });

  test.each([true, false])(
    'a key that is made before its customer is deleted, with revokesKeys %s, is revoked with it (reliability 367)',
    async (revokesKeys) => {
      await open(async (store, operations, customer) => {
        let id = '';
        const customers = racing(store.customers, ['delete'], async () => {
          id = (await operations.create(() => ({ ...attributes, plan: 'pro', customer }))).key.id;
        });
        const deletion = operationsOn({ ...store, customers }).customers.delete(customer, { revokesKeys });
        expect(await deletion).toMatchObject({ keysRevoked: 1, unreadable: [] });
        expect((await store.keys.get(id))!.revokedAtMs).not.toBeNull();
      });
    },
  );

  test('a key that was moved before it would be taken back stays, with its place in the lists (reliability 367, 368)', async () => {
    await open(async (store, operations, customer) => {
      const other = await operations.customers.create(() => ({ ...attributes, plan: 'pro' }));
      let made = '';
      const moving = () =>
        racing(store.keys, ['delete'], async () => {
          const { readable } = byReadability((await store.keys.list({ limit: 9, cursor: null })).records);
          made = readable.find(({ revokedAtMs }) => revokedAtMs === null)!.id;
          await operations.move(made, { customerId: other.record.id, plan: null });
        });
      const keys = racing(moving(), ['create'], gone(operations, customer));
      const first = await operationsOn({ ...store, keys }).create(() => ({ ...attributes, plan: 'pro', customer }));
      expect(await store.keys.get(first.key.id)).toMatchObject({ customer: other.record.id, revokedAtMs: null });

      let { plans } = store;
      const without = racing(moving(), ['create'], async () => {
        await operations.revoke(first.key.id);
        plans = { ...plans, plans: new Map([...plans.plans].filter(([plan]) => plan !== 'pro')) };
      });
      const unplanned = operationsOn({ ...store, keys: without });
      Object.defineProperty(unplanned, 'plans', { get: () => plans });
      const second = await unplanned.create(() => ({ ...attributes, plan: 'pro' }));
      expect(second.key.id).toBe(made);
      expect(await store.keys.get(made)).toMatchObject({ customer: other.record.id, revokedAtMs: null });
      const { readable } = byReadability((await store.keys.list({ limit: 9, cursor: null })).records);
      expect(readable.map(({ id }) => id).toSorted()).toEqual([first.key.id, made].toSorted());
    });
  });

  test('a key stands with its secret if the store goes away before its customer is looked up again (reliability 367)', async () => {
    await open(async (store, _, customer) => {
      let isAway = false;
      const customers = new Proxy(store.customers, {
        get(target, name: keyof typeof store.customers) {
          const method = (target[name] as (...words: unknown[]) => unknown).bind(target);
          if (name !== 'get') return method;
          return async (...words: unknown[]) => {
            if (isAway) throw new Failure('store_unavailable', 'Redis is away.');
            return method(...words);
          };
        },
      });
      const keys = racing(store.keys, ['create', 'createEach'], async () => {
        isAway = true;
      });
      const operations = operationsOn({ ...store, keys, customers });
      const of = () => ({ ...attributes, plan: 'pro', customer });
      const { key, secret } = await operations.create(of);
      expect((await operations.find(secret)).key.id).toBe(key.id);
      const once = await operations.createOnce({ name: 'once', body: 'b' }, of);
      expect(once).toMatchObject({ kind: 'made', secret: expect.stringMatching(/./) });
    });
  });

  test('a key that is moved to a customer while that is deleted stays where it was (reliability 367)', async () => {
    await open(async (store, operations, customer) => {
      const { key } = await operations.create(() => ({ ...attributes, plan: 'pro' }));
      const keys = racing(store.keys, ['update'], gone(operations, customer));
      const moved = operationsOn({ ...store, keys }).move(key.id, { customerId: customer, plan: null });
      await expect(moved).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('stays where it was'),
      });
      expect(await store.keys.get(key.id)).toMatchObject({ plan: 'pro', revokedAtMs: null });
      expect((await store.keys.get(key.id))!.customer).toBeUndefined();
    });
  });

  test('a key that was on a plan that is gone stays where it was, too (reliability 367)', async () => {
    await open(async (store, operations, customer) => {
      const { key } = await operations.create(() => ({ ...attributes, plan: 'free' }));
      const plans = { ...store.plans, plans: new Map([...store.plans.plans].filter(([plan]) => plan !== 'free')) };
      const keys = racing(store.keys, ['update'], gone(operations, customer));
      const moved = operationsOn({ ...store, keys, plans }).move(key.id, { customerId: customer, plan: null });
      await expect(moved).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('stays where it was'),
      });
      expect(await store.keys.get(key.id)).toMatchObject({ plan: 'free', revokedAtMs: null });
      expect((await store.keys.get(key.id))!.customer).toBeUndefined();
    });
  });

  test('a key that is made while its plan is removed is taken back (reliability 368)', async () => {
    await open(async (store) => {
      let { plans } = store;
      const keys = racing(store.keys, ['create'], async () => {
        plans = { ...plans, plans: new Map([...plans.plans].filter(([plan]) => plan !== 'pro')) };
      });
      const operations = operationsOn({ ...store, keys });
      Object.defineProperty(operations, 'plans', { get: () => plans });
      const made = operations.create(() => ({ ...attributes, plan: 'pro' }));
      await expect(made).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('pro was removed'),
      });
      expect((await store.keys.list({ limit: 9, cursor: null })).records).toEqual([]);
    });
  });

  test('what an import or keys apply has written for a customer that has gone is taken back (reliability 367)', async () => {
    await open(async (store, operations, customer) => {
      const [alone, with_, kept] = [someKey({ customer: 'cus_gone' }), someKey(), someKey({ customer })].map(
        ({ key }) => key,
      );
      await store.keys.createEach([alone!, with_!, kept!]);
      const deps = { keys: store.keys, customers: store.customers, nowMs: 9 };
      expect(await takenBack(alone!, deps)).toContain('cus_gone was deleted meanwhile');
      expect([await takenBack(with_!, deps), await takenBack(kept!, deps)]).toEqual([null, null]);
      const { readable } = byReadability((await store.keys.list({ limit: 9, cursor: null })).records);
      expect(readable.map(({ id }) => id).toSorted()).toEqual([with_!.id, kept!.id].toSorted());
      await gone(operations, customer)();
    });
  });
});
