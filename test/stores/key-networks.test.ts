import { describe, expect, test } from 'vitest';
import { NETWORKS_KEPT_DAYS } from '../../src/operations/key-network-store.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeyNetworks } from '../../src/stores/embedded/key-networks.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { keyNetworkStoreContract } from '../contracts/key-network-store.ts';
import { atEnd } from '../support/endings.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { privateCluster } from '../support/redis-cluster.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

const clock = { wallMs: Date.UTC(2026, 0, 1) };

async function embedded() {
  const db = openDatabase(await temporaryFolder());
  atEnd(() => db.close());
  return new EmbeddedKeyNetworks({ db, wallMs: () => clock.wallMs });
}

const some = (keyId: string) => ({ keyId, before: null, after: `record of ${keyId}` });

describe('the networks of keys in the embedded store', () => {
  keyNetworkStoreContract(embedded);

  test('are gone 41 days after the last call', async () => {
    const store = await embedded();
    await store.swap([some('a')]);
    clock.wallMs += NETWORKS_KEPT_DAYS * 86_400_000;
    await store.swap([some('b')]);
    expect(await store.read(['a', 'b'])).toEqual([null, 'record of b']);
  });
});

describe('the networks of keys in Redis', () => {
  const open = async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { url, store: (await gatewayOn(url)).keyNetworks };
  };
  keyNetworkStoreContract(async () => (await open()).store);

  test('expire 41 days after the last call', async () => {
    const { url, store } = await open();
    await store.swap([some('a')]);
    const seconds = Number(await redisCommand(url, 'TTL', keyspace.keyNetworks('a')));
    expect(seconds).toBeGreaterThan(NETWORKS_KEPT_DAYS * 86_400 - 60);
  });

  test('are kept on every shard of a cluster', async () => {
    const { keyNetworks: store } = await gatewayOn((await privateCluster()).url);
    const ids = Array.from({ length: 12 }, (_, i) => `key ${i}`);
    expect(await store.swap(ids.map(some))).toEqual(ids.map(() => true));
    expect(await store.read(ids)).toEqual(ids.map((id) => `record of ${id}`));
  });

  test("another program's value under the name of one stays, and is no failure of the store", async () => {
    const { url, store } = await open();
    await redisCommand(url, 'RPUSH', keyspace.keyNetworks('a'), 'x');
    expect(await store.swap([some('a'), some('b')])).toEqual([true, true]);
    expect(await store.read(['a', 'b'])).toEqual([null, 'record of b']);
    expect(await redisCommand(url, 'LLEN', keyspace.keyNetworks('a'))).toBe(1);
  });
});
