import { beforeEach, describe, expect, test } from 'vitest';
import { accountIdOf } from '../../src/admit/account-id.ts';
import { historyReport } from '../../src/admit/history-report.ts';
import type { Ledger, LedgerView } from '../../src/admit/ledger.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { contextOn } from '../../src/cli/operations-interface.ts';
import { resetCounts, usageOf } from '../../src/operations/account-usage.ts';
import { withStore } from '../../src/serve/open-store.ts';
import { AccountsOnDisk, AccountsTable } from '../../src/stores/embedded/accounts.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { openForGateway } from '../../src/stores/redis/open.ts';
import { STORES } from '../cli/ledger-commands.ts';
import { newCustomer, newKey } from '../operations/new-records.ts';
import { allowance } from '../support/allowance.ts';
import { atEnd } from '../support/endings.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

const of = allowance({ minute: 10, hour: 20 });
const recorded = { ...of, history: 'admitted' as const };
const name = keyspace.account('key_1');

describe('in Redis', () => {
  let ledger: Ledger;
  let redis: (...words: string[]) => Promise<unknown>;
  beforeEach(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    ledger = new RedisLedger({ ...(await gatewayOn(url)), publish: async () => {} });
    redis = (...words) => redisCommand(url, ...(words as [string, ...string[]]));
  });
  const spend = async (n: number) => (await ledger.decide([{ consumerId: 'key_1', allowance: of, cost: 1, n }]))[0];

  test.each([
    ['a count', ['HSET', name, 'm', 'abc']],
    ['the end of a window', ['HSET', name, 'M', '-1']],
    ['a count of slices', ['HSET', name, 'm', '\u00ff\u00ff']],
    ['strikes', ['HSET', name, 'x', 'abc']],
    ['top-ups', ['HSET', name, 't', 'abc']],
    ['a ban', ['HSET', name, 'b', 'abc']],
    ['a ban without a window', ['HSET', name, 'b', '1', 'B', '9']],
    ['a ban of half a number', ['HSET', name, 'b', '1.5', 'B', '9', 'w', '2']],
    ['the negative end of a ban', ['HSET', name, 'b', '1', 'B', '-1', 'w', '2']],
    ['the end of a ban in half a millisecond', ['HSET', name, 'b', '1', 'B', '9.5', 'w', '2']],
    ['the end of a ban that is too large', ['HSET', name, 'b', '1', 'B', '1e300', 'w', '2']],
    ['the window of a ban', ['HSET', name, 'b', '1', 'B', '9', 'w', '7']],
    ['strikes beyond all numbers', ['HSET', name, 'x', '1e300', 'X', '9e15']],
  ])(
    'a reset replaces %s that cannot be read, and the error before it says where it is (reliability 365)',
    async (_, words) => {
      await spend(3);
      await redis(...words);
      expect(await ledger.present('key_1', of)).toBeNull();
      const windows = ['minute', 'hour'] as const;
      const made = await ledger.resetUsage('key_1', windows, 'once');
      expect(made).toMatchObject({ kind: 'made', value: { used: { hour: 3 } } });
      expect(await ledger.resetUsage('key_1', windows, 'once')).toMatchObject({ kind: 'repeated' });
      expect((await ledger.present('key_1', of))!.accounts[0].windows).toMatchObject({ hour: { used: 0 } });
      expect((await spend(4))!.admitted).toBe(4);
    },
  );

  test('a reset replaces an account that is no hash (reliability 365)', async () => {
    await redis('SET', name, 'of another program');
    expect(await ledger.present('key_1', of)).toBeNull();
    expect(await ledger.resetUsage('key_1', ['minute'], 'x')).toMatchObject({
      kind: 'made',
      value: { used: { minute: 0 } },
    });
    expect((await spend(4))!.admitted).toBe(4);
  });

  test('a top-up of another window is made, and one of this window names the place (reliability 365)', async () => {
    await redis('HSET', name, 'm', 'abc');
    expect((await ledger.topUp('key_1', windowLimit('hour', 20), 5, 'a')).kind).toBe('made');
    await expect(ledger.topUp('key_1', windowLimit('minute', 10), 5, 'b')).rejects.toMatchObject({
      ...{ code: 'store_corrupt', message: expect.stringContaining(`${name} in Redis`) },
    });
  });
});

test.each([
  ['a text', ['SET', 'NAME', '{"x":1}']],
  ['too long', ['SET', 'NAME', 'x'.repeat(1_001)]],
  ['a hash', ['HSET', 'NAME', 'a', 'b']],
])(
  'a gateway on Redis warns once a minute of a history in which nothing is recorded, because it is %s, and serves its key (reliability 405)',
  async (_, words) => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const warnings: string[] = [];
    const store = await openForGateway({
      ...{ url, peppers: ['a pepper'], usageHistory: true, durability: { replicas: 0, timeoutMs: 1_000 } },
      ...{ timeoutMs: 2_000, usesAcme: false, wallMs: () => Date.now(), checkPeppers: async () => {} },
      ...{ onChange: () => {}, onFailure: () => {}, onLostChanges: () => {} },
      onWarning: (sentence) => warnings.push(sentence),
    });
    atEnd(() => store.close());
    const spend = async (n: number) => {
      const requests = ['key_0', 'key_1', 'key_2'].map((consumerId) => ({
        consumerId,
        allowance: recorded,
        cost: 1,
        n,
      }));
      return (await store.ledger.decide(requests)).map((decision) => decision?.admitted);
    };
    const history = keyspace.history('key_1');
    await redisCommand(url, ...(words.map((word) => (word === 'NAME' ? history : word)) as [string, ...string[]]));
    for (let i = 0; i < 3; i++) expect(await spend(1)).toEqual([1, 1, 1]);
    expect(warnings).toEqual([expect.stringContaining(`the usage history ${history} in Redis`)]);
    const { buckets } = historyReport([await store.history.of('key_2')], 'day');
    expect(buckets).toMatchObject([{ admitted: 3 }]);
  },
);

test('in the embedded store a reset without a gateway replaces an account that cannot be read (reliability 365)', async () => {
  const db = openDatabase(await temporaryFolder());
  atEnd(() => db.close());
  const [wallMs, later] = [() => Date.now(), Date.now() + 3_600_000];
  const view: LedgerView = new EmbeddedLedger({
    db,
    wallMs,
    accounts: new AccountsOnDisk(new AccountsTable(db), wallMs),
  });
  db.prepare('INSERT INTO accounts VALUES (?, ?, ?)').run('key_1', '{"windows":', later);
  expect(await view.present('key_1', of)).toBeNull();
  await expect(view.topUp('key_1', windowLimit('minute', 10), 5, 'b')).rejects.toMatchObject({
    ...{ code: 'store_corrupt', message: expect.stringContaining('the row key_1 of the table accounts') },
  });
  expect((await view.resetUsage('key_1', ['minute', 'hour'], 'a')).kind).toBe('made');
  expect((await view.present('key_1', of))!.accounts[0].windows).toEqual({});
  const ledger = new EmbeddedLedger({ db, wallMs });
  atEnd(() => ledger.close());
  expect((await ledger.decide([{ consumerId: 'key_1', allowance: of, cost: 1, n: 4 }]))[0]!.admitted).toBe(4);
});

test('an account of a customer that cannot be read is named for its key, and a reset that repairs nothing fails (reliability 365)', async () => {
  const env = await STORES.Redis!();
  await withStore(env, async (store) => {
    const context = contextOn(store);
    const attributes = { plan: 'pro', name: null, owner: null, notes: null, expiresAtMs: null };
    const customer = await newCustomer(context, { ...attributes, limits: {} });
    const { id } = await newKey(context, { ...attributes, limits: { minute: 9 }, customer });
    const [own, shared] = [accountIdOf(id, customer), customer].map((id) => keyspace.account(id));
    await redisCommand(env.REDIS_URL!, 'SET', shared!, 'of another program');
    const message = (place: string) => ({
      code: 'store_corrupt',
      message: expect.stringContaining(`${place} in Redis`),
    });
    await expect(usageOf(context, id)).rejects.toMatchObject(message(shared!));
    expect((await resetCounts(context, id, null, null)).kind).toBe('made');
    const { ledger } = store;
    const lazy = new Proxy(ledger, {
      get: (target, name: keyof LedgerView) =>
        name === 'resetUsage'
          ? async () => ({ kind: 'made', value: { used: {}, strikes: 0 }, durability: { kind: 'durable' } })
          : (target[name] as (...words: unknown[]) => unknown).bind(target),
    });
    await redisCommand(env.REDIS_URL!, 'SET', own!, 'of another program');
    const unrepaired = { ...context, ledger: lazy };
    await expect(resetCounts(unrepaired, id, null, null)).rejects.toMatchObject(message(own!));
    await expect(resetCounts(unrepaired, customer, ['minute'], null)).rejects.toMatchObject(message(shared!));
    expect((await resetCounts(context, id, null, null)).kind).toBe('made');
    expect((await resetCounts(context, customer, null, null)).kind).toBe('made');
    expect(await usageOf(context, id)).toMatchObject({ windows: { minute: { used: 0 } } });
    return 0;
  });
});
