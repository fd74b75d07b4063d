import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedExplanations } from '../../src/stores/embedded/explanations.ts';
import { RedisExplanations } from '../../src/stores/redis/explanations.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { explanationStoreContract } from '../contracts/explanation-store.ts';
import { atEnd } from '../support/endings.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

describe('explanations in the embedded store', () => {
  const open = async () => {
    const db = openDatabase(await temporaryFolder());
    atEnd(() => db.close());
    return { db, store: new EmbeddedExplanations({ db }) };
  };
  explanationStoreContract(async () => (await open()).store);

  test('leave the file after a day', async () => {
    const { db, store } = await open();
    await store.keep([{ requestId: 'a', atMs: 0, text: 'old' }]);
    await store.keep([{ requestId: 'b', atMs: 25 * 3_600_000, text: 'new' }]);
    expect(db.prepare('SELECT request_id AS id FROM explanations').all()).toEqual([{ id: 'b' }]);
  });
});

describe('explanations in Redis', () => {
  const open = async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { url, store: new RedisExplanations(await gatewayOn(url)) };
  };
  explanationStoreContract(async () => (await open()).store);

  test("expire 25 hours after the last one, and another program's value under the name is no failure of the store", async () => {
    const { url, store } = await open();
    await store.keep([{ requestId: 'a', atMs: 0, text: 'why' }]);
    expect(Number(await redisCommand(url, 'TTL', keyspace.explanations(0)))).toBeGreaterThan(89_940);
    await redisCommand(url, 'SET', keyspace.explanations(1), 'text');
    await store.keep([{ requestId: 'b', atMs: 3_600_000, text: 'why' }]);
    expect([await store.of('a', 3_600_000), await store.of('b', 3_600_000)]).toEqual([['why'], []]);
  });
});
