import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import type { Lookup } from '../../src/io/resolver.ts';
import { connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { sentinelConnector, serverConnector } from '../../src/stores/redis/connectors.ts';
import { atEnd } from '../support/endings.ts';
import { testRedis } from '../support/redis.ts';
import { privateSentinels } from '../support/redis-sentinel.ts';

test('connections to servers and to Sentinels look their names up this way, and no other', async () => {
  const asked = new Set<string>();
  const lookup: Lookup = (host, { all }, callback) => {
    asked.add(host);
    if (all) callback(null, [{ address: '127.0.0.1', family: 4 }]);
    else callback(null, '127.0.0.1', 4);
  };
  const { port } = new URL((await testRedis()).url);
  const { sentinels } = await privateSentinels();
  const own = { lazyConnect: true, replyMapping: 'legacy' } as const;
  const server = new Redis({ ...own, host: 'server.test', port: Number(port), Connector: serverConnector(lookup) });
  const primary = new Redis({
    ...own,
    sentinels: sentinels.slice(0, 1).map((one) => ({ host: 'sentinel.test', port: one.port })),
    name: 'main',
    Connector: sentinelConnector(lookup),
  });
  for (const redis of [server, primary]) {
    atEnd(() => redis.disconnect());
    await redis.connect();
    expect(await redis.ping()).toBe('PONG');
  }
  expect([...asked]).toEqual(['server.test', 'sentinel.test']);

  // By default it is the resolver of the process, which knows `*.localhost` (RFC 6761). getaddrinfo does not.
  for (const url of [(await testRedis()).url, `redis+sentinel://127.0.0.1:${sentinels[0]!.port}/main`]) {
    const redis = connectRedis({ url: url.replace('127.0.0.1', 'redis.localhost'), connectTimeoutMs: 5_000 });
    atEnd(() => redis.disconnect());
    await untilReady(redis, 15_000);
  }
});
