import { writeFile } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/processes.ts';
import { entriesOf, runCommand as run } from '../support/run-command.ts';
import { createKey, STORES } from './ledger-commands.ts';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });
  const changes = async (...options: string[]) => {
    const { code, stdout, stderr } = await run(env, 'audit', '--json', ...options);
    expect([code, stderr]).toEqual([0, '']);
    return entriesOf(stdout);
  };

  test('the changes of commands are those of the user of the shell, and are filtered by key, actor and time', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'shop');
    await createKey(env, '--plan', 'pro');
    await run(env, 'keys', 'revoke', id);
    const found = await changes('--key', id);
    expect(found).toMatchObject([{ action: 'key.revoke' }, { action: 'key.create' }]);
    const actor = { kind: 'shell', user: userInfo().username, host: hostname() };
    for (const change of found)
      expect(change).toMatchObject({ actor, target: id, requestId: null, clientAddress: null });
    expect(await changes('--actor', actor.user, '--limit', '1')).toEqual(found.slice(0, 1));
    expect(await changes('--actor', 'ADMIN_TOKEN')).toEqual([]);
    expect(await changes('--since', '1h')).toHaveLength(3);
    expect(await changes('--since', '2099-01-01')).toEqual([]);
  });

  test('for people it is a table on a terminal, newest first, that says what has changed', async () => {
    expect(await run({ ...env, TEST_TERMINAL: 'yes' }, 'audit')).toEqual({
      code: 0,
      stdout: 'No changes are recorded.\n',
      stderr: '',
    });
    const id = await createKey(env, '--plan', 'pro');
    await run(env, 'keys', 'update', id, '--plan', 'free', '--limit', 'minute=7');
    expect((await run(env, 'audit', '--action', 'ban.lift')).stderr).toBe('No change matches.\n');
    const { stdout } = await run({ ...env, TEST_TERMINAL: 'yes' }, 'audit');
    const [heads, latest, first] = stdout.split('\n');
    expect(heads).toMatch(/^TIME +BY +ACTION +OUTCOME +ID +CHANGE +NAME$/);
    const who = `${userInfo().username}@${hostname()}`;
    expect(latest).toMatch(
      /^(?:now|\d+ s ago) +\S+ +key\.update +done +key_\w+ +plan: pro → free, limits: - → minute=7 +-$/,
    );
    expect(latest).toContain(` ${who} `);
    expect(first).toMatch(/key\.create +done +key_\w+ +plan: pro,/);
    const piped = await run(env, 'audit', '--limit', '1', '--no-header');
    expect(piped.stdout).toMatch(/^\d{4}-\d\d-\d\dT\S+Z\t/);
    expect(piped.stdout.split('\t')[1]).toBe(who);
  });

  test('80 columns show who did what, with what outcome, and what changed; not the id', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'shop');
    await run(env, 'keys', 'revoke', id);
    await run(env, 'keys', 'rotate', id);
    const narrow = { ...env, TEST_TERMINAL: 'yes', TEST_COLUMNS: '80' };
    const [heads, ...rows] = (await run(narrow, 'audit')).stdout.split('\n');
    expect(heads).toMatch(/^TIME +BY +ACTION +OUTCOME +CHANGE/);
    expect(rows[0]).toMatch(/ key\.rotate +refused \(/);
    expect(rows[1]).toMatch(/ key\.revoke +done /);
    for (const line of [heads!, ...rows]) expect(line.length).toBeLessThanOrEqual(80);
    const [least] = (await run({ ...narrow, TEST_COLUMNS: '40' }, 'audit')).stdout.split('\n');
    expect(least).toMatch(/^(?:BY +)?ACTION +OUTCOME/);
  });

  test('a changed or revoked key is shown with its name, and a top-up with its window', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'gamma');
    await run(env, 'keys', 'topup', id, '--window', 'minute', '--amount', '50');
    await run(env, 'keys', 'revoke', id);
    const { stdout } = await run(env, 'audit', '--no-header');
    const [revoke, topUp] = stdout.split('\n').map((line) => line.split('\t').slice(2));
    expect(revoke).toEqual(['key.revoke', 'done', id, expect.stringMatching(/^revokedAt: - → \S+$/), 'gamma']);
    expect(topUp!.slice(0, 3)).toEqual(['key.topup', 'done', id]);
    expect(topUp![3]).toMatch(/^window: minute, limit: 300 → 350, until: - → \S+$/);
  });

  // Their records have the state of a window or of a ban, and no name.
  test('top-ups, resets, lifts of bans and refused attempts have the name of the key or customer too', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'gamma');
    const customer = (await run(env, 'customers', 'create', '--plan', 'pro', '--name', 'Acme', '--json')).stdout;
    const { id: customerId } = JSON.parse(customer);
    await run(env, 'keys', 'topup', id, '--window', 'minute', '--amount', '50');
    await run(env, 'keys', 'undo-topup', id, 'minute');
    await run(env, 'customers', 'topup', customerId, '--window', 'day', '--amount', '50');
    await run(env, 'usage', 'reset', id);
    await run(env, 'bans', 'lift', id, '--reason', 'T-1');
    await run(env, 'keys', 'update', id, '--plan', 'none');
    const { stdout } = await run(env, 'audit', '--no-header');
    const named = stdout.trimEnd().split('\n');
    const cells = named.map((line) => [line.split('\t')[2], line.split('\t').at(-1)]);
    expect(cells).toEqual([
      ['key.update', 'gamma'],
      ['ban.lift', 'gamma'],
      ['usage.reset', 'gamma'],
      ['customer.topup', 'Acme'],
      ['topup.undo', 'gamma'],
      ['key.topup', 'gamma'],
      ['customer.create', 'Acme'],
      ['key.create', 'gamma'],
    ]);
  });

  test('an import is one record that names its keys, and a dry run none', async () => {
    const file = join(await temporaryFolder(), 'keys.csv');
    const hashes = ['1', '2'].map((digit) => digit.repeat(64));
    await writeFile(file, `sha256,plan\n${hashes.map((hash) => `${hash},pro\n`).join('')}x,pro\n`);
    await run(env, 'keys', 'import', file, '--dry-run');
    expect(await changes()).toEqual([]);
    await run(env, 'keys', 'import', file);
    await run(env, 'keys', 'import', file);
    const [again, first, ...more] = await changes();
    const keys = entriesOf((await run(env, 'keys', 'list', '--json')).stdout).map(({ id }: { id: string }) => id);
    expect(more).toEqual([]);
    expect(first).toMatchObject({
      action: 'key.import',
      outcome: 'done',
      target: null,
      after: { file, moved: 2, unknown: 0, already: 0, refused: 1 },
    });
    expect(first.after.keys.toSorted()).toEqual(keys.toSorted());
    expect(again).toMatchObject({ outcome: 'unchanged', after: { moved: 0, already: 2, refused: 1, keys: [] } });
    expect(await changes('--key', keys[0])).toEqual([first]);
    expect(JSON.stringify([first, again])).not.toContain(hashes[0]);
  });
});

test.each([
  ['--limit', '0'],
  ['--limit', 'many'],
  ['--since', 'last week'],
])('`audit %s %s` is wrong usage', async (option, value) => {
  const { code, stderr } = await run({}, 'audit', option, value);
  expect([code, stderr]).toEqual([2, expect.stringContaining(`${option} is '${value}'; it must be `)]);
});
