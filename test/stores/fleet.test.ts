import { describe, expect, test } from 'vitest';
import { EmbeddedFleet } from '../../src/stores/embedded/fleet.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { fleetStoreContract } from '../contracts/fleet-store.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { gatewayOn } from './redis-connections.ts';

const SILENT = { report: null, readsReports: true, questions: new Map(), answers: [], ends: new Map() };

describe('the messages of gateways in the embedded store', () => {
  fleetStoreContract(async () => {
    const fleet = new EmbeddedFleet({ wallMs: () => Date.now() });
    return { here: fleet, there: fleet };
  });

  test('a report is not shown after 10 s, and a question is forgotten after 5 s', async () => {
    let nowMs = 1_000_000;
    const fleet = new EmbeddedFleet({ wallMs: () => nowMs });
    await fleet.exchange({ ...SILENT, id: 'a', report: 'r', questions: new Map([['a 1', 'q']]) });
    nowMs += 5_000;
    expect((await fleet.exchange({ ...SILENT, id: 'b' })).questions.size).toBe(1);
    nowMs += 1;
    const { questions, reports } = await fleet.exchange({ ...SILENT, id: 'b' });
    expect([questions.size, reports.length]).toEqual([0, 1]);
    nowMs += 5_000;
    expect((await fleet.exchange({ ...SILENT, id: 'b' })).reports).toEqual([]);
  });
});

describe('the messages of gateways in Redis', () => {
  const { seen, reports: reportsOf, questions: questionsOf } = keyspace.fleet;

  fleetStoreContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const [here, there] = await Promise.all([gatewayOn(url), gatewayOn(url)]);
    return { here: here.fleet, there: there.fleet };
  });

  test('a report is not shown after 10 s and removed after 60 s, and a question is forgotten after 5 s', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { fleet } = await gatewayOn(url);
    const nowMs = Date.now();
    for (const [id, ageMs] of [
      ['old', 61_000],
      ['late', 11_000],
      ['fresh', 1_000],
      ['ahead', -120_000],
    ] as const) {
      await redisCommand(url, 'ZADD', seen, String(nowMs - ageMs), id);
      await redisCommand(url, 'HSET', reportsOf, id, 'r');
      await redisCommand(url, 'HSET', questionsOf, `${id} 1`, `${nowMs - ageMs} q`);
    }
    const { reports, questions } = await fleet.exchange({ ...SILENT, id: 'b' });
    expect([reports.map(({ id }) => id), [...questions.keys()]]).toEqual([['fresh'], ['fresh 1']]);
    expect(await redisCommand(url, 'HKEYS', reportsOf)).toEqual(['late', 'fresh']);
    expect(await redisCommand(url, 'HKEYS', questionsOf)).toEqual(['fresh 1']);
  });

  test('every name has an end', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { fleet } = await gatewayOn(url);
    const ends = new Map([['Jo', 0]]);
    const answers = [{ to: 'c', text: 'x' }];
    await fleet.exchange({ ...SILENT, id: 'b', report: 'r', questions: new Map([['b 1', 'q']]), answers, ends });
    await fleet.leavePart('c 1 b 0', new Uint8Array(3));
    const names = (await redisCommand(url, 'KEYS', '*')) as string[];
    expect(names).toHaveLength(6);
    for (const name of names)
      expect([name, Number(await redisCommand(url, 'PTTL', name))]).toEqual([name, expect.any(Number)]);
    for (const name of names) expect(Number(await redisCommand(url, 'PTTL', name))).toBeGreaterThan(0);
  });

  test('go on if the ends of sessions are no times or far ahead: those are removed, and hide no later end (reliability 166)', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { fleet } = await gatewayOn(url);
    const odd = { Jo: 'soon', Ann: String(Date.now() + 3_600_000), Max: 'nan', Kim: 'inf', Lee: '', Bo: '1e300' };
    for (const [name, value] of Object.entries(odd)) await redisCommand(url, 'HSET', keyspace.fleet.ends, name, value);
    const { nowMs, ends } = await fleet.exchange({
      ...SILENT,
      id: 'a',
      ends: new Map([
        ['Ann', 0],
        ['Max', 0],
      ]),
    });
    expect(ends).toEqual(
      new Map([
        ['Ann', nowMs],
        ['Max', nowMs],
      ]),
    );
    expect(((await redisCommand(url, 'HKEYS', keyspace.fleet.ends)) as string[]).sort()).toEqual(['Ann', 'Max']);
  });

  test('fail alone if something else has one of the names: the store does not count as away', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { fleet, circuit } = await gatewayOn(url);
    await redisCommand(url, 'SET', questionsOf, 'foreign');
    for (let i = 0; i < 4; i++) {
      await expect(fleet.exchange({ ...SILENT, id: 'a' })).rejects.toMatchObject({ code: 'store_corrupt' });
    }
    expect(circuit.state).toBe('present');
    await redisCommand(url, 'DEL', questionsOf);
  });
});
