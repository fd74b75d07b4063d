import type { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import type { StoreChange } from '../../src/identify/record-store.ts';
import { isReadable } from '../../src/model/record.ts';
import { embeddedCustomers } from '../../src/stores/embedded/customers.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { API_KEYS } from '../../src/stores/redis/key-writes.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { RecordWrite } from '../../src/stores/redis/record-writes.ts';
import { customerStoreContract } from '../contracts/customer-store.ts';
import { someCustomer } from '../identify/some-customer.ts';
import { someKey } from '../identify/some-key.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

describe('customers in Redis', () => {
  customerStoreContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const [here, there] = await Promise.all([gatewayOn(url), gatewayOn(url)]);
    return { here: here.customers, there: there.customers };
  });

  test('are announced by their own word, which earlier versions take for a change of anything', async () => {
    const server = await privateRedis();
    const [hearer, teller] = await Promise.all([gatewayOn(server.url), gatewayOn(server.url)]);
    const heard: StoreChange[] = [];
    hearer.changes.subscribe((change) => heard.push(change));
    await eventually(() => expect(heard.length).toBeGreaterThanOrEqual(2));
    heard.length = 0;
    const customer = someCustomer();
    await teller.customers.create(customer);
    await teller.customers.update(customer.id, (before) => ({ ...before, plan: 'free' }));
    await teller.customers.delete(customer.id, (before) => ({ ...before, deletedAtMs: 9 }));
    await eventually(() => expect(heard).toEqual(Array(3).fill({ kind: 'customer', keyId: customer.id })));
  });

  test('have the keys that name them, although a crash or a stranger has left others in their list (reliability 260)', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { keys } = await gatewayOn(url);
    const [mine, theirs] = [someKey({ customer: 'cus_mine' }).key, someKey({ customer: 'cus_theirs' }).key];
    for (const key of [mine, theirs]) await keys.create(key);
    const list = keyspace.keysOfCustomer('cus_mine');
    for (const id of [theirs.id, 'key_none', 'nonsense']) await redisCommand(url, 'ZADD', list, '1', id);
    expect((await keys.list({ limit: 1, cursor: null, customer: 'cus_mine' })).records).toEqual([mine]);
    const { found } = await keys.scan({ most: 9, cursor: null, mayMatch: () => true, customer: 'cus_mine' });
    expect(found.map(({ key }) => key)).toEqual([mine]);
  });

  test('have a key that was moved in the list of one of them alone, also when a failover has undone the move', async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { redis, keys } = await gatewayOn(url);
    const [mine, theirs] = ['cus_mine', 'cus_theirs'].map(keyspace.keysOfCustomer) as [string, string];
    const { key: before } = someKey({ customer: 'cus_mine' });
    await keys.create(before);
    const { record: after } = (await keys.update(before.id, (key) => ({ ...key, customer: 'cus_theirs' })))!;
    expect(await redis.exists(mine)).toBe(0);
    expect(await redis.zrange(theirs, 0, '-1')).toEqual([before.id]);
    // What a failover leaves that has undone the change, and in the slot of the list alone.
    await redis.set(keyspace.apiKey(before.id), JSON.stringify(before));
    await redis.del(theirs, keyspace.changesTo(before.id));
    const texts = { before: JSON.stringify(before), after: JSON.stringify(after) };
    const announce = async () => {};
    const write = new RecordWrite({ kind: API_KEYS, before, after, texts, change: 'some change', announce });
    expect(await write.remake(async () => redis as Redis)).toBe('remade');
    expect((await keys.list({ limit: 9, cursor: null, customer: 'cus_theirs' })).records).toEqual([after]);
    expect((await keys.list({ limit: 9, cursor: null, customer: 'cus_mine' })).records).toEqual([]);
  });
});

describe('customers in the embedded store', () => {
  const storeIn = (folder: string) => {
    const db = openDatabase(folder);
    atEnd(() => db.close());
    const heard: StoreChange[] = [];
    const onChange = (change: StoreChange) => heard.push(change);
    return { db, heard, customers: embeddedCustomers({ db, onChange }), keys: new EmbeddedKeys({ db }) };
  };
  customerStoreContract(async () => {
    const folder = await temporaryFolder();
    return { here: storeIn(folder).customers, there: storeIn(folder).customers };
  });

  test('are announced to the process that changes them', async () => {
    const { customers, heard } = storeIn(await temporaryFolder());
    const customer = someCustomer();
    await customers.create(customer);
    expect(heard).toEqual([{ kind: 'customer', keyId: customer.id }]);
  });

  test('find their keys by an index, and in a file whose version earlier releases accept', async () => {
    const { db, keys } = storeIn(await temporaryFolder());
    await keys.create(someKey({ customer: 'cus_mine' }).key);
    const steps = db
      .prepare(
        `EXPLAIN QUERY PLAN SELECT id FROM keys WHERE CASE WHEN json_valid(record) THEN json_extract(record, '$.customer') END IS NOT NULL
         AND CASE WHEN json_valid(record) THEN json_extract(record, '$.customer') END = 'cus_mine' ORDER BY created_at_ms, id`,
      )
      .all();
    expect(JSON.stringify(steps)).toContain('keys_by_customer');
    expect(db.prepare('PRAGMA user_version').get()).toEqual({ user_version: 2 });
    // A record that another program has damaged stops no write. Any customer may have had its key.
    db.prepare("INSERT INTO keys VALUES ('key_x', 1, 'no JSON')").run();
    const listed = (await keys.list({ limit: 9, cursor: null, customer: 'cus_mine' })).records;
    expect(listed.map(isReadable)).toEqual([false, true]);
  });
});
