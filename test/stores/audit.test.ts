import { describe, expect, test } from 'vitest';
import { EmbeddedAudit } from '../../src/stores/embedded/audit.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { RedisAudit } from '../../src/stores/redis/audit.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { auditStoreContract } from '../contracts/audit-store.ts';
import { atEnd } from '../support/endings.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

const KEEP = { number: null, keep: 1_000, isLasting: true };

function auditIn(folder: string, wallMs = () => Date.now()) {
  const db = openDatabase(folder);
  atEnd(() => db.close());
  return new EmbeddedAudit({ db, wallMs });
}

describe('the record of changes in the embedded store', () => {
  auditStoreContract(async () => {
    const folder = await temporaryFolder();
    return { here: auditIn(folder), there: auditIn(folder) };
  });

  test('gives each record the time of the clock, also after one that was written while the clock was ahead', async () => {
    let nowMs = 1_000;
    const audit = auditIn(await temporaryFolder(), () => nowMs);
    await audit.put({ id: 'a', revision: 1, text: '' }, KEEP);
    nowMs = 10;
    await audit.put({ id: 'b', revision: 1, text: '' }, KEEP);
    expect((await audit.list({ limit: 2, before: null })).map(({ atMs }) => atMs)).toEqual([10, 1_000]);
  });
});

describe('the record of changes in Redis', () => {
  auditStoreContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const [here, there] = await Promise.all([gatewayOn(url), gatewayOn(url)]);
    return { here: here.audit, there: there.audit };
  });

  test('gives each record the time of the clock, also after one that was written while the clock was ahead', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { audit } = await gatewayOn(url);
    const aheadMs = Date.now() + 86_400_000;
    await redisCommand(
      url,
      'HSET',
      keyspace.audit,
      '1',
      `ahead ${aheadMs} 1 {}`,
      'first',
      '1',
      'last',
      '1',
      'at',
      `${aheadMs}`,
    );
    await audit.put({ id: 'a', revision: 1, text: '' }, KEEP);
    const [latest] = await audit.list({ limit: 2, before: null });
    expect(latest).toMatchObject({ number: 2, id: 'a' });
    expect(latest!.atMs).toBeLessThan(aheadMs - 3_600_000);
  });

  test('fails alone where something else stands in its place: the store is not taken for away', async () => {
    const { url } = await testRedis();
    const { audit, circuit } = await gatewayOn(url);
    await redisCommand(url, 'SET', keyspace.audit, 'foreign');
    for (let i = 0; i < 4; i++) {
      await expect(audit.put({ id: 'a', revision: 1, text: '' }, KEEP)).rejects.toMatchObject({
        code: 'store_corrupt',
      });
      await expect(audit.list({ limit: 1, before: null })).rejects.toMatchObject({ code: 'store_corrupt' });
    }
    expect(circuit.state).toBe('present');
    await redisCommand(url, 'DEL', keyspace.audit);
  });

  test.each([
    ['last', null],
    ['last', ''],
    ['last', '-5'],
    ['last', '1'],
    ['last', '1.5'],
    ['last', '9007199254740000'],
    ['last', '99999999999999999999'],
    ['first', null],
    ['first', '-5'],
    ['first', '1.5'],
    ['first', '3'],
    ['first', '99999999999999999999'],
  ])('has all records, and replaces none, although its field %s is now %j (reliability 404)', async (field, value) => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { audit } = await gatewayOn(url);
    for (const id of ['a', 'b', 'c']) await audit.put({ id, revision: 1, text: id }, KEEP);
    if (value === null) await redisCommand(url, 'HDEL', keyspace.audit, field);
    else await redisCommand(url, 'HSET', keyspace.audit, field, value);
    const texts = async () => (await audit.list({ limit: 9, before: null })).map(({ text }) => text);
    expect(await texts()).toEqual(['c', 'b', 'a']);
    expect(await audit.put({ id: 'd', revision: 1, text: 'd' }, KEEP)).toBe(4);
    expect(await texts()).toEqual(['d', 'c', 'b', 'a']);
    expect(await redisCommand(url, 'HMGET', keyspace.audit, 'first', 'last')).toEqual(['1', '4']);
  });

  test.each([null, 'garbage'])(
    'numbers the next state of a file after all others although the last one is now %j (reliability 404)',
    async (value) => {
      const { url } = await testRedis();
      await redisCommand(url, 'FLUSHDB');
      const { audit } = await gatewayOn(url);
      for (const to of ['A', 'B', 'C']) await audit.exchangeLoad('plans', { from: null, to, since: null });
      if (value === null) await redisCommand(url, 'HDEL', keyspace.auditLoads, 'plans');
      else await redisCommand(url, 'HSET', keyspace.auditLoads, 'plans', value);
      const step = { from: 'C', to: 'D', since: null };
      expect(await audit.exchangeLoad('plans', step)).toEqual({ found: 'C', number: 4, known: null });
    },
  );

  test('is read to its end beside a record with a number far above all others (reliability 404)', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { audit } = await gatewayOn(url);
    await audit.put({ id: 'a', revision: 1, text: 'a' }, KEEP);
    await redisCommand(url, 'HSET', keyspace.audit, '90000000000000', 'foreign', 'last', '90000000000000');
    await audit.put({ id: 'b', revision: 1, text: 'b' }, KEEP);
    const found = await audit.list({ limit: 9, before: null });
    expect(found.map(({ text }) => text)).toEqual(['b', 'foreign', 'a']);
    expect((await audit.list({ limit: 9, before: 90_000_000_000_000 })).map(({ text }) => text)).toEqual(['a']);
  });

  test('has again what a failover has undone, with the text that it had last', async () => {
    const server = await privateRedis();
    const { redis, circuit } = await gatewayOn(server.url);
    const made: { remake: (linkOf: never) => Promise<string> }[] = [];
    // As while a replica is away: no write becomes durable.
    const writes = {
      secure: async (write: never) => {
        made.push(write);
        return { kind: 'unknown', final: new Promise(() => {}) };
      },
    };
    const audit = new RedisAudit({ redis, circuit, writes: writes as never });
    const number = await audit.put({ id: 'a', revision: 1, text: 'begun' }, KEEP);
    await audit.put({ id: 'a', revision: 2, text: 'done' }, { ...KEEP, number });
    const linkOf = (async () => redis) as never;
    for (const write of made) expect(await write.remake(linkOf)).toBe('there');
    expect((await audit.list({ limit: 9, before: null })).map(({ text }) => text)).toEqual(['done']);
    // The new primary has never seen it, and has given its number to another record.
    await redisCommand(server.url, 'FLUSHALL');
    await audit.put({ id: 'other', revision: 1, text: 'other' }, KEEP);
    for (const write of made.slice(0, 2)) expect(await write.remake(linkOf)).toBe('remade');
    for (const write of made.slice(0, 2)) expect(await write.remake(linkOf)).toBe('there');
    expect((await audit.list({ limit: 9, before: null })).map(({ text }) => text)).toEqual(['done', 'other']);
  });
});
