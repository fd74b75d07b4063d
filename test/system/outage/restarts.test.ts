import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { redisCommand } from '../../support/redis.ts';
import { LATE_MS } from '../../support/room.ts';
import {
  admittedOf,
  expectCounted,
  expectExpiries,
  LIMIT,
  longestOf,
  type Stand,
  startStand,
  statusesOf,
  TIMEOUT_MS,
} from './stand.ts';

/** The records of the keys, as a backup has them; run, it puts them back. */
async function backUpKeys({ redisSays }: Stand): Promise<() => Promise<void>> {
  const names = (await redisSays('KEYS', 'tg:[kd]*:*')) as string[];
  const values = await Promise.all(names.map((name) => redisSays('GET', name)));
  return async () => {
    for (const [i, name] of names.entries()) await redisSays('SET', name, String(values[i]));
  };
}

async function startUsed(stand: Stand) {
  const [first] = stand.gateways;
  const { id, key } = await first!.createKey('plain');
  const banned = await first!.createKey('strict');
  expect(admittedOf(await stand.ask(key, 5))).toBe(10);
  await stand.ask(banned.key, 5);
  return { id, key, banned: banned.key };
}

async function askWhileAway(stand: Stand, key: string): Promise<number> {
  const during = await stand.ask(key, LIMIT);
  expect(longestOf(during)).toBeLessThan(TIMEOUT_MS + LATE_MS);
  expect(statusesOf(during)).toEqual([200, 429]);
  expect(admittedOf(during)).toBeLessThanOrEqual(2 * (LIMIT - 5));
  return admittedOf(during);
}

describe('a Redis that is killed', () => {
  test('and comes back with its append-only file has every count and ban, and what was admitted meanwhile (reliability 98)', async () => {
    const stand = await startStand({ configArgs: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    const { id, key, banned } = await startUsed(stand);
    await stand.redis.kill();
    const admitted = 10 + (await askWhileAway(stand, key));
    expect(statusesOf(await stand.ask(banned, 2))).toEqual([429]);
    await stand.redis.restart({ keepData: true });
    await stand.until('present');
    await expectCounted(stand, id, admitted);
    expect(statusesOf(await stand.ask(key, 2))).toEqual([429]);
    expect(statusesOf(await stand.ask(banned, 2))).toEqual([429]);
    await expectExpiries(stand);
  });

  test('and comes back empty gets what was admitted meanwhile, into windows that end when they would have (reliability 98)', async () => {
    const stand = await startStand();
    const { id, key } = await startUsed(stand);
    const restore = await backUpKeys(stand);
    const endedAt = Number(await stand.redisSays('HGET', `tg:a:{${id}}`, 'M'));
    await stand.redis.kill();
    const during = await askWhileAway(stand, key);
    await stand.redis.restart({ keepData: false });
    await restore();
    await stand.until('present');
    await expectCounted(stand, id, during);
    expect(Number(await stand.redisSays('HGET', `tg:a:{${id}}`, 'M'))).toBe(endedAt);
    const after = admittedOf(await stand.ask(key, LIMIT));
    expect(10 + during + after).toBeLessThanOrEqual(2 * LIMIT);
    await expectExpiries(stand);
  });

  test('and comes back without its keys ends them: within a second they are not known', async () => {
    const stand = await startStand({ size: 1 });
    const { key } = await startUsedAlone(stand);
    await stand.redis.kill();
    expect(statusesOf(await stand.ask(key, 2))).toEqual([200]);
    await stand.redis.restart({ keepData: false });
    await stand.until('present');
    await eventually(async () => expect(statusesOf(await stand.ask(key, 1))).toEqual([401]), { withinMs: 1_000 });
  });
});

async function startUsedAlone(stand: Stand) {
  const created = await stand.gateways[0]!.createKey('plain');
  expect(statusesOf(await stand.ask(created.key, 2))).toEqual([200]);
  return created;
}

test('a Redis that is still loading holds nobody up, and has every count when it has loaded (reliability 106)', async () => {
  const slowly = ['--key-load-delay', '1500', '--loading-process-events-interval-bytes', '1024'];
  const stand = await startStand({ configArgs: slowly });
  const { id, key, banned } = await startUsed(stand);
  const fill = "for i = 1, 2000 do redis.call('SET', 'filling:' .. i, string.rep('x', 100)) end";
  await stand.redisSays('EVAL', fill, 0);
  const isBack = stand.redis.restart({ keepData: true });
  await stand.until('away');
  await eventually(() => expect(stand.redisSays('GET', 'a')).rejects.toThrow('LOADING'), { withinMs: 5_000 });
  const admitted = 10 + (await askWhileAway(stand, key));
  expect(statusesOf(await stand.ask(banned, 2))).toEqual([429]);
  await isBack;
  await stand.until('present');
  await expectCounted(stand, id, admitted);
  expect(statusesOf(await stand.ask(banned, 2))).toEqual([429]);
});

test('a Redis whose password was changed holds nobody up, and has every count when the old one is good again (reliability 107)', async () => {
  const stand = await startStand({ configArgs: ['--requirepass', 'before'] });
  const { id, key, banned } = await startUsed(stand);
  const after = stand.redis.url.replace(':before@', ':after@');
  await stand.redisSays('CONFIG', 'SET', 'requirepass', 'after');
  await redisCommand(after, 'CLIENT', 'KILL', 'TYPE', 'normal');
  await redisCommand(after, 'CLIENT', 'KILL', 'TYPE', 'pubsub');
  const admitted = 10 + (await askWhileAway(stand, key));
  await stand.until('away');
  expect(statusesOf(await stand.ask(banned, 2))).toEqual([429]);
  const { process } = stand.gateways[0]!;
  await eventually(() => expect(process.stdout).toMatch(/"reason":"Redis at [^"]* refuses us \(WRONGPASS\)/));
  await eventually(async () => {
    const response = await fetch(`http://127.0.0.1:${stand.gateways[0]!.adminPort}/readyz`);
    expect(JSON.stringify(await response.json())).toContain('Redis refuses us (WRONGPASS)');
  });
  // The client's error carries the command that was refused, and with it the password.
  expect(process.stdout).not.toContain('"before"');
  await redisCommand(after, 'CONFIG', 'SET', 'requirepass', 'before');
  await stand.until('present');
  await expectCounted(stand, id, admitted);
  expect(statusesOf(await stand.ask(banned, 2))).toEqual([429]);
  await expectExpiries(stand);
});
