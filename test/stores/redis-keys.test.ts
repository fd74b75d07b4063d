import type { Redis } from 'ioredis';
import { beforeAll, describe, expect, test } from 'vitest';
import { byReadability } from '../../src/model/record.ts';
import { searchKeys } from '../../src/operations/key-search.ts';
import { recordAdmitted } from '../../src/stores/embedded/history-costs.ts';
import type { RedisClient } from '../../src/stores/redis/connection.ts';
import { RedisHistory } from '../../src/stores/redis/history.ts';
import { API_KEYS } from '../../src/stores/redis/key-writes.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import type { LuaScript } from '../../src/stores/redis/lua-script.ts';
import { REPLACE, RecordWrite } from '../../src/stores/redis/record-writes.ts';
import { DROP } from '../../src/stores/redis/records.ts';
import { EVERYTHING, keySearchContract } from '../contracts/key-search.ts';
import { keyStoreContract } from '../contracts/key-store.ts';
import { FakeCustomers } from '../identify/fake-store.ts';
import { someKey } from '../identify/some-key.ts';
import { eventually } from '../support/conditions.ts';
import { holdTime } from '../support/hold-time.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { type PrivateCluster, privateCluster } from '../support/redis-cluster.ts';
import { LATE_MS } from '../support/room.ts';
import { gatewayOn } from './redis-connections.ts';

describe('keys in Redis', () => {
  keyStoreContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const [here, there] = await Promise.all([gatewayOn(url), gatewayOn(url)]);
    return { here: here.keys, there: there.keys };
  });
});

test('a key is revoked, and its revocation made again, whatever is in the place of the list of its changes (reliability 407)', async () => {
  const { url } = await testRedis();
  await redisCommand(url, 'FLUSHDB');
  const { redis, keys } = await gatewayOn(url);
  const { key: before } = someKey();
  await keys.create(before);
  const foreign = () => redisCommand(url, 'SET', keyspace.changesTo(before.id), 'of another program');
  await foreign();
  const revoked = (await keys.update(before.id, (key) => ({ ...key, revokedAtMs: 5 })))!;
  expect(revoked.durability).toEqual({ kind: 'durable' });
  expect(await keys.get(before.id)).toMatchObject({ revokedAtMs: 5 });
  // A failover undoes it, and the other program writes there again.
  await redisCommand(url, 'SET', keyspace.apiKey(before.id), JSON.stringify(before));
  await foreign();
  const texts = { before: JSON.stringify(before), after: JSON.stringify(revoked.record) };
  const write = new RecordWrite({
    ...{ kind: API_KEYS, before, after: revoked.record, texts, change: 'c', announce: async () => {} },
  });
  expect(await write.remake(async () => redis as Redis)).toBe('remade');
  expect(await keys.get(before.id)).toMatchObject({ revokedAtMs: 5 });
});

describe('a search over keys in Redis', () => {
  keySearchContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { redis, circuit, keys } = await gatewayOn(url);
    const putHistory = async (id: string, history: Uint8Array) => {
      await redis.set(keyspace.history(id), Buffer.from(history));
    };
    return { keys, customers: new FakeCustomers(), history: new RedisHistory({ redis, circuit }), putHistory };
  });

  test('names what another program keeps in the place of a key, or of its history (reliability 405)', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { redis, circuit, keys } = await gatewayOn(url);
    const [good, text, hash] = [someKey({ name: 'n' }), someKey({ name: 'n' }), someKey({ name: 'n' })];
    for (const { key } of [good, text, hash]) await keys.create(key);
    await redisCommand(url, 'SET', keyspace.apiKey(text.key.id), '"n"');
    await redisCommand(url, 'DEL', keyspace.apiKey(hash.key.id));
    for (const name of [keyspace.apiKey(hash.key.id), keyspace.history(good.key.id)]) {
      await redisCommand(url, 'HSET', name, 'a', 'b');
    }
    const filter = { ...EVERYTHING, text: 'n', unusedDays: 1 };
    const sources = {
      keys,
      history: new RedisHistory({ redis, circuit }),
      customers: new FakeCustomers(),
      peppers: ['p'],
      nowMs: Date.now(),
    };
    const found = await searchKeys(filter, { limit: 9, cursor: null }, sources);
    expect(found).toMatchObject({ keys: [], cursor: null, searched: 3 });
    const ids = [good, text, hash].map(({ key }) => key.id).toSorted();
    expect(found.unreadable.map(({ id }) => id).toSorted()).toEqual(ids);
    const one = await searchKeys({ ...filter, text: good.key.id }, { limit: 9, cursor: null }, sources);
    expect(one).toMatchObject({ keys: [], unreadable: [{ id: good.key.id }] });
    expect(one.unreadable[0]!.message).toContain('its usage history cannot be read');
    expect(circuit.state).toBe('present');
  });
});

describe('a search over keys in a Redis Cluster', () => {
  let cluster: PrivateCluster;
  beforeAll(async () => {
    cluster = await privateCluster();
  });

  test('finds keys on every shard, a page at a time, and knows when they were used', async () => {
    const { redis, circuit, keys } = await gatewayOn(cluster.url);
    const made = Array.from({ length: 12 }, (_, i) => someKey({ createdAtMs: i, name: `n-${i % 2}` }).key);
    for (const key of made) await keys.create(key);
    const history = new RedisHistory({ redis, circuit });
    const nowMs = Date.UTC(2026, 10, 22);
    await redis.set(keyspace.history(made[0]!.id), Buffer.from(recordAdmitted(null, nowMs, 1)));
    const customers = new FakeCustomers();
    const filter = { ...EVERYTHING, text: 'N-0', unusedDays: 1 };
    const first = await searchKeys(
      filter,
      { limit: 3, cursor: null },
      { keys, customers, history, peppers: ['p'], nowMs },
    );
    const second = await searchKeys(
      filter,
      { limit: 3, cursor: first.cursor },
      { keys, customers, history, peppers: ['p'], nowMs },
    );
    const found = [...first.keys, ...second.keys].map(({ key }) => key.id);
    expect(found).toEqual([2, 4, 6, 8, 10].map((i) => made[i]!.id));
    expect(second.cursor).toBeNull();
  });
});

test('a Redis whose user may not read parts of histories refuses to say what is unused, and does not count as away', async () => {
  const server = await privateRedis();
  const user = new URL(server.url).username;
  const { redis, circuit, keys } = await gatewayOn(server.url);
  await keys.create(someKey({ createdAtMs: 0 }).key);
  await redisCommand(server.url, 'ACL', 'SETUSER', user, '-getrange');
  const sources = {
    keys,
    history: new RedisHistory({ redis, circuit }),
    customers: new FakeCustomers(),
    peppers: ['p'],
    nowMs: Date.now(),
  };
  for (let i = 0; i < 5; i++) {
    const search = searchKeys({ ...EVERYTHING, unusedDays: 1 }, { limit: 9, cursor: null }, sources);
    await expect(search).rejects.toMatchObject({ code: 'refused', message: expect.stringContaining('+getrange') });
  }
  expect(circuit.state).toBe('present');
});

describe('a crash in the middle', () => {
  test('of a creation leaves no key: the pointer that was written leads nowhere', async () => {
    const { url } = await testRedis();
    const { keys } = await gatewayOn(url);
    const { key, digest } = someKey();
    await redisCommand(url, 'SET', keyspace.digest(digest), key.id);
    await redisCommand(url, 'ZADD', keyspace.apiKeys, key.createdAtMs, key.id);
    expect(await keys.findByDigest(digest)).toBeNull();
    expect((await keys.list({ limit: 500, cursor: null })).records.map(({ id }) => id)).not.toContain(key.id);
    // Its creation can be begun again.
    await keys.create(key);
    expect(await keys.findByDigest(digest)).toEqual(key);
  });

  test('of a change leaves a pointer that does not count while the record has no such digest', async () => {
    const { url } = await testRedis();
    const { keys } = await gatewayOn(url);
    const { key } = someKey();
    await keys.create(key);
    await redisCommand(url, 'SET', keyspace.digest('abandoned'), key.id);
    expect(await keys.findByDigest('abandoned')).toBeNull();
  });
});

describe('a creation that is refused', () => {
  test('leaves no pointer, and takes none that the key under its id needs', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const [one, other] = [await gatewayOn(url), await gatewayOn(url)];
    const { key, digest } = someKey();
    const late = Array.from({ length: 6 }, () => someKey({ id: key.id }).key);
    const all = [key, key, ...late];
    const told = await Promise.all(all.map((it, i) => (i % 2 ? one : other).keys.createEach([it])));
    expect(told.flat().filter((it) => it === 'created')).toHaveLength(1);
    const [stored] = (await one.keys.get(key.id))!.secrets;
    expect(await redisCommand(url, 'KEYS', keyspace.digest('*'))).toEqual([keyspace.digest(stored!.digest)]);
    expect(await one.keys.findByDigest(stored!.digest)).not.toBeNull();
    if (stored!.digest !== digest) expect(await one.keys.findByDigest(digest)).toBeNull();
  });
});

describe('a digest that one gateway takes away and another brings back stays to be found', () => {
  type Step = (...args: string[]) => Promise<unknown>;
  /** Lets `meanwhile` happen just before a gateway takes a step. */
  const interpose = (redis: RedisClient, at: 'get' | LuaScript<number>, meanwhile: () => Promise<unknown>) => {
    const step = at === 'get' ? at : at.command;
    if (at !== 'get') redis.defineCommand(step, at);
    const steps = redis as unknown as Record<string, Step>;
    const original = steps[step]!.bind(redis);
    steps[step] = async (...args) => {
      steps[step] = original;
      await meanwhile();
      return original(...args);
    };
  };
  const setUp = async () => {
    const { url } = await testRedis();
    const [one, other] = [await gatewayOn(url), await gatewayOn(url)];
    const { key, digest } = someKey();
    await one.keys.create(key);
    const put = (gateway: typeof one, wanted: string) =>
      gateway.keys.update(key.id, (now) => ({ ...now, secrets: [{ ...key.secrets[0]!, digest: wanted }] }));
    return { one, other, put, key, digest };
  };

  test('when it comes back before the pointer is removed', async () => {
    const { one, other, put, key, digest } = await setUp();
    interpose(one.redis, DROP, () => put(other, digest));
    await put(one, `${digest}-new`);
    expect(await other.keys.findByDigest(digest)).toEqual(key);
  });

  test('when the pointer is removed before it comes back', async () => {
    const { one, other, put, key, digest } = await setUp();
    const [pointed, dropped] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    interpose(one.redis, DROP, () => pointed.promise);
    const taking = put(one, `${digest}-new`).then(() => dropped.resolve());
    // The other one has seen the pointer still there; before it writes the record, the pointer goes.
    interpose(other.redis, REPLACE, () => {
      pointed.resolve();
      return dropped.promise;
    });
    await expect.poll(async () => (await other.keys.get(key.id))?.secrets[0]?.digest).toBe(`${digest}-new`);
    await put(other, digest);
    await taking;
    expect(await other.keys.findByDigest(digest)).toEqual(key);
  });

  test('when the pointer is removed between being found there and being read', async () => {
    const { one, put, key, digest } = await setUp();
    const { url } = await testRedis();
    await put(one, `${digest}-new`);
    await redisCommand(url, 'SET', keyspace.digest(digest), key.id);
    // The first read is of the record, the next one of the pointer.
    interpose(one.redis, 'get', async () =>
      interpose(one.redis, 'get', () => redisCommand(url, 'DEL', keyspace.digest(digest))),
    );
    await put(one, digest);
    expect(await one.keys.findByDigest(digest)).toEqual(key);
  });
});

describe('what is not ours', () => {
  test('in the place of a key fails for that key alone, and the list goes on', async () => {
    const { url } = await testRedis();
    const { keys, circuit } = await gatewayOn(url);
    const good = someKey();
    const bad = ['not JSON', '{}', '[]', '{"id":1}'].map((text) => ({ ...someKey(), text }));
    await keys.create(good.key);
    for (const { key, text } of bad) {
      await keys.create(key);
      await redisCommand(url, 'SET', keyspace.apiKey(key.id), text);
    }
    const typed = someKey();
    await keys.create(typed.key);
    await redisCommand(url, 'DEL', keyspace.apiKey(typed.key.id));
    await redisCommand(url, 'HSET', keyspace.apiKey(typed.key.id), 'a', 'b');
    for (const { key, digest } of [...bad, typed]) {
      await expect(keys.get(key.id)).rejects.toMatchObject({ code: 'store_corrupt', id: key.id });
      await expect(keys.findByDigest(digest)).rejects.toMatchObject({ code: 'store_corrupt', id: key.id });
    }
    expect(circuit.state).toBe('present');
    expect(await keys.findByDigest(good.digest)).toEqual(good.key);
    const { readable, unreadable } = byReadability((await keys.list({ limit: 500, cursor: null })).records);
    expect(readable).toContainEqual(good.key);
    const ids = [...bad, typed].map(({ key }) => key.id);
    expect(unreadable.map(({ id }) => id)).toEqual(expect.arrayContaining(ids));
  });
});

test('look-ups of one turn of the event loop are one write, however many', async () => {
  const { url } = await testRedis();
  const { keys, redis } = await gatewayOn(url);
  const { key, digest } = someKey();
  await keys.create(key);
  let writes = 0;
  const socket = (redis as Redis).stream as unknown as Record<'_write' | '_writev', (...words: unknown[]) => unknown>;
  for (const name of ['_write', '_writev'] as const) {
    const original = socket[name].bind(socket);
    socket[name] = (...words) => {
      writes++;
      return original(...words);
    };
  }
  const unknown = await Promise.all(Array.from({ length: 50 }, (_, i) => keys.findByDigest(`unknown${i}`)));
  expect(unknown.every((found) => found === null)).toBe(true);
  expect(writes).toBe(1);
  // Known ones take two steps, the pointer and the record.
  await Promise.all(Array.from({ length: 50 }, () => keys.findByDigest(digest)));
  expect(writes).toBe(3);
});

test('the secret of a key is nowhere in Redis, not even in part', async () => {
  const { url } = await testRedis();
  const { keys } = await gatewayOn(url);
  const { key, secret, digest } = someKey({ name: 'needle' });
  await keys.create(key);
  const found: string[] = [];
  for (const name of (await redisCommand(url, 'KEYS', '*')) as string[]) {
    found.push(
      name,
      String(await redisCommand(url, 'DUMP', name)),
      String(await redisCommand(url, 'GET', name).catch(() => '')),
    );
  }
  const everything = found.join('\n');
  expect(everything).toContain('needle');
  expect(everything).toContain(digest);
  expect(everything).not.toContain(secret.slice(8, 24));
  expect(everything).not.toContain(secret.slice(-8));
});

describe('a Redis that is away', () => {
  test('is told as store_unavailable at once, and used again when it is back', async () => {
    const server = await privateRedis();
    const { keys, redis } = await gatewayOn(server.url, { timeoutMs: 2 * LATE_MS });
    const { key, digest } = someKey();
    await keys.create(key);
    await server.kill();
    await eventually(() => expect(redis.status).not.toBe('ready'));
    const startedMs = performance.now();
    await expect(keys.findByDigest(digest)).rejects.toMatchObject({ code: 'store_unavailable' });
    await expect(keys.create(someKey().key)).rejects.toMatchObject({ code: 'store_unavailable' });
    // Neither call waited for its deadline.
    expect(performance.now() - startedMs).toBeLessThan(LATE_MS);
    await server.restart({ keepData: false });
    await eventually(async () => expect(await keys.findByDigest(digest)).toBeNull());
  });

  test('that is silent costs no call more than the deadline', async () => {
    const server = await privateRedis();
    const { keys } = await gatewayOn(server.url, { timeoutMs: 1_000 });
    await server.pause();
    const pass = holdTime();
    const lost = keys.findByDigest('a').catch(({ code }) => code);
    // A call that was made again would wait for another deadline.
    await pass(1_000);
    expect(await lost).toBe('store_unavailable');
    await server.resume();
    await eventually(async () => {
      await pass(50);
      expect(await keys.findByDigest('a')).toBeNull();
    });
  });
});
