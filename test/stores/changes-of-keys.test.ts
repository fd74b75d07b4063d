import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { Failure } from '../../src/failure.ts';
import type { StoreChange } from '../../src/identify/record-store.ts';
import { EmbeddedChanges } from '../../src/stores/embedded/change-notices.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { someKey } from '../identify/some-key.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

const ANY: StoreChange = { kind: 'any', keyId: null };

describe('changes told through Redis', () => {
  test('come by name, whoever made them, and anything is assumed only at the beginning', async () => {
    const server = await privateRedis();
    const [hearer, teller] = await Promise.all([gatewayOn(server.url), gatewayOn(server.url)]);
    const heard: StoreChange[] = [];
    hearer.changes.subscribe((change) => heard.push(change));
    await eventually(() => expect(heard).toContainEqual(ANY));
    await eventually(async () =>
      expect(await redisCommand(server.url, 'PUBSUB', 'CHANNELS')).toContain('tg:changes:0'),
    );
    // Past the first look at the number of changes, which also assumes anything.
    await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(2));
    heard.length = 0;
    const { key } = someKey();
    await teller.keys.create(key);
    for (let i = 0; i < 200; i++) await teller.changes.publish({ kind: 'account', keyId: `key_${i}` });
    await hearer.keys.update(key.id, (before) => ({ ...before, plan: 'free' }));
    await eventually(() => expect(heard).toHaveLength(202));
    // Two more looks find nothing missing.
    const looks = Number(await pollsOf(server.url));
    await eventually(async () => expect(await pollsOf(server.url)).toBeGreaterThan(looks + 2));
    expect(heard).toHaveLength(202);
    expect(heard[0]).toEqual({ kind: 'key', keyId: key.id });
    expect(heard[100]).toEqual({ kind: 'account', keyId: 'key_99' });
    expect(heard[201]).toEqual({ kind: 'key', keyId: key.id });
  });

  test('say `ban` for a change of an account, as gateways of earlier versions write and read it', async () => {
    const server = await privateRedis();
    const { changes } = await gatewayOn(server.url);
    const heard: StoreChange[] = [];
    const messages: string[] = [];
    const listener = new Redis(server.url);
    atEnd(() => listener.disconnect());
    listener.on('message', (_channel: string, message: string) => messages.push(message));
    await listener.subscribe('tg:changes:0');
    changes.subscribe((change) => heard.push(change));
    await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(2));
    heard.length = 0;
    await changes.publish({ kind: 'account', keyId: 'a' });
    await eventually(() => expect(messages).toEqual(['1 ban a']));
    await redisCommand(server.url, 'PUBLISH', 'tg:changes:0', '2 account a');
    await eventually(() => expect(heard).toEqual([{ kind: 'account', keyId: 'a' }, ANY]));
  });

  test('of another database of the same server are not heard', async () => {
    const server = await privateRedis();
    const [hearer, other] = await Promise.all([gatewayOn(`${server.url}/1`), gatewayOn(`${server.url}/2`)]);
    const heard: StoreChange[] = [];
    hearer.changes.subscribe((change) => heard.push(change));
    await eventually(async () =>
      expect(await redisCommand(server.url, 'PUBSUB', 'CHANNELS')).toContain('tg:changes:1'),
    );
    await other.changes.publish({ kind: 'key', keyId: 'theirs' });
    await hearer.changes.publish({ kind: 'key', keyId: 'ours' });
    await eventually(() => expect(heard).toContainEqual({ kind: 'key', keyId: 'ours' }));
    expect(heard).not.toContainEqual({ kind: 'key', keyId: 'theirs' });
  });

  test('whose message was lost are assumed within a second', async () => {
    const server = await privateRedis();
    const { changes } = await gatewayOn(server.url);
    const heard: StoreChange[] = [];
    changes.subscribe((change) => heard.push(change));
    await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(2));
    heard.length = 0;
    await redisCommand(server.url, 'INCR', 'tg:changes');
    await eventually(() => expect(heard).toContainEqual(ANY), { withinMs: 1_000 });
  });

  test('are assumed within a second when Redis has lost its memory (reliability 110)', async () => {
    const server = await privateRedis();
    const { changes } = await gatewayOn(server.url);
    await changes.publish({ kind: 'key', keyId: 'a' });
    const heard: StoreChange[] = [];
    changes.subscribe((change) => heard.push(change));
    await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(2));
    heard.length = 0;
    await redisCommand(server.url, 'FLUSHALL');
    await eventually(() => expect(heard).toContainEqual(ANY), { withinMs: 1_000 });
  });

  test('by a stranger who writes nonsense into the channel are assumed, not believed', async () => {
    const server = await privateRedis();
    const { changes } = await gatewayOn(server.url);
    const heard: StoreChange[] = [];
    changes.subscribe((change) => heard.push(change));
    await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(2));
    heard.length = 0;
    for (const message of ['', 'x', '0', '0 key', 'NaN key a', '0 constructor a']) {
      await redisCommand(server.url, 'PUBLISH', 'tg:changes:0', message);
    }
    await eventually(() => expect(heard).toEqual(Array(6).fill(ANY)));
  });

  test.each([
    ['a list', ['LPUSH', 'tg:changes', 'x']],
    ['a text', ['SET', 'tg:changes', 'x']],
    ['a number that JavaScript rounds', ['SET', 'tg:changes', '90071992547409920']],
    ['the largest number', ['SET', 'tg:changes', '9223372036854775807']],
  ])(
    'are told although another program has written %s in the place of their number (reliability 252)',
    async (_what, plant) => {
      const server = await privateRedis();
      const [hearer, teller] = await Promise.all([gatewayOn(server.url), gatewayOn(server.url)]);
      const heard: StoreChange[] = [];
      hearer.changes.subscribe((change) => heard.push(change));
      const { key } = someKey();
      await teller.keys.create(key);
      await redisCommand(server.url, 'DEL', 'tg:changes');
      await redisCommand(server.url, ...(plant as [string, ...string[]]));
      const looks = await pollsOf(server.url);
      await eventually(async () => expect(await pollsOf(server.url)).toBeGreaterThan(looks + 5));
      // One foreign value is no outage of the store.
      expect(hearer.circuit.state).toBe('present');
      heard.length = 0;
      await teller.keys.update(key.id, (before) => ({ ...before, plan: 'free' }));
      await eventually(() => expect(heard).toContainEqual({ kind: 'key', keyId: key.id }));
      expect(Number(await redisCommand(server.url, 'GET', 'tg:changes'))).toBeGreaterThan(1_700_000_000_000);
    },
  );
});

async function pollsOf(url: string): Promise<number> {
  const statistics = String(await redisCommand(url, 'INFO', 'commandstats'));
  return Number(/cmdstat_get:calls=(\d+)/.exec(statistics)?.[1] ?? 0);
}

describe('changes of the embedded store', () => {
  test('are told by the process that owns it, at once and by name, and a refused one is not', async () => {
    const db = openDatabase(await temporaryFolder());
    atEnd(() => db.close());
    const changes = new EmbeddedChanges();
    const heard: StoreChange[] = [];
    for (let i = 0; i < 2; i++) changes.subscribe((change) => heard.push(change));
    let isOwner = true;
    const insistOnOwner = () => {
      if (!isOwner) throw new Failure('store_owned', 'Another process owns the store.');
    };
    const keys = new EmbeddedKeys({ db, onChange: changes.announce, insistOnOwner });
    const { key } = someKey();
    await keys.create(key);
    expect(heard).toEqual(Array(2).fill({ kind: 'key', keyId: key.id }));
    isOwner = false;
    const edit = keys.update(key.id, (before) => ({ ...before, plan: 'free' }));
    await expect(edit).rejects.toMatchObject({ code: 'store_owned' });
    await expect(keys.createEach([someKey().key])).rejects.toMatchObject({ code: 'store_owned' });
    expect(await keys.list({ limit: 9, cursor: null })).toMatchObject({ records: [key] });
    expect(heard).toHaveLength(2);
  });

  // The releases before the owner told its gateway by itself.
  test('are in no row for other processes, and the table stays that earlier versions write', async () => {
    const db = openDatabase(await temporaryFolder());
    atEnd(() => db.close());
    await new EmbeddedKeys({ db }).create(someKey().key);
    expect(db.prepare('SELECT count(*) AS rows FROM changes').get()).toEqual({ rows: 0 });
    db.exec("INSERT INTO changes (kind, key_id, author) VALUES ('key', 'key_1', 'an earlier version')");
    await new EmbeddedKeys({ db }).create(someKey().key);
    expect(db.prepare('SELECT count(*) AS rows FROM changes').get()).toEqual({ rows: 1 });
  });
});
