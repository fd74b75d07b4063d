import { describe, expect, test } from 'vitest';
import { contextOn } from '../../src/cli/operations-interface.ts';
import { Failure } from '../../src/failure.ts';
import { byReadability } from '../../src/model/record.ts';
import { type MadeKey, takenBack } from '../../src/operations/create-once.ts';
import { createOwnedKey, moveToCustomer, removeCustomer } from '../../src/operations/customers.ts';
import { keyOfSecret } from '../../src/operations/find-key.ts';
import { revoked } from '../../src/operations/key-changes.ts';
import type { OperatorStore } from '../../src/operations/operator-store.ts';
import { type OpenStore, withStore } from '../../src/serve/open-store.ts';
import { STORES } from '../cli/ledger-commands.ts';
import { someKey } from '../identify/some-key.ts';
import { newCustomer, newKey } from './new-records.ts';

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
  const open = async (work: (store: OpenStore, context: OperatorStore, customer: string) => Promise<void>) =>
    withStore({ ...(await STORES[name]!()) }, async (store) => {
      const context = contextOn(store);
      const owner = await store.own();
      await work(store, context, await newCustomer(context, { ...attributes, plan: 'pro' }));
      owner!.release();
      return 0;
    });
  const gone = (context: OperatorStore, id: string) => () => removeCustomer(context, id, { revokesKeys: true });

  test('a key that is made while its customer is deleted is taken back (reliability 367)', async () => {
    await open(async (store, context, customer) => {
      const keys = racing(store.keys, ['create'], gone(context, customer));
      const made = newKey({ ...context, keys }, { ...attributes, plan: 'pro', customer });
      await expect(made).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining(customer) });
      expect((await store.keys.list({ limit: 9, cursor: null })).records).toEqual([]);
      const repeatable = { name: 'once', body: 'b' };
      const other = await newCustomer(context, { ...attributes, plan: 'pro' });
      const again = racing(store.keys, ['create'], gone(context, other));
      const once = { ...context, keys: again };
      const of = () => ({ ...attributes, plan: 'pro', customer: other });
      await expect(createOwnedKey(once, repeatable, of)).rejects.toMatchObject({ code: 'conflict' });
      expect(await createOwnedKey(once, repeatable, of)).toMatchObject({ kind: 'ended', how: 'deleted' });
    });
  });

  test.each([true, false])(
    'a key that is made before its customer is deleted, with revokesKeys %s, is revoked with it (reliability 367)',
    async (revokesKeys) => {
      await open(async (store, context, customer) => {
        let id = '';
        const customers = racing(store.customers, ['delete'], async () => {
          id = (await newKey(context, { ...attributes, plan: 'pro', customer })).id;
        });
        const deletion = removeCustomer({ ...context, customers }, customer, { revokesKeys });
        expect(await deletion).toMatchObject({ keysRevoked: 1, unreadable: [] });
        expect((await store.keys.get(id))!.revokedAtMs).not.toBeNull();
      });
    },
  );

  test('a key that was moved before it would be taken back stays, with its place in the lists (reliability 367, 368)', async () => {
    await open(async (store, context, customer) => {
      const other = await newCustomer(context, { ...attributes, plan: 'pro' });
      let made = '';
      const moving = () =>
        racing(store.keys, ['delete'], async () => {
          const { readable } = byReadability((await store.keys.list({ limit: 9, cursor: null })).records);
          made = readable.find(({ revokedAtMs }) => revokedAtMs === null)!.id;
          await moveToCustomer(context, made, { customerId: other, plan: null });
        });
      const keys = racing(moving(), ['create'], gone(context, customer));
      const first = await newKey({ ...context, keys }, { ...attributes, plan: 'pro', customer });
      expect(await store.keys.get(first.id)).toMatchObject({ customer: other, revokedAtMs: null });

      let { plans } = store;
      const without = racing(moving(), ['create'], async () => {
        await store.keys.update(first.id, (key) => revoked(key, 9));
        plans = { ...plans, plans: new Map([...plans.plans].filter(([plan]) => plan !== 'pro')) };
      });
      const second = await newKey({ ...context, keys: without, plans: () => plans }, { ...attributes, plan: 'pro' });
      expect(second.id).toBe(made);
      expect(await store.keys.get(made)).toMatchObject({ customer: other, revokedAtMs: null });
      const { readable } = byReadability((await store.keys.list({ limit: 9, cursor: null })).records);
      expect(readable.map(({ id }) => id).toSorted()).toEqual([first.id, made].toSorted());
    });
  });

  test('a key stands with its secret if the store goes away before its customer is looked up again (reliability 367)', async () => {
    await open(async (store, context, customer) => {
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
      const away = { ...context, keys, customers };
      const of = () => ({ ...attributes, plan: 'pro', customer });
      const { record, secret } = (await createOwnedKey(away, null, of)) as MadeKey;
      expect((await keyOfSecret(secret, away)).key.id).toBe(record.id);
      const once = await createOwnedKey(away, { name: 'once', body: 'b' }, of);
      expect(once).toMatchObject({ kind: 'made', secret: expect.stringMatching(/./) });
    });
  });

  test('a key that is moved to a customer while that is deleted stays where it was (reliability 367)', async () => {
    await open(async (store, context, customer) => {
      const key = await newKey(context, { ...attributes, plan: 'pro' });
      const keys = racing(store.keys, ['update'], gone(context, customer));
      const moved = moveToCustomer({ ...context, keys }, key.id, { customerId: customer, plan: null });
      await expect(moved).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('stays where it was'),
      });
      expect(await store.keys.get(key.id)).toMatchObject({ plan: 'pro', revokedAtMs: null });
      expect((await store.keys.get(key.id))!.customer).toBeUndefined();
    });
  });

  test('a key that was on a plan that is gone stays where it was, too (reliability 367)', async () => {
    await open(async (store, context, customer) => {
      const key = await newKey(context, { ...attributes, plan: 'free' });
      const plans = { ...store.plans, plans: new Map([...store.plans.plans].filter(([plan]) => plan !== 'free')) };
      const keys = racing(store.keys, ['update'], gone(context, customer));
      const moved = moveToCustomer({ ...context, keys, plans: () => plans }, key.id, {
        customerId: customer,
        plan: null,
      });
      await expect(moved).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('stays where it was'),
      });
      expect(await store.keys.get(key.id)).toMatchObject({ plan: 'free', revokedAtMs: null });
      expect((await store.keys.get(key.id))!.customer).toBeUndefined();
    });
  });

  test('a key that is made while its plan is removed is taken back (reliability 368)', async () => {
    await open(async (store, context) => {
      let { plans } = store;
      const keys = racing(store.keys, ['create'], async () => {
        plans = { ...plans, plans: new Map([...plans.plans].filter(([plan]) => plan !== 'pro')) };
      });
      const made = newKey({ ...context, keys, plans: () => plans }, { ...attributes, plan: 'pro' });
      await expect(made).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('pro was removed'),
      });
      expect((await store.keys.list({ limit: 9, cursor: null })).records).toEqual([]);
    });
  });

  test('what an import or keys apply has written for a customer that has gone is taken back (reliability 367)', async () => {
    await open(async (store, context, customer) => {
      const [alone, with_, kept] = [someKey({ customer: 'cus_gone' }), someKey(), someKey({ customer })].map(
        ({ key }) => key,
      );
      await store.keys.createEach([alone!, with_!, kept!]);
      const deps = { keys: store.keys, customers: store.customers, nowMs: 9 };
      expect(await takenBack(alone!, deps)).toContain('cus_gone was deleted meanwhile');
      expect([await takenBack(with_!, deps), await takenBack(kept!, deps)]).toEqual([null, null]);
      const { readable } = byReadability((await store.keys.list({ limit: 9, cursor: null })).records);
      expect(readable.map(({ id }) => id).toSorted()).toEqual([with_!.id, kept!.id].toSorted());
      await gone(context, customer)();
    });
  });
});
