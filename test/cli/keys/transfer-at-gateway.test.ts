import { hash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { mint } from '../../../src/identify/api-key.ts';
import { ask, openWithAdmin, STORES, TOKEN } from '../../admin/operator.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { entriesOf, runCommand } from '../../support/run-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const BACKUP_PASSPHRASE = 'six random words make a passphrase';
const sha256 = (text: string) => hash('sha256', text, 'hex');

/** Machines from which a command asks the gateway: that of its embedded store, and one that has no store. */
const FACES = [
  ['the embedded store', 'the machine of its store'],
  ['the embedded store', 'a laptop'],
  ['Redis', 'a laptop'],
] as const;

/** A backup of a store with another pepper. */
let foreign: string;
beforeAll(async () => {
  const other = { TOLLGATE_DATA: await temporaryFolder(), BACKUP_PASSPHRASE };
  foreign = join(await temporaryFolder(), 'foreign.backup');
  await runCommand(other, 'keys', 'create', '--plan', 'free');
  await runCommand(other, 'keys', 'backup', foreign);
});

describe.each(FACES)('the gateway on %s, asked from %s', (store, machine) => {
  let gateway: TestGateway;
  let env: NodeJS.ProcessEnv;
  let folder: string;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[store]!());
    folder = await temporaryFolder();
    const url = `http://127.0.0.1:${gateway.adminPort}`;
    const asked = machine === 'a laptop' ? { TOLLGATE_GATEWAY: url, TOLLGATE_TOKEN: TOKEN } : gateway.env;
    env = { ...asked, BACKUP_PASSPHRASE, ...(machine === 'a laptop' ? {} : { ADMIN_TOKEN: undefined }) };
  });
  const run = (...words: string[]) => runCommand(env, ...words);
  const recorded = async (action: string) => (await ask(gateway, 'GET', `/admin/audit?action=${action}`)).body.changes;
  const fileOf = async (text: string, name: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };

  test('takes in a file of thousands of keys in slices, each an entry in the record, and their secrets work at once', async () => {
    const secret = mint((bytes) => Buffer.alloc(bytes, 7));
    const hashes = Array.from({ length: 2_000 }, (_, i) => `,${sha256(`${i}`)},small,\n`);
    const text = `key,sha256,plan,name\n${secret},,small,One\n${hashes.join('')},x,small,\n,${sha256('0')},small,\n`;
    const file = await fileOf(text, 'keys.csv');
    const report = async (...words: string[]) => {
      const { code, stdout } = await run('keys', 'import', file, '--json', ...words);
      return { code, ...JSON.parse(stdout) };
    };
    const warned = expect.objectContaining({ why: expect.stringMatching(/^no format of keys\.formats/) });
    expect(await report('--dry-run')).toMatchObject({ code: 1, moved: 2_001, already: 1, refused: 1, dryRun: true });
    expect(await recorded('key.import')).toEqual([]);
    const { lines, ...counts } = await report();
    expect(counts).toEqual({ code: 1, moved: 2_001, unknown: 0, already: 1, refused: 1, dryRun: false });
    expect([lines[0], lines.length]).toEqual([warned, 1_000]);
    expect(await report()).toMatchObject({ moved: 0, already: 2_002, refused: 1 });
    const entries = (await recorded('key.import')).toReversed();
    expect(entries.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      ...['done', 'done', 'done'],
      ...['unchanged', 'unchanged', 'unchanged'],
    ]);
    const kind = machine === 'a laptop' ? 'token' : 'shell';
    expect(entries[0]).toMatchObject({ actor: { kind }, after: { file, moved: 1_000, refused: 0 } });
    expect(entries[2]).toMatchObject({ after: { file, moved: 1, already: 1, refused: 1 } });
    expect((await gateway.get('/v1/pets', secret)).status).toBe(200);
    expect(gateway.process.stdout + gateway.process.stderr).not.toMatch(new RegExp(`${secret}|${sha256('1')}`));
  });

  test('imports keys of customers that are named, and says which of its lines names several', async () => {
    for (const name of ['Acme', 'Twin', 'Twin']) await run('customers', 'create', '--plan', 'small', '--name', name);
    const customers = ['Acme', 'Twin', 'none'].map((name, i) => `${sha256(`c${i}`)},${name}\n`);
    const { stdout, stderr } = await run(
      'keys',
      'import',
      await fileOf(`sha256,customer\n${customers.join('')}`, 'c.csv'),
    );
    expect(stdout).toBe('1 imported, 0 there already, 2 refused.\n');
    expect(stderr).toMatch(/c\.csv:3: refused: Several have this name: give the id\./);
    expect(stderr).toMatch(/c\.csv:4: refused: customer is the id or name of no customer in the store\./);
  });

  test('reads lines that JSON cannot be written of, and refuses those alone (reliability 464)', async () => {
    const lineOf = (secret: string, limits: string) =>
      `{"sha256":"${sha256(secret)}","plan":"small","limits":${limits}}`;
    const deep = lineOf('deep', `${'['.repeat(20_000)}${']'.repeat(20_000)}`);
    const large = lineOf('large', '{"minute":-1e999}');
    const file = await fileOf(`${deep}\n${large}\n${lineOf('flat', '{}')}\n`, 'odd.ndjson');
    const { code, stdout, stderr } = await run('keys', 'import', file);
    expect([code, stdout]).toEqual([1, '1 imported, 0 there already, 2 refused.\n']);
    expect(stderr).toMatch(/odd\.ndjson:1: refused: has values in more than 8 levels\./);
    expect(stderr).toMatch(/odd\.ndjson:2: refused: has a number that is too large\./);
    const keys = [JSON.parse(deep)];
    const { status, body } = await ask(gateway, 'POST', '/admin/keys/import', { keys });
    expect([status, body.outcomes]).toEqual([200, [expect.objectContaining({ kind: 'refused' })]]);
  });

  test('restores a backup of its pepper, and is asked before anything is written (reliability 463)', async () => {
    const { id } = await gateway.createKey('small', '--name', 'kept');
    const own = { ...gateway.env, ADMIN_TOKEN: undefined, BACKUP_PASSPHRASE };
    const file = join(folder, 'own.backup');
    expect((await runCommand(own, 'keys', 'backup', file)).code).toBe(0);
    await run('keys', 'update', id, '--name', 'newer');
    const restore = async (of: string, ...words: string[]) => {
      const { code, stdout, stderr } = await run('keys', 'restore', of, '--json', ...words);
      return { code, stderr, ...JSON.parse(stdout || '{}') };
    };
    expect(await restore(file, '--dry-run', '--force')).toMatchObject({ code: 0, replaced: 1, dryRun: true });
    expect(await restore(file)).toMatchObject({ code: 0, stderr: '', restored: 0, left: 1, replaced: 0 });
    expect(await restore(file, '--force')).toMatchObject({ code: 0, replaced: 1, left: 0 });
    expect(JSON.parse((await run('keys', 'show', id, '--json')).stdout)).toMatchObject({ name: 'kept' });
    const entries = await recorded('key.restore');
    const [forced] = entries;
    expect(forced).toMatchObject({ outcome: 'done', after: { madeAt: expect.any(String), replaced: 1, keys: [id] } });

    const before = entriesOf((await run('keys', 'list', '--json')).stdout);
    expect(await restore(foreign)).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^The keys of the backup were made under another pepper than that of this store/),
    });
    expect(entriesOf((await run('keys', 'list', '--json')).stdout)).toEqual(before);
    expect(await recorded('key.restore')).toEqual(entries);
  });
});
