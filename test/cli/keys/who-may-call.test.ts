import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { ATTRIBUTES, type AttributeName, attributesOf, FURTHER_ATTRIBUTES } from '../../../src/model/attributes.ts';
import { openStore } from '../../../src/serve/open-store.ts';
import { emptyStore } from '../../support/empty-store.ts';
import { entriesOf, runCommand } from '../../support/run-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

interface Member {
  readonly name: string;
  readonly option: string;
  readonly given: readonly string[];
  readonly stored: unknown;
  /** As `keys show` prints it. */
  readonly line: string;
  /** Options, each with what the command says of it. */
  readonly faults: readonly (readonly [string, RegExp])[];
}

const MEMBERS: readonly Member[] = [
  {
    name: 'scopes',
    option: '--scope',
    given: ['orders:write', 'orders:read', 'orders:write'],
    stored: ['orders:write', 'orders:read'],
    line: 'scopes    orders:write orders:read',
    faults: [
      ['a b', /^--scope is 'a b'; it must be 1 to 128 visible characters/],
      ['a"b', /--scope/],
      ['ä', /--scope/],
      ['x'.repeat(129), /--scope/],
    ],
  },
  {
    name: 'addresses',
    option: '--address',
    given: ['192.0.2.7', '10.0.0.0/8', '2001:DB8:0::/32', '::1', '192.0.2.7'],
    stored: ['192.0.2.7', '10.0.0.0/8', '2001:db8::/32', '::1'],
    line: 'addresses  192.0.2.7 10.0.0.0/8 2001:db8::/32 ::1',
    faults: [
      ['10.0.0.300', /^--address is '10\.0\.0\.300'; it must be an IP address or network, such as /],
      ['10.1.2.3/8', /it must be the network, without the address of a host: 10\.0\.0\.0\/8/],
      ['fe80::1%eth0', /it must be without a zone id: fe80::1/],
    ],
  },
  {
    name: 'origins',
    option: '--origin',
    given: ['https://app.example.com', 'https://*.example.com'],
    stored: ['https://app.example.com', 'https://*.example.com'],
    line: 'origins   https://app.example.com https://*.example.com',
    faults: [
      ['https://app.example.com/', /it must be written as browsers send it: https:\/\/app\.example\.com\.$/m],
      ['*', /^--origin is '\*'; it must be an origin/],
    ],
  },
  {
    name: 'certificates',
    option: '--certificate',
    given: ['uri:spiffe://example.com/shop', 'dns:Shop.internal', `sha256:${'AB:'.repeat(31)}CD`],
    stored: ['uri:spiffe://example.com/shop', 'dns:shop.internal', `sha256:${'ab'.repeat(31)}cd`],
    line: `certificates  uri:spiffe://example.com/shop dns:shop.internal sha256:${'ab'.repeat(31)}cd`,
    faults: [
      ['shop.internal', /^--certificate is 'shop\.internal'; it must be sha256: and a fingerprint/],
      ['dns:*.internal', /--certificate/],
      ['sha256:abcd', /--certificate/],
    ],
  },
  {
    name: 'boundTo',
    option: '--bound-to',
    given: ['ab'.repeat(32)],
    stored: Buffer.from('ab'.repeat(32), 'hex').toString('base64url'),
    line: `boundTo   ${Buffer.from('ab'.repeat(32), 'hex').toString('base64url')}`,
    faults: [['abc', /^--bound-to is 'abc'; it must be the SHA-256 of a client certificate/]],
  },
  {
    name: 'meta',
    option: '--meta',
    given: ['team=blue', 'tier=Gold "plus", über=1', 'cost-centre_2==7'],
    stored: { team: 'blue', tier: 'Gold "plus", über=1', 'cost-centre_2': '=7' },
    line: 'meta      team=blue, tier=Gold "plus", über=1, cost-centre_2==7',
    faults: [
      ['team', /^--meta is 'team'; it must be NAME=VALUE, such as team=blue\./],
      ['Team=blue', /--meta .*its name must be 1 to 32 lower-case letters/],
      ['__proto__=x', /--meta/],
      ['team=', /--meta/],
      ['team=a\nb', /must be a text of 1 to 256 characters in one line/],
      [`team=${'x'.repeat(257)}`, /--meta/],
    ],
  },
];

let env: NodeJS.ProcessEnv;
let folder: string;
beforeEach(async () => {
  [env, folder] = [await emptyStore(), await temporaryFolder()];
});
const run = async (...words: string[]) => {
  const { code, stdout, stderr } = await runCommand(env, ...words);
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
};
const create = async (...words: string[]) =>
  JSON.parse(await run('keys', 'create', '--plan', 'pro', '--json', ...words)) as { id: string; key: string };
const show = async (id: string) => JSON.parse(await run('keys', 'show', id, '--json'));
/** Text that is not there is null, and other values are absent. */
const shownAbsent = (name: string) => (isText(name) ? null : undefined);
const isText = (name: string) => ['line', 'text'].includes(ATTRIBUTES[name as AttributeName].form);
const allOptions = MEMBERS.flatMap(({ option, given }) => given.flatMap((text) => [option, text]));
const all = Object.fromEntries(MEMBERS.map(({ name, stored }) => [name, stored]));

/** The records of all keys, as the store has them. */
async function records(): Promise<readonly object[]> {
  const store = await openStore(env);
  const { records: keys } = await store.keys.list({ limit: 100, cursor: null });
  await store.close();
  return keys;
}

test.each(MEMBERS)(
  '$name: given to a new key, shown, changed and removed',
  async ({ name, option, given, stored, line }) => {
    const options = given.flatMap((text) => [option, text]);
    const { id } = await create(...options);
    expect(await show(id)).toMatchObject({ [name]: stored });
    const rows = (await run('keys', 'show', id)).split('\n').map((row) => row.replace(/ +/, '  '));
    expect(rows).toContain(line.replace(/ +/, '  '));
    // What a change does not name stays.
    await run('keys', 'update', id, '--owner', 'Ann');
    expect(await show(id)).toMatchObject({ [name]: stored, owner: 'Ann' });
    await run('keys', 'update', id, option, '');
    expect((await show(id))[name]).toBe(shownAbsent(name));
    await run('keys', 'update', id, ...options);
    expect(await show(id)).toMatchObject({ [name]: stored });
  },
);

test.each(MEMBERS)(
  '$name: a fault is named with what is allowed, and nothing is made',
  async ({ name, option, faults }) => {
    for (const [text, message] of faults) {
      const { code, stderr } = await runCommand(env, 'keys', 'create', '--plan', 'pro', option, text);
      expect([text, code]).toEqual([text, isText(name) ? 1 : 2]);
      expect(stderr).toMatch(message);
    }
    expect(await records()).toEqual([]);
  },
);

test('one pair of metadata is changed or removed alone, at most 16 are kept, and a key is found by one', async () => {
  const { id } = await create('--meta', 'team=blue', '--meta', 'tier=gold');
  await run('keys', 'update', id, '--meta', 'team=red', '--meta', 'zone=eu');
  await run('keys', 'update', id, '--meta', 'tier=');
  expect((await show(id)).meta).toEqual({ team: 'red', zone: 'eu' });
  const many = Array.from({ length: 15 }, (_, i) => ['--meta', `n${i}=v`]).flat();
  const { code, stderr } = await runCommand(env, 'keys', 'update', id, ...many);
  expect([code, stderr]).toEqual([1, 'meta must be at most 16 pairs of a name and a text, such as team: blue.\n']);
  const twice = await runCommand(env, 'keys', 'update', id, '--meta', 'a=1', '--meta', 'a=2');
  expect([twice.code, twice.stderr]).toEqual([2, '--meta is given twice for a.\n']);
  await create('--name', 'red', '--meta', 'team=redder');
  const found = async (text: string) =>
    entriesOf(await run('keys', 'list', text, '--json')).map((one: { id: string }) => one.id);
  expect(await found('meta.team=red')).toEqual([id]);
  for (const text of ['meta.team=Red', 'meta.zone=red', 'meta.constructor=red']) expect(await found(text)).toEqual([]);
});

test('a key that says nothing of who may call what has the record of earlier versions', async () => {
  const { id } = await create();
  const members = ['id', 'plan', 'limits', 'name', 'owner', 'createdAtMs', 'expiresAtMs', 'revokedAtMs', 'secrets'];
  expect(Object.keys((await records())[0]!)).toEqual(members);
  await run('keys', 'update', id, ...allOptions);
  for (const { option } of MEMBERS) await run('keys', 'update', id, option, '');
  expect(Object.keys((await records())[0]!).toSorted()).toEqual(members.toSorted());
});

test.each(['csv', 'json'])('an export as %s has every member, and an import of it brings them back', async (format) => {
  const { id, key } = await create('--name', 'one', ...allOptions);
  const exported = await run('keys', 'export', `--${format}`);
  const file = join(folder, format === 'csv' ? 'keys.csv' : 'keys.ndjson');
  if (format === 'csv') {
    const [header, line] = exported.trimEnd().split('\n') as [string, string];
    const columns = header.split(',');
    // What only an export has, and the secret that only an import has.
    const others = ['id', 'revoked', 'last4', 'suspended'];
    expect(columns.slice(-MEMBERS.length)).toEqual(MEMBERS.map(({ name }) => name));
    const [, rest] = /^(?:[^,]*,){11}(.*)$/.exec(line)!;
    writeFileSync(file, `key,plan,name,${columns.slice(11).join(',')}\n${key},pro,one,${rest}\n`);
    expect(others.every((name) => columns.includes(name))).toBe(true);
  } else {
    const { id: _, revoked, last4, suspended, ...row } = JSON.parse(exported);
    writeFileSync(file, JSON.stringify({ ...row, key }));
  }
  expect(await run('keys', 'import', file)).toContain('1 there already');
  env = await emptyStore();
  await run('keys', 'import', file);
  const [imported] = (await records()) as [{ id: string }];
  expect(imported.id).not.toBe(id);
  expect(await show(imported.id)).toMatchObject(all);
});

test('keys.yaml gives every member, leaves what it does not name, and applied again changes nothing', async () => {
  const apply = async (entry: object, ...options: string[]) => {
    const file = join(folder, 'keys.yaml');
    writeFileSync(file, JSON.stringify({ set: 'partners', keys: { shop: { plan: 'pro', ...entry } } }));
    return run('keys', 'apply', file, '--secrets', join(folder, 'secrets'), ...options);
  };
  await apply(all);
  const [{ id }] = (await records()) as [{ id: string }];
  expect(await show(id)).toMatchObject(all);
  expect(await apply(all)).toMatch(/^Nothing to do/);
  expect(await apply({})).toMatch(/^Nothing to do/);
  for (const { name, stored } of MEMBERS) {
    const empty = Array.isArray(stored) ? [] : typeof stored === 'string' ? '' : {};
    expect(await apply({ [name]: empty }, '--dry-run')).toMatch(new RegExp(`^~ shop ${id}: ${name}: .+ → -\n`));
    await apply({ [name]: empty });
    expect((await show(id))[name]).toBe(shownAbsent(name));
  }
});

test('keys.yaml gives a customer every attribute that customers may have', async () => {
  const file = join(folder, 'keys.yaml');
  const given = Object.fromEntries(attributesOf('customer').map((name) => [name, all[name] ?? `its ${name}`]));
  writeFileSync(file, JSON.stringify({ set: 'partners', customers: { acme: { plan: 'pro', ...given } }, keys: {} }));
  await run('keys', 'apply', file);
  const [customer] = entriesOf(await run('customers', 'list', '--json'));
  expect(customer).toMatchObject(given);
  expect(await run('keys', 'apply', file)).toMatch(/^Nothing to do/);
});

test('every attribute has its case here', () => {
  expect(MEMBERS.map(({ name }) => name)).toEqual(FURTHER_ATTRIBUTES);
});

test('a backup has every member, and --force puts them back', async () => {
  const passphrase = { BACKUP_PASSPHRASE: 'six random words make a passphrase' };
  env = { ...env, ...passphrase };
  const { id } = await create(...allOptions);
  const file = join(folder, 'keys.backup');
  await run('keys', 'backup', file);
  await run('keys', 'update', id, ...MEMBERS.flatMap(({ option }) => [option, '']));
  expect((await show(id)).scopes).toBeUndefined();
  const { stdout } = await runCommand(env, 'keys', 'restore', file, '--json');
  expect(JSON.parse(stdout)).toMatchObject({ keys: [{ kind: 'left', why: expect.stringContaining('scopes') }] });
  await runCommand(env, 'keys', 'restore', file, '--force');
  expect(await show(id)).toMatchObject(all);
  expect(readFileSync(file).includes('orders:write')).toBe(false);
});
