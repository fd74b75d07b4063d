import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addressOf, connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { someKey } from '../identify/some-key.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

function connect(url: string) {
  const redis = connectRedis({ url, connectTimeoutMs: 1_000 });
  atEnd(() => redis.disconnect());
  return redis;
}

describe('REDIS_URL', () => {
  test('may name a Unix socket, a database and a user', async () => {
    const socket = join(await temporaryFolder(), 'redis sock');
    const server = await privateRedis({ asProcess: true, configArgs: ['--unixsocket', socket] });
    await redisCommand(server.url, 'ACL', 'SETUSER', 'gate:way', 'on', '>p@ss:/?#', '~tg:*', '&tg:*', '+@all');
    const [user, password] = ['gate:way', 'p@ss:/?#'].map(encodeURIComponent);
    const urls = [
      `redis://${user}:${password}@127.0.0.1:${new URL(server.url).port}/3`,
      `unix://${encodeURI(socket)}?db=3&username=${user}&password=${password}`,
    ];
    for (const url of urls) {
      const { keys } = await gatewayOn(url);
      const { key, digest } = someKey();
      await keys.create(key);
      expect(await keys.findByDigest(digest)).toEqual(key);
      expect(await redisCommand(`${server.url}/3`, 'EXISTS', keyspace.apiKey(key.id))).toBe(1);
    }
  });

  test('with rediss:// speaks TLS from the first byte', async () => {
    const first = Promise.withResolvers<number>();
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', (bytes) => {
        first.resolve((bytes as Buffer)[0]!);
        socket.destroy();
      });
    });
    const { port } = await listen(server);
    atEnd(() => server.close());
    connect(`rediss://127.0.0.1:${port}`);
    // A TLS handshake record (RFC 8446 section 5.1).
    expect(await first.promise).toBe(22);
  });

  test.each(['redis://:a%zz@localhost', 'no URL'])('that cannot be read is a fault of the settings: %s', (url) => {
    expect(() => connect(url)).toThrow(expect.objectContaining({ code: 'bad_settings' }));
  });

  test('is told to people without user and password', () => {
    expect(addressOf(connect('redis://user:pass@localhost:1/2'))).toBe('localhost:1, database 2');
    expect(addressOf(connect('redis://:pass@[::1]:1'))).toBe('[::1]:1');
    expect(addressOf(connect('unix:///run/redis.sock'))).toBe('/run/redis.sock');
  });
});

/** A name that the product's user may write to. */
const COUNTER = 'tg:test:counter';

test('a write whose reply was lost is not sent again after the reconnection (reliability 99)', async () => {
  const server = await privateRedis();
  const redis = connect(server.url);
  await untilReady(redis, 5_000);
  await redisCommand(server.url, 'CLIENT', 'PAUSE', '300', 'WRITE');
  const lost = redis.incr(COUNTER);
  const failing = expect(lost).rejects.toThrow();
  await redisCommand(server.url, 'CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await failing;
  await untilReady(redis, 5_000);
  await redisCommand(server.url, 'CLIENT', 'UNPAUSE');
  expect(await redis.incr(COUNTER)).toBe(1);
});

test('a server that only reads from now on is left for a new connection (reliability 101)', async () => {
  const server = await privateRedis();
  const redis = connect(server.url);
  await untilReady(redis, 5_000);
  const reconnected = new Promise((resolve) => redis.once('reconnecting', resolve));
  await redisCommand(server.url, 'REPLICAOF', '127.0.0.1', '1');
  await expect(redis.incr(COUNTER)).rejects.toThrow('READONLY');
  await reconnected;
});
