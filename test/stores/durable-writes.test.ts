import { hash } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Durability, type FinalDurability, type MadeOnce, topUpIdOf } from '../../src/admit/ledger.ts';
import type { WindowLimit } from '../../src/admit/windows.ts';
import type { StoredKey } from '../../src/model/record.ts';
import { deleted, edited, revoked, rotated } from '../../src/operations/key-changes.ts';
import type { RedisClient } from '../../src/stores/redis/connection.ts';
import {
  DurableWrites,
  type DurableWritesOptions,
  type LastingWrite,
  type LostChanges,
  type WriteKind,
} from '../../src/stores/redis/durable-writes.ts';
import { madeAgain } from '../../src/stores/redis/key-writes.ts';
import { RedisKeys } from '../../src/stores/redis/keys.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { type ReplicaLink, Replication } from '../../src/stores/redis/replication.ts';
import { someKey } from '../identify/some-key.ts';
import { allowance } from '../support/allowance.ts';
import { busyFor } from '../support/busy-for.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { type PrivateRedis, privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { asOperator } from '../support/redis-user.ts';
import { gatewayOn } from './redis-connections.ts';

let primary: PrivateRedis;
let replica: PrivateRedis;
beforeAll(async () => {
  primary = await privateRedis({ asProcess: true });
  const follows = ['--replicaof', `127.0.0.1 ${primary.port}`, '--repl-diskless-sync-delay', '0'];
  replica = await privateRedis({ asProcess: true, configArgs: follows });
  const isFollowing = async () => /state=online/.test(String(await redisCommand(primary.url, 'INFO', 'replication')));
  await eventually(isFollowing, { withinMs: 15_000 });
});

const on = (command: string, ...args: (string | number)[]) => redisCommand(primary.url, command, ...args);
/** A record as it stood, before a change that a failover then undoes. */
const recordOf = async (id: string) => String(await on('GET', keyspace.apiKey(id)));
/** The connections of the gateways of a test that has a failover. */
const connections = new Set<RedisClient>();
const gatewayOnPrimary = async (durableWithinMs = 2_000) => {
  const gateway = await gatewayOn(primary.url, { durableWithinMs });
  connections.add(gateway.redis);
  return gateway;
};
/**
 * As a failover leaves it: the record of before, or what others have made of it since, and no note of the change. It ends every
 * connection at the same moment, so that no half of a round sees the store before it and the other half the store after it.
 */
const undo = async (id: string, record: string | StoredKey | null) => {
  const operator = new Redis(asOperator(primary.url));
  const areBack = [...connections].map((redis) => once(redis, 'ready'));
  const name = keyspace.apiKey(id);
  const text = typeof record === 'string' ? record : JSON.stringify(record);
  const undone = operator.multi().call('CLIENT', 'KILL', 'TYPE', 'normal').del(keyspace.changesTo(id));
  const replies = await (record === null ? undone.del(name) : undone.set(name, text)).exec();
  operator.disconnect();
  expect(replies!.map(([error]) => error)).toEqual([null, null, null]);
  await Promise.all(areBack);
};
const waits = async () => Number(/cmdstat_wait:calls=(\d+)/.exec(String(await on('INFO', 'commandstats')))?.[1] ?? 0);
const finalOf = (durability: Durability) => (durability.kind === 'durable' ? 'durable' : durability.final);

describe('a change that the replica has', () => {
  test('is durable', async () => {
    const { keys } = await gatewayOn(primary.url);
    const { key } = someKey();
    expect(await keys.create(key)).toEqual({ kind: 'durable' });
    expect(await redisCommand(replica.url, 'GET', keyspace.apiKey(key.id))).toBe(JSON.stringify(key));
    expect(await keys.update(key.id, (before) => revoked(before, 5))).toMatchObject({
      durability: { kind: 'durable' },
    });
    expect(String(await redisCommand(replica.url, 'GET', keyspace.apiKey(key.id)))).toContain('"revokedAtMs":5');
  });

  test('is durable although this thread stalls for longer than it may take, in each turn (reliability 435)', async () => {
    const { keys } = await gatewayOn(primary.url, { durableWithinMs: 200 });
    const made = keys.create(someKey().key);
    let isOver = false;
    made.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await new Promise(setImmediate);
      busyFor(250);
    }
    expect(await made).toEqual({ kind: 'durable' });
  });

  test('is waited for together with those that come at the same time', async () => {
    const { keys } = await gatewayOn(primary.url);
    const many = Array.from({ length: 200 }, () => someKey().key);
    const before = await waits();
    expect(new Set(await keys.createEach(many))).toEqual(new Set(['created']));
    expect((await waits()) - before).toBeLessThan(20);
  });
});

describe('a change that no replica has acknowledged', () => {
  beforeEach(async () => {
    connections.clear();
    await replica.pause();
    atEnd(() => replica.resume());
  });
  const gateway = () => gatewayOnPrimary(100);
  /** A key from before; the change that is made to it while the replica stands still. */
  const changed = async (change: (key: StoredKey) => StoredKey, key = someKey().key) => {
    await replica.resume();
    const { keys } = await gatewayOnPrimary();
    expect(await keys.create(key)).toEqual({ kind: 'durable' });
    await replica.pause();
    const maker = await gateway();
    const { durability } = (await maker.keys.update(key.id, change))!;
    expect(durability.kind).toBe('unknown');
    return { key, keys, maker, durability };
  };
  const secured = async (durability: Durability) => {
    // A failover ends the connection on which WAIT waits; here the round that was under way has to end by itself.
    const before = await waits();
    const isNextRound = eventually(async () => (await waits()) >= before + 2);
    await Promise.race([finalOf(durability), isNextRound]);
    await replica.resume();
    return finalOf(durability);
  };

  test('is made and unknown, and durable as soon as the replica has it', async () => {
    const { keys, key, durability } = await changed((before) => revoked(before, 5));
    expect((await keys.get(key.id))!.revokedAtMs).toBe(5);
    expect(await secured(durability)).toBe('durable');
  });

  test('is not recorded as done before the replica has the record; what was not made waits for nothing', async () => {
    const { audit } = await gatewayOn(primary.url, { durableWithinMs: 60_000 });
    const record = (id: string, revision = 1) => ({ id, revision, text: '{}' });
    const number = await audit.put(record('a'), { number: null, keep: 9, isLasting: false });
    let isAcknowledged = false;
    const done = audit.put(record('a', 2), { number, keep: 9, isLasting: true }).then(() => {
      isAcknowledged = true;
    });
    await audit.put(record('b'), { number: null, keep: 9, isLasting: false });
    expect(isAcknowledged).toBe(false);
    await replica.resume();
    await done;
    expect(await redisCommand(replica.url, 'HGET', keyspace.audit, number)).toMatch(/^a \d+ 2 /);
  });

  test('is made again where a failover has undone it, and every gateway is told (reliability 155)', async () => {
    const { keys, key, maker, durability } = await changed((before) => revoked(before, 5));
    const told: (string | null)[] = [];
    maker.changes.subscribe(({ keyId }) => told.push(keyId));
    await eventually(() => told.length > 0);
    told.length = 0;
    await undo(key.id, key);
    expect(await secured(durability)).toBe('durable');
    expect((await keys.get(key.id))!.revokedAtMs).toBe(5);
    await eventually(() => expect(told).toContain(key.id));
  });

  test('is made again however many changes are refused meanwhile (reliability 232)', async () => {
    const { keys, key, maker, durability } = await changed((before) => revoked(before, 5));
    const records = Array.from({ length: 1_100 }, (_, i) => ({ id: `refused ${i}`, revision: 1, text: '{}' }));
    const options = { number: null, keep: 9, isLasting: false };
    await Promise.all(records.map((record) => maker.audit.put(record, options)));
    await undo(key.id, key);
    expect(await secured(durability)).toBe('durable');
    expect((await keys.get(key.id))!.revokedAtMs).toBe(5);
  });

  test('is kept however often it is asked for, and displaces no other (reliability 232)', async () => {
    const { keys, key, maker, durability } = await changed((before) => ({ ...before, plan: 'business' }));
    const again = async () =>
      (await maker.keys.update(key.id, (before) => ({ ...before, plan: 'business' })))!.durability;
    const answers = await Promise.all(Array.from({ length: 1_100 }, again));
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['unknown']));
    await undo(key.id, key);
    expect(await secured(durability)).toBe('durable');
    expect((await keys.get(key.id))!.plan).toBe('business');
  });

  test('is not made again over a later change that took it back', async () => {
    const { keys, key, maker, durability } = await changed((before) => ({ ...before, plan: 'business' }));
    // By another gateway, which does not make it again.
    const writes = new DurableWrites({ redis: maker.redis, replicas: 0, timeoutMs: 100 });
    const other = new RedisKeys({ ...maker, publish: async () => {}, writes });
    await other.update(key.id, (before) => ({ ...before, plan: key.plan }));
    // The record is now as it was before both, to the letter.
    expect(await recordOf(key.id)).toBe(JSON.stringify(key));
    expect(await secured(durability)).toBe('durable');
    expect((await keys.get(key.id))!.plan).toBe(key.plan);
  });

  test('is made again beside what others have changed after the failover', async () => {
    const { keys, key, durability } = await changed((before) => revoked({ ...before, name: 'ours' }, 5));
    await undo(key.id, { ...key, plan: 'free', name: 'theirs' });
    expect(await secured(durability)).toBe('durable');
    expect(await keys.get(key.id)).toEqual({ ...key, plan: 'free', name: 'theirs', revokedAtMs: 5 });
  });

  test('is superseded where others have decided the same thing differently after the failover', async () => {
    const { keys, key, durability } = await changed((before) => ({ ...before, plan: 'business' }));
    await undo(key.id, { ...key, plan: 'free' });
    expect(await secured(durability)).toBe('superseded');
    expect((await keys.get(key.id))!.plan).toBe('free');
  });

  test('a new secret can be found again, and the old one ends as it should', async () => {
    const fresh = someKey();
    const { keys, key, durability } = await changed((before) =>
      rotated(before, fresh.key.secrets[0]!, 60_000, Date.now()),
    );
    await undo(key.id, key);
    await on('DEL', keyspace.digest(fresh.digest));
    expect(await secured(durability)).toBe('durable');
    const found = (await keys.findByDigest(fresh.digest))!;
    expect(found.secrets.map(({ digest }) => digest)).toEqual([fresh.digest, key.secrets[0]!.digest]);
    expect(found.secrets[1]!.expiresAtMs).not.toBeNull();
  });

  test('two changes to one key are made again in their order', async () => {
    const { keys, key, maker, durability } = await changed((before) => ({ ...before, plan: 'business' }));
    const second = (await maker.keys.update(key.id, (before) => ({ ...before, plan: 'free' })))!;
    await undo(key.id, key);
    expect(await secured(second.durability)).toBe('durable');
    expect(await secured(durability)).toBe('durable');
    expect((await keys.get(key.id))!.plan).toBe('free');
  });

  test('two changes to one key are made again in their order, although a failover comes between them (reliability 155)', async () => {
    let isBetween = async () => {};
    /** Does something after it has looked for a change, and before it looks for the next one. */
    class Interrupted extends DurableWrites {
      override secure(write: LastingWrite) {
        const remake: LastingWrite['remake'] = async (linkOf) => {
          const outcome = await write.remake(linkOf);
          await isBetween();
          return outcome;
        };
        return super.secure({ about: write.about, kind: write.kind, remake });
      }
    }
    const { key, keys, maker } = await changed((before) => before);
    const writes = new Interrupted({ redis: maker.redis, replicas: 'all', timeoutMs: 100 });
    atEnd(() => writes.close());
    const changing = new RedisKeys({ ...maker, publish: async () => {}, writes });
    const made = async (plan: string) => (await changing.update(key.id, (before) => ({ ...before, plan })))!.durability;
    const [first, second] = [await made('business'), await made('free')];
    const outcomes = await new Promise<FinalDurability[]>((resolve) => {
      isBetween = async () => {
        isBetween = async () => {};
        await undo(key.id, key);
        await replica.resume();
        resolve(Promise.all([finalOf(first), finalOf(second)]));
      };
    });
    expect(outcomes).toEqual(['durable', 'durable']);
    expect((await keys.get(key.id))!.plan).toBe('free');
  });

  test('a key that was created is there again, with its secret and in the list', async () => {
    const { keys } = await gateway();
    const { key, digest } = someKey();
    const durability = await keys.create(key);
    expect(durability.kind).toBe('unknown');
    await undo(key.id, null);
    await on('DEL', keyspace.digest(digest));
    await on('ZREM', keyspace.apiKeys, key.id);
    expect(await secured(durability)).toBe('durable');
    expect(await keys.findByDigest(digest)).toEqual(key);
    expect(await on('ZSCORE', keyspace.apiKeys, key.id)).not.toBeNull();
  });

  test('a revocation of a key whose creation was undone as well leaves a revoked key', async () => {
    const { keys, key, durability } = await changed((before) => revoked(before, 5));
    await undo(key.id, null);
    expect(await secured(durability)).toBe('durable');
    expect((await keys.get(key.id))!.revokedAtMs).toBe(5);
  });

  test('a deletion is made again over whatever the key is meanwhile, and takes it from the list again', async () => {
    await replica.resume();
    const { keys } = await gatewayOnPrimary();
    const { key, digest } = someKey({ revokedAtMs: 1, name: 'n' });
    await keys.create(key);
    const record = JSON.parse(await recordOf(key.id));
    await replica.pause();
    const { durability } = (await (await gateway()).keys.delete(key.id, (before) => deleted(before, 9)))!;
    expect(durability.kind).toBe('unknown');
    await undo(key.id, { ...record, owner: 'changed meanwhile' });
    await on('ZADD', keyspace.apiKeys, key.createdAtMs, key.id);
    await on('DEL', keyspace.digest(digest));
    expect(await secured(durability)).toBe('durable');
    expect(await keys.get(key.id, { evenDeleted: true })).toMatchObject({ deletedAtMs: 9, name: null, owner: null });
    expect(await on('ZSCORE', keyspace.apiKeys, key.id)).toBeNull();
    expect(await on('GET', keyspace.digest(digest))).toBe(key.id);
  });

  test('a ban that came back is lifted again, and a later one stays', async () => {
    const maker = await gateway();
    const ledger = new RedisLedger({ ...maker, publish: async () => {} });
    const operator = new Redis(asOperator(primary.url));
    atEnd(() => operator.disconnect());
    const strict = allowance({ day: 1 }, { after: 1, firstMs: 600_000 });
    const lifted = async (consumerId: string, meanwhile: (account: Buffer) => Promise<unknown>) => {
      await ledger.decide([{ consumerId, allowance: strict, cost: 1, n: 3 }]);
      const account = (await operator.dumpBuffer(keyspace.account(consumerId)))!;
      const durability = (await ledger.lift(consumerId))!;
      expect(durability.kind).toBe('unknown');
      await meanwhile(account);
      await on('DEL', keyspace.changesTo(consumerId));
      return durability;
    };
    const restore = (name: string) => (account: Buffer) =>
      redisCommand(primary.url, 'RESTORE', keyspace.account(name), 0, account, 'REPLACE');
    const again = await lifted('again', restore('again'));
    const later = await lifted('later', async (account) => {
      await restore('later')(account);
      await on('HINCRBY', keyspace.account('later'), 'B', 1);
    });
    expect([await secured(again), await secured(later)]).toEqual(['durable', 'durable']);
    expect((await ledger.bans()).map(({ consumerId }) => consumerId)).toEqual(['later']);
  });

  test('a top-up, its undoing and a reset that were lost are made again, once and for the same window (reliability 155)', async () => {
    const maker = await gateway();
    const told: (string | null)[] = [];
    const ledger = new RedisLedger({ ...maker, publish: async ({ keyId }) => void told.push(keyId) });
    const operator = new Redis(asOperator(primary.url));
    atEnd(() => operator.disconnect());
    const plan = allowance({ second: 1, day: 5 }, null);
    const [second, day] = plan.limits as [WindowLimit, WindowLimit];
    /** Makes a change, and then restores what the account was before it, as a failover does. */
    const lost = async (consumerId: string, change: () => Promise<MadeOnce<unknown>>, id = 'one') => {
      await ledger.decide([{ consumerId, allowance: plan, cost: 1, n: 1 }]);
      const account = (await operator.dumpBuffer(keyspace.account(consumerId)))!;
      const made = await change();
      if (made.kind !== 'made') throw new Error(made.kind);
      expect(made.durability.kind).toBe('unknown');
      await redisCommand(primary.url, 'RESTORE', keyspace.account(consumerId), 0, account, 'REPLACE');
      await on('DEL', keyspace.madeOnce(consumerId, hash('sha256', id, 'base64url')));
      return made.durability;
    };
    const all = [
      await lost('day', () => ledger.topUp('day', day, 4, 'one')),
      await lost('reset', () => ledger.resetUsage('reset', ['day'], 'one')),
    ];
    await ledger.topUp('undone', day, 4, 'one');
    all.push(await lost('undone', () => ledger.undoTopUp('undone', 'day', topUpIdOf('one'), 'two'), 'two'));
    // A window of a second, lost after its end, when the next one has opened.
    const late = await ledger.topUp('late', second, 4, 'one');
    await eventually(async () => (await ledger.present('late', plan))?.accounts[0].topUps === undefined, {
      withinMs: 3_000,
    });
    await ledger.decide([{ consumerId: 'late', allowance: allowance({ second: 9, minute: 9 }), cost: 1, n: 1 }]);
    const topUps = await on('HGET', keyspace.account('late'), 't');
    await on('DEL', ...((await operator.keys(keyspace.madeOnce('late', '*'))) as [string]));
    const durabilities = [...all, late.kind === 'made' ? late.durability : null].filter((one) => one !== null);
    expect(await Promise.all(durabilities.map(secured))).toEqual(Array(4).fill('durable'));
    expect(await on('HGET', keyspace.account('late'), 't')).toBe(topUps);
    expect(told.filter((id) => id === 'day')).toHaveLength(2);
    expect((await ledger.present('day', plan))?.accounts[0]).toMatchObject({ topUps: { day: { amount: 4 } } });
    expect((await ledger.present('undone', plan))?.accounts[0].topUps).toBeUndefined();
    expect((await ledger.present('reset', plan))?.accounts[0]).toMatchObject({ windows: { day: { used: 0 } } });
    expect(await ledger.topUp('day', day, 4, 'one')).toEqual({ kind: 'repeated', durability: { kind: 'durable' } });
  });

  test('is given up if no server can be asked for too long, unless it is a revocation; and so is the oldest of too many of its kind', async () => {
    const redis = new Redis(primary.url);
    atEnd(() => redis.disconnect());
    const write = (about: string, kind: WriteKind = 'change') => ({
      about,
      kind,
      remake: async (linkOf: (name: string) => Promise<ReplicaLink>) => {
        await (await linkOf(about)).set(`tg:test:${about}`, 1, 'PX', 5_000);
        return 'there' as const;
      },
    });
    const open = (options: Partial<DurableWritesOptions>) => {
      const writes = new DurableWrites({ redis, replicas: 'all', timeoutMs: 50, ...options });
      atEnd(() => writes.close());
      return writes;
    };
    const unseen = (kind: WriteKind) => ({ ...write('a', kind), remake: () => Promise.reject(new Error('away')) });
    const short = open({ keptUnseenMs: 200 });
    const [change, revocation] = [short.secure(unseen('change')), short.secure(unseen('revocation'))];
    expect(await finalOf(await change)).toBe('given_up');
    const isKept = Promise.race([finalOf(await revocation), Promise.resolve('kept')]);
    expect(await isKept).toBe('kept');
    const full = open({});
    const first = full.secure(write('first', 'revocation'));
    const all = Array.from({ length: 1_001 }, (_, i) => full.secure(write(String(i))));
    const records = Array.from({ length: 1_001 }, (_, i) => full.secure(write(`record ${i}`, 'record')));
    expect(await Promise.all([all[0]!, records[0]!].map(async (one) => finalOf(await one)))).toEqual([
      'given_up',
      'given_up',
    ]);
    const others = [first, all[1]!, records[1]!].map(async (one) => finalOf(await one));
    expect(await Promise.race([...others, Promise.resolve('kept')])).toBe('kept');
    full.close();
    expect(await Promise.all(others)).toEqual(['given_up', 'given_up', 'given_up']);
  });

  test('waits for no more replicas than the settings say', async () => {
    const redis = new Redis(primary.url);
    atEnd(() => redis.disconnect());
    await redis.ping();
    const isDurable = async (wanted: 'all' | number) => {
      const replication = new Replication({ client: redis, wanted });
      atEnd(() => replication.drop());
      const link = await replication.of('x');
      await link.set('tg:test:x', 1, 'PX', 5_000);
      return replication.round(50).isAcknowledged(link);
    };
    expect([await isDurable('all'), await isDurable(1), await isDurable(0)]).toEqual([false, false, true]);
  });
});

describe('a server by itself', () => {
  test('has a change for good as soon as it has it', async () => {
    const { keys } = await gatewayOn((await testRedis()).url, { durableWithinMs: 60_000 });
    expect(await keys.create(someKey().key)).toEqual({ kind: 'durable' });
  });

  test('that had a replica not long ago is the old primary of a failover, as far as anybody knows', async () => {
    const old = await privateRedis({ asProcess: true });
    const promoted = await privateRedis({ asProcess: true, configArgs: ['--replicaof', `127.0.0.1 ${old.port}`] });
    const isAlone = async () => /connected_slaves:0/.test(String(await redisCommand(old.url, 'INFO', 'replication')));
    await eventually(async () => !(await isAlone()), { withinMs: 15_000 });
    await redisCommand(promoted.url, 'REPLICAOF', 'NO', 'ONE');
    await eventually(isAlone);
    const { keys } = await gatewayOn(old.url, { durableWithinMs: 200 });
    expect((await keys.create(someKey().key)).kind).toBe('unknown');
  });
});

describe('a store that has lost acknowledged changes (reliability 233)', () => {
  test.each([
    { replicas: 'all' as const, what: 'waits for all replicas' },
    { replicas: 0, what: 'waits for none' },
  ])('is reported once by a gateway that $what, which makes its revocations again', async ({ replicas }) => {
    const server = await privateRedis();
    const losses: LostChanges[] = [];
    const { redis, circuit, changes, keys } = await gatewayOn(server.url);
    const writes = new DurableWrites({ redis, replicas, timeoutMs: 2_000, onLoss: (loss) => losses.push(loss) });
    atEnd(() => writes.close());
    const maker = new RedisKeys({ redis, circuit, publish: (change) => changes.publish(change), writes });
    const { key } = someKey();
    await maker.create(key);
    expect((await maker.update(key.id, (before) => revoked(before, 5)))!.durability.kind).toBe('durable');
    // As a crash leaves it that has lost the revocation.
    const operator = (...words: [string, ...(string | number)[]]) => redisCommand(server.url, ...words);
    const acknowledged = Number(await operator('GET', keyspace.changes));
    await operator('SET', keyspace.apiKey(key.id), JSON.stringify(key));
    await operator('DEL', keyspace.changesTo(key.id));
    await operator('SET', keyspace.changes, 1);
    await eventually(() => expect(losses).toHaveLength(1));
    expect(losses[0]!.count).toBe(1);
    expect(losses[0]!.acknowledged).toBeGreaterThan(1);
    expect(losses[0]!.acknowledged).toBeLessThanOrEqual(acknowledged);
    await eventually(async () => (await keys.get(key.id))!.revokedAtMs === 5);
    // Its own changes raise the number again; what was lost is not reported twice.
    const other = someKey().key;
    await maker.create(other);
    await delay(1_500);
    expect(losses).toHaveLength(1);
    // An operator who empties the store gets back nothing.
    await maker.update(other.id, (before) => revoked(before, 5));
    await redisCommand(asOperator(server.url), 'FLUSHALL');
    await eventually(() => expect(losses).toHaveLength(2));
    await delay(1_000);
    expect(await keys.get(other.id)).toBeNull();
  });
});

describe('WAITAOF', () => {
  const INFO = { replication: 'role:master\r\nconnected_slaves:0\r\n', persistence: 'aof_enabled:1\r\n' };
  /** As Redis 7.2 answers, which the tests need not have. */
  const linkWith = (answer: () => unknown) => {
    const asked: unknown[][] = [];
    const link = {
      info: async (section: keyof typeof INFO) => INFO[section],
      call: async (...words: unknown[]) => {
        asked.push(words);
        return answer();
      },
    };
    return { link: link as unknown as ReplicaLink, asked };
  };
  const replication = async () => {
    const redis = new Redis((await testRedis()).url);
    atEnd(() => redis.disconnect());
    return new Replication({ client: redis, wanted: 'all' });
  };

  test('decides where the server has it and writes an append-only file', async () => {
    const it = await replication();
    const [synced, not] = [linkWith(() => [1, 0]), linkWith(() => [0, 0])];
    expect(await it.round(500).isAcknowledged(synced.link)).toBe(true);
    expect(synced.asked).toEqual([['WAITAOF', 1, 0, expect.any(Number)]]);
    expect(await it.round(500).isAcknowledged(not.link)).toBe(false);
  });

  test('is done without where the server does not know it, and asked for once', async () => {
    const it = await replication();
    const { link, asked } = linkWith(() => {
      throw new Error("ERR unknown command 'WAITAOF', with args beginning with: '1' '0'");
    });
    const ask = () => it.round(500).isAcknowledged(link);
    expect([await ask(), await ask()]).toEqual([true, true]);
    expect(asked).toHaveLength(1);
  });
});

describe('a change made again in a record that was changed otherwise', () => {
  const { key } = someKey({ limits: { minute: 5, day: 9 }, notes: 'old' });
  const suspended = { atMs: 1, untilMs: null };
  const means = { plans: new Map([['pro', { name: 'pro', limits: {} }]]) as never, nowMs: 1 };

  test.each<[what: string, after: StoredKey, there: StoredKey, expected: StoredKey | null]>([
    ['nothing else', { ...key, plan: 'a' }, key, { ...key, plan: 'a' }],
    ['another member', { ...key, plan: 'a' }, { ...key, name: 'n' }, { ...key, plan: 'a', name: 'n' }],
    ['the same member', { ...key, plan: 'a' }, { ...key, plan: 'b' }, null],
    ['the same to the same', { ...key, plan: 'a' }, { ...key, plan: 'a' }, { ...key, plan: 'a' }],
    [
      'another window',
      edited(key, { limits: { minute: 6 } }, means),
      { ...key, limits: { minute: 5, day: 8 } },
      { ...key, limits: { minute: 6, day: 8 } },
    ],
    [
      'a window that was taken away',
      edited(key, { limits: { day: null } }, means),
      key,
      { ...key, limits: { minute: 5 } },
    ],
    ['a revocation before', { ...key, revokedAtMs: 7 }, { ...key, revokedAtMs: 6 }, { ...key, revokedAtMs: 6 }],
    ['a suspension that was undone', { ...key, suspended }, { ...key, plan: 'b' }, { ...key, plan: 'b', suspended }],
    ['a revocation that changed nothing', key, { ...key, revokedAtMs: 6 }, { ...key, revokedAtMs: 6 }],
  ])('by %s', (_, after, there, expected) => {
    expect(madeAgain(key, after, there)).toEqual(expected);
  });

  test('takes away what it took away', () => {
    expect(madeAgain(key, edited(key, { notes: null }, means), { ...key, plan: 'b' })).not.toHaveProperty('notes');
  });

  test('brings no secret back that it has ended', () => {
    const fresh = someKey().key.secrets[0]!;
    const after = rotated(key, { ...fresh, createdAtMs: 1_800_000_000_000 }, 0, 1_800_000_000_000);
    const other = someKey().key.secrets[0]!;
    const there = { ...key, secrets: [other, ...key.secrets] };
    const digests = madeAgain(key, after, there)!.secrets.map(({ digest }) => digest);
    expect(digests).toEqual([fresh.digest, other.digest]);
  });
});
