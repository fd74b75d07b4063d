import { hash } from 'node:crypto';
import { Redis } from 'ioredis';
import { beforeEach, describe, expect, test } from 'vitest';
import { topUpIdOf } from '../../src/admit/ledger.ts';
import type { StoreChange } from '../../src/identify/record-store.ts';
import { Circuit } from '../../src/stores/redis/circuit.ts';
import { DurableWrites } from '../../src/stores/redis/durable-writes.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { ledgerContract } from '../contracts/ledger.ts';
import { someKey } from '../identify/some-key.ts';
import { allowance, withOwn } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';

function ledgerOn(url: string, told: StoreChange[] = [], timeoutMs = 2_000) {
  const redis = new Redis(url);
  const circuit = new Circuit({ timeoutMs, failures: 3, probeEveryMs: 50, probe: () => redis.ping() });
  const writes = new DurableWrites({ redis, replicas: 'all', timeoutMs });
  atEnd(() => {
    writes.close();
    circuit.close();
    redis.disconnect();
  });
  const publish = async (change: StoreChange) => {
    told.push(change);
  };
  return { ledger: new RedisLedger({ redis, circuit, publish, writes }), circuit, redis };
}

describe('the ledger in Redis', () => {
  ledgerContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const told: StoreChange[] = [];
    return { ledger: ledgerOn(url, told).ledger, view: ledgerOn(url).ledger, told };
  });
});

describe('in Redis', () => {
  let url: string;
  beforeEach(async () => {
    ({ url } = await testRedis());
    await redisCommand(url, 'FLUSHDB');
  });
  const command = (...words: (string | number)[]) => redisCommand(url, ...(words as [string]));
  const strict = allowance({ minute: 2, day: 9 }, { after: 2 });
  const wide = allowance({ day: 1_000 });
  const ask = (consumerId: string, n: number, cost = 1) => ({ consumerId, allowance: strict, cost, n });

  test('an account of which units are lent outlives its windows, and one without windows is gone after the lease', async () => {
    const { ledger } = ledgerOn(url);
    for (const [id, lending] of [
      ['short', { ...allowance({ second: 1_000 }), history: 'admitted' as const }],
      ['none', { ...allowance({}), history: 'admitted' as const }],
    ] as const) {
      const asks = { consumerId: id, allowance: lending, cost: 1 };
      const [decision] = await ledger.decide([
        { ...asks, n: 10, leaseTerms: { borrows: { id: 7, units: 50, forMs: 250 } } },
      ]);
      expect(decision?.lent?.units).toBe(50);
      const keptMs = Number(await command('PTTL', `tg:a:{${id}}`));
      const [seconds, microseconds] = ((await command('TIME')) as string[]).map(Number);
      const untilMs = seconds! * 1_000 + Math.ceil(microseconds! / 1_000) + keptMs;
      expect(untilMs).toBeGreaterThanOrEqual(decision!.nowMs + 2_250);
      expect(keptMs).toBeLessThanOrEqual(2_250);
    }
  });

  test('foreign text in the place of leases is none, and costs no time', async () => {
    const { ledger } = ledgerOn(url);
    for (const text of ['9'.repeat(100_000), 'x y z', '1 2', '-1 2 3', `7 1e400 ${'4'.repeat(400)}`]) {
      await command('HSET', 'tg:a:{a}', 'l', text);
      const [decision] = await ledger.decide([{ ...ask('a', 1), allowance: wide }]);
      expect(decision).toMatchObject({ admitted: 1 });
      expect(decision).not.toHaveProperty('mayReturn');
    }
    expect(await ledger.resetUsage('a', ['day'], 'one')).toMatchObject({ kind: 'made', value: { used: { day: 5 } } });
  });

  test('a script that Redis has forgotten is sent again, and what was asked meanwhile counts once each (reliability 105)', async () => {
    const { ledger } = ledgerOn(url);
    for (let round = 1; round <= 3; round++) {
      const decisions = await Promise.all([
        ledger.decide([ask('a', 0)]),
        ledger.decide([{ ...ask('a', 1), allowance: wide }]),
      ]);
      expect(decisions[1]![0]?.accounts[0].windows.day?.used).toBe(round);
      await command('SCRIPT', 'FLUSH');
    }
  });

  test('counts and times are told to the last digit', async () => {
    const { ledger } = ledgerOn(url);
    const most = Number.MAX_SAFE_INTEGER;
    const [decision] = await ledger.decide([
      { consumerId: 'a', allowance: allowance({ day: most }), cost: most - 1, n: 1 },
    ]);
    expect(decision?.admitted).toBe(1);
    expect(decision?.accounts[0].windows.day?.used).toBe(most - 1);
  });

  test.each([
    ['a list', ['RPUSH', 'KEY', 'x']],
    ['a text', ['SET', 'KEY', 'x']],
    ['a word for a count', ['HSET', 'KEY', 'm', 'many', 'M', '1']],
    ['a fraction', ['HSET', 'KEY', 'm', '1.5']],
    ['a negative count', ['HSET', 'KEY', 'd', '-3']],
    ['an infinite end', ['HSET', 'KEY', 'M', 'inf']],
    ['no number for a ban', ['HSET', 'KEY', 'b', 'nan', 'B', '1', 'w', '2']],
    ['a ban that ends in a word', ['HSET', 'KEY', 'b', '1', 'B', 'soon', 'w', '2']],
    ['a ban of a window that there is not', ['HSET', 'KEY', 'b', '1', 'B', '4000000000000', 'w', '9']],
    ['more slices than there are', ['HSET', 'KEY', 'm', `\u00c0${'a'.repeat(50_000)}`, 'M', '1700000000000']],
    ['a cut top-up', ['HSET', 'KEY', 't', '2 5']],
    ['a negative top-up', ['HSET', 'KEY', 't', '2 -5 4000000000000']],
    ['an infinite top-up', ['HSET', 'KEY', 't', '2 1e400 4000000000000']],
    ['a top-up of a window that there is not', ['HSET', 'KEY', 't', '9 5 4000000000000']],
    ['two top-ups of a window', ['HSET', 'KEY', 't', '2 5 4000000000000 2 5 4000000000000']],
    ['a ban of no window', ['HSET', 'KEY', 'b', '1', 'B', '4000000000000']],
  ])(
    '%s in the place of an account fails for that consumer alone, and is left as it is (reliability 111)',
    async (_, words) => {
      const { ledger, circuit } = ledgerOn(url);
      const key = keyspace.account('foreign');
      await command(...words.map((word) => (word === 'KEY' ? key : word)));
      const before = await command('DUMP', key);
      for (let round = 0; round < 4; round++) {
        const decisions = await ledger.decide([ask('before', 1), ask('foreign', 1), ask('after', 5)]);
        expect(decisions.map((decision) => decision?.n ?? null)).toEqual([1, null, 5]);
        expect(await ledger.present('foreign', strict)).toBeNull();
      }
      expect(await ledger.lift('foreign')).toBeNull();
      const inForce = (await ledger.bans()).filter(({ ban }) => ban !== null);
      expect(inForce.map(({ consumerId }) => consumerId).toSorted()).toEqual(['after', 'before']);
      expect(await command('DUMP', key)).toEqual(before);
      expect(circuit.state).toBe('present');
    },
  );

  test('a top-up of an earlier version, which lacks notes, is added to and undone with the others of its window', async () => {
    const { ledger } = ledgerOn(url);
    const plan = allowance({ minute: 5 }, null);
    const { nowMs } = (await ledger.present('a', plan))!;
    const account = keyspace.account('a');
    await command('HSET', account, 't', `2 4 ${nowMs + 50_000} 4 7 ${nowMs + 900_000}`);
    expect(await ledger.topUpNotes('a')).toEqual([]);
    await ledger.topUp('a', plan.limits[0]!, 3, 'one', { reason: 'why' });
    // What an earlier version reads and writes is as it was.
    expect(await command('HGET', account, 't')).toMatch(/^2 7 \d+ 4 7 \d+$/);
    expect(await ledger.topUpNotes('a')).toMatchObject([{ amount: 3, reason: 'why', hasOwnEnd: false }]);
    expect(await ledger.undoTopUp('a', 'minute', null, 'two')).toMatchObject({ value: { amount: 7, left: 0 } });
    expect(await command('HGET', account, 't')).toMatch(/^4 7 \d+$/);
    expect(await command('HGET', account, 'T')).toBeNull();
  });

  test('notes that another program has written are left out, and harm no decision', async () => {
    const { ledger } = ledgerOn(url);
    const plan = allowance({ minute: 5 }, null);
    const { nowMs } = (await ledger.present('a', plan))!;
    const note = `top_1 2 3 ${nowMs + 90_000} 0 ${nowMs} =%`;
    await command('HSET', keyspace.account('a'), 't', `2 3 ${nowMs + 90_000}`, 'T', `9 9 what ${note}`);
    expect(await ledger.topUpNotes('a')).toMatchObject([{ id: 'top_1', amount: 3, reason: '%' }]);
    expect((await ledger.present('a', plan))?.accounts[0].topUps?.minute?.amount).toBe(3);
    expect(await ledger.undoTopUp('a', 'minute', 'top_1', 'two')).toMatchObject({ value: { amount: 3, left: 0 } });
  });

  test('two top-ups with one id, which is free again after a day, are undone together', async () => {
    const { ledger } = ledgerOn(url);
    const plan = allowance({ minute: 5 }, null);
    const once = keyspace.madeOnce('a', hash('sha256', 'one', 'base64url'));
    for (let day = 0; day < 2; day++) {
      await ledger.topUp('a', plan.limits[0]!, 3, 'one');
      await command('DEL', once);
    }
    const undone = await ledger.undoTopUp('a', 'minute', topUpIdOf('one'), 'two');
    expect(undone).toMatchObject({ value: { amount: 6, left: 0 } });
  });

  test('a ban is over in the list at the moment at which it is over for its key', async () => {
    const { ledger } = ledgerOn(url);
    const brief = allowance({ minute: 1 }, { after: 1, firstMs: 20 });
    for (let round = 0; round < 5; round++) {
      const consumerId = `brief${round}`;
      await ledger.decide([{ consumerId, allowance: brief, cost: 1, n: 2 }]);
      await eventually(async () => {
        const nowMs = (await ledger.present(consumerId, brief))!.nowMs;
        return nowMs >= (await ledger.present(consumerId, brief))!.accounts[0].ban!.untilMs;
      });
      expect(await ledger.bans()).toEqual([]);
    }
  });

  test('every account expires, and not before the last thing in it has lost its meaning (reliability 137, 138)', async () => {
    const { ledger } = ledgerOn(url);
    const plans = [
      strict,
      allowance({ second: 3, hour: 5 }, { after: 3, firstMs: 1_000 }),
      allowance({ minute: 4 }, null),
      allowance({ second: 1 }, { after: 1, firstMs: 1, longestMs: 50, forgetMs: 500_000 }),
    ];
    let seed = 20260201;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    for (let round = 0; round < 120; round++) {
      const asks = Array.from({ length: 8 }, () => ({
        consumerId: `r${random(30)}`,
        allowance: plans[random(plans.length)]!,
        cost: 1 + random(3),
        n: random(6),
      }));
      await ledger.decide(asks);
      if (round % 5 === 0) await ledger.lift(`r${random(30)}`);
    }
    const names = (await command('KEYS', keyspace.account('*').replace(/[{}]/g, '?'))) as string[];
    expect(names.length).toBeGreaterThan(10);
    const [seconds] = (await command('TIME')) as [string];
    for (const name of names) {
      const expiresAtMs = Number(await command('PEXPIRETIME', name));
      expect(expiresAtMs).toBeGreaterThan(0);
      expect(expiresAtMs).toBeLessThanOrEqual(Number(seconds) * 1_000 + 86_400_000 * 2 + 5_000);
      const fields = (await command('HGETALL', name)) as string[];
      const value = new Map(fields.flatMap((field, i) => (i % 2 ? [] : [[field, Number(fields[i + 1])]])));
      const ends = ['S', 'M', 'H', 'D', 'X'].map((field) => value.get(field) ?? 0);
      const ladder = (value.get('b') ?? 0) > 0 ? value.get('B')! + 500_000 : 0;
      expect(expiresAtMs).toBeGreaterThanOrEqual(Math.max(...ends, ladder));
    }
  });

  test('an account lives as long as the plan remembers its ban, also if the plan has changed or another program has removed its end', async () => {
    const { ledger } = ledgerOn(url);
    const [seconds] = (await command('TIME')) as [string];
    const nowMs = Number(seconds) * 1_000;
    const lives = async (id: string) => Number(await command('PTTL', keyspace.account(id)));
    // Remembered, under a plan that has just begun to remember bans for an hour.
    const longer = allowance({ second: 5 }, { forgetMs: 3_600_000 });
    await command('HSET', keyspace.account('earlier'), 'b', 2, 'B', nowMs - 10, 'w', 2);
    await command('PEXPIRE', keyspace.account('earlier'), 5_000);
    await ledger.decide([{ consumerId: 'earlier', allowance: longer, cost: 1, n: 1 }]);
    expect(await lives('earlier')).toBeGreaterThan(3_500_000);
    // In force, without an end: a ticket in flight that ended lengthened nothing, and the account was gone.
    const bounded = withOwn(allowance({ second: 5 }), { inFlight: 3 });
    await command(
      'HSET',
      keyspace.account('lasting'),
      'b',
      2,
      'B',
      nowMs + 50_000,
      'w',
      2,
      'f',
      `me 2 ${nowMs + 9_000}`,
    );
    for (let i = 0; i < 2; i++) {
      const [decision] = await ledger.decide([
        { consumerId: 'lasting', allowance: bounded, cost: 1, n: 1, inFlight: [0] },
      ]);
      expect(decision).toMatchObject({ admitted: 0, bannedFrom: 0 });
    }
    expect(await lives('lasting')).toBeGreaterThan(50_000);
  });

  test('an account that has ended whole is gone by itself (reliability 138)', async () => {
    const { ledger } = ledgerOn(url);
    const short = allowance({ second: 1 }, { after: 1, firstMs: 10, longestMs: 10, forgetMs: 10 });
    await ledger.decide([{ consumerId: 'short', allowance: short, cost: 1, n: 2 }]);
    expect(await command('DBSIZE')).toBe(1);
    await eventually(async () => (await command('EXISTS', keyspace.account('short'))) === 0, { withinMs: 3_000 });
  });

  test('an account with two windows, strikes and a ban takes at most 200 bytes (reliability 138)', async () => {
    const { ledger } = ledgerOn(url);
    const { id } = someKey().key;
    const plan = allowance({ minute: 100_000, day: 10_000_000 }, { after: 2 });
    const at = (n: number, cost: number) => ({ consumerId: id, allowance: plan, cost, n });
    await ledger.decide([at(100_000, 1), at(2, 1)]);
    expect((await ledger.present(id, plan))?.accounts[0].ban).not.toBeNull();
    await ledger.lift(id);
    await ledger.decide([at(3, 1)]);
    expect((await ledger.present(id, plan))?.accounts[0]).toMatchObject({ ban: { number: 1 } });
    // As large as it gets: strikes beside the rung of a ban that has ended.
    await command('HSET', keyspace.account(id), 'b', 12, 'B', Date.now() - 1, 'x', 9, 'X', Date.now() + 60_000);
    expect((await ledger.present(id, plan))?.accounts[0]).toMatchObject({ ban: { number: 12 }, strikes: { count: 9 } });
    expect(Number(await command('MEMORY', 'USAGE', keyspace.account(id)))).toBeLessThanOrEqual(200);
  });

  test('an account with a minute and a day in 12 slices each takes at most 200 bytes (reliability 138)', async () => {
    const { ledger, redis } = ledgerOn(url);
    // As large as it gets: one count more than there are slices, and one of them so large that each takes more bytes.
    const SIZES = [
      [12, 60, 1_000, 200],
      [12, 1_000, 60_000, 200],
      [12, 1_000_000, 1_000_000, 240],
      [30, 60, 1_000, 240],
      [30, 60_000, 60_000, 280],
      // Above 64 bytes in one field Redis no longer packs the hash (hash-max-listpack-value).
      [30, 1_000_000, 1_000_000, 720],
    ] as const;
    const bytesOf = async (slices: number, minute: number, day: number) => {
      const { id } = someKey().key;
      const present = Date.now();
      const packed = (limit: number) => {
        const width = Math.ceil(Math.log2(limit + 1) / 8);
        const counts = Buffer.alloc((slices + 1) * width);
        for (let i = 0; i <= slices; i++) counts.writeUIntBE(i === 3 ? limit - slices : 1, i * width, width);
        return Buffer.concat([Buffer.from([128 + slices, 32 * (width - 1)]), counts]);
      };
      const fields = { m: packed(minute), M: present - 60_000, d: packed(day), D: present - 86_400_000 };
      await redis.hset(keyspace.account(id), { ...fields, x: 9, X: present + 60_000 });
      const forms = { minute: { slices }, day: { slices } };
      const decision = await ledger.present(id, allowance({ minute, day }, {}, forms));
      expect(decision?.accounts[0]).toMatchObject({
        windows: { minute: { used: minute }, day: { used: day } },
        strikes: { count: 9 },
      });
      return Number(await command('MEMORY', 'USAGE', keyspace.account(id)));
    };
    for (const [slices, minute, day, most] of SIZES) {
      expect(await bytesOf(slices, minute, day), `${slices} slices, ${minute}, ${day}`).toBeLessThanOrEqual(most);
    }
  });
});

test('a Redis that has forgotten the scripts is given them again', async () => {
  const server = await privateRedis();
  const { ledger, circuit } = ledgerOn(server.url);
  const ask = { consumerId: 'a', allowance: allowance({ minute: 5 }), cost: 1, n: 1 };
  await ledger.decide([ask]);
  await redisCommand(server.url, 'SCRIPT', 'FLUSH');
  const [decision] = await ledger.decide([ask]);
  expect(decision?.accounts[0].windows.minute?.used).toBe(2);
  expect(await ledger.lift('a')).toBeNull();
  expect(circuit.state).toBe('present');
});

test('a Redis that is full refuses without counting anything (reliability 104)', async () => {
  const server = await privateRedis();
  const { ledger, circuit } = ledgerOn(server.url);
  const ask = (consumerId: string) => ({ consumerId, allowance: allowance({ minute: 5 }), cost: 1, n: 1 });
  await ledger.decide([ask('a')]);
  await redisCommand(server.url, 'CONFIG', 'SET', 'maxmemory', '1');
  await expect(ledger.decide([ask('a'), ask('b')])).rejects.toMatchObject({ code: 'store_unavailable' });
  await redisCommand(server.url, 'CONFIG', 'SET', 'maxmemory', '0');
  await eventually(() => circuit.state === 'present');
  const [a, b] = await ledger.decide([
    { ...ask('a'), n: 0 },
    { ...ask('b'), n: 0 },
  ]);
  expect(a?.accounts[0].windows.minute?.used).toBe(1);
  expect(b?.accounts[0].windows.minute).toBeUndefined();
});
