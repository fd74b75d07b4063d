import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { helpOf, optionsOf } from '../../src/cli/terminal/command.ts';
import { ALL_COMMANDS } from '../../src/main.ts';
import { emptyStore } from '../support/empty-store.ts';
import { entriesOf, runCommand as run } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describe('--data', async () => {
  const commands = ALL_COMMANDS.filter(({ environment }) => environment.includes('KEY_PEPPER'));

  test('is an option of every command that obeys the variables of a store, and of no other', async () => {
    expect(commands.length).toBeGreaterThan(20);
    for (const command of commands) expect(helpOf(command), command.name).toContain('--data FOLDER');
    const others = ALL_COMMANDS.filter((command) => !commands.includes(command));
    for (const command of others) expect(Object.keys(optionsOf(command)), command.name).not.toContain('data');
  });

  test('names the store, whatever TOLLGATE_DATA says', async () => {
    const { TOLLGATE_DATA: folder } = await emptyStore();
    const env = { TOLLGATE_DATA: join(await temporaryFolder(), 'none') };
    expect((await run(env, 'keys', 'create', '--plan', 'pro', '--data', folder)).code).toBe(0);
    const { stdout } = await run(env, 'keys', 'list', '--json', '--data', folder);
    const [{ id }] = entriesOf(stdout);
    for (const words of [
      ['keys', 'show', id],
      ['usage', id],
      ['bans', 'list'],
      ['audit'],
      ['now'],
      ['deprecations'],
      ['plans', 'check', '--against'],
      ['keys', 'topup', id, '--window', 'minute', '--amount', '5'],
      ['usage', 'reset', id],
      ['keys', 'revoke', id, '--yes'],
    ]) {
      expect(await run(env, ...words, '--data', folder), words.join(' ')).toMatchObject({ code: 0 });
      expect(await run(env, ...words), words.join(' ')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(`There is no store in ${env.TOLLGATE_DATA} yet`),
      });
    }
    expect((await run(env, 'doctor', '--data', folder)).stdout).toContain(
      `The embedded store in ${folder} can be opened.`,
    );
  });

  test.each(commands.map(({ name, positionals }) => [name, positionals] as const))(
    'of `tollgate %s` is refused if it is empty, and beside REDIS_URL',
    async (name, positionals) => {
      const words = [...name.split(' '), ...positionals.map(() => 'x')];
      expect(await run({}, ...words, '--data', '')).toEqual({
        code: 2,
        stdout: '',
        stderr: "--data is empty; it must be the embedded store's folder.\n",
      });
      for (const variable of ['REDIS_URL', 'REDIS_URL_FILE']) {
        expect(await run({ [variable]: 'redis://127.0.0.1:1' }, ...words, '--data', 'x')).toEqual({
          code: 2,
          stdout: '',
          stderr: 'The keys are in Redis, as REDIS_URL says; leave --data out, or unset REDIS_URL.\n',
        });
      }
    },
  );
});
