import { expect, test } from 'vitest';
import { accountIdOf } from '../../src/admit/account-id.ts';
import { contextOn } from '../../src/cli/operations-interface.ts';
import { UnreadableRecord } from '../../src/model/record.ts';
import { nearLimits } from '../../src/operations/live/near-limits.ts';
import { atPresent } from '../../src/operations/operator-store.ts';
import { withStore } from '../../src/serve/open-store.ts';
import { emptyStore } from '../support/empty-store.ts';
import { newCustomer, newKey } from './new-records.ts';

test('a customer that cannot be read is listed once and takes no place of a caller near a limit (reliability 362)', async () => {
  await withStore(await emptyStore(), async (store) => {
    const context = contextOn(store);
    const attributes = { plan: 'pro', limits: {}, name: null, owner: null, notes: null, expiresAtMs: null };
    const damaged = await newCustomer(context, attributes);
    const near = [await newKey(context, attributes), await newKey(context, attributes)];
    const customers = new Proxy(store.customers, {
      get: (target, name: keyof typeof store.customers) =>
        name === 'get'
          ? async (id: string) => Promise.reject(new UnreadableRecord(id, `The record of ${id} cannot be read.`))
          : target[name].bind(target),
    });
    const ids = Array.from({ length: 120 }, (_, i) => accountIdOf(`key_${i}`, damaged));
    const candidates = [...ids, ...near.map(({ id }) => id)].map((id) => ({
      ...({ id, plan: 'pro', window: 'minute', cost: 1, share: 0, atMs: 0 } as const),
    }));
    const found = await nearLimits(atPresent({ ...context, customers }), candidates, {
      share: 0,
      window: null,
      most: 2,
    });
    expect(found.unreadable.map(({ id }) => id)).toEqual([damaged]);
    expect(found.keys.map(({ id }) => id).toSorted()).toEqual(near.map(({ id }) => id).toSorted());
    return 0;
  });
});
