import { createConnection } from 'node:net';
import { describe, expect, inject, test } from 'vitest';
import { eventually } from './conditions.ts';
import { privateRedis, redisCommand, testRedis } from './redis.ts';

describe('the shared Redis', () => {
  test('is the same database at each call in one file, emptied at the first only', async () => {
    const first = await testRedis();
    await redisCommand(first.url, 'SET', 'left', 'here');
    const second = await testRedis();
    expect(second.url).toBe(first.url);
    expect(await redisCommand(second.url, 'GET', 'left')).toBe('here');
  });

  test('is a database of the worker, not the one in which the tests keep their books', async () => {
    const { url } = await testRedis();
    expect(new URL(url).pathname).toMatch(/^\/[1-9]\d*$/);
  });
});

describe('a private Redis', () => {
  test('obeys its options and is not the shared one', async () => {
    const redis = await privateRedis({ configArgs: ['--maxmemory', '10mb', '--requirepass', 'a b'] });
    expect(await redisCommand(redis.url, 'CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', '10485760']);
    expect(new URL(redis.url).port).toBe(String(redis.port));
    await expect(redisCommand(redis.url.replace('a%20b', 'wrong'), 'PING')).rejects.toThrow('WRONGPASS');
  });

  test('saves nothing unless asked', async () => {
    const redis = await privateRedis();
    expect(await redisCommand(redis.url, 'CONFIG', 'GET', 'save')).toEqual(['save', '']);
    expect(await redisCommand(redis.url, 'CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no']);
  });

  test('keeps or loses its data on a restart, as asked, and its address always', async () => {
    const redis = await privateRedis();
    await redisCommand(redis.url, 'SET', 'k', 'v');
    const before = redis.pid;
    await redis.restart({ keepData: true });
    expect(redis.pid).not.toBe(before);
    expect(await redisCommand(redis.url, 'GET', 'k')).toBe('v');
    await redis.restart({ keepData: false });
    expect(await redisCommand(redis.url, 'GET', 'k')).toBeNull();
  });

  test('after a crash has what its own persistence saved', async () => {
    const redis = await privateRedis({ configArgs: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    await redisCommand(redis.url, 'SET', 'k', 'v');
    await redis.kill();
    expect(redis.pid).toBe(0);
    await expect(redisCommand(redis.url, 'PING')).rejects.toThrow();
    await redis.restart({ keepData: true });
    expect(await redisCommand(redis.url, 'GET', 'k')).toBe('v');
  });

  test('is silent while paused, and answers what it was asked meanwhile', async () => {
    const redis = await privateRedis();
    const socket = createConnection(redis.port, new URL(redis.url).hostname);
    const heard: string[] = [];
    socket.on('data', (chunk) => heard.push(String(chunk)));
    socket.write('PING\r\n');
    await eventually(() => expect(heard.join('')).toBe('+PONG\r\n'));
    await redis.pause();
    socket.write('ECHO later\r\n');
    await expect(eventually(() => heard.length > 1, { withinMs: 200 })).rejects.toThrow('did not come true');
    await redis.resume();
    await eventually(() => expect(heard.join('')).toContain('later'));
    socket.destroy();
  });

  test('can be stopped twice, and while it is paused', async () => {
    const redis = await privateRedis();
    await redis.pause();
    await redis.stop();
    await redis.stop();
    await redis.restart({ keepData: false });
    expect(await redisCommand(redis.url, 'PING')).toBe('PONG');
  });

  test('can be a Sentinel that watches another', async () => {
    const primary = await privateRedis({ asProcess: true });
    const sentinel = await privateRedis({
      sentinel: [`sentinel monitor main 127.0.0.1 ${primary.port} 1`, 'sentinel down-after-milliseconds main 300'],
    });
    const address = await redisCommand(sentinel.url, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main');
    expect(address).toEqual(['127.0.0.1', String(primary.port)]);
  });
});

test('the run says where its Redis is', () => {
  expect(inject('sharedRedis')).toMatchObject({ url: expect.stringMatching(/^rediss?:\/\//) });
});
