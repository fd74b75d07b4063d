import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedPlansHistory } from '../../src/stores/embedded/plans-history.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { plansHistoryContract } from '../contracts/plans-history.ts';
import { atEnd } from '../support/endings.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

function historyIn(folder: string) {
  const db = openDatabase(folder);
  atEnd(() => db.close());
  return new EmbeddedPlansHistory({ db });
}

async function emptyRedis(): Promise<string> {
  const { url } = await testRedis();
  await redisCommand(url, 'FLUSHDB');
  return url;
}

describe('the history of plans in the embedded store', () => {
  plansHistoryContract(async () => {
    const folder = await temporaryFolder();
    const damageAuthor = async (number: number, text: string) => {
      const db = openDatabase(folder);
      db.prepare('UPDATE plans_history SET actor = ? WHERE number = ?').run(text, number);
      db.close();
    };
    const damageHead = async (number: number) => {
      const db = openDatabase(folder);
      db.prepare('UPDATE plans_history SET since_ms = ? WHERE number = ?').run(10 ** 18, number);
      db.close();
    };
    return { here: historyIn(folder), there: historyIn(folder), damageAuthor, damageHead };
  });
});

describe('the history of plans in Redis', () => {
  plansHistoryContract(async () => {
    const url = await emptyRedis();
    const [here, there] = await Promise.all([gatewayOn(url), gatewayOn(url)]);
    const damageAuthor = async (number: number, text: string) => {
      const head = String(await redisCommand(url, 'HGET', keyspace.plansHistory, String(number)));
      const before = head.split(' ').slice(0, 3).join(' ');
      await redisCommand(url, 'HSET', keyspace.plansHistory, String(number), `${before} ${text}`);
    };
    const damageHead = async (number: number) => {
      await redisCommand(url, 'HSET', keyspace.plansHistory, String(number), 'garbage');
    };
    return { here: here.plansHistory, there: there.plansHistory, damageAuthor, damageHead };
  });

  test.each([null, '', 'abc', '9999999', '1 1', '2 1', '1', '1e1 2'])(
    'has all entries although its field numbers is now %j, and others are added beside them (reliability 404)',
    async (numbers) => {
      const url = await emptyRedis();
      const { plansHistory } = await gatewayOn(url);
      const by = { kind: 'file', name: 'x' } as const;
      const add = (number: number) =>
        plansHistory.add(
          { number, version: `v${number}`, sinceMs: number, by, reason: null, changes: null },
          `text ${number}`,
        );
      const listed = async () => (await plansHistory.list()).map((entry) => 'version' in entry && entry.version);
      await add(1);
      await add(2);
      if (numbers === null) await redisCommand(url, 'HDEL', keyspace.plansHistory, 'numbers');
      else await redisCommand(url, 'HSET', keyspace.plansHistory, 'numbers', numbers);
      expect(await listed()).toEqual(['v2', 'v1']);
      await add(3);
      expect(await listed()).toEqual(['v3', 'v2', 'v1']);
      expect(await redisCommand(url, 'HGET', keyspace.plansHistory, 'numbers')).toBe('1 2 3');
    },
  );

  test('a value of another program fails with its name and stays', async () => {
    const url = await emptyRedis();
    await redisCommand(url, 'SET', keyspace.plansHistory, 'foreign');
    const { plansHistory } = await gatewayOn(url);
    const failure = { code: 'store_corrupt', message: expect.stringContaining('`tg:plans:history`') };
    await expect(plansHistory.list()).rejects.toMatchObject(failure);
    await expect(
      plansHistory.claim(1, { by: { kind: 'file', name: 'x' }, reason: null, changes: null }),
    ).rejects.toMatchObject(failure);
    expect(await redisCommand(url, 'GET', keyspace.plansHistory)).toBe('foreign');
  });
});
