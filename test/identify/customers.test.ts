import { describe, expect, test } from 'vitest';
import type { Identity } from '../../src/identify/identify.ts';
import { KnownCustomers } from '../../src/identify/known-customers.ts';
import type { StoredCustomer } from '../../src/model/record.ts';
import { gatewayOn } from '../stores/redis-connections.ts';
import { eventually } from '../support/conditions.ts';
import { testRedis } from '../support/redis.ts';
import { FakeCustomers, FakeStore, identifierOn, told } from './fake-store.ts';
import { someCustomer } from './some-customer.ts';
import { PEPPER, someKey } from './some-key.ts';

async function keysOfOne(customer: StoredCustomer | null, most = 1) {
  const store = new FakeStore();
  const keys = Array.from({ length: most }, () => someKey({ plan: 'free', customer: customer?.id ?? 'cus_none' }));
  for (const { key } of keys) await store.create(key);
  const found = identifierOn(store);
  if (customer !== null) found.stored.customers.set(customer.id, customer);
  return { ...found, store, keys, secret: keys[0]!.secret, id: keys[0]!.key.id };
}

function consumerIn(identity: Identity) {
  if (identity.kind !== 'consumer') throw new Error(told(identity));
  return identity.key;
}

describe('a key of a customer', () => {
  test('has the plan of the customer, and the customer as one frozen object for all its keys', async () => {
    const customer = someCustomer({ plan: 'pro', limits: { minute: 9 }, name: 'Acme', owner: 'o', notes: 'x' });
    const { identifier, keys } = await keysOfOne(customer, 2);
    const [one, two] = await Promise.all(keys.map(async ({ secret }) => consumerIn(await identifier.identify(secret))));
    const { id, name, owner, plan, limits } = customer;
    expect(one).toMatchObject({ id: keys[0]!.key.id, plan, limits: {}, customer: one!.customer });
    expect(one!.customer).toEqual({ id, name, owner, plan, limits, scopes: [], onlyFrom: null, meta: {} });
    expect(two!.customer).toBe(one!.customer);
    expect(Object.isFrozen(one!.customer) && Object.isFrozen(one!.customer!.limits)).toBe(true);
  });

  test('is asked about once with its customer, and a key without one asks for none', async () => {
    const { identifier, stored, secret, store } = await keysOfOne(someCustomer());
    const first = await identifier.identify(secret);
    expect(identifier.identify(secret)).toBe(first);
    expect([store.lookUps, stored.lookUps]).toEqual([1, 1]);
    const other = someKey();
    await store.create(other.key);
    expect(consumerIn(await identifier.identify(other.secret)).customer).toBeNull();
    expect(stored.lookUps).toBe(1);
  });

  test('follows a change of the customer, all keys of it and no other, and is the same consumer after none', async () => {
    const customer = someCustomer();
    const { identifier, stored, store, keys } = await keysOfOne(customer, 3);
    const other = someKey();
    await store.create(other.key);
    const ask = async () => Promise.all(keys.map(async ({ secret }) => consumerIn(await identifier.identify(secret))));
    const before = await ask();
    await identifier.identify(other.secret);
    identifier.forget(customer.id);
    expect((await ask()).every((one, i) => one === before[i])).toBe(true);
    stored.customers.set(customer.id, { ...customer, plan: 'business' });
    identifier.forget(customer.id);
    for (const one of await ask()) expect(one).toMatchObject({ plan: 'business', customer: { plan: 'business' } });
    expect(identifier.identify(other.secret)).not.toBeInstanceOf(Promise);
  });

  test('of a customer that has expired is refused as one that has, at the moment', async () => {
    const customer = someCustomer();
    const { identifier, stored, clock, secret, id } = await keysOfOne(customer);
    stored.customers.set(customer.id, { ...customer, expiresAtMs: clock.wallMs + 100 });
    expect(told(await identifier.identify(secret))).toBe(id);
    clock.wallMs += 99;
    expect(told(await identifier.identify(secret))).toBe(id);
    clock.wallMs += 1;
    expect(told(await identifier.identify(secret))).toBe('expired_api_key');
  });

  test('of no customer, or one that is deleted, is refused as an unknown one, and works again after it has moved', async () => {
    const { identifier, store, secret, id, pass } = await keysOfOne(null);
    expect(await identifier.identify(secret)).toMatchObject({
      code: 'invalid_api_key',
      cause: 'the customer of the key is deleted',
    });
    const { customer: _, ...alone } = store.keys.get(id)!;
    await store.create(alone);
    identifier.forget(id);
    pass(1_000);
    expect(told(await identifier.identify(secret))).toBe(id);
  });

  test('keeps working while the store of customers is away, and a new one is unavailable', async () => {
    const { identifier, stored, keys, pass, id } = await keysOfOne(someCustomer(), 2);
    await identifier.identify(keys[0]!.secret);
    stored.isAway = true;
    pass(20_000);
    expect(told(await identifier.identify(keys[0]!.secret))).toBe(id);
    expect(told(await identifier.identify(keys[1]!.secret))).toBe('unavailable');
  });

  test('that is revoked while its first look-up is slow stays revoked when that look-up ends (reliability 510)', async () => {
    const { identifier, store, stored, secret, id, pass } = await keysOfOne(someCustomer());
    const gate = Promise.withResolvers<void>();
    stored.gate = gate.promise;
    const first = identifier.identify(secret);
    await eventually(() => expect(stored.lookUps).toBe(1));
    stored.gate = null;
    await store.create({ ...store.keys.get(id)!, revokedAtMs: 1 });
    identifier.forget(id);
    expect(await identifier.identify(secret)).toMatchObject({ code: 'invalid_api_key' });
    gate.resolve();
    expect(told(await first)).toBe(id);
    pass(1_000);
    store.isAway = true;
    expect(told(await identifier.identify(secret))).toBe('unavailable');
  });

  test('is marked by its customer as long as it has it, and as long as it is in memory', async () => {
    const customers = [someCustomer(), someCustomer({ plan: 'free' })];
    const { identifier, stored, store, secret, id } = await keysOfOne(customers[0]!);
    for (const customer of customers) stored.customers.set(customer.id, customer);
    await identifier.identify(secret);
    await store.create({ ...store.keys.get(id)!, customer: customers[1]!.id });
    identifier.forget(id);
    expect(consumerIn(await identifier.identify(secret)).plan).toBe('free');
    identifier.forget(customers[0]!.id);
    expect(identifier.identify(secret)).not.toBeInstanceOf(Promise);
    identifier.forget(customers[1]!.id);
    expect(identifier.identify(secret)).toBeInstanceOf(Promise);
  });
});

describe('a customer that tokens name', () => {
  const known = () => {
    const stored = new FakeCustomers();
    const clock = { monotonicMs: 1_000, wallMs: 1_800_000_000_000 };
    const failures: unknown[] = [];
    const customers = new KnownCustomers({
      store: stored,
      staleMs: 60_000,
      onStoreFailure: (error) => failures.push(error),
      monotonicMs: () => clock.monotonicMs,
      wallMs: () => clock.wallMs,
    });
    const customer = someCustomer({ expiresAtMs: clock.wallMs + 5_000 });
    stored.customers.set(customer.id, customer);
    return { stored, clock, customers, customer, failures };
  };

  test('is asked for once, by many at the same time too, and confirmed in the background', async () => {
    const { customers, stored, clock, customer } = known();
    const all = await Promise.all(Array.from({ length: 50 }, () => customers.of(customer.id)));
    expect(new Set(all)).toEqual(new Set([customers.of(customer.id)]));
    expect(stored.lookUps).toBe(1);
    clock.monotonicMs += 10_000;
    expect(customers.of(customer.id)).toBe(all[0]);
    await eventually(() => expect(stored.lookUps).toBe(2));
  });

  test('is asked for first after a change, and an answer older than the change is not kept', async () => {
    const { customers, stored, customer } = known();
    await customers.of(customer.id);
    stored.customers.set(customer.id, { ...customer, plan: 'free' });
    customers.forget(customer.id);
    expect(await customers.of(customer.id)).toMatchObject({ plan: 'free' });
    customers.forget(null);
    const older = customers.of(customer.id);
    customers.forget(customer.id);
    await older;
    expect(customers.of(customer.id)).toBeInstanceOf(Promise);
  });

  test('that is suspended while a look-up is slow stays suspended when that look-up ends (reliability 510)', async () => {
    const { customers, stored, clock, customer } = known();
    const gate = Promise.withResolvers<void>();
    stored.gate = gate.promise;
    const slow = customers.of(customer.id);
    stored.gate = null;
    await stored.create({ ...customer, suspended: { atMs: 1, untilMs: null } });
    customers.forget(customer.id);
    expect(await customers.of(customer.id)).toMatchObject({ suspended: { id: customer.id } });
    gate.resolve();
    expect(await slow).toMatchObject({ id: customer.id });
    stored.isAway = true;
    clock.monotonicMs += 10_000;
    expect(await customers.of(customer.id)).toMatchObject({ suspended: { id: customer.id } });
  });

  test('is used while it cannot be confirmed, until it is too old; each half second reports that once', async () => {
    const { customers, stored, clock, customer, failures } = known();
    const first = await customers.of(customer.id);
    stored.isAway = true;
    for (const passedMs of [10_000, 499, 1, 49_499]) {
      clock.monotonicMs += passedMs;
      expect(customers.of(customer.id)).toBe(first);
      expect(customers.of(customer.id)).toBe(first);
      await new Promise(setImmediate);
    }
    expect([stored.lookUps, failures.length]).toEqual([4, 3]);
    clock.monotonicMs += 500;
    expect(await customers.of(customer.id)).toBe('unavailable');
  });

  test('stays known when another one changes', async () => {
    const { customers, stored, customer } = known();
    const other = someCustomer();
    await stored.create(other);
    for (const { id } of [customer, other]) await customers.of(id);
    customers.forget(other.id);
    expect(customers.of(customer.id)).toMatchObject({ id: customer.id });
    expect(customers.of(other.id)).toBeInstanceOf(Promise);
  });

  test('has ended when it says so, is unknown for half a second, and unavailable without the store', async () => {
    const { customers, stored, clock, customer } = known();
    expect(await customers.of('cus_none')).toBe('unknown');
    expect(customers.of('cus_none')).toBe('unknown');
    clock.monotonicMs += 500;
    expect(customers.of('cus_none')).toBeInstanceOf(Promise);
    await customers.of(customer.id);
    clock.wallMs += 5_000;
    expect(customers.of(customer.id)).toBe('expired');
    clock.wallMs -= 5_000;
    stored.isAway = true;
    customers.forget(customer.id);
    expect(await customers.of(customer.id)).toMatchObject({ id: customer.id });
    clock.monotonicMs += 60_000;
    expect(await customers.of(customer.id)).toBe('unavailable');
    expect(await customers.of('cus_new')).toBe('unavailable');
  });
});

test('gateways follow a change of a customer within a second (reliability 261)', async () => {
  const { url } = await testRedis();
  const operator = await gatewayOn(url);
  const { key, secret } = someKey();
  const customer = someCustomer();
  await operator.customers.create(customer);
  await operator.keys.create({ ...key, customer: customer.id });
  const gateways = await Promise.all(
    [1, 2].map(async () => {
      const { keys, customers: store, changes } = await gatewayOn(url);
      const clocks = { monotonicMs: () => 0, wallMs: () => Date.now() };
      const customers = new KnownCustomers({ store, staleMs: 3_600_000, ...clocks });
      const { identifier } = identifierOn(keys, { customers, peppers: [PEPPER], ...clocks });
      changes.subscribe(({ keyId, kind }) => {
        if (kind !== 'account') identifier.forget(keyId);
      });
      return identifier;
    }),
  );
  const everywhere = (expected: string) =>
    eventually(
      async () => {
        for (const identifier of gateways) expect(told(await identifier.identify(secret))).toBe(expected);
      },
      { withinMs: 1_000 },
    );
  await everywhere(key.id);
  await operator.customers.update(customer.id, (before) => ({ ...before, expiresAtMs: 5 }));
  await everywhere('expired_api_key');
  await operator.customers.update(customer.id, (before) => ({ ...before, expiresAtMs: null }));
  await everywhere(key.id);
  await operator.customers.delete(customer.id, (before) => ({ ...before, deletedAtMs: 9 }));
  await everywhere('invalid_api_key');
});
