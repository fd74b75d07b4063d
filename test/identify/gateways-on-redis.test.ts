import { describe, expect, test } from 'vitest';
import { Identifier } from '../../src/identify/identify.ts';
import { KnownCustomers } from '../../src/identify/known-customers.ts';
import { revoked } from '../../src/operations/key-changes.ts';
import { gatewayOn } from '../stores/redis-connections.ts';
import { eventually } from '../support/conditions.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { told } from './fake-store.ts';
import { PEPPER, someKey } from './some-key.ts';

/** A gateway's identification, wired as a gateway wires it, by a clock that moves when the test lets time pass. */
async function identifierOn(url: string, peppers = [PEPPER]) {
  const clock = { nowMs: 0 };
  const { keys, customers: store, changes, redis } = await gatewayOn(url);
  const clocks = { monotonicMs: () => clock.nowMs, wallMs: () => Date.now() };
  const identifier = new Identifier({
    keyStore: keys,
    customers: new KnownCustomers({ store, staleMs: 3_600_000, ...clocks }),
    peppers,
    ...clocks,
    staleKeysMs: 3_600_000,
  });
  changes.subscribe(({ keyId, kind }) => {
    if (kind !== 'account') identifier.forget(keyId);
  });
  return { identifier, keys, redis, clock };
}

async function refusedEverywhere(secret: string, gateways: readonly { identifier: Identifier }[]) {
  for (const { identifier } of gateways) expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
}

describe('two gateways on one Redis', () => {
  test('both refuse a revoked key within a second (reliability 60)', async () => {
    const { url } = await testRedis();
    const gateways = await Promise.all([identifierOn(url), identifierOn(url)]);
    const operator = await gatewayOn(url);
    const { key, secret } = someKey();
    await operator.keys.create(key);
    for (const { identifier } of gateways) expect(told(await identifier.identify(secret))).toBe(key.id);
    await operator.keys.update(key.id, (before) => revoked(before, Date.now()));
    await eventually(() => refusedEverywhere(secret, gateways), { withinMs: 1_000 });
  });

  test('both take a new plan within a second', async () => {
    const { url } = await testRedis();
    const gateways = await Promise.all([identifierOn(url), identifierOn(url)]);
    const operator = await gatewayOn(url);
    const { key, secret } = someKey();
    await operator.keys.create(key);
    for (const { identifier } of gateways) await identifier.identify(secret);
    await operator.keys.update(key.id, (before) => ({ ...before, plan: 'business' }));
    await eventually(
      async () => {
        for (const { identifier } of gateways) {
          expect(await identifier.identify(secret)).toMatchObject({ key: { plan: 'business' } });
        }
      },
      { withinMs: 1_000 },
    );
  });

  test('both refuse a revoked key within a second although pub/sub brings nothing (reliability 60)', async () => {
    const server = await privateRedis();
    const gateways = await Promise.all([identifierOn(server.url), identifierOn(server.url)]);
    const operator = await gatewayOn(server.url);
    const { key, secret } = someKey();
    await operator.keys.create(key);
    for (const { identifier } of gateways) expect(told(await identifier.identify(secret))).toBe(key.id);
    // No user may use the channel any more: subscriptions fail, and so does every message.
    for (const user of (await redisCommand(server.url, 'ACL', 'USERS')) as string[]) {
      await redisCommand(server.url, 'ACL', 'SETUSER', user, 'resetchannels');
    }
    await redisCommand(server.url, 'CLIENT', 'KILL', 'TYPE', 'pubsub');
    await operator.keys.update(key.id, (before) => revoked(before, Date.now()));
    await eventually(() => refusedEverywhere(secret, gateways), { withinMs: 1_000 });
  });

  test('both refuse within a second of its return a key that was revoked while they could not reach Redis', async () => {
    const server = await privateRedis();
    const gateways = await Promise.all([identifierOn(server.url), identifierOn(server.url)]);
    const { key, secret } = someKey();
    await gateways[0]!.keys.create(key);
    for (const { identifier } of gateways) await identifier.identify(secret);
    // Gone, and back with the key revoked, and with fewer changes than were heard of.
    await server.kill();
    for (const { identifier } of gateways) expect(told(await identifier.identify(secret))).toBe(key.id);
    await server.restart({ keepData: false });
    await redisCommand(server.url, 'SET', `tg:key:{${key.id}}`, JSON.stringify({ ...key, revokedAtMs: Date.now() }));
    await redisCommand(server.url, 'SET', `tg:digest:${key.secrets[0]!.digest}`, key.id);
    await eventually(() => gateways.every(({ redis }) => redis.status === 'ready'), { withinMs: 5_000 });
    const backAtMs = performance.now();
    const look = () => {
      // A look-up may still find Redis called away. The gateway repeats it when half a second has passed by its clock.
      for (const { clock } of gateways) clock.nowMs = performance.now() - backAtMs;
      return refusedEverywhere(secret, gateways);
    };
    await eventually(look, { withinMs: 1_000 });
  });

  test('let a key work within a second of its creation, although they had refused it before', async () => {
    const { url } = await testRedis();
    const gateways = await Promise.all([identifierOn(url), identifierOn(url)]);
    const { key, secret } = someKey();
    await refusedEverywhere(secret, gateways);
    await gateways[0]!.keys.create(key);
    for (const { clock } of gateways) clock.nowMs += 1_000;
    await eventually(
      async () => {
        for (const { identifier } of gateways) expect(told(await identifier.identify(secret))).toBe(key.id);
      },
      { withinMs: 1_000 },
    );
  });

  test('re-hash a key under the new pepper while it is used on both (reliability 60)', async () => {
    const { url } = await testRedis();
    const gateways = await Promise.all([identifierOn(url, ['new', 'old']), identifierOn(url, ['new', 'old'])]);
    const { key, secret, digest } = someKey({}, 'old');
    await gateways[0]!.keys.create(key);
    for (let i = 0; i < 100; i++) {
      const answers = await Promise.all(gateways.map(({ identifier }) => identifier.identify(secret)));
      expect(answers.map(told)).toEqual([key.id, key.id]);
    }
    await eventually(async () => expect(await gateways[1]!.keys.findByDigest(digest)).toBeNull());
    const after = await identifierOn(url, ['new']);
    expect(told(await after.identifier.identify(secret))).toBe(key.id);
    expect((await after.keys.get(key.id))!.secrets).toHaveLength(1);
  });
});
