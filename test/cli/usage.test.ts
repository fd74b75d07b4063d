import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { temporaryFolder } from '../support/processes.ts';
import { runCommand as run } from '../support/run-command.ts';
import { createKey, STORES, spend } from './ledger-commands.ts';

async function usageOf(env: NodeJS.ProcessEnv, id: string) {
  const { code, stdout, stderr } = await run(env, 'usage', id, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

const seconds = (ms: number) => ms / 1_000;

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });

  test('the usage of a key is told window by window, in the promised shape', async () => {
    const id = await createKey(env, '--plan', 'pro');
    const beforeMs = Date.now();
    await spend(env, id, allowance({ minute: 300, day: 10_000 }), 7);
    const usage = await usageOf(env, id);
    expect(Object.keys(usage.windows)).toEqual(['minute', 'day']);
    const plain = { form: 'fixed', topUp: null };
    expect(usage).toEqual({
      id,
      plan: 'pro',
      windows: {
        minute: { limit: 300, used: 7, remaining: 293, resetAt: expect.any(Number), ...plain },
        day: { limit: 10_000, used: 7, remaining: 9_993, resetAt: expect.any(Number), ...plain },
      },
      strikes: 0,
      ban: null,
      rung: 0,
      nextBanSeconds: 60,
    });
    for (const [window, length] of [
      ['minute', 60],
      ['day', 86_400],
    ] as const) {
      expect(Number.isInteger(usage.windows[window].resetAt)).toBe(true);
      expect(usage.windows[window].resetAt).toBeGreaterThanOrEqual(Math.floor(seconds(beforeMs)) + length);
      expect(usage.windows[window].resetAt).toBeLessThanOrEqual(Math.ceil(seconds(Date.now())) + length);
    }
  });

  test('a key that has done nothing has used nothing', async () => {
    const id = await createKey(env, '--plan', 'free');
    expect(await usageOf(env, id)).toMatchObject({
      windows: { minute: { limit: 60, used: 0, remaining: 60 }, day: { limit: 1_000, used: 0, remaining: 1_000 } },
      strikes: 0,
      ban: null,
    });
  });

  test("limits of the key's own are told, and a bound that is none by its word", async () => {
    const id = await createKey(env, '--plan', 'pro', '--limit', 'minute=unlimited', '--limit', 'hour=9');
    await spend(env, id, allowance({ hour: 9, day: 10_000 }), 9);
    const { windows } = await usageOf(env, id);
    expect(Object.keys(windows)).toEqual(['minute', 'hour', 'day']);
    expect(windows.minute).toMatchObject({ limit: 'unlimited', used: 0, remaining: 'unlimited' });
    expect(windows.hour).toMatchObject({ limit: 9, used: 9, remaining: 0 });
  });

  test('a limit that was lowered below what is used leaves nothing, and not less', async () => {
    const id = await createKey(env, '--plan', 'pro', '--limit', 'minute=3');
    await spend(env, id, allowance({ minute: 300 }), 8);
    expect((await usageOf(env, id)).windows.minute).toMatchObject({ limit: 3, used: 8, remaining: 0 });
  });

  test('strikes and the ban in force are told', async () => {
    const id = await createKey(env, '--plan', 'pro');
    const plan = allowance({ minute: 2 }, { after: 5, firstMs: 60_000 });
    await spend(env, id, plan, 5);
    expect(await usageOf(env, id)).toMatchObject({ strikes: 3, ban: null });
    const beforeMs = Date.now();
    await spend(env, id, plan, 2);
    const { strikes, ban } = await usageOf(env, id);
    expect({ strikes, number: ban.number }).toEqual({ strikes: 0, number: 1 });
    expect(ban.until).toBeGreaterThanOrEqual(Math.floor(seconds(beforeMs)) + 60);
    expect(ban.until).toBeLessThanOrEqual(Math.ceil(seconds(Date.now())) + 60);
    expect(Object.keys(ban)).toEqual(['number', 'until']);
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
