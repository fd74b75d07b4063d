import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { main } from '../../../src/main.ts';
import { revokeKey } from '../../../src/operations/catalogue/key-operations.ts';
import { ask, openWithAdmin } from '../../admin/operator.ts';
import { allowance } from '../../support/allowance.ts';
import { eventually } from '../../support/conditions.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { entriesOf, runCommand as run } from '../../support/run-command.ts';
import { createKey, STORES, spend } from '../ledger-commands.ts';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });
  const remove = (id: string, ...options: string[]) => run(env, 'keys', 'delete', id, '--yes', ...options);

  test('a revoked key is removed with its name, counters and ban; a second time says so', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'shop');
    await spend(env, id, allowance({ hour: 1 }, { after: 1, firstMs: 600_000 }), 2);
    await run(env, 'keys', 'revoke', id);
    expect(await remove(id)).toEqual({ code: 0, stdout: `${id} is deleted.\n`, stderr: '' });
    expect(entriesOf((await run(env, 'keys', 'list', '--all', '--json')).stdout)).toEqual([]);
    expect((await run(env, 'keys', 'show', id)).stderr).toBe(`There is no key ${id}.\n`);
    expect(entriesOf((await run(env, 'bans', 'list', '--json')).stdout)).toEqual([]);
    expect((await run(env, 'keys', 'revoke', id)).code).toBe(1);
    expect(await remove(id)).toEqual({ code: 0, stdout: `${id} was deleted before.\n`, stderr: '' });
    expect(JSON.parse((await remove(id, '--json')).stdout)).toEqual({ id, deleted: true });
    const changes = entriesOf((await run(env, 'audit', '--key', id, '--json')).stdout);
    expect(changes.filter(({ action }: { action: string }) => action === 'key.delete')).toMatchObject([
      { outcome: 'unchanged' },
      { outcome: 'unchanged' },
      { outcome: 'done', before: { plan: 'pro', name: 'shop' }, after: null },
    ]);
  });

  test('nothing is deleted without a person or --yes', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'shop');
    await run(env, 'keys', 'revoke', id);
    const { code, stderr } = await run(env, 'keys', 'delete', id);
    expect([code, stderr]).toEqual([2, expect.stringContaining('Give --yes')]);
    expect((await run(env, 'keys', 'show', id)).code).toBe(0);
  });

  test('`keys revoke` asks on a terminal, with name, owner and last use; --yes and a script are not asked', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'shop', '--owner', 'Jo');
    const asked: string[] = [];
    const revoke = async (answer: string | null, ...more: string[]) => {
      let said = '';
      const question = async (text: string) => {
        asked.push(text);
        return answer;
      };
      const error = (text: string) => {
        said += text;
      };
      const code = await main(['keys', 'revoke', ...more], { env, out: () => {}, error, isTerminal: true, question });
      return { code, said };
    };
    expect(await revoke('', id)).toEqual({ code: 1, said: 'Nothing was changed.\n' });
    expect(asked[0]).toBe(
      `Revoke ${id} (plan pro, "shop", of Jo, no use on record)? ${revokeKey.effect} This cannot be undone. [y/N] `,
    );
    await spend(env, id, { ...allowance({ hour: 10 }), history: 'admitted' }, 1);
    await revoke('', id);
    expect(asked.at(-1)).toMatch(/of Jo, last used \d{4}-\d\d-\d\d\)\? All its secrets end/);
    const state = async (one: string) => JSON.parse((await run(env, 'keys', 'show', one, '--json')).stdout).revokedAt;
    expect(await state(id)).toBeNull();
    expect((await revoke('y', id)).code).toBe(0);
    expect(await state(id)).not.toBeNull();
    asked.length = 0;
    await revoke('', id);
    expect((await revoke('', 'key_none')).said).toBe('There is no key key_none.\n');
    const other = await createKey(env, '--plan', 'pro');
    expect((await revoke('', other, '--yes')).code).toBe(0);
    expect(asked).toEqual([]);
    const third = await createKey(env, '--plan', 'pro');
    expect(await run(env, 'keys', 'revoke', third)).toEqual({ code: 0, stdout: `${third} is revoked.\n`, stderr: '' });
    expect((await run(env, 'keys', 'revoke', third)).stdout).toContain('was already revoked ');
  });

  test('an import of an old file does not bring a deleted key back, and says so', async () => {
    const file = join(await temporaryFolder(), 'keys.csv');
    await writeFile(file, `sha256,plan,name\n${'a'.repeat(64)},pro,old\n`);
    await run(env, 'keys', 'import', file);
    const [{ id }] = entriesOf((await run(env, 'keys', 'list', '--json')).stdout);
    await run(env, 'keys', 'revoke', id);
    await remove(id);
    for (const options of [[], ['--dry-run']]) {
      const { stdout, stderr } = await run(env, 'keys', 'import', file, ...options);
      expect(stderr).toBe(`${file}:2: was deleted here for good; it is not brought back.\n`);
      expect(stdout).toMatch(/^0 (would be )?imported, 1 there already, 0 refused\.\n$/);
    }
    expect(entriesOf((await run(env, 'keys', 'list', '--all', '--json')).stdout)).toEqual([]);
  });

  test('the admin API deletes, too, and a running gateway obeys: counters and ban do not come back', async () => {
    const gateway = await openWithAdmin(env as Record<string, string>);
    const made = async () =>
      (await ask(gateway, 'POST', '/admin/keys', { plan: 'small' }, { 'Idempotency-Key': crypto.randomUUID() })).body;
    const [one, other] = [await made(), await made()];
    for (const { key } of [one, other]) for (let i = 0; i < 14; i++) await gateway.get('/v1/pets', key);
    const bans = async () => (await ask(gateway, 'GET', '/admin/bans')).body.bans.length;
    expect(await bans()).toBe(2);
    const remove = (id: string, ...more: [unknown?]) => ask(gateway, 'POST', `/admin/keys/${id}/delete`, ...more);
    expect((await remove(one.id)).body).toMatchObject({ code: 'conflict' });
    for (const { id } of [one, other]) await ask(gateway, 'DELETE', `/admin/keys/${id}`);
    expect((await remove(one.id, { forever: true })).body).toMatchObject({ code: 'invalid_request' });
    for (let i = 0; i < 2; i++) expect((await remove(one.id)).body).toEqual({ id: one.id, deleted: true });
    expect((await gateway.command('keys', 'delete', other.id, '--yes')).code).toBe(0);
    for (const { id } of [one, other]) expect((await ask(gateway, 'GET', `/admin/keys/${id}`)).status).toBe(404);
    await eventually(async () => expect(await bans()).toBe(0), { withinMs: 2_000 });
    expect((await gateway.get('/v1/pets', one.key)).status).toBe(401);
    expect((await gateway.process.stop()).code).toBe(0);
    expect(entriesOf((await run(env, 'bans', 'list', '--json')).stdout)).toEqual([]);
    const { changes } = { changes: entriesOf((await run(env, 'audit', '--key', one.id, '--json')).stdout) };
    expect(changes.slice(0, 2)).toMatchObject([
      { action: 'key.delete', outcome: 'unchanged' },
      { action: 'key.delete', outcome: 'done', before: { plan: 'small' }, after: null },
    ]);
  });
});
