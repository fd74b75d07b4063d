import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { temporaryFolder } from '../support/processes.ts';
import { runCommand as run } from '../support/run-command.ts';
import { createKey, STORES, spend } from './ledger-commands.ts';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });

  test('for people it is a table on a terminal, and elsewhere a line for each window', async () => {
    const id = await createKey(env, '--plan', 'free');
    await spend(env, id, allowance({ minute: 60, day: 1_000 }), 2);
    const moment = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;
    expect((await run(env, 'usage', id)).stdout).toMatch(
      new RegExp(
        `^${id}, plan free\nWINDOW\tLIMIT\tUSED\tREMAINING\tRESETS\nminute\t60\t2\t58\t${moment}\nday\t1000\t2\t998\t${moment}\nstrikes: 0, not banned\n$`,
      ),
    );
    const { stdout } = await run({ ...env, TEST_TERMINAL: 'yes' }, 'usage', id);
    expect(stdout).toMatch(/^WINDOW +LIMIT +USED +REMAINING +RESETS\nminute +60 +2 +58 +in \d+ s$/m);
    await spend(env, id, allowance({ minute: 2 }, { after: 1 }), 1);
    expect((await run(env, 'usage', id)).stdout).toMatch(new RegExp(`\nstrikes: 0, ban 1, ends ${moment}\n$`));
  });

  test('an unknown key, and one whose plan is gone or lacks a number, are refused with a sentence', async () => {
    expect(await run(env, 'usage', 'key_unknown')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'There is no key key_unknown.\n',
    });
    expect(await run(env, 'usage')).toMatchObject({ code: 2, stdout: '' });
    const id = await createKey(env, '--plan', 'pro');
    const later = async (plans: string) => {
      const file = join(await temporaryFolder(), 'plans.yaml');
      writeFileSync(file, plans);
      return run({ ...env, TOLLGATE_PLANS: file }, 'usage', id);
    };
    const gone = await later('plans: { other: { limits: { minute: 1 } } }\n');
    expect(gone).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/plan pro .* not in plans\.yaml/),
    });
    const custom = await later('plans: { pro: { limits: { hour: custom } } }\n');
    expect(custom).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/no limit for hour/) });
  });
});
