import { expect, test } from 'vitest';
import { isSuspended, longerOf } from '../../src/model/record.ts';
import { FakeStore, identifierOn, told } from './fake-store.ts';
import { someCustomer } from './some-customer.ts';
import { someKey } from './some-key.ts';

test.each([
  ['no suspension', undefined, 5, false],
  ['one without an end', { atMs: 1, untilMs: null }, 9e15, true],
  ['one before its end', { atMs: 1, untilMs: 10 }, 9, true],
  ['one at its end', { atMs: 1, untilMs: 10 }, 10, false],
])('%s', (_what, suspension, nowMs, expected) => {
  expect(isSuspended(suspension, nowMs)).toBe(expected);
});

test('of two suspensions the one that ends last is the longer', () => {
  const [short, long, endless] = [
    { atMs: 1, untilMs: 10 },
    { atMs: 1, untilMs: 20 },
    { atMs: 1, untilMs: null },
  ];
  expect([longerOf(short, long), longerOf(long, short), longerOf(endless, long), longerOf(long, endless)]).toEqual([
    ...[long, long, endless, endless],
  ]);
  expect([longerOf(undefined, short), longerOf(short, undefined), longerOf(undefined, undefined)]).toEqual([
    ...[short, short, undefined],
  ]);
});

test('a suspension ends at its end by the clock of the gateway, without a look-up', async () => {
  const store = new FakeStore();
  const { identifier, clock, pass } = identifierOn(store);
  const { key, secret } = someKey({ suspended: { atMs: 1, untilMs: clock.wallMs + 5_000, reason: 'why' } });
  await store.create(key);
  expect(await identifier.identify(secret)).toEqual({
    kind: 'suspended',
    key: expect.objectContaining({ id: key.id, plan: 'pro', limits: {} }),
    secret: expect.any(String),
  });
  pass(4_999);
  expect(told(await identifier.identify(secret))).toBe('suspended');
  pass(1);
  expect(identifier.identify(secret)).toMatchObject({ kind: 'consumer', key: { id: key.id } });
  expect(store.lookUps).toBe(1);
});

test('a suspended key that has expired, or is revoked, is refused as any other', async () => {
  const store = new FakeStore();
  const suspended = { atMs: 1, untilMs: null };
  const [expired, revoked] = [someKey({ suspended, expiresAtMs: 5 }), someKey({ suspended, revokedAtMs: 5 })];
  for (const { key } of [expired, revoked]) await store.create(key);
  const { identifier } = identifierOn(store);
  expect(told(await identifier.identify(expired.secret))).toBe('expired_api_key');
  expect(told(await identifier.identify(revoked.secret))).toBe('invalid_api_key');
});

test('a suspended key stays suspended while the store is away', async () => {
  const store = new FakeStore();
  const { key, secret } = someKey({ suspended: { atMs: 1, untilMs: null } });
  await store.create(key);
  const { identifier, pass } = identifierOn(store);
  await identifier.identify(secret);
  store.isAway = true;
  pass(60_000);
  expect(told(await identifier.identify(secret))).toBe('suspended');
});

test.each([
  ['the customer alone', undefined, 5_000, 5_000],
  ['both, and the key longer', 9_000, 5_000, 9_000],
  ['both, and the customer longer', 5_000, 9_000, 9_000],
])(
  'a key is suspended while it or its customer is: %s (reliability 263)',
  async (_what, ofKeyMs, ofCustomerMs, endsMs) => {
    const store = new FakeStore();
    const { identifier, stored, clock, pass } = identifierOn(store);
    const until = (ms: number) => ({ suspended: { atMs: 1, untilMs: clock.wallMs + ms } });
    const customer = someCustomer(until(ofCustomerMs));
    stored.customers.set(customer.id, customer);
    const { key, secret } = someKey({ customer: customer.id, ...(ofKeyMs === undefined ? {} : until(ofKeyMs)) });
    await store.create(key);
    expect(told(await identifier.identify(secret))).toBe('suspended');
    pass(endsMs - 1);
    expect(told(await identifier.identify(secret))).toBe('suspended');
    pass(1);
    // It ends by the clock, without a look-up.
    expect(identifier.identify(secret)).toMatchObject({ kind: 'consumer', key: { id: key.id } });
    expect([store.lookUps, stored.lookUps]).toEqual([1, 1]);
  },
);
