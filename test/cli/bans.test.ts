import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { accountIdOf } from '../../src/admit/account-id.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { RedisHistory } from '../../src/stores/redis/history.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { gatewayOn } from '../stores/redis-connections.ts';
import { allowance } from '../support/allowance.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/processes.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { LATE_MS } from '../support/room.ts';
import { entriesOf, runCommand as run } from '../support/run-command.ts';
import { createKey, STORES, spend } from './ledger-commands.ts';

const hourly = allowance({ hour: 1 }, { after: 1, firstMs: 600_000 });
const daily = allowance({ day: 1 }, { after: 1, firstMs: 60_000 });

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });

  test('an empty list of refused keys says by when a refusal would be in it', async () => {
    const { stdout } = await run({ ...(await STORES['the embedded store']!()), TEST_TERMINAL: 'yes' }, 'now');
    expect(stdout).toBe('No key is refused for a quota or a ban. A new refusal appears here within two seconds.\n');
  });

  test('bans in force are listed by id, and in a table the first to end first', async () => {
    const [long, short, good] = [
      await createKey(env, '--plan', 'pro'),
      await createKey(env, '--plan', 'pro'),
      'key_good',
    ];
    const beforeMs = Date.now();
    await spend(env, long, hourly, 2);
    await spend(env, short, daily, 2);
    await spend(env, good, hourly, 1);
    const { bans } = JSON.parse((await run(env, 'bans', 'list', '--json')).stdout);
    expect(bans.map(({ id }: { id: string }) => id)).toEqual([long, short].toSorted());
    // Unix seconds, rounded up.
    const { until } = bans.find(({ id }: { id: string }) => id === short);
    expect(until).toBeGreaterThanOrEqual(Math.floor(beforeMs / 1_000) + 60);
    expect(until).toBeLessThanOrEqual(Math.ceil(Date.now() / 1_000) + 60);
    const rows = (await run(env, 'bans', 'list', '--no-header')).stdout.trimEnd().split('\n');
    expect(rows.map((row) => row.split('\t')[0])).toEqual([short, long]);
  });

  test("a ban of a customer's key is listed with the id that `bans lift` asks for, its name, plan and customer (reliability 379)", async () => {
    const made = JSON.parse(
      (await run(env, 'customers', 'create', '--plan', 'pro', '--name', 'Acme Ltd', '--json')).stdout,
    );
    const key = JSON.parse((await run(env, 'keys', 'create', '--customer', made.id, '--name', 'web', '--json')).stdout);
    await spend(env, accountIdOf(key.id, made.id), hourly, 2);
    const listed = await run(env, 'bans', 'list');
    expect(listed.stdout).toContain('ID\tBAN\tWINDOW\tENDS\tPLAN\tNAME\tCUSTOMER\n');
    expect(listed.stdout).toMatch(new RegExp(`^${key.id}\t1\thour\t\\S+\tpro\tweb\tAcme Ltd$`, 'm'));
    expect((await run(env, 'bans', 'lift', key.id)).code).toBe(0);
  });

  test('for people they are a table on a terminal, and elsewhere a line each', async () => {
    const onTerminal = { ...env, TEST_TERMINAL: 'yes' };
    const header = 'ID\tBAN\tWINDOW\tENDS\tPLAN\tNAME\n';
    const none = 'No key is banned.\n';
    expect(await run(onTerminal, 'bans', 'list')).toEqual({ code: 0, stdout: none, stderr: '' });
    expect(await run(env, 'bans', 'list')).toEqual({ code: 0, stdout: header, stderr: none });
    expect(await run(env, 'bans', 'list', '--no-header')).toEqual({ code: 0, stdout: '', stderr: none });
    expect(entriesOf((await run(env, 'bans', 'list', '--json')).stdout)).toEqual([]);
    const id = await createKey(env, '--plan', 'pro', '--name', 'shop');
    await spend(env, id, hourly, 2);
    const moment = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;
    const row = `${id}\t1\thour\t${moment}\tpro\tshop\n`;
    expect((await run(env, 'bans', 'list')).stdout).toMatch(new RegExp(`^${header}${row}$`));
    expect((await run(env, 'bans', 'list', '--no-header')).stdout).toMatch(new RegExp(`^${row}$`));
    const { stdout } = await run(onTerminal, 'bans', 'list');
    expect(stdout).toMatch(
      new RegExp(`^ID +BAN +WINDOW +ENDS +PLAN +NAME\n${id}    1  hour    in 10 min  pro   shop\n$`),
    );
  });

  test('a lift ends the ban, says so, and can be made once', async () => {
    const id = await createKey(env, '--plan', 'pro');
    await spend(env, id, hourly, 2);
    expect(await run(env, 'bans', 'lift', id)).toEqual({
      code: 0,
      stdout: `The ban of ${id} is lifted.\n`,
      stderr: '',
    });
    expect(entriesOf((await run(env, 'bans', 'list', '--json')).stdout)).toEqual([]);
    expect(await run(env, 'bans', 'lift', id)).toEqual({ code: 1, stdout: '', stderr: `Key ${id} is not banned.\n` });
    await spend(env, id, hourly, 1);
    const { stdout } = await run(env, 'bans', 'lift', id, '--json');
    expect(JSON.parse(stdout)).toEqual({ id, lifted: true, spent: [] });
  });

  test('a lift tells which quota is still spent, and what to do about it', async () => {
    const id = await createKey(env, '--plan', 'pro', '--limit', 'hour=1');
    await spend(env, id, hourly, 2);
    const { stdout } = await run(env, 'bans', 'lift', id);
    expect(stdout).toMatch(
      new RegExp(
        `^The ban of ${id} is lifted\\.\nIts hour quota is spent and resets \\S+Z\\. \`tollgate keys topup ${id} --window hour --amount N\`.*\`tollgate usage reset ${id} --window hour\`.*\n$`,
      ),
    );
    await spend(env, id, hourly, 1);
    const again = await run(env, 'bans', 'lift', id, '--json');
    expect(JSON.parse(again.stdout).spent).toEqual([{ window: 'hour', resetAt: expect.any(Number) }]);
  });

  test('a key is revoked and a ban lifted also while plans.yaml cannot be used, and that is said', async () => {
    const id = await createKey(env, '--plan', 'pro');
    await spend(env, id, hourly, 2);
    const TOLLGATE_PLANS = join(await temporaryFolder(), 'plans.yaml');
    await writeFile(TOLLGATE_PLANS, 'plans: { pro: { limits: { minut: 1 } } }\n');
    const broken = { ...env, TOLLGATE_PLANS };
    const warning = expect.stringMatching(/^warning: plans\.yaml cannot be used .*`tollgate plans check`.*\n$/);
    expect(await run(broken, 'bans', 'list', '--json')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(id),
      stderr: warning,
    });
    expect(await run(broken, 'bans', 'lift', id)).toMatchObject({ code: 0, stderr: warning });
    expect(await run(broken, 'keys', 'revoke', id)).toMatchObject({ code: 0, stderr: warning });
    expect(await run(broken, 'keys', 'create', '--plan', 'pro')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/plans\.yaml:1:\d+: plans\.pro\.limits\.minut: /),
    });
  });
});

test('without its Redis a command says so within seconds and fails', async () => {
  const server = await privateRedis();
  await server.stop();
  const env = { REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' };
  const startedMs = performance.now();
  const { code, stdout, stderr } = await run(env, 'bans', 'list', '--json');
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^Redis at .* does not answer.*REDIS_URL.*\n$/);
  expect(performance.now() - startedMs).toBeLessThan(3_000 + LATE_MS);
});

describe('on Redis, of a caller that is banned', () => {
  const damages: readonly (readonly [what: string, damage: (account: string) => string[][]])[] = [
    ['the end of its ban', (account) => [['HSET', account, 'B', 'abc']]],
    ['the number of its ban', (account) => [['HSET', account, 'b', '']]],
    ['the window of its ban', (account) => [['HSET', account, 'w', '9']]],
    ['its strikes', (account) => [['HSET', account, 'x', 'abc', 'B', '1']]],
    ['its top-ups', (account) => [['HSET', account, 't', 'abc', 'B', '1']]],
    ['the count of a window', (account) => [['HSET', account, 'm', 'abc', 'B', '1']]],
    ['the slices of a window', (account) => [['HSET', account, 'm', '\u00ff\u00ff', 'B', '1']]],
    ['the end of a window', (account) => [['HSET', account, 'M', '', 'B', '1']]],
    [
      'its account',
      (account) => [
        ['DEL', account],
        ['SET', account, 'of another program'],
      ],
    ],
  ];

  async function twoBanned() {
    const env = await STORES.Redis!();
    const [id, other] = [await createKey(env, '--plan', 'pro'), await createKey(env, '--plan', 'pro')];
    const redis = (...words: string[]) => redisCommand(env.REDIS_URL!, ...(words as [string, ...string[]]));
    for (const one of [id, other]) {
      await spend(env, one, hourly, 2);
      await redis('ZADD', keyspace.refusedNow.ends, String(Date.now() + 500_000), one);
      await redis('HSET', keyspace.refusedNow.rest, one, 'banned hour 1 pro');
    }
    return { env, id, other, redis };
  }

  test.each(damages)(
    '%s cannot be read: each list has it as unreadable, and the others (reliability 406) (reliability 428)',
    async (_, damage) => {
      const { env, id, other, redis } = await twoBanned();
      for (const words of damage(keyspace.account(id))) await redis(...words);
      const listed = await run(env, 'bans', 'list', '--json');
      const unreadable = expect.stringContaining(`What was counted for ${id} cannot be read.`);
      expect({ ...listed, stdout: JSON.parse(listed.stdout) }).toEqual({
        ...{ code: 0, stderr: '' },
        stdout: {
          ...{ bans: [expect.objectContaining({ id: other, number: 1 })], cursor: null },
          unreadable: [{ id, reason: unreadable }],
        },
      });
      expect((await run(env, 'bans', 'list')).stdout).toContain(`\n${id}\tunreadable\t-\t-\t-\t-\n`);
      expect(await run(env, 'bans', 'lift', id)).toMatchObject({
        ...{ code: 1, stdout: '', stderr: expect.stringContaining(`What was counted for ${id} cannot be read: tg:a:`) },
      });
      const now = entriesOf((await run(env, 'now', '--scan', '--json')).stdout);
      expect(now.map((row: { id: string }) => row.id).toSorted()).toEqual([id, other].toSorted());
      expect(now).toContainEqual(
        expect.objectContaining({ id, state: 'banned', window: 'hour', ban: null, unreadable }),
      );
      expect((await run(env, 'usage', 'reset', id)).code).toBe(0);
      const repaired = entriesOf((await run(env, 'bans', 'list', '--json')).stdout);
      expect(repaired).toEqual([expect.objectContaining({ id: other, number: 1 })]);
    },
  );

  test('a window of an earlier plan cannot be read: the list and the lift say so, until a reset (reliability 428)', async () => {
    const { env, id, redis } = await twoBanned();
    const banned = async () => {
      const { bans, unreadable } = JSON.parse((await run(env, 'bans', 'list', '--json')).stdout);
      return [...bans, ...unreadable];
    };
    await redis('HSET', keyspace.account(id), 'k', 'abc');
    // A ban that can be read is listed, and can be lifted.
    expect(await banned()).toContainEqual(expect.objectContaining({ id, number: 1 }));
    expect((await run(env, 'bans', 'lift', id)).code).toBe(0);
    expect(await banned()).toContainEqual({ id, reason: expect.stringContaining(`usage reset ${id}`) });
    expect((await run(env, 'bans', 'lift', id)).stderr).toContain('cannot be read');
    expect((await run(env, 'usage', 'reset', id)).code).toBe(0);
    expect((await run(env, 'bans', 'lift', id)).stderr).toContain('is not banned');
    expect(await banned()).not.toContainEqual(expect.objectContaining({ id }));
  });

  test("another program's values in the place of the list of those refused are named, or made up for, and replaced (reliability 406)", async () => {
    const { env, id, other, redis } = await twoBanned();
    const { ends, rest } = keyspace.refusedNow;
    const ids = async () =>
      entriesOf((await run(env, 'now', '--json')).stdout)
        .map((row: { id: string }) => row.id)
        .toSorted();
    const foreign = async (name: string) => {
      await redis('DEL', name);
      await redis('SET', name, 'x');
    };
    await foreign(rest);
    expect(await ids()).toEqual([id, other].toSorted());
    await foreign(ends);
    const failed = await run(env, 'now', '--json');
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining(`\`${ends}\` is another program's`) });
    const { redis: client, circuit } = await gatewayOn(env.REDIS_URL!);
    const refusal = { consumerId: id, untilMs: Date.now() + 500_000, kind: 'banned', window: 'hour', cost: 1 } as const;
    await new RedisHistory({ redis: client, circuit }).addRefusals([
      { ...refusal, plan: 'pro', refused: 0, banned: 1 },
    ]);
    expect(await ids()).toEqual([id]);
  });

  test.each(['garbage', null])(
    'the list of those refused has %j: it is listed by what is counted (reliability 406)',
    async (rest) => {
      const { env, id, other, redis } = await twoBanned();
      if (rest === null) await redis('HDEL', keyspace.refusedNow.rest, id);
      else await redis('HSET', keyspace.refusedNow.rest, id, rest);
      const now = entriesOf((await run(env, 'now', '--json')).stdout);
      expect(now.map((row: { id: string }) => row.id).toSorted()).toEqual([id, other].toSorted());
      expect(now).toContainEqual(expect.objectContaining({ id, state: 'banned', window: 'hour', ban: 1 }));
    },
  );
});

test('in the embedded store, a caller whose account, change or last refusal cannot be read is in each list (reliability 400) (reliability 401)', async () => {
  const env = await STORES['the embedded store']!();
  const ids = [];
  for (let i = 0; i < 3; i++) ids.push(await createKey(env, '--plan', 'pro'));
  const [account, change, refusal] = ids as [string, string, string];
  for (const id of [account, refusal]) await spend(env, id, hourly, 2);
  const db = openDatabase(env.TOLLGATE_DATA!);
  atEnd(() => db.close());
  db.prepare('UPDATE accounts SET state = ? WHERE consumer_id = ?').run('{', account);
  // Of an earlier version.
  db.exec(
    'CREATE TABLE pending_changes (number INTEGER PRIMARY KEY AUTOINCREMENT, consumer_id TEXT NOT NULL, change TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT',
  );
  db.prepare("INSERT INTO pending_changes (consumer_id, change, at_ms) VALUES (?, '{', 1)").run(change);
  const refused = db.prepare("INSERT INTO refused_now VALUES (?, ?, ?, 'hour', 1, 'pro')");
  for (const id of [account, refusal]) refused.run(id, Date.now() + 500_000, id === account ? 'banned' : 'odd');
  const listed = JSON.parse((await run(env, 'bans', 'list', '--json')).stdout);
  const unreadable = expect.stringContaining('cannot be read.');
  expect(listed.bans).toEqual([expect.objectContaining({ id: refusal, number: 1 })]);
  expect(listed.unreadable).toHaveLength(2);
  for (const id of [account, change]) expect(listed.unreadable).toContainEqual({ id, reason: unreadable });
  for (const id of [account, change]) {
    const lift = await run(env, 'bans', 'lift', id);
    expect(lift).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`What was counted for ${id} cannot be read`),
    });
  }
  const now = entriesOf((await run(env, 'now', '--json')).stdout);
  expect(now).toHaveLength(2);
  expect(now).toContainEqual(expect.objectContaining({ id: account, state: 'banned', ban: null, unreadable }));
  expect(now).toContainEqual(expect.objectContaining({ id: refusal, state: 'banned', ban: 1 }));
  for (const id of [account, change]) expect((await run(env, 'usage', 'reset', id)).code).toBe(0);
  expect(entriesOf((await run(env, 'bans', 'list', '--json')).stdout)).toHaveLength(1);
});
