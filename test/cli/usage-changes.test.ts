import { beforeEach, describe, expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { runCommand as run } from '../support/run-command.ts';
import { createKey, STORES, spend } from './ledger-commands.ts';

const daily = allowance({ day: 2 }, { after: 3, firstMs: 600_000 });
const MOMENT = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  let id: string;
  beforeEach(async () => {
    env = await STORES[name]!();
    id = await createKey(env, '--plan', 'pro', '--limit', 'day=2');
  });
  const dayOf = async () => JSON.parse((await run(env, 'usage', id, '--json')).stdout).windows.day;
  const topUp = (...options: string[]) => run(env, 'keys', 'topup', id, '--window', 'day', ...options);

  test('a top-up is told with the limit and its end, and shows in the usage', async () => {
    await spend(env, id, daily, 2);
    const { code, stdout, stderr } = await topUp('--amount', '500');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(
      new RegExp(
        `^The day limit of ${id} is 502; the top-up ends ${MOMENT}\\.\n\`tollgate keys undo-topup ${id} top_\\S+\` takes it back\\.\n$`,
      ),
    );
    const day = await dayOf();
    expect(day).toMatchObject({ limit: 502, used: 2, remaining: 500 });
    expect(JSON.parse((await topUp('--amount', '1', '--json')).stdout)).toEqual({
      id,
      window: 'day',
      amount: 1,
      limit: 503,
      until: day.resetAt,
      topUp: expect.stringMatching(/^top_[A-Za-z0-9_-]{16}$/),
      reason: null,
    });
  });

  test('a top-up with an end and a reason shows in the usage with its id, and is taken back by that', async () => {
    const until = `${new Date(Date.now() + 10 * 86_400_000).toISOString().slice(0, 10)}T00:00Z`;
    const made = await topUp('--amount', '5000', '--until', until, '--reason', 'TICKET-12', '--json');
    const { topUp: topUpId, ...told } = JSON.parse(made.stdout);
    expect(told).toMatchObject({ limit: 5_002, until: Date.parse(until) / 1_000, reason: 'TICKET-12' });
    const line = `day: topped up by 5000 until ${new Date(until).toISOString()}, TICKET-12 (${topUpId})\n`;
    expect((await run(env, 'usage', id)).stdout).toContain(line);
    expect(await topUp('--amount', '1')).toMatchObject({
      code: 1,
      stderr: `A top-up of 5000 until ${new Date(until).toISOString()} is in force: undo it, or give the same end.\n`,
    });
    expect(await run(env, 'keys', 'undo-topup', id, topUpId)).toMatchObject({
      code: 0,
      stdout: `5000 were taken back: the day limit of ${id} is 2.\n`,
    });
    expect((await run(env, 'usage', id)).stdout).not.toContain('topped up');
    expect(await run(env, 'keys', 'undo-topup', id, topUpId)).toMatchObject({
      code: 1,
      stderr: 'No such top-up is in force: it has ended, or was undone.\n',
    });
    expect((await run(env, 'audit')).stdout).toMatch(/topup\.undo\tdone\t.*window: day, limit: 5002 → 2/);
  });

  test('a reset sets what was used to nothing, and tells of a ban that stays', async () => {
    await spend(env, id, daily, 9);
    const { code, stdout } = await run(env, 'usage', 'reset', id, '--window', 'day');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(
        `^The usage of ${id} is reset: day\\.\nIt is still banned; the ban ends ${MOMENT}\\. \`tollgate bans lift ${id}\` .*\n$`,
      ),
    );
    expect(await dayOf()).toMatchObject({ used: 0, remaining: 2 });
    expect(await run(env, 'bans', 'lift', id)).toMatchObject({ stdout: `The ban of ${id} is lifted.\n` });
    const { stdout: all } = await run(env, 'usage', 'reset', id, '--json');
    expect(JSON.parse(all)).toEqual({ id, windows: ['minute', 'day'], ban: null });
  });
});

test.each([
  [['keys', 'topup', 'key_x', '--amount', '1'], '--window is missing; it must be one of second,'],
  [['keys', 'topup', 'key_x', '--window', 'year', '--amount', '1'], "--window is 'year'; it must be one of second,"],
  [['keys', 'topup', 'key_x', '--window', 'day'], '--amount is missing; it must be a whole number from 1'],
  [['keys', 'topup', 'key_x', '--window', 'day', '--amount', '1e3'], "--amount is '1e3'; it must be a whole number"],
  [['keys', 'topup', 'key_x', '--window', 'day', '--amount', '1', '--id', ''], '--id must have 1 to 255 characters'],
  [
    ['keys', 'topup', 'key_x', '--window', 'day', '--amount', '1', '--until', 'soon'],
    "--until is 'soon'; it must be window, today, a date such as 2026-12-01",
  ],
  [['keys', 'undo-topup', 'key_x'], 'TOP_UP'],
  [['usage', 'reset', 'key_x', '--window', 'all'], "--window is 'all'; it must be one of second,"],
])('`tollgate %s` is wrong usage', async (words, message) => {
  expect(await run({}, ...(words as string[]))).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
});
