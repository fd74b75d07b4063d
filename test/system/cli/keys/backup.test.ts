import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { ATTRIBUTE_NAMES } from '../../../../src/model/attributes.ts';
import { STORES } from '../../../admin/operator.ts';
import { temporaryFolder } from '../../../support/processes.ts';
import { entriesOf, runCommand } from '../../../support/run-command.ts';

const BACKUP_PASSPHRASE = 'six random words make a passphrase';

/** A line of an export of an earlier version, with null for each attribute that it did not know. */
function withLaterAttributes(line: string): string {
  const known = JSON.parse(line);
  const later = ATTRIBUTE_NAMES.filter((name) => !Object.hasOwn(known, name));
  return JSON.stringify({ ...known, ...Object.fromEntries(later.map((name) => [name, null])) });
}

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  let folder: string;
  let file: string;
  beforeEach(async () => {
    folder = await temporaryFolder();
    file = join(folder, 'keys.backup');
    env = { ...(await STORES[name]!()), BACKUP_PASSPHRASE };
  });
  const run = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(env, ...words);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  const create = async (...words: string[]) =>
    JSON.parse(await run('keys', 'create', '--plan', 'pro', '--json', ...words)) as { id: string; key: string };
  const show = async (id: string) => JSON.parse(await run('keys', 'show', id, '--json'));
  /** An empty store that has the pepper of the one before. */
  const emptyStore = async () => {
    const before = env;
    env = { ...(await STORES[name]!()), BACKUP_PASSPHRASE };
    if (env.REDIS_URL === undefined) {
      const pepper = readFileSync(join(before.TOLLGATE_DATA!, 'tollgate.pepper'));
      writeFileSync(join(env.TOLLGATE_DATA!, 'tollgate.pepper'), pepper);
    }
  };
  const restore = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(env, 'keys', 'restore', file, '--json', ...words);
    expect(stderr).toBe('');
    return { code, ...JSON.parse(stdout) };
  };

  test('restores every key into an empty store, and a second time changes nothing', async () => {
    const attributes = '--name Ann --owner Acme --limit minute=5 --expires 9d'.split(' ');
    const one = await create(...attributes, '--notes', 'a\nb');
    const revoked = await create();
    await run('keys', 'rotate', one.id);
    await run('keys', 'revoke', revoked.id);
    const before = [await show(one.id), await show(revoked.id)];
    expect(JSON.parse(await run('keys', 'backup', file, '--json'))).toEqual({ file, keys: 2, unreadable: [] });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'latin1')).not.toContain('Acme');
    await emptyStore();
    const dry = await restore('--dry-run');
    expect(dry).toMatchObject({ code: 0, restored: 2, dryRun: true });
    expect(entriesOf(await run('keys', 'list', '--all', '--json'))).toEqual([]);
    expect(await restore()).toMatchObject({ code: 0, restored: 2, same: 0, refused: 0, keys: [] });
    expect([await show(one.id), await show(revoked.id)]).toEqual(before);
    const found = await runCommand({ ...env, TEST_INPUT: one.key }, 'keys', 'find', '--json');
    expect(JSON.parse(found.stdout)).toMatchObject({ key: { id: one.id } });
    expect(await restore()).toMatchObject({ code: 0, restored: 0, same: 2 });
    const [entry] = entriesOf(await run('audit', '--json'));
    expect(entry).toMatchObject({ action: 'key.restore', outcome: 'unchanged' });
  });

  test('leaves newer keys as they are, and --force neither revives a revoked key nor an old secret (reliability 173)', async () => {
    const [moved, rotated, revoked, deleted] = [await create(), await create(), await create(), await create()];
    await run('keys', 'backup', file);
    await run('keys', 'update', moved.id, '--plan', 'business', '--notes', 'n');
    await run('keys', 'rotate', rotated.id, '--overlap', '0s');
    await run('keys', 'revoke', revoked.id);
    await run('keys', 'revoke', deleted.id);
    await run('keys', 'delete', deleted.id, '--yes');
    expect(await restore()).toMatchObject({ code: 1, restored: 0, left: 3, replaced: 0, refused: 1 });
    expect(await show(moved.id)).toMatchObject({ plan: 'business', notes: 'n' });
    expect(await restore('--force', '--dry-run')).toMatchObject({ left: 2, replaced: 1, refused: 1 });
    expect(await show(moved.id)).toMatchObject({ plan: 'business' });
    const forced = await restore('--force');
    expect(forced).toMatchObject({ code: 1, left: 2, replaced: 1, refused: 1 });
    expect(forced.keys.find(({ id }: { id: string }) => id === moved.id).why).toBe("has the backup's plan, notes.");
    expect(await show(moved.id)).toMatchObject({ plan: 'pro', notes: null });
    expect((await show(revoked.id)).revokedAt).not.toBeNull();
    const old = await runCommand({ ...env, TEST_INPUT: rotated.key }, 'keys', 'find', '--json');
    expect(JSON.parse(old.stdout)).toMatchObject({ isCurrent: false });
  });

  test('--force resumes no key that was suspended since, and suspends one that the backup has suspended (reliability 265)', async () => {
    const [since, before, longer] = [await create(), await create(), await create()];
    await run('keys', 'suspend', before.id, '--reason', 'r');
    await run('keys', 'suspend', longer.id, '--until', '2099-01-01');
    await run('keys', 'backup', file);
    await run('keys', 'suspend', since.id);
    await run('keys', 'resume', before.id);
    await run('keys', 'suspend', longer.id, '--until', '2098-01-01');
    expect(await restore()).toMatchObject({ left: 3, replaced: 0 });
    expect(await restore('--force')).toMatchObject({ left: 1, replaced: 2 });
    expect(await show(since.id)).toMatchObject({ suspended: { until: null } });
    expect(await show(before.id)).toMatchObject({ suspended: { until: null, reason: 'r' } });
    expect(await show(longer.id)).toMatchObject({ suspended: { until: '2099-01-01T00:00:00.000Z' } });
    await emptyStore();
    await restore();
    expect(await show(before.id)).toMatchObject({ suspended: { until: null, reason: 'r' } });
    expect(await show(since.id)).not.toHaveProperty('suspended');
  });

  test('restores a backup that version 0.1.0 has written, and exports its keys as that version did', async () => {
    const written = (name: string) => join(import.meta.dirname, '0.1.0', name);
    const bare = env.REDIS_URL === undefined ? { TOLLGATE_DATA: await temporaryFolder() } : env;
    env = { ...bare, BACKUP_PASSPHRASE, KEY_PEPPER: 'the pepper of the backup file' };
    expect(JSON.parse(await run('keys', 'restore', written('keys.backup'), '--json'))).toMatchObject({ restored: 3 });
    const lines = readFileSync(written('export.ndjson'), 'utf8').trimEnd().split('\n');
    expect(await run('keys', 'export', '--all', '--json')).toBe(`${lines.map(withLaterAttributes).join('\n')}\n`);
    const [customer] = entriesOf(await run('customers', 'list', '--json'));
    expect(customer).toMatchObject({ plan: 'pro', name: 'Acme', owner: 'sales', ownLimits: { minute: 900 } });
  });

  test('a file that is cut off restores nothing at all', async () => {
    await create();
    await run('keys', 'backup', file);
    truncateSync(file, statSync(file).size - 1);
    await emptyStore();
    const { code, stderr } = await runCommand(env, 'keys', 'restore', file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/wrong, or the backup is damaged/)]);
    expect(entriesOf(await run('keys', 'list', '--json'))).toEqual([]);
  });

  test('is refused by a store with another pepper, which then still takes the right one', async () => {
    // Without a store yet, and so without a pepper of its own.
    const bare = async () =>
      env.REDIS_URL === undefined ? { TOLLGATE_DATA: await temporaryFolder() } : await STORES.Redis!();
    env = { ...(await bare()), BACKUP_PASSPHRASE, KEY_PEPPER: 'the pepper of the backup' };
    await create();
    await run('keys', 'backup', file);
    const right = env;
    env = { ...(await bare()), BACKUP_PASSPHRASE, KEY_PEPPER: 'another pepper by mistake' };
    const { code, stderr } = await runCommand(env, 'keys', 'restore', file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/under another pepper/)]);
    env = { ...env, KEY_PEPPER: right.KEY_PEPPER! };
    expect(await restore()).toMatchObject({ code: 0, restored: 1 });
  });
});

describe('the file and the passphrase', () => {
  let env: NodeJS.ProcessEnv;
  let folder: string;
  beforeEach(async () => {
    folder = await temporaryFolder();
    env = { TOLLGATE_DATA: join(folder, 'data') };
    await runCommand(env, 'keys', 'create', '--plan', 'pro');
  });
  const backup = (more: NodeJS.ProcessEnv, ...words: string[]) =>
    runCommand({ ...env, ...more }, 'keys', 'backup', join(folder, 'b'), ...words);

  test('a file is replaced only with --force, and no draft is left', async () => {
    expect(await backup({ BACKUP_PASSPHRASE })).toMatchObject({ code: 0, stderr: '' });
    const again = await backup({ BACKUP_PASSPHRASE });
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/exists.*--force/)]);
    expect(await backup({ BACKUP_PASSPHRASE }, '--force')).toMatchObject({ code: 0 });
    expect(readdirSync(folder).toSorted()).toEqual(['b', 'data']);
    const nowhere = join(folder, 'no', 'b');
    const { code, stderr } = await runCommand({ ...env, BACKUP_PASSPHRASE }, 'keys', 'backup', nowhere);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot be written \(ENOENT\)/)]);
    const none = await runCommand({ ...env, BACKUP_PASSPHRASE }, 'keys', 'restore', nowhere);
    expect([none.code, none.stderr]).toEqual([1, `${nowhere} does not exist. Name another file.\n`]);
  });

  test('the passphrase is in a variable, in a file or typed on a terminal, and a weak one is refused', async () => {
    const missing = await backup({});
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringMatching(/set BACKUP_PASSPHRASE or/)]);
    expect(await backup({ BACKUP_PASSPHRASE: 'short' })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/16 char/),
    });
    expect(existsSync(join(folder, 'b'))).toBe(false);
    const secret = join(folder, 'secret');
    writeFileSync(secret, `${BACKUP_PASSPHRASE}\n`, { mode: 0o600 });
    expect(await backup({ BACKUP_PASSPHRASE_FILE: secret })).toMatchObject({ code: 0 });
    expect(await backup({ TEST_TERMINAL: 'yes', TEST_INPUT: BACKUP_PASSPHRASE }, '--force')).toMatchObject({ code: 0 });
    const wrong = { ...env, BACKUP_PASSPHRASE: 'quite another passphrase' };
    const { code, stderr } = await runCommand(wrong, 'keys', 'restore', join(folder, 'b'));
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^The passphrase is wrong/)]);
  });
});

test('a restore without the pepper of the backup makes no store and no pepper, and names the file that it lacks', async () => {
  const folder = await temporaryFolder();
  const [file, before, data] = [join(folder, 'keys.backup'), join(folder, 'before'), join(folder, 'data')];
  await runCommand({ TOLLGATE_DATA: before }, 'keys', 'create', '--plan', 'pro');
  const env = { BACKUP_PASSPHRASE };
  expect(await runCommand({ ...env, TOLLGATE_DATA: before }, 'keys', 'backup', file)).toMatchObject({ code: 0 });
  const refused = await runCommand({ ...env, TOLLGATE_DATA: data }, 'keys', 'restore', file);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('file tollgate.pepper')]);
  expect(existsSync(data)).toBe(false);
});

test('--data names the embedded stores of a backup and a restore', async () => {
  const [from, to] = [await temporaryFolder(), await temporaryFolder()];
  const file = join(to, 'keys.backup');
  const KEY_PEPPER = 'a pepper that only this test uses';
  const run = (...words: string[]) => runCommand({ KEY_PEPPER, BACKUP_PASSPHRASE }, ...words);
  await run('keys', 'create', '--plan', 'pro', '--data', from);
  expect(await run('keys', 'backup', file, '--data', from)).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse((await run('keys', 'restore', file, '--data', to, '--json')).stdout)).toMatchObject({
    restored: 1,
  });
});
