import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { STORES } from '../admin/operator.ts';
import { PLANS } from '../support/gateway.ts';
import { entriesOf, runCommand } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ANEW = 'Its counts start anew, except for what it used there before in windows that are still open.';

describe.each(Object.entries(STORES))('commands for customers on %s', (_, emptyStore) => {
  const shell = async () => {
    const plans = join(await temporaryFolder(), 'plans.yaml');
    await writeFile(plans, PLANS);
    const env = { ...(await emptyStore()), TOLLGATE_PLANS: plans };
    const run = (...words: string[]) => runCommand(env, ...words);
    const json = async (...words: string[]) => {
      const { stdout } = await run(...words, '--json');
      return words[1] === 'list' ? entriesOf(stdout) : JSON.parse(stdout);
    };
    return { run, json, env };
  };

  test('make one, show it with its keys, change it, and delete it with them', async () => {
    const { run, json } = await shell();
    expect((await run('customers', 'list')).stdout).toBe('ID\tNAME\tOWNER\tPLAN\tLIMITS\tCREATED\tEXPIRES\tSTATE\n');
    const words = ['--name', 'Acme Ltd', '--plan', 'free', '--owner', 'sales', '--notes', 'n', '--limit', 'day=50'];
    const made = await run('customers', 'create', ...words);
    const [id] = made.stdout.match(/^cus_[0-9A-Za-z]{16}/)!;
    expect(made.stdout).toContain(`${id} on plan free (minute=60 day=50)\n`);
    expect(made.stdout).toContain(`\`tollgate keys create --customer ${id}\``);
    const key = await json('keys', 'create', '--customer', id!, '--name', 'web', '--limit', 'minute=9');
    expect(key).toMatchObject({ plan: 'free', limits: { minute: 9 }, customer: { id, name: 'Acme Ltd' } });
    expect((await run('keys', 'create', '--customer', id!)).stdout).toContain(
      ` of ${id} on plan free (customer-minute=60 customer-day=50)\n`,
    );
    await run('keys', 'create', '--plan', 'small');

    const [listed, ...others] = await json('customers', 'list', 'acme', '--plan', 'free', '--owner', 'sales');
    expect(others).toEqual([]);
    expect(listed).toMatchObject({ id, name: 'Acme Ltd', limits: { minute: 60, day: 50 }, ownLimits: { day: 50 } });
    expect((await run('customers', 'list')).stdout).toMatch(/\ncus_\w+\tAcme Ltd\tsales\S*\tfree/);
    const shown = await json('customers', 'show', id!);
    expect(shown.keys.map((one: { id: string }) => one.id)).toContain(key.id);
    expect((await run('customers', 'show', id!)).stdout).toMatch(
      new RegExp(`^key +${key.id} web \\(minute=9\\)$`, 'm'),
    );
    expect(await json('keys', 'list', '--customer', id!)).toHaveLength(2);
    expect((await run('keys', 'list', '--no-header')).stdout).toMatch(/Acme Ltd/);
    expect((await run('keys', 'show', key.id)).stdout).toContain(`customer  Acme Ltd (${id})\n`);

    const edited = await run('customers', 'edit', id!, '--plan', 'small', '--limit', 'day=default', '--expires', '90d');
    expect(edited.stdout).toMatch(/is on plan small \(minute=3 day=1000\) and expires /);
    expect((await json('keys', 'show', key.id)).plan).toBe('small');
    const refused = await run('customers', 'delete', id!, '--yes');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('2 keys that are not revoked')]);
    const gone = await run('customers', 'delete', id!, '--keys', 'revoke', '--yes');
    expect(gone.stdout).toBe(`${id} is deleted, and its 2 keys are revoked.\n`);
    expect((await run('customers', 'show', id!)).stderr).toContain(`There is no customer ${id}.`);
  });

  test('suspend and resume one, and show it', async () => {
    const { run, json } = await shell();
    const { id } = await json('customers', 'create', '--plan', 'free');
    const suspended = await run('customers', 'suspend', id, '--reason', 'unpaid');
    expect(suspended.stdout).toBe(`${id} is suspended until it is resumed.\n`);
    expect((await run('customers', 'suspend', id, '--reason', 'unpaid')).stdout).toContain('was already suspended');
    expect((await run('customers', 'list')).stdout).toMatch(/\tsuspended\n/);
    const shown = (await run('customers', 'show', id)).stdout;
    expect(shown).toMatch(/^state +suspended$/m);
    expect(shown).toMatch(/^suspended .*, until it is resumed: unpaid$/m);
    const key = await json('keys', 'create', '--customer', id);
    expect((await run('keys', 'show', key.id)).stdout).toContain('\nstate     suspended with its customer\n');
    expect((await run('keys', 'list')).stdout).toContain('\tsuspended with its customer\t');
    expect((await json('keys', 'list'))[0].customer).toMatchObject({ id, state: 'suspended' });
    expect((await run('keys', 'resume', key.id)).stdout).toBe(
      `${key.id} was not suspended. Its customer is suspended, and so its requests are refused: \`tollgate customers resume ${id}\`.\n`,
    );
    expect((await run('customers', 'suspend', id, '--until', 'soon')).code).toBe(2);
    expect((await run('customers', 'resume', id)).stdout).toBe(`${id} is resumed.\n`);
    expect((await run('customers', 'resume', id)).stdout).toBe(`${id} was not suspended.\n`);
  });

  test('a restore resumes none that was suspended since, and puts back what its callers may do (reliability 263)', async () => {
    const { json, env } = await shell();
    const options = ['--plan', 'free', '--scope', 'a', '--meta', 'team=blue'];
    const [since, before] = [
      await json('customers', 'create', ...options),
      await json('customers', 'create', ...options),
    ];
    await json('customers', 'suspend', before.id, '--reason', 'r');
    const file = join(await temporaryFolder(), 'keys.backup');
    const withPassphrase = { ...env, BACKUP_PASSPHRASE: 'a passphrase of the tests' };
    expect((await runCommand(withPassphrase, 'keys', 'backup', file)).code).toBe(0);
    await json('customers', 'suspend', since.id);
    await json('customers', 'resume', before.id);
    await json('customers', 'edit', before.id, '--scope', 'b', '--meta', '');
    const restored = await runCommand(withPassphrase, 'keys', 'restore', file, '--force');
    expect([restored.code, restored.stderr]).toEqual([
      0,
      `${since.id} differs in suspension, which is not put back; left as it is.\n` +
        `${before.id} has the backup's scopes, meta, suspension.\n`,
    ]);
    expect(await json('customers', 'show', since.id)).toMatchObject({ suspended: { until: null } });
    expect(await json('customers', 'show', before.id)).toMatchObject({
      ...{ suspended: { until: null, reason: 'r' }, scopes: ['a'], meta: { team: 'blue' } },
    });
  });

  test('move a key to a customer and away, and say that its counts start anew', async () => {
    const { run, json } = await shell();
    const { id } = await json('customers', 'create', '--plan', 'free');
    const { id: key } = await json('keys', 'create', '--plan', 'small');
    const moved = await run('keys', 'move', key, '--customer', id);
    expect(moved.stdout).toBe(`${key} belongs to ${id}. ${ANEW}\n`);
    expect((await run('keys', 'move', key, '--customer', id)).stdout).toMatch(
      /already belongs to .*nothing was changed/,
    );
    const left = await run('keys', 'move', key, '--no-customer', '--plan', 'small');
    expect(left.stdout).toBe(`${key} belongs to no customer and is on plan small. ${ANEW}\n`);
    for (const words of [[], ['--customer', id, '--no-customer']]) {
      expect((await run('keys', 'move', key, ...words)).code).toBe(2);
    }
    expect((await run('keys', 'create', '--customer', id, '--plan', 'free')).code).toBe(2);
    expect((await run('keys', 'create', '--customer', 'cus_none')).stderr).toContain('There is no customer');
  });

  test('are in a backup with their keys, and come back before them; a deleted one does not', async () => {
    const { run, json, env } = await shell();
    const { id } = await json('customers', 'create', '--plan', 'free', '--name', 'Acme', '--notes', 'n');
    const { id: gone } = await json('customers', 'create', '--plan', 'free');
    const key = await json('keys', 'create', '--customer', id, '--name', 'web');
    const file = join(await temporaryFolder(), 'keys.backup');
    const passphrase = { BACKUP_PASSPHRASE: 'a passphrase of the tests' };
    expect((await runCommand({ ...env, ...passphrase }, 'keys', 'backup', file)).code).toBe(0);
    const restore = (...words: string[]) => runCommand({ ...env, ...passphrase }, 'keys', 'restore', file, ...words);
    expect((await restore()).stderr).toBe('');
    await run('customers', 'edit', id, '--plan', 'small', '--name', 'Other');
    await run('customers', 'delete', gone, '--yes');
    const differs = await restore('--dry-run', '--force');
    expect(differs.stderr).toContain(`${id} would get the backup's plan, name.`);
    expect(differs.stderr).toContain(`${gone} was deleted here for good`);
    await restore('--force');
    expect(await json('customers', 'show', id)).toMatchObject({ plan: 'free', name: 'Acme', keys: [{ id: key.id }] });
  });

  test('are named by an export of keys and by an import', async () => {
    const { run, json } = await shell();
    const { id } = await json('customers', 'create', '--plan', 'free');
    await run('keys', 'create', '--customer', id);
    await run('customers', 'edit', id, '--plan', 'small');
    expect((await run('keys', 'export')).stdout).toMatch(new RegExp(`^key_\\w+,small,.*,${id},`, 'm'));
    const file = join(await temporaryFolder(), 'keys.csv');
    const rows = [`,${id}`, `small,${id}`, `free,${id}`, ',cus_none', ','].map(
      (end, i) => `${String(i).repeat(64)},${end}`,
    );
    await writeFile(file, `sha256,plan,customer\n${rows.join('\n')}\n`);
    const { code, stderr } = await run('keys', 'import', file);
    expect(code).toBe(1);
    for (const why of [
      /plan must be left out, or be small/,
      /customer is the id or name of no customer/,
      /plan is missing/,
    ]) {
      expect(stderr).toMatch(why);
    }
    expect(await json('keys', 'list', '--customer', id)).toHaveLength(3);
  });

  test('are named by an import also by a name that one customer alone has (reliability 321)', async () => {
    const { run, json } = await shell();
    const { id } = await json('customers', 'create', '--plan', 'free', '--name', 'Acme Ltd');
    const { id: unlike } = await json('customers', 'create', '--plan', 'free', '--name', 'Acme');
    const twins = [1, 2].map(() => json('customers', 'create', '--plan', 'free', '--name', 'Twins'));
    const [one, other] = (await Promise.all(twins)).map((twin) => twin.id);
    const file = join(await temporaryFolder(), 'keys.csv');
    const words = ['acme LTD', 'Acme', 'Acme L', 'twins', 'nothing', id];
    const rows = words.map((word, i) => `${String(i).repeat(64)},${word}`);
    await writeFile(file, `sha256,customer\n${rows.join('\n')}\n`);
    const { code, stdout, stderr } = await run('keys', 'import', file);
    expect([code, stdout]).toEqual([1, '3 imported, 0 there already, 3 refused.\n']);
    expect(stderr).toContain(`note: acme LTD is ${id}.\n`);
    expect(stderr).toContain(`:4: refused: Nothing has exactly this name. Did you mean ${id} (Acme Ltd)?\n`);
    expect(stderr).toMatch(
      new RegExp(`:5: refused: Several have this name: give the id.*(${one}.*${other}|${other}.*${one})`),
    );
    expect(stderr).toMatch(/:6: refused: customer is the id or name of no customer/);
    expect(await json('keys', 'list', '--customer', id)).toHaveLength(2);
    expect(await json('keys', 'list', '--customer', unlike)).toHaveLength(1);
  });
});
