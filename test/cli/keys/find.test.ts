import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { mint } from '../../../src/identify/api-key.ts';
import { STORES } from '../../admin/operator.ts';
import { ROOT, startProcess, TOLLGATE_IN_SHELL } from '../../support/processes.ts';
import { entriesOf, runCommand } from '../../support/run-command.ts';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeAll(async () => {
    env = await STORES[name]!();
  });
  const run = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(env, ...words);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  const create = async (...words: string[]) =>
    JSON.parse(await run('keys', 'create', '--plan', 'pro', '--json', ...words));
  const listed = async (...words: string[]) =>
    entriesOf(await run('keys', 'list', ...words, '--json')).map(({ id }: { id: string }) => id);
  const find = (secret: string, ...words: string[]) =>
    runCommand({ ...env, TEST_INPUT: secret }, 'keys', 'find', ...words);

  test('keys list finds keys by text, plan, owner and end; all that is given must match', async () => {
    const one = await create('--name', 'Shop of Jo', '--owner', 'find me', '--expires', '10d');
    const two = await create('--name', 'shop of Ann', '--owner', 'find me');
    expect(await listed('SHOP')).toEqual([one.id, two.id]);
    expect(await listed('--search', 'SHOP')).toEqual([one.id, two.id]);
    expect(await listed('--owner', 'find me', '--expiring', '30d', '--plan', 'pro')).toEqual([one.id]);
    expect(await listed('--unused', '30d')).toEqual([]);
    const onTerminal = { ...env, TEST_TERMINAL: 'yes' };
    expect((await runCommand(onTerminal, 'keys', 'list', 'nothing like it')).stdout).toBe('No key matches.\n');
    const table = await runCommand(onTerminal, 'keys', 'list', two.id);
    expect(table.stdout).toMatch(/^ID +SECRET +PLAN .*STATE\n.*shop of Ann.*\n$/);
  });

  test.each([
    [['--expiring', 'soon'], /^--expiring must be a duration/],
    [['--unused', '93d'], /^--unused must be whole days from 1d to 92d/],
    [['--plan', ''], /^--plan is empty/],
    [['a', '--search', 'b'], /^TEXT is given twice/],
    [['tg_live_something'], /^TEXT has the form of a secret.*`tollgate keys find`/],
  ])('keys list %j is wrong usage, and the sentence repeats no secret', async (words, message) => {
    const { code, stdout, stderr } = await runCommand(env, 'keys', 'list', ...words);
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(message)]);
    expect(stderr).not.toContain('something');
  });

  test('keys find prints the key of the secret on standard input, and says if the key has another one', async () => {
    const { id, key } = await create('--name', 'n');
    expect((await find(`${key}\n`)).stdout).toMatch(new RegExp(`^id +${id}\nstate +active\n`));
    const shown = JSON.parse(await run('keys', 'show', id, '--json'));
    expect(JSON.parse((await find(key, '--json')).stdout)).toEqual({ key: shown, isCurrent: true });
    for (const before of ['Bearer ', 'authorization: bearer ']) {
      expect(JSON.parse((await find(`${before}${key}`, '--json')).stdout)).toEqual({ key: shown, isCurrent: true });
    }
    await run('keys', 'rotate', id, '--overlap', '0s');
    const { code, stdout } = await find(key);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/was rotated away or has expired/)]);
    expect(stdout).not.toContain(key.slice(8, -4));
  });

  test('keys find says that no key has a secret, and needs one', async () => {
    const field = await find(`Authorization: Bearer ${mint(randomBytes)}`);
    expect(field.stderr).toBe('No key has this secret.\n');
    expect((await find(mint(randomBytes).slice(0, -1))).stderr).toMatch(/^No key has this secret: it is incomplete or/);
    expect(await find(mint(randomBytes))).toEqual({ code: 1, stdout: '', stderr: 'No key has this secret.\n' });
    expect(await find(' \n')).toEqual({ code: 2, stdout: '', stderr: expect.stringMatching(/no secret on standard/) });
    const secret = mint(randomBytes);
    const { code, stderr } = await runCommand(env, 'keys', 'find', secret);
    expect([code, stderr.includes(secret.slice(8, 20))]).toEqual([2, false]);
  });
});

test('keys find as a process reads the secret from a pipe', async () => {
  const env = await STORES['the embedded store']!();
  const { id, key } = JSON.parse((await runCommand(env, 'keys', 'create', '--plan', 'pro', '--json')).stdout);
  const found = startProcess('sh', ['-c', `printf "%s\\n" "$SECRET" | ${TOLLGATE_IN_SHELL} keys find --json`], {
    cwd: ROOT,
    env: { ...env, SECRET: key },
  });
  await found.exit;
  expect(JSON.parse(found.stdout)).toMatchObject({ key: { id }, isCurrent: true });
});

test('the help of a command shows examples', async () => {
  const { stdout } = await runCommand({}, 'keys', 'list', '--help');
  expect(stdout).toMatch(/\nExamples:\n {2}tollgate keys list acme\n/);
});
