import type { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { someKey } from '../identify/some-key.ts';
import { busyFor } from '../support/busy-for.ts';
import { eventually } from '../support/conditions.ts';
import { holdTime } from '../support/hold-time.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { gatewayOn } from './redis-connections.ts';

type Mget = (names: readonly string[]) => Promise<(string | null)[]>;

/** What MGET is asked from now on; `before` is awaited before each of its calls. */
function watchMget(redis: object, before: (call: number) => Promise<unknown> = async () => {}): string[][] {
  const watched = redis as { mget: Mget };
  const original = watched.mget.bind(redis);
  const calls: string[][] = [];
  watched.mget = async (names) => {
    const call = calls.push([...names]);
    await before(call);
    return original(names);
  };
  return calls;
}

const unknown = (count: number) => Array.from({ length: count }, (_, i) => `nobody's ${i}`);

describe('look-ups of one turn of the event loop', () => {
  test('are one question for their pointers and one for the records that these lead to', async () => {
    const { url } = await testRedis();
    const { keys, redis } = await gatewayOn(url);
    const known = [someKey(), someKey()];
    for (const { key } of known) await keys.create(key);
    const digests = [known[0]!.digest, ...unknown(30), known[1]!.digest];
    const calls = watchMget(redis);
    const found = await Promise.all(digests.map((digest) => keys.findByDigest(digest)));
    expect(found.filter((key) => key !== null)).toEqual(known.map(({ key }) => key));
    expect([found[0], found.at(-1)]).toEqual(known.map(({ key }) => key));
    expect(calls).toEqual([digests.map(keyspace.digest), known.map(({ key }) => keyspace.apiKey(key.id))]);
  });

  test('are several questions where they are very many: Redis does nothing else meanwhile', async () => {
    const { url } = await testRedis();
    const { keys, redis } = await gatewayOn(url);
    const calls = watchMget(redis);
    const found = await Promise.all(unknown(600).map((digest) => keys.findByDigest(digest)));
    expect(found.every((key) => key === null)).toBe(true);
    expect(calls.map(({ length }) => length)).toEqual([256, 256, 88]);
  });

  test('do not wait for those of the next turn, nor these for them', async () => {
    const { url } = await testRedis();
    const { keys, redis } = await gatewayOn(url);
    const { promise: first, resolve } = Promise.withResolvers<void>();
    const calls = watchMget(redis, async (call) => call === 1 && first);
    const early = keys.findByDigest('early');
    await eventually(() => expect(calls).toHaveLength(1));
    expect(await keys.findByDigest('late')).toBeNull();
    resolve();
    expect(await early).toBeNull();
  });

  test('that have no pointer are answered before the records of the others', async () => {
    const { url } = await testRedis();
    const { keys, redis } = await gatewayOn(url);
    const { key, digest } = someKey();
    await keys.create(key);
    const { promise: records, resolve } = Promise.withResolvers<void>();
    watchMget(redis, async (call) => call === 2 && records);
    const known = keys.findByDigest(digest);
    expect(await keys.findByDigest('nobody')).toBeNull();
    resolve();
    expect(await known).toEqual(key);
  });

  test('have each its own outcome, whatever stands in the places of the others', async () => {
    const { url } = await testRedis();
    const { keys, redis, circuit } = await gatewayOn(url);
    const [good, typed, broken, cut] = [someKey(), someKey(), someKey(), someKey()];
    for (const { key } of [good, typed, broken]) await keys.create(key);
    await redisCommand(url, 'DEL', keyspace.apiKey(typed.key.id));
    await redisCommand(url, 'HSET', keyspace.apiKey(typed.key.id), 'a', 'b');
    await redisCommand(url, 'SET', keyspace.apiKey(broken.key.id), 'not JSON');
    // A creation that was cut short: a pointer, and no record.
    await redisCommand(url, 'SET', keyspace.digest(cut.digest), cut.key.id);
    await redisCommand(url, 'HSET', keyspace.digest('a pointer of another type'), 'a', 'b');
    const calls = watchMget(redis);
    const digests = [typed, broken, cut, good].map(({ digest }) => digest);
    const outcomes = await Promise.allSettled(
      [...digests, 'a pointer of another type', 'nobody'].map((digest) => keys.findByDigest(digest)),
    );
    const corrupt = { status: 'rejected', reason: { code: 'store_corrupt' } };
    const nobody = { status: 'fulfilled', value: null };
    expect(outcomes).toMatchObject([corrupt, corrupt, nobody, { value: good.key }, corrupt, nobody]);
    expect(calls).toHaveLength(2);
    expect(circuit.state).toBe('present');
  });

  test('fail together at one deadline where Redis is silent, and the next ones reach it again', async () => {
    const server = await privateRedis();
    const { keys, circuit } = await gatewayOn(server.url, { timeoutMs: 1_000 });
    await server.pause();
    const pass = holdTime();
    const lost = Promise.allSettled(unknown(300).map((digest) => keys.findByDigest(digest)));
    await pass(1_000);
    for (const one of await lost)
      expect(one).toMatchObject({ status: 'rejected', reason: { code: 'store_unavailable' } });
    await server.resume();
    await eventually(async () => {
      await pass(50);
      expect(await keys.findByDigest('nobody')).toBeNull();
    });
    expect(circuit.state).toBe('present');
  });

  test('that found their pointers fail alone when Redis falls silent before their records', async () => {
    const server = await privateRedis();
    const { keys, redis } = await gatewayOn(server.url, { timeoutMs: 1_000 });
    const { key, digest } = someKey();
    await keys.create(key);
    watchMget(redis, async (call) => call === 2 && server.pause());
    const [known, nobody] = await Promise.allSettled([keys.findByDigest(digest), keys.findByDigest('nobody')]);
    expect(known).toMatchObject({ status: 'rejected', reason: { code: 'store_unavailable' } });
    expect(nobody).toEqual({ status: 'fulfilled', value: null });
    await server.resume();
    await eventually(async () => expect(await keys.findByDigest(digest)).toEqual(key));
  });

  test('succeed although this thread stalls for longer than their deadline behind each of their calls (reliability 437)', async () => {
    const { url } = await testRedis();
    const { keys, redis, circuit } = await gatewayOn(url, { timeoutMs: 100 });
    const { key, digest } = someKey();
    await keys.create(key);
    const watched = redis as unknown as { mget: Mget };
    const mget = watched.mget.bind(redis);
    let stalls = 0;
    const stall = () => {
      busyFor(150);
      stalls++;
    };
    watched.mget = (names) => {
      // When it has been sent.
      queueMicrotask(stall);
      return mget(names);
    };
    expect(await keys.findByDigest(digest)).toEqual(key);
    expect([stalls, circuit.state]).toEqual([2, 'present']);
  });

  test('whose link is cut fail at once', async () => {
    const server = await privateRedis();
    const { keys, redis } = await gatewayOn(server.url, { timeoutMs: 30_000 });
    watchMget(redis, () => server.pause().then(() => (redis as Redis).stream.destroy()));
    for (const one of await Promise.allSettled(unknown(3).map((digest) => keys.findByDigest(digest))))
      expect(one).toMatchObject({ status: 'rejected', reason: { code: 'store_unavailable' } });
    await server.resume();
  });
});

test('a page of a list is one question for its records', async () => {
  const { url } = await testRedis();
  await redisCommand(url, 'FLUSHDB');
  const { keys, redis } = await gatewayOn(url);
  const made = Array.from({ length: 5 }, (_, i) => someKey({ createdAtMs: i }).key);
  for (const key of made) await keys.create(key);
  const calls = watchMget(redis);
  expect(await keys.list({ limit: 3, cursor: null })).toEqual({ records: made.slice(0, 3), cursor: made[2]!.id });
  // One record more shows whether there is another page.
  expect(calls).toEqual([made.slice(0, 4).map(({ id }) => keyspace.apiKey(id))]);
});
