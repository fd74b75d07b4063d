import { expect, test } from 'vitest';
import type { StoreChange } from '../../src/identify/key-store.ts';
import { closeWebSocketsOfEndedKeys } from '../../src/serve/dependencies.ts';
import { FakeCustomers, FakeStore } from '../identify/fake-store.ts';
import { someCustomer } from '../identify/some-customer.ts';
import { someKey } from '../identify/some-key.ts';
import { eventually } from '../support/conditions.ts';

test('the WebSockets of all keys of a customer that is deleted are closed, and those of others stay (reliability 261)', async () => {
  const [keys, stored] = [new FakeStore(), new FakeCustomers()];
  const customers = [someCustomer(), someCustomer()];
  for (const customer of customers) stored.customers.set(customer.id, customer);
  const [deleted, kept] = customers as [(typeof customers)[0], (typeof customers)[0]];
  const owners = [deleted.id, deleted.id, kept.id, undefined];
  const ids: string[] = [];
  for (const customer of owners) {
    const { key } = someKey(customer === undefined ? {} : { customer });
    await keys.create(key);
    ids.push(key.id);
  }
  const listeners: ((change: StoreChange) => void)[] = [];
  const webSockets = closeWebSocketsOfEndedKeys(() => ({ maxPerKey: 9, max: 9 }), {
    keys,
    customers: stored as never,
    changes: { subscribe: (listener) => listeners.push(listener) },
    clock: { nowMs: 5 } as never,
  });
  const cut: string[] = [];
  for (const id of ids) {
    const slot = webSockets.enter(id, true);
    if (typeof slot === 'string') throw new Error(slot);
    slot.hold({ cut: () => cut.push(id) });
  }
  await eventually(() => expect(stored.lookUps).toBe(3));
  stored.customers.delete(deleted.id);
  for (const listener of listeners) listener({ kind: 'customer', keyId: deleted.id });
  await eventually(() => expect(cut).toEqual(ids.slice(0, 2)));
  await eventually(() => expect(stored.lookUps).toBe(6));
  expect(cut).toHaveLength(2);
});
