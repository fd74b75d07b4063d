import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { byReadability } from '../../../../src/model/record.ts';
import { withStore } from '../../../../src/serve/open-store.ts';
import { STORES } from '../../../cli/ledger-commands.ts';
import { temporaryFolder } from '../../../support/processes.ts';
import { runCommand as run } from '../../../support/run-command.ts';

interface File {
  readonly set?: string;
  readonly customers?: Readonly<Record<string, object>>;
  readonly keys?: Readonly<Record<string, object>>;
}

describe.each(Object.keys(STORES))('customers of keys.yaml, on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  let secrets: string;
  beforeEach(async () => {
    env = await STORES[name]!();
    secrets = join(await temporaryFolder(), 'secrets');
    await run(env, 'keys', 'list');
  });

  const apply = async (file: File, ...words: string[]) => {
    const path = join(await temporaryFolder(), 'keys.yaml');
    // JSON is YAML.
    await writeFile(path, JSON.stringify({ set: 'partners', keys: {}, ...file }, null, 1));
    return run(env, 'keys', 'apply', path, '--secrets', secrets, ...words);
  };
  const json = async (...words: string[]) => JSON.parse((await run(env, ...words, '--json')).stdout);
  const customers = async () =>
    withStore(env, async (store) => (await store.customers.list({ limit: 100, cursor: null })).records);
  const keys = async () =>
    withStore(
      env,
      async (store) => byReadability((await store.keys.list({ limit: 100, cursor: null })).records).readable,
    );

  test('makes the customers first and then their keys, with an entry in the record of changes for each', async () => {
    const file = {
      customers: { acme: { plan: 'pro', owner: 'sales', notes: 'pays yearly', limits: { minute: 900 } } },
      keys: { shop: { customer: 'acme', limits: { minute: 100 } }, app: { customer: 'acme' }, other: { plan: 'free' } },
    };
    const { code, stdout, stderr } = await apply(file);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^\+ acme cus_\w{16}: plan: pro, [^\n]*\n\+ shop key_\w{16}: plan: pro, customer: cus_/);
    expect(stdout).toContain('4 created, 0 changed, 0 revoked, 0 unchanged.');
    const [acme] = await customers();
    expect(acme).toMatchObject({
      ...{ plan: 'pro', name: 'acme', owner: 'sales', notes: 'pays yearly', limits: { minute: 900 } },
      applied: { set: 'partners', name: 'acme' },
    });
    const made = await keys();
    expect(made.filter(({ customer }) => customer === acme!.id).map(({ name }) => name)).toEqual(
      expect.arrayContaining(['shop', 'app']),
    );
    expect(made.find(({ name }) => name === 'other')).not.toHaveProperty('customer');
    const { changes } = await json('audit');
    expect(changes.map(({ action }: { action: string }) => action).sort()).toEqual([
      'customer.create',
      'key.create',
      'key.create',
      'key.create',
    ]);
    const again = await apply(file);
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Nothing to do: 3 keys and 1 customer of'),
    });
    expect((await json('audit')).changes).toHaveLength(4);
  });

  test('changes what an entry contains and leaves the rest, and a customer that leaves the file stays', async () => {
    await apply({ customers: { acme: { plan: 'pro', owner: 'sales', limits: { minute: 900 } } } });
    const [before] = await customers();
    await run(env, 'customers', 'edit', before!.id, '--notes', 'by hand');
    const changed = await apply({ customers: { acme: { plan: 'free', limits: {}, expires: '2099-01-01' } } });
    expect(changed.stdout).toMatch(/^~ acme cus_\w{16}: plan: pro → free, limits: minute=900 → -, expires: - → 2099-/);
    expect(await customers()).toMatchObject([{ plan: 'free', owner: 'sales', notes: 'by hand', limits: {} }]);
    expect(await apply({}, '--prune', '--allow-empty', '--yes')).toMatchObject({ code: 0 });
    expect(await customers()).toHaveLength(1);
  });

  test('adopts a customer by its id, but none that another set manages', async () => {
    const { id } = await json('customers', 'create', '--plan', 'free', '--name', 'By hand');
    const entry = { customers: { acme: { id, plan: 'pro' } }, keys: { shop: { customer: 'acme' } } };
    expect(await apply(entry)).toMatchObject({ code: 0 });
    expect(await customers()).toMatchObject([{ id, plan: 'pro', name: 'By hand', applied: { set: 'partners' } }]);
    const other = await apply({ ...entry, set: 'others', customers: { acme: { id, plan: 'free' } } });
    expect(other.code).toBe(1);
    expect(other.stderr).toContain(`acme: Customer ${id} is managed by partners/acme.`);
    expect(other.stderr).toContain('shop: The entry `acme` of its customer is not applied, so neither is this one.');
    expect(await customers()).toMatchObject([{ plan: 'pro', applied: { set: 'partners' } }]);
    expect(await keys()).toHaveLength(1);
  });

  test('refuses a file in which two entries are the same customer', async () => {
    await apply({ customers: { acme: { plan: 'pro' } } });
    const [acme] = await customers();
    const { code, stderr } = await apply({
      customers: { acme: { plan: 'pro' }, other: { id: acme!.id, plan: 'free' } },
    });
    expect([code, stderr]).toEqual([1, expect.stringContaining('customers.other: is the same customer as `acme`')]);
    expect(await customers()).toEqual([acme]);
  });

  test('never moves a key: it says that the key belongs elsewhere, and applies the others', async () => {
    const two = { acme: { plan: 'pro' }, zoo: { plan: 'free' } };
    await apply({ customers: two, keys: { shop: { customer: 'acme' }, solo: { plan: 'free' } } });
    const before = await keys();
    const idOf = (entry: string) => before.find(({ applied }) => applied?.name === entry)!.id;
    const moved = await apply({
      customers: two,
      keys: { shop: { customer: 'zoo' }, solo: { customer: 'acme' }, app: { customer: 'zoo' } },
    });
    expect(moved.code).toBe(1);
    expect(moved.stderr).toMatch(
      new RegExp(
        `shop: ${idOf('shop')} belongs to another customer, cus_\\w+. Apply moves no key; use \`tollgate keys move`,
      ),
    );
    expect(moved.stderr).toContain(`solo: ${idOf('solo')} belongs to no customer. Apply moves no key`);
    expect(moved.stdout).toContain('1 created');
    const planned = await apply({ customers: two, keys: { shop: { plan: 'free' } } }, '--dry-run');
    expect([planned.code, planned.stderr]).toEqual([
      1,
      expect.stringContaining('which has its plan. Leave `plan` out'),
    ]);
    const after = await keys();
    for (const { id, customer } of before) expect(after.find((one) => one.id === id)!.customer).toBe(customer);
  });

  test('a deleted customer does not come back, and none of its keys is made', async () => {
    const file = { customers: { acme: { plan: 'pro' } }, keys: { shop: { customer: 'acme' } } };
    await apply({ customers: file.customers });
    const { id } = (await customers())[0]!;
    await run(env, 'customers', 'delete', id, '--yes');
    const { code, stderr } = await apply(file);
    expect(code).toBe(1);
    expect(stderr).toMatch(/acme: cus_\w+ was deleted on .* and does not come back\./);
    expect(stderr).toContain('shop: The entry `acme` of its customer is not applied');
    expect([await customers(), await keys()]).toEqual([[], []]);
  });

  test.each<[string, File, string]>([
    ['a customer without a plan', { customers: { acme: {} } }, 'customers.acme: has no `plan`.'],
    ['an unknown plan', { customers: { acme: { plan: 'x' } } }, 'customers.acme.plan: is not a plan of plans.yaml.'],
    ['an id of no customer', { customers: { acme: { id: 'cus_1' } } }, 'customers.acme.id: is the id of no customer'],
    [
      'a key of no entry',
      { keys: { shop: { customer: 'acme' } } },
      'keys.shop.customer: is not an entry of `customers`.',
    ],
    [
      'a plan beside a customer',
      { customers: { acme: { plan: 'pro' } }, keys: { shop: { customer: 'acme', plan: 'pro' } } },
      'keys.shop.plan: is that of the customer; leave it out.',
    ],
  ])('a file with %s is not applied at all', async (_, file, message) => {
    const { code, stderr } = await apply({ ...file, keys: { ...file.keys, fine: { plan: 'pro' } } });
    expect(code).not.toBe(0);
    expect(stderr).toContain(message);
    expect([await customers(), await keys()]).toEqual([[], []]);
  });
});
