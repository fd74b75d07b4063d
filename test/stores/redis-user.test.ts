import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { atEnd } from '../support/endings.ts';
import { ROOT } from '../support/processes.ts';
import { type PrivateRedis, privateRedis, redisCommand } from '../support/redis.ts';
import { rulesIn } from '../support/redis-user.ts';

// That the rules of config/redis.acl are enough is shown by every other test on Redis: all of them run under its user.

describe('the user of config/redis.acl', () => {
  let server: PrivateRedis;
  beforeAll(async () => {
    server = await privateRedis();
    await redisCommand(server.url, 'SET', 'sessions:1', 'somebody');
  });

  test.each([
    ['FLUSHALL'],
    ['FLUSHDB'],
    ['SWAPDB', '0', '1'],
    ['KEYS', '*'],
    ['CLIENT', 'KILL', 'TYPE', 'normal'],
    ['CLIENT', 'PAUSE', '1000'],
    ['CLIENT', 'LIST'],
    ['CONFIG', 'GET', 'requirepass'],
    ['CONFIG', 'SET', 'maxmemory', '1mb'],
    ['ACL', 'LIST'],
    ['SCRIPT', 'FLUSH'],
    ['FUNCTION', 'FLUSH'],
    ['MONITOR'],
    ['SLOWLOG', 'GET'],
    ['REPLICAOF', 'NO', 'ONE'],
    ['SAVE'],
    ['SHUTDOWN', 'NOSAVE'],
    ['MIGRATE', '127.0.0.1', '1', 'tg:key', '0', '10'],
    ['RESTORE', 'tg:key', '0', 'x'],
    ['GET', 'sessions:1'],
    ['SET', 'sessions:1', 'x'],
    ['EVAL', "return redis.call('GET', KEYS[1])", '1', 'sessions:1'],
    ['EVAL', "return redis.call('FLUSHALL')", '0'],
    ['PUBLISH', 'news', 'x'],
    ['SUBSCRIBE', 'news'],
    ['PSUBSCRIBE', '*'],
  ])('may not %s %s', async (command, ...args) => {
    const client = connectRedis({ url: server.url, connectTimeoutMs: 1_000 });
    atEnd(() => client.disconnect());
    await untilReady(client, 5_000);
    await expect(client.call(command, ...args)).rejects.toThrow(/NOPERM|No permissions|can't run this command/i);
    expect(await redisCommand(server.url, 'GET', 'sessions:1')).toBe('somebody');
  });
});

test.each([
  ['redis.acl', ['info', 'subscribe', 'incrby', 'cluster|slots']],
  ['sentinel.acl', ['subscribe', 'sentinel|get-master-addr-by-name', 'sentinel|sentinels']],
])('config/%s allows no command that neither our store nor a library of it sends', (file, sentByLibraries) => {
  const folder = join(ROOT, 'src', 'stores', 'redis');
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  const sources = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8'));
  const source = sources.join('\n');
  const isSent = (command: string) => {
    const [word = '', second] = command.split('|');
    if (second !== undefined) return new RegExp(`call\\('${word}', '${second}'`, 'i').test(source);
    return new RegExp(
      `call(?:<[^(]*>)?\\(\\s*'${word}'|(redis|server|link)\\)?\\.${word}\\(|[(:=|] ?'${word}'`,
      'i',
    ).test(source);
  };
  const allowed = rulesIn(file)
    .filter((rule) => /^\+[a-z]/.test(rule))
    .map((rule) => rule.slice(1));
  expect(allowed.filter((command) => !sentByLibraries.includes(command) && !isSent(command))).toEqual([]);
});
