import { beforeEach, describe, expect, test } from 'vitest';
import { main } from '../../../src/main.ts';
import { runCommand as run } from '../../support/run-command.ts';
import { STORES } from '../ledger-commands.ts';

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });
  const create = async () =>
    JSON.parse((await run(env, 'keys', 'create', '--plan', 'pro', '--json')).stdout) as { id: string; key: string };
  const lastFours = async (id: string) => {
    const { secrets } = JSON.parse((await run(env, 'keys', 'show', id, '--json')).stdout);
    return secrets.map(({ last4 }: { last4: string }) => last4);
  };

  test('one of two secrets is ended by its last four characters, and the last one is not', async () => {
    const { id, key } = await create();
    const { key: second } = JSON.parse((await run(env, 'keys', 'rotate', id, '--json')).stdout);
    const ended = await run(env, 'keys', 'end-secret', id, '--last4', key.slice(-4));
    expect(ended.stdout).toBe(`The secret has ended. ${id} still has …${second.slice(-4)}.\n`);
    const last = await run(env, 'keys', 'end-secret', id, '--last4', second.slice(-4));
    expect([last.code, last.stderr]).toEqual([1, expect.stringContaining('Rotate the key to replace it')]);
    expect((await run(env, 'keys', 'end-secret', id)).stderr).toContain('--last4 is missing');
  });

  test('a whole secret in place of its last four characters is refused and not printed (reliability 266)', async () => {
    const { id, key } = await create();
    const { code, stdout, stderr } = await run(env, 'keys', 'end-secret', id, '--last4', key);
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining('no more of it')]);
    expect(stderr).not.toContain(key.slice(8, -4));
  });

  test('--leaked ends the earlier secrets at once, and excludes --overlap', async () => {
    const { id } = await create();
    await run(env, 'keys', 'rotate', id, '--overlap', '30d');
    const { stdout } = await run(env, 'keys', 'rotate', id, '--leaked');
    expect(stdout).toContain('the old one no longer works.');
    expect(await lastFours(id)).toHaveLength(1);
    const both = await run(env, 'keys', 'rotate', id, '--leaked', '--overlap', '1h');
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('leave out --overlap or --leaked')]);
    expect(await lastFours(id)).toHaveLength(1);
  });

  test('a person is asked whether the old secret was leaked, unless that is given', async () => {
    const { id } = await create();
    const asked: string[] = [];
    const rotate = (answer: string | null, ...words: string[]) => {
      const question = async (text: string) => {
        asked.push(text);
        return answer;
      };
      const [out, error] = [() => {}, () => {}];
      return main(['keys', 'rotate', id, ...words], { env, out, error, isTerminal: true, question });
    };
    expect(await rotate('')).toBe(0);
    expect(await lastFours(id)).toHaveLength(2);
    expect(await rotate('y')).toBe(0);
    expect(await lastFours(id)).toHaveLength(1);
    expect(asked).toEqual(
      Array(2).fill('Was the old secret leaked? Then it ends at once, and otherwise in 24 h. [y/N] '),
    );
    expect(await rotate('y', '--overlap', '1h')).toBe(0);
    expect(await rotate('n', '--leaked')).toBe(0);
    expect(asked).toHaveLength(2);
    const before = await lastFours(id);
    expect(await rotate(null)).toBe(1);
    expect(await lastFours(id)).toEqual(before);
  });
});
