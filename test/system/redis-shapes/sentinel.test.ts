import { beforeAll, expect, test } from 'vitest';
import { connectRedis, type ServerClient, untilReady } from '../../../src/stores/redis/connection.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { someKey } from '../../identify/some-key.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { allowance } from '../../support/allowance.ts';
import { atEnd } from '../../support/endings.ts';
import { redisCommand } from '../../support/redis.ts';
import { type PrivateSentinels, privateSentinels } from '../../support/redis-sentinel.ts';
import { LATE_MS, paced } from '../../support/room.ts';
import { askSteadily, expectExactness } from './steady-asks.ts';

let sentinels: PrivateSentinels;
beforeAll(async () => {
  sentinels = await privateSentinels({ password: 'p@ss/word', sentinelPassword: 'guard' });
});

async function emptied(): Promise<string> {
  await redisCommand((await sentinels.primary()).url, 'FLUSHALL');
  return sentinels.url;
}

test('a primary name that the Sentinels do not know is said', async () => {
  const redis = connectRedis({ url: sentinels.url.replace('/main', '/mian'), connectTimeoutMs: 500 });
  atEnd(() => redis.disconnect());
  await expect(untilReady(redis, 1_000)).rejects.toThrow(
    /Redis at mian .*: the Sentinels know no primary of this name/,
  );
});

test('a link that is dropped while the next one is looked for is made again, until we close it', async () => {
  const redis = connectRedis({ url: sentinels.url, connectTimeoutMs: 500 }) as ServerClient;
  atEnd(() => redis.disconnect());
  await untilReady(redis, 2_000);
  const end = () => new Promise((resolve) => redis.once('end', resolve));
  const ended = end();
  // As ioredis's failover detector does when it is told of a failover a second time.
  const { connector } = redis as unknown as { readonly connector: { disconnect(): void } };
  redis.once('connecting', () => connector.disconnect());
  redis.stream.destroy();
  await ended;
  await untilReady(redis, 2_000);
  const closed = end();
  redis.disconnect();
  await closed;
  await expect(untilReady(redis, 500)).rejects.toThrow('does not answer');
});

test('a Sentinel that is away is made up for by the others', async () => {
  await sentinels.sentinels[0]!.pause();
  atEnd(() => sentinels.sentinels[0]!.resume());
  const { keys } = await gatewayOn(sentinels.url);
  expect(await keys.get('key_none')).toBeNull();
});

test('a failover keeps keys, counters and bans, and the gateways find the new primary by themselves (reliability 103)', async () => {
  const LIMIT = 300;
  const url = await emptied();
  const plan = allowance({ day: LIMIT }, null);
  const strict = allowance({ day: 1 }, { after: 1, firstMs: 600_000 });
  const opened = await Promise.all([1, 2].map(() => gatewayOn(url, { timeoutMs: paced(100) })));
  const ledgers = opened.map((gateway) => new RedisLedger({ ...gateway, publish: async () => {} }));
  const { key, digest } = someKey();
  await opened[0]!.keys.create(key);
  await ledgers[0]!.decide([{ consumerId: 'banned', allowance: strict, cost: 1, n: 3 }]);
  const asks = askSteadily(ledgers, ['a', 'b'], plan);
  await asks.answered(10);
  const long = asks.admittedOf(['a', 'b']);
  await asks.answered(10);
  const before = await sentinels.primary();
  await before.kill();
  // What the old primary had acknowledged and not yet passed on is all that can be admitted twice.
  const lag = asks.admittedOf(['a', 'b']) - long;
  await asks.answered(20);
  expect((await sentinels.primary()).port).not.toBe(before.port);
  await expectExactness(asks, ledgers[0]!, LIMIT, lag + 2 * ledgers.length);
  expect(asks.longestMs()).toBeLessThan(paced(100) + LATE_MS);
  expect(await opened[1]!.keys.findByDigest(digest)).toEqual(key);
  expect((await ledgers[1]!.bans()).map(({ consumerId }) => consumerId)).toEqual(['banned']);
});
