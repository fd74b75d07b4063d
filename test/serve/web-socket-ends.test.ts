import { expect, test, vi } from 'vitest';
import type { StoreChange } from '../../src/identify/record-store.ts';
import { secretName } from '../../src/identify/secret-use-store.ts';
import { closeWebSocketsOfEndedKeys } from '../../src/serve/web-socket-ends.ts';
import { FakeCustomers, FakeStore } from '../identify/fake-store.ts';
import { someCustomer } from '../identify/some-customer.ts';
import { someKey } from '../identify/some-key.ts';
import { eventually } from '../support/conditions.ts';

/** The WebSockets of a gateway on stores in memory, and what was cut: the name of each WebSocket, and how. */
function webSocketsOn(nowMs = 5) {
  const [keys, stored, clock] = [new FakeStore(), new FakeCustomers(), { nowMs }];
  const listeners: ((change: StoreChange) => void)[] = [];
  const webSockets = closeWebSocketsOfEndedKeys(() => ({ maxPerKey: 9, max: 99 }), {
    keys,
    customers: stored as never,
    changes: { isCurrent: true, subscribe: (listener) => listeners.push(listener) },
    clock: clock as never,
  });
  const cut: string[] = [];
  const open = (name: string, record: Parameters<typeof webSockets.enter>[1]) => {
    const slot = webSockets.enter({ consumer: null, shareId: name }, record);
    if (typeof slot === 'string') throw new Error(slot);
    slot.hold({
      cut: (end) => {
        cut.push(`${name} ${end}`);
        slot.leave();
      },
    });
  };
  const change = (kind: 'key' | 'customer', keyId: string) => {
    for (const listener of listeners) listener({ kind, keyId });
  };
  return { keys, stored, clock, cut, open, change };
}

const customersIn = (stored: FakeCustomers) => {
  const customers = [someCustomer(), someCustomer()];
  for (const customer of customers) stored.customers.set(customer.id, customer);
  return customers as [(typeof customers)[0], (typeof customers)[0]];
};

test.each([
  ['deleted', 'revoked'],
  ['suspended', 'suspended'],
])(
  'the WebSockets of all keys and tokens of a customer that is %s are closed, and those of others stay (reliability 261) (reliability 263)',
  async (what, end) => {
    const { keys, stored, cut, open, change } = webSocketsOn();
    const [ended, kept] = customersIn(stored);
    for (const [name, customer] of Object.entries({ a: ended.id, b: ended.id, c: kept.id, d: undefined })) {
      const { key } = someKey(customer === undefined ? {} : { customer });
      await keys.create(key);
      open(name, { id: key.id, secret: null });
    }
    for (const [name, { id }] of Object.entries({ token: ended, 'other token': kept }))
      open(name, { id, secret: null });
    open('no customer', null);
    await eventually(() => expect(stored.lookUps).toBe(5));
    if (what === 'deleted') stored.customers.delete(ended.id);
    else stored.customers.set(ended.id, { ...ended, suspended: { atMs: 1, untilMs: null } });
    change('customer', ended.id);
    await eventually(() => expect(stored.lookUps).toBe(10));
    expect(cut.toSorted()).toEqual([`a ${end}`, `b ${end}`, `token ${end}`]);
  },
);

test('a WebSocket ends with the secret that opened it, and those of other secrets and of certificates stay (reliability 264)', async () => {
  const { keys, cut, open, change } = webSocketsOn();
  const { key } = someKey();
  const [first] = key.secrets as [(typeof key.secrets)[0]];
  const second = { ...first, digest: 'second', last4: 'two2', createdAtMs: first.createdAtMs + 1 };
  await keys.create({ ...key, secrets: [second, first] });
  open('first', { id: key.id, secret: secretName(first) });
  open('second', { id: key.id, secret: secretName(second) });
  open('certificate', { id: key.id, secret: null });
  await keys.create({ ...key, secrets: [second] });
  change('key', key.id);
  await eventually(() => expect(cut).toEqual(['first revoked']));
  // A request that was identified just before its secret ended.
  open('late', { id: key.id, secret: secretName(first) });
  await eventually(() => expect(cut).toEqual(['first revoked', 'late revoked']));
});

test('a WebSocket ends when the overlap of its secret does', async () => {
  vi.useFakeTimers();
  try {
    const { keys, clock, cut, open, change } = webSocketsOn(1_000);
    const { key } = someKey();
    const [secret] = key.secrets as [(typeof key.secrets)[0]];
    await keys.create(key);
    open('one', { id: key.id, secret: secretName(secret) });
    await keys.create({ ...key, secrets: [{ ...secret, expiresAtMs: 3_000 }] });
    change('key', key.id);
    clock.nowMs = 2_999;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(cut).toEqual([]);
    clock.nowMs = 3_000;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(cut).toEqual(['one expired']);
  } finally {
    vi.useRealTimers();
  }
});
