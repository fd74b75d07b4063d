import { describe, expect, test } from 'vitest';
import { USES_KEPT_DAYS } from '../../src/identify/secret-use-store.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedSecretUses } from '../../src/stores/embedded/secret-uses.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { secretUseStoreContract } from '../contracts/secret-use-store.ts';
import { atEnd } from '../support/endings.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { privateCluster } from '../support/redis-cluster.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

async function embedded() {
  const db = openDatabase(await temporaryFolder());
  atEnd(() => db.close());
  return new EmbeddedSecretUses({ db });
}

const use = (keyId: string, day: string) => ({ keyId, secret: 'x', day, present: ['x'] });

describe('the uses of secrets in the embedded store', () => {
  secretUseStoreContract(embedded);

  test('are gone after 92 days', async () => {
    const store = await embedded();
    await store.note([use('a', '2026-01-01'), use('b', '2026-01-02')]);
    await store.note([use('c', '2026-04-03')]);
    expect([await store.of('a', ['x']), await store.of('b', ['x'])]).toEqual([[null], ['2026-01-02']]);
  });
});

describe('the uses of secrets in Redis', () => {
  const open = async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { url, store: (await gatewayOn(url)).secretUses };
  };
  secretUseStoreContract(async () => (await open()).store);

  test('expire 92 days after the last one', async () => {
    const { url, store } = await open();
    await store.note([use('a', '2026-11-20')]);
    const seconds = Number(await redisCommand(url, 'TTL', keyspace.secretUses('a')));
    expect(seconds).toBeGreaterThan(USES_KEPT_DAYS * 86_400 - 60);
  });

  test('are noted by one call for a hundred', async () => {
    const { url } = await privateRedis();
    const { secretUses: store } = await gatewayOn(url);
    const uses = Array.from({ length: 250 }, (_, i) => use(`key ${i}`, '2026-11-20'));
    await store.note([use('a', '2026-11-20')]);
    await redisCommand(url, 'CONFIG', 'RESETSTAT');
    await store.note(uses);
    const stats = await redisCommand(url, 'INFO', 'commandstats');
    expect(String(stats)).toMatch(/cmdstat_evalsha:calls=3,/);
    for (const { keyId } of [uses[0]!, uses[249]!]) expect(await store.of(keyId, ['x'])).toEqual(['2026-11-20']);
  });

  test('are noted on every shard of a cluster', async () => {
    const { secretUses: store } = await gatewayOn((await privateCluster()).url);
    const uses = Array.from({ length: 12 }, (_, i) => use(`key ${i}`, '2026-11-20'));
    await store.note(uses);
    for (const { keyId } of uses) expect(await store.of(keyId, ['x'])).toEqual(['2026-11-20']);
  });

  test("another program's value under the name of one is no failure of the store", async () => {
    const { url, store } = await open();
    await redisCommand(url, 'SET', keyspace.secretUses('a'), 'text');
    await store.note([use('a', '2026-11-20'), use('b', '2026-11-20')]);
    expect([await store.of('a', ['x']), await store.of('b', ['x'])]).toEqual([[null], ['2026-11-20']]);
  });
});
