import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { shadowIdOf } from '../../src/admit/account-id.ts';
import { type Allowance, budgetOf } from '../../src/admit/allowance.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { operationsHere } from '../../src/cli/operations-at.ts';
import { pagesOf } from '../../src/cli/operations-interface.ts';
import type { Failure } from '../../src/failure.ts';
import { exportUsage } from '../../src/operations/catalogue/usage-operations.ts';
import { openStore } from '../../src/serve/open-store.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedHistory } from '../../src/stores/embedded/history.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { allowance, alsoCharging } from '../support/allowance.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/processes.ts';
import { redisCommand } from '../support/redis.ts';
import { entriesOf, runCommand as run } from '../support/run-command.ts';
import { createKey, STORES, spend } from './ledger-commands.ts';

const recorded: Allowance = { ...allowance({ day: 1_000_000 }), history: 'admitted' };
const hourly: Allowance = { ...allowance({ hour: 1 }, { after: 1, firstMs: 600_000 }), history: 'admitted' };

const limits = [windowLimit('month', 100_000)];
/** Under it a request charges tokens besides. */
const metered: Allowance = { ...alsoCharging(recorded, [budgetOf({ unit: 'tokens', limits })]), inUnits: ['tokens'] };
/** The same of a key with a customer, which shares the tokens. */
const meteredOfCustomer = alsoCharging(metered, [
  budgetOf({ scope: 'customer', limits }),
  budgetOf({ scope: 'customer', unit: 'tokens', limits }),
]);
const PLANS = `
plans:
  model: { limits: { minute: 100 }, units: { tokens: { month: 100000 } } }
  other: { limits: { minute: 100 }, units: { rows: { day: 10 } } }
`;

/** The records of an export that reaches into the future, so that the present hour or day is in it. */
const EVERYTHING = ['--from', '1d', '--to', '2100-01-01'];

const linesOf = ({ stdout }: { stdout: string }) => stdout.split('\n').filter((line) => line !== '');

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });

  test('`usage KEY_ID --days` prints a line for each day, the last one today, also for days without use', async () => {
    const id = await createKey(env, '--plan', 'pro');
    await spend(env, id, recorded, 7);
    const { code, stderr, stdout } = await run(env, 'usage', id, '--days', '3');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.split('\n').filter((line) => line !== '');
    expect(lines).toHaveLength(4);
    expect(lines[0]).toBe('DAY\tADMITTED\tREFUSED\tBANNED');
    expect(lines[1]).toMatch(/^\d{4}-\d\d-\d\d\t0\t0\t0$/);
    expect(lines.some((line) => /^\d{4}-\d\d-\d\d\t7\t0\t0$/.test(line))).toBe(true);
    expect(linesOf(await run(env, 'usage', id, '--hours', '48', '--no-header'))).toHaveLength(48);
    const json = JSON.parse((await run(env, 'usage', id, '--days', '3', '--json')).stdout);
    expect(json).toMatchObject({ step: 'day', buckets: [{ admitted: 7, refused: 0, banned: 0 }] });
  });

  test('on a terminal it has heads and a bar of block characters, and fits 80 columns', async () => {
    const id = await createKey(env, '--plan', 'pro');
    await spend(env, id, { ...allowance({ day: 999_999_999_999 }), history: 'admitted' }, 123_456_789);
    const { stdout } = await run({ ...env, TEST_TERMINAL: 'yes' }, 'usage', id, '--hours', '5');
    expect(stdout).toMatch(/^HOUR +ADMITTED +REFUSED +BANNED\n/);
    expect(stdout).toMatch(/^\S+T\d\d:00:00Z +123456789 +0 +0 +█{20,}$/m);
    expect(stdout).not.toMatch(/ 0 +0 +0$/m);
    expect(stdout).toMatch(/^sum +123456789 +0 +0\n4 of 5 hours without use are left out\.\n$/m);
    const idle = await createKey(env, '--plan', 'pro');
    const none = await run({ ...env, TEST_TERMINAL: 'yes' }, 'usage', idle, '--days', '30');
    expect(none.stdout).toBe('Nothing was used in the last 30 days.\n');
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each([
    [['--days', '93'], '--days must be a whole number from 1 to 92.\n'],
    [['--hours', '0'], '--hours must be a whole number from 1 to 48.\n'],
    [['--days', '1', '--hours', '1'], '--days and --hours are both given; give one of them.\n'],
  ])('`usage KEY_ID` with %j is wrong usage', async (words, stderr) => {
    expect(await run(env, 'usage', 'key_1', ...words)).toEqual({ code: 2, stdout: '', stderr });
  });

  test('an unknown key has no history: a sentence says so', async () => {
    const unknown = { code: 1, stdout: '', stderr: 'There is no key key_unknown.\n' };
    expect(await run(env, 'usage', 'key_unknown', '--days', '1')).toEqual(unknown);
  });

  test('`usage export` prints one record for each consumer and day, with the same id each time, revoked keys and tokens too', async () => {
    const token = `jwt_${'a'.repeat(32)}`;
    const [first, revoked, idle] = [
      await createKey(env, '--plan', 'pro', '--name', 'shop', '--owner', 'Jo'),
      await createKey(env, '--plan', 'free'),
      await createKey(env, '--plan', 'free'),
    ];
    for (const id of [first, revoked, shadowIdOf(first), token, shadowIdOf(token)]) await spend(env, id, recorded, 2);
    await run(env, 'keys', 'revoke', revoked);
    const exported = await run(env, 'usage', 'export', ...EVERYTHING);
    expect(exported).toMatchObject({ code: 0, stderr: '' });
    const records = linesOf(exported).map((line) => JSON.parse(line));
    const day = { step: 'day', refused: 0, banned: 0 };
    expect(records).toMatchObject([
      { ...day, consumer: first, name: 'shop', owner: 'Jo', plan: 'pro', admitted: 4 },
      { ...day, consumer: revoked, name: null, owner: null, plan: 'free', admitted: 2 },
      { ...day, consumer: token, name: null, owner: null, plan: null, admitted: 4 },
    ]);
    for (const { id, consumer, at } of records) expect(id).toBe(`${consumer}/${at.slice(0, 10)}`);
    expect(exported.stdout).not.toContain(idle);
    expect((await run(env, 'usage', 'export', ...EVERYTHING)).stdout).toBe(exported.stdout);
    // Pages of one key or token caller have the same records.
    const store = await openStore(env);
    const at = operationsHere(store, () => {});
    const paged: object[] = [];
    for await (const page of pagesOf(at, exportUsage, { from: '1d', to: '2100-01-01' }, { page: 1 })) {
      expect(page.records.length).toBeLessThanOrEqual(1);
      paged.push(...page.records);
    }
    await store.close();
    expect(paged).toEqual(records);
    const hours = linesOf(await run(env, 'usage', 'export', '--step', 'hour', ...EVERYTHING));
    for (const { id, consumer, at } of hours.map((line) => JSON.parse(line))) expect(id).toBe(`${consumer}/${at}`);
  });

  test('`usage export --format csv` has a header, and no cell that a spreadsheet would run', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', '=1+1');
    await spend(env, id, recorded, 2);
    const [header, record, ...more] = linesOf(await run(env, 'usage', 'export', '--format', 'csv', ...EVERYTHING));
    expect(header).toBe('id,consumer,name,owner,plan,step,at,admitted,refused,banned,customer,unit');
    expect(record).toMatch(
      new RegExp(`^${id}/\\d{4}-\\d\\d-\\d\\d,${id},'=1\\+1,,pro,day,\\d{4}-\\d\\d-\\d\\dT00:00:00Z,2,0,0,,$`),
    );
    expect(more).toEqual([]);
  });

  test('`usage export --format cloudevents` prints events of what has ended, and refuses a span that has not', async () => {
    const id = await createKey(env, '--plan', 'pro');
    await spend(env, id, recorded, 2);
    const open = await run(env, 'usage', 'export', '--format', 'cloudevents', ...EVERYTHING);
    expect(open).toMatchObject({ code: 2, stdout: '' });
    expect(open.stderr).toContain('Leave --to out, or let it end at ');
    expect(await run(env, 'usage', 'export', '--format', 'cloudevents', '--from', '2d')).toMatchObject({
      code: 0,
      stdout: '',
    });
  });

  test('`usage export` leaves out the present day unless it is told where to end', async () => {
    const id = await createKey(env, '--plan', 'pro');
    await spend(env, id, recorded, 2);
    const today = `"at":"${new Date().toISOString().slice(0, 10)}T`;
    const { stdout, stderr } = await run(env, 'usage', 'export', '--from', '3d');
    expect(stdout).not.toContain(today);
    expect(stderr).toMatch(
      /^note: The export ends with \S{10}, the last full day \(UTC\)\. What \S{10} has so far is left out, because it is not final; --to \S+ includes it\.\n$/,
    );
    const to = / --to (\S+) /.exec(stderr)![1]!;
    const whole = await run(env, 'usage', 'export', '--from', '3d', '--to', to);
    expect([whole.stdout.includes(today), whole.stderr]).toEqual([true, '']);
    const hours = await run(env, 'usage', 'export', '--from', '3h', '--step', 'hour');
    expect(hours.stderr).toMatch(/^note: The export ends with the hour of \S+:00:00Z, the last full one\./);
  });

  test('`usage export --key` prints what one key, also a revoked one, or one token caller used', async () => {
    const token = `jwt_${'c'.repeat(32)}`;
    const [id, other] = [
      await createKey(env, '--plan', 'pro', '--name', 'shop'),
      await createKey(env, '--plan', 'pro'),
    ];
    for (const one of [id, other, token]) await spend(env, one, recorded, 2);
    await run(env, 'keys', 'revoke', id);
    const exported = async (one: string) =>
      linesOf(await run(env, 'usage', 'export', ...EVERYTHING, '--key', one)).map((line) => JSON.parse(line));
    expect(await exported(id)).toMatchObject([{ consumer: id, name: 'shop', plan: 'pro', admitted: 2 }]);
    expect(await exported(token)).toMatchObject([{ consumer: token, name: null, plan: null, admitted: 2 }]);
    expect(await run(env, 'usage', 'export', ...EVERYTHING, '--format', 'csv', '--key', 'key_none')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'There is no key key_none.\n',
    });
  });

  test('`usage export --customer` prints what was used under one customer, also by keys that have left it', async () => {
    const made = await run(env, 'customers', 'create', '--plan', 'pro', '--json');
    const { id } = JSON.parse(made.stdout);
    const [stays, leaves] = [await createKey(env, '--customer', id), await createKey(env, '--customer', id)];
    const token = `${id}/jwt_${'d'.repeat(32)}`;
    for (const one of [`${id}/${stays}`, `${id}/${leaves}`, token]) await spend(env, one, recorded, 2);
    await run(env, 'keys', 'move', leaves, '--no-customer');
    await spend(env, leaves, recorded, 3);
    const exported = await run(env, 'usage', 'export', ...EVERYTHING, '--customer', id);
    const records = linesOf(exported).map((line) => JSON.parse(line));
    expect(records.map(({ consumer }) => consumer)).toEqual([stays, leaves, token]);
    for (const record of records) expect(record).toMatchObject({ customer: id, admitted: 2 });
    expect(await run(env, 'usage', 'export', ...EVERYTHING, '--customer', 'cus_none')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'There is no customer cus_none.\n',
    });
  });

  describe('with a plan that limits tokens', () => {
    let id: string;
    beforeEach(async () => {
      env = { ...env, TOLLGATE_PLANS: join(await temporaryFolder(), 'plans.yaml') };
      await writeFile(env.TOLLGATE_PLANS!, PLANS);
      id = await createKey(env, '--plan', 'model');
    });

    test('`usage export` prints a record for each unit besides, and counts no request from the histories of units', async () => {
      const made = await run(env, 'customers', 'create', '--plan', 'model', '--json');
      const customer = JSON.parse(made.stdout).id;
      const ofCustomer = await createKey(env, '--customer', customer);
      const token = `jwt_${'a'.repeat(32)}`;
      for (const one of [id, shadowIdOf(id), token]) await spend(env, one, metered, 2, { tokens: 40 });
      await spend(env, `${customer}/${ofCustomer}`, meteredOfCustomer, 2, { tokens: 40 });
      const exported = linesOf(await run(env, 'usage', 'export', ...EVERYTHING)).map((line) => JSON.parse(line));
      const counted = exported.map(({ consumer, admitted, unit, customer: of, refused, banned }) => {
        return [consumer, admitted, unit, of, refused + banned];
      });
      expect(counted).toEqual([
        [id, 4, undefined, null, 0],
        [id, 160, 'tokens', null, 0],
        [ofCustomer, 2, undefined, customer, 0],
        [ofCustomer, 80, 'tokens', customer, 0],
        [token, 2, undefined, null, 0],
        [token, 80, 'tokens', null, 0],
      ]);
      expect(exported[1].id).toBe(`${id}%tokens/${exported[1].at.slice(0, 10)}`);
      expect(new Set(exported.map((record) => record.id)).size).toBe(exported.length);
      const csv = linesOf(await run(env, 'usage', 'export', ...EVERYTHING, '--key', id, '--format', 'csv'));
      expect(csv.map((line) => line.split(',').slice(7))).toEqual([
        ['admitted', 'refused', 'banned', 'customer', 'unit'],
        ['4', '0', '0', '', ''],
        ['160', '0', '0', '', 'tokens'],
      ]);
      const whole = JSON.parse((await run(env, 'usage', customer, '--days', '1', '--unit', 'tokens', '--json')).stdout);
      expect(whole).toMatchObject({ step: 'day', unit: 'tokens', buckets: [{ admitted: 80 }] });
    });

    test('`usage KEY_ID --days --unit` prints what was used of the unit', async () => {
      await spend(env, id, metered, 3, { tokens: 40 });
      const table = linesOf(await run(env, 'usage', id, '--hours', '1', '--unit', 'tokens'));
      expect(table[0]).toBe('HOUR\tTOKENS');
      expect(table[1]).toMatch(/^\S+\t120$/);
      const requests = await run(env, 'usage', id, '--hours', '1', '--unit', 'requests');
      expect(requests.stdout).toMatch(/^HOUR\tADMITTED\tREFUSED\tBANNED\n\S+\t3\t0\t0\n$/);
      expect(await run(env, 'usage', id, '--days', '1', '--unit', 'token')).toEqual({
        code: 2,
        stdout: '',
        stderr: '--unit must be one of: requests, tokens, rows.\n',
      });
      expect(await run(env, 'usage', id, '--unit', 'tokens')).toEqual({
        code: 2,
        stdout: '',
        stderr: '--unit is for --days or --hours; give one of them.\n',
      });
    });
  });

  test('a name in place of an id means the only key or customer that has it', async () => {
    const name = `Hooli ${crypto.randomUUID()}`;
    const id = await createKey(env, '--plan', 'pro', '--name', name);
    for (const words of [['keys', 'show'], ['usage'], ['usage', '--json'], ['usage', '--days', '2']]) {
      // The end of a window that has not begun moves on.
      const shown = async (word: string) => {
        const { code, stdout, stderr } = await run(env, ...words, word);
        return [code, stdout.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d{10}\b/g, 'TIME'), stderr];
      };
      const ofId = await shown(id);
      expect(ofId[0]).toBe(0);
      expect(await shown(name.toUpperCase())).toEqual([...ofId.slice(0, 2), `note: ${name.toUpperCase()} is ${id}.\n`]);
      // A part of it is enough to read.
      const part = name.slice(0, -1);
      expect(await shown(part)).toEqual([...ofId.slice(0, 2), `note: ${part} is ${id} (${name}).\n`]);
    }
    // A change asks for the whole name, and says whom it has found.
    const change = ['keys', 'topup', '--window', 'minute', '--amount', '5'] as const;
    const part = await run(env, ...change, name.slice(0, -1));
    expect(part).toEqual({
      code: 1,
      stdout: '',
      stderr: `Nothing has exactly this name. Did you mean ${id} (${name})?\n`,
    });
    expect(await run(env, ...change, name)).toMatchObject({ code: 0, stderr: `note: ${name} is ${id}.\n` });
    const other = await createKey(env, '--plan', 'pro', '--name', name);
    for (const words of [['usage'], change]) {
      const { code, stderr } = await run(env, ...words, name);
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /^Several have this name: give the id\. Did you mean key_\w+ \(Hooli .*\) or key_\w+ \(Hooli .*\)\?\n$/,
      );
      for (const one of [id, other]) expect(stderr).toContain(one);
    }
  });

  test('a change finds every key of the name, also among hundreds that have it in theirs, and a revoked one last', async () => {
    const name = `promo ${crypto.randomUUID()}`;
    const id = await createKey(env, '--plan', 'pro', '--name', name);
    const file = join(await temporaryFolder(), 'keys.yaml');
    const many = Array.from({ length: 105 }, (_, i) => `  k${i}: { plan: pro, name: '${name} ${i}' }\n`);
    await writeFile(file, `set: many-${id.slice(4).toLowerCase()}\nkeys:\n${many.join('')}`);
    expect((await run(env, 'keys', 'apply', file, '--secrets', `${file}.ndjson`)).code).toBe(0);
    const revoke = () => run(env, 'keys', 'revoke', name);
    const other = await createKey(env, '--plan', 'pro', '--name', name);
    expect(await revoke()).toMatchObject({ code: 1, stderr: expect.stringMatching(/^Several have this name/) });
    expect((await run(env, 'keys', 'revoke', id)).code).toBe(0);
    expect(await revoke()).toMatchObject({ code: 0, stderr: `note: ${name} is ${other}.\n` });
    // Only revoked ones have the name. None that has it in its name is shown in their place.
    expect(await run(env, 'keys', 'show', name)).toMatchObject({ code: 1, stderr: expect.stringContaining(other) });
    expect(await run(env, 'keys', 'delete', '--yes', name)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Several have/),
    });
    expect((await run(env, 'keys', 'delete', '--yes', id)).code).toBe(0);
    expect(await run(env, 'keys', 'show', name)).toMatchObject({
      code: 0,
      stderr: `note: ${name} is ${other}, which is revoked.\n`,
    });
  });

  test('a change with --id takes no name, because another may have it when the command is repeated', async () => {
    const name = `key_${crypto.randomUUID()}`;
    const id = await createKey(env, '--plan', 'pro', '--name', name);
    const change = ['keys', 'topup', '--window', 'minute', '--amount', '5'] as const;
    expect(await run(env, ...change, name, '--id', 'o1')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--id needs the id/),
    });
    expect((await run(env, ...change, id, '--id', 'o1')).code).toBe(0);
    // A name may begin like an id.
    expect((await run(env, ...change, name)).code).toBe(0);
  });

  test('the name of a customer in place of its id means it, also where keys of it have the name in theirs', async () => {
    const name = `Acme ${crypto.randomUUID()}`;
    const made = await run(env, 'customers', 'create', '--plan', 'pro', '--name', name, '--json');
    const { id } = JSON.parse(made.stdout) as { id: string };
    await createKey(env, '--plan', 'pro', '--name', `Shop of ${name}`);
    expect((await run(env, 'usage', name)).stdout).toMatch(new RegExp(`^${id}, plan pro\n`));
    const shown = await run(env, 'customers', 'suspend', name);
    expect(shown).toMatchObject({ code: 0, stderr: `note: ${name} is ${id}.\n` });
  });

  test('an option that takes the id of a key or a customer takes its name', async () => {
    const [name, shop] = [`Initech ${crypto.randomUUID()}`, `shop ${crypto.randomUUID()}`];
    const made = await run(env, 'customers', 'create', '--plan', 'pro', '--name', name, '--json');
    const { id } = JSON.parse(made.stdout) as { id: string };
    const created = await run(env, 'keys', 'create', '--customer', name, '--name', shop, '--json');
    expect(created.stderr).toBe(`note: ${name} is ${id}.\n`);
    const key = JSON.parse(created.stdout) as { id: string };
    expect(key).toMatchObject({ customer: { id, name } });
    const other = await createKey(env, '--plan', 'pro');
    expect(await run(env, 'keys', 'move', other, '--customer', name)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`${other} belongs to ${id}.`),
      stderr: `note: ${name} is ${id}.\n`,
    });
    await spend(env, `${id}/${key.id}`, meteredOfCustomer, 1);
    for (const [words, option, whose] of [
      [['keys', 'list', '--json'], '--customer', [name, id]],
      [['audit', '--json'], '--key', [shop, key.id]],
      [['audit', '--json'], '--key', [name, id]],
      [['usage', 'export', ...EVERYTHING], '--key', [shop, key.id]],
      [['usage', 'export', ...EVERYTHING], '--customer', [name, id]],
    ] as const) {
      const ofId = await run(env, ...words, option, whose[1]);
      expect(ofId.stdout).toContain(whose[1]);
      // A part of the name is enough to read, but not to change.
      for (const [given, more] of [
        [whose[0], ''],
        [whose[0].slice(0, -1), ` (${whose[0]})`],
      ] as const) {
        const ofName = await run(env, ...words, option, given);
        expect(ofName).toEqual({ ...ofId, stderr: `note: ${given} is ${whose[1]}${more}.\n` });
      }
    }
    for (const words of [['create'], ['move', key.id]])
      expect(await run(env, 'keys', ...words, '--customer', name.slice(0, -1))).toMatchObject({
        code: 1,
        stderr: `Nothing has exactly this name. Did you mean ${id} (${name})?\n`,
      });
    expect(await run(env, 'keys', 'create', '--customer', 'nobody-has-this')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^There is no customer with this id\./),
    });
  });

  test('a name that nothing has is answered as before, and no part of a secret is repeated', async () => {
    expect((await run(env, 'keys', 'show', 'nobody-has-this')).stderr).toMatch(
      /^There is no key with this id\. The id of a key/,
    );
    expect((await run(env, 'keys', 'show', `tg_live_${'a'.repeat(38)}`)).stderr).not.toMatch(/Did you mean|aaaa/);
  });

  test.each([
    [[], /^--from is missing/],
    [['--from', '93d'], /^--from is too early: days are kept for the last 92\./],
    [['--from', '3d', '--step', 'hour'], /^--from is too early: hours .*--step day/],
    [['--from', '1d', '--to', '2d'], /^--from is later than --to\.$/m],
    [['--from', '1d', '--format', 'xml'], /^--format must be ndjson, csv or cloudevents\.$/m],
    [['--from', '1d', '--step', 'week'], /^--step must be hour or day\.$/m],
  ])('`usage export` with %j is wrong usage', async (words, stderr) => {
    expect(await run(env, 'usage', 'export', ...words)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(stderr),
    });
  });

  test('`now --scan` finds a ban that the list of the refused lacks, and the list has it from then on', async () => {
    const [id, token] = [await createKey(env, '--plan', 'pro', '--name', 'shop'), `jwt_${'b'.repeat(32)}`];
    // No gateway has reported these refusals.
    for (const consumerId of [id, token]) await spend(env, consumerId, hourly, 2);
    await spend(env, shadowIdOf(id), hourly, 2);
    // Other tests may have callers refused in the same Redis.
    const ours = (text: string): { id: string }[] =>
      entriesOf(text).filter((entry: { id: string }) => [id, token].includes(entry.id));
    expect(ours((await run(env, 'now', '--json')).stdout)).toEqual([]);
    const found = await run(env, 'now', '--scan', '--json');
    expect(found).toMatchObject({ code: 0, stderr: '' });
    const entries = ours(found.stdout);
    expect(entries).toContainEqual({
      id,
      name: 'shop',
      owner: null,
      plan: 'pro',
      state: 'banned',
      window: 'hour',
      until: expect.any(Number),
      ban: 1,
    });
    expect(entries).toHaveLength(2);
    expect(entries).toContainEqual(expect.objectContaining({ id: token, plan: null, state: 'banned', ban: 1 }));
    expect(ours((await run(env, 'now', '--json')).stdout)).toEqual(entries);
    expect((await run(env, 'now')).stdout).toMatch(new RegExp(`^${id}\tshop\tpro\tban 1\thour\t\\S+Z$`, 'm'));
  });
});

// Fault: the next request took a damaged history for none and wrote a new one over it, so that an export for billing had 1 in place of 25.
test.each([
  ['cut off', 'substr(history, 1, 900)'],
  ['empty', "x''"],
  ['longer', "history || x'00'"],
])(
  'in the embedded store, a history that is %s is named, and nothing is added to it or written over it (reliability 402)',
  async (_, damaged) => {
    const env = await STORES['the embedded store']!();
    const [bad, whole] = [await createKey(env, '--plan', 'pro'), await createKey(env, '--plan', 'pro')];
    for (const id of [bad, whole]) await spend(env, id, recorded, 3);
    const db = openDatabase(env.TOLLGATE_DATA!);
    atEnd(() => db.close());
    db.prepare(`UPDATE histories SET history = CAST(${damaged} AS BLOB) WHERE consumer_id = ?`).run(bad);
    const stored = () => db.prepare('SELECT history FROM histories WHERE consumer_id = ?').get(bad);
    const before = stored();
    const losses: Failure[] = [];
    const gateway = new EmbeddedLedger({ db, wallMs: () => Date.now(), onLoss: (loss) => losses.push(loss) });
    const live = new EmbeddedHistory({ db, wallMs: () => Date.now(), live: gateway.histories });
    const [decided] = await gateway.decide([{ consumerId: bad, allowance: recorded, cost: 1, n: 2 }]);
    expect(decided?.admitted).toBe(2);
    const hour = Math.floor(Date.now() / 3_600_000);
    await gateway.settle([{ accountId: 'unit', delta: 1, windows: [], histories: [bad], hour, isRecorded: false }]);
    const refusal = {
      plan: 'pro',
      kind: 'refused',
      window: 'day',
      cost: 1,
      untilMs: 1,
      refused: 4,
      banned: 0,
    } as const;
    await live.addRefusals([{ consumerId: bad, ...refusal }]);
    const message = `The usage history of ${bad} cannot be read: its row of the table histories in tollgate.db holds something else, and nothing is recorded in it.`;
    await expect(live.of(bad)).rejects.toMatchObject({
      code: 'store_corrupt',
      message: expect.stringContaining(message),
    });
    expect(losses.map((loss) => loss.message)).toEqual([expect.stringContaining(message)]);
    gateway.close();
    expect(stored()).toEqual(before);
    expect(await run(env, 'usage', bad, '--days', '2', '--json')).toMatchObject({
      ...{ code: 1, stdout: '', stderr: expect.stringContaining(message) },
    });
    const exported = await run(env, 'usage', 'export', ...EVERYTHING);
    expect(exported).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
    expect(linesOf(exported).map((line) => JSON.parse(line).consumer)).toEqual([whole]);
    db.prepare('DELETE FROM histories WHERE consumer_id = ?').run(bad);
    await spend(env, bad, recorded, 2);
    expect((await run(env, 'usage', bad, '--days', '2', '--json')).code).toBe(0);
  },
);

describe('on Redis, a history that cannot be read', () => {
  test.each([
    ['longer', (name: string) => [['SETRANGE', name, '1000', 'x']]],
    ['a text', (name: string) => [['SET', name, '{"x":1}']]],
    ['empty', (name: string) => [['SET', name, '']]],
    [
      'a hash',
      (name: string) => [
        ['DEL', name],
        ['HSET', name, 'a', 'b'],
      ],
    ],
  ])(
    'because it is %s, makes `usage --days` fail, and the export has all others and names it (reliability 405)',
    async (_, damage) => {
      const env = await STORES.Redis!();
      const redis = (words: string[]) => redisCommand(env.REDIS_URL!, ...(words as [string, ...string[]]));
      const [damaged, whole] = [await createKey(env, '--plan', 'pro'), await createKey(env, '--plan', 'pro')];
      for (const id of [damaged, whole]) await spend(env, id, recorded, 3);
      const name = keyspace.history(damaged);
      for (const words of damage(name)) await redis(words);
      const message = `The usage history of ${damaged} cannot be read: ${name} in Redis holds something else.`;
      expect(await run(env, 'usage', damaged, '--days', '2', '--json')).toMatchObject({
        ...{ code: 1, stdout: '', stderr: expect.stringContaining(message) },
      });
      const exported = await run(env, 'usage', 'export', ...EVERYTHING);
      expect(exported).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
      expect(linesOf(exported).map((line) => JSON.parse(line).consumer)).toEqual([whole]);
      await redis(['DEL', name]);
      await spend(env, damaged, recorded, 2);
      const repaired = await run(env, 'usage', 'export', ...EVERYTHING);
      expect(repaired).toMatchObject({ code: 0, stderr: '' });
      expect(linesOf(repaired).map((line) => JSON.parse(line).admitted)).toEqual([2, 3]);
    },
  );

  test('is not one that the store may not begin yet, because its clock is wrong', async () => {
    const env = await STORES.Redis!();
    const id = await createKey(env, '--plan', 'pro');
    await redisCommand(env.REDIS_URL!, 'SETRANGE', keyspace.history(id), '300', '\u0000');
    expect(await run(env, 'usage', id, '--days', '2', '--json')).toMatchObject({ code: 0, stderr: '' });
  });
});

test('the pages of one export look once through Redis for callers with tokens, and the next export looks again', async () => {
  const env = await STORES.Redis!();
  const store = await openStore(env);
  atEnd(() => store.close());
  const { perform } = operationsHere(store, () => {});
  const use = (letter: string) => spend(env, `jwt_${letter.repeat(32)}`, recorded, 1);
  const page = async (cursor?: string) =>
    (await perform(exportUsage, { from: '1d', to: '2100-01-01', limit: 1, ...(cursor && { cursor }) })).output;
  for (const letter of ['a', 'c']) await use(letter);
  expect(await page()).toMatchObject({ records: [], cursor: 'tokens:' });
  const first = await page('tokens:');
  expect(first.records).toMatchObject([{ consumer: `jwt_${'a'.repeat(32)}` }]);
  await use('b');
  const second = await page(first.cursor!);
  expect([second.records[0]!.consumer, second.cursor]).toEqual([`jwt_${'c'.repeat(32)}`, null]);
  await page('tokens:');
  expect((await page(first.cursor!)).records).toMatchObject([{ consumer: `jwt_${'b'.repeat(32)}` }]);
});
