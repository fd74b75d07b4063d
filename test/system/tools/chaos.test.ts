import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readOptions } from '../../../tools/chaos/options.ts';
import { SCENARIOS } from '../../../tools/chaos/scenarios/all.ts';
import { SOAK } from '../../../tools/chaos/scenarios/soak.ts';
import { ROOT, startProcess } from '../../support/processes.ts';

async function chaos(...args: string[]) {
  const main = join(ROOT, 'tools', 'chaos', 'main.ts');
  const running = startProcess(process.execPath, [main, '--json', ...args]);
  const { code } = await running.exit;
  if (running.stdout === '') throw new Error(running.stderr);
  return { code, ...JSON.parse(running.stdout) };
}

test('chaos starts its own stand, and finds the gateways within their bounds', async () => {
  const { code, ok, rows } = await chaos('--only', 'link cut', '--seed', '7');
  expect(rows.flatMap(({ broken }: { broken: string[] }) => broken)).toEqual([]);
  expect({ code, ok }).toEqual({ code: 0, ok: true });
  const [cut] = rows;
  expect(cut).toMatchObject({ scenario: 'link cut', bans: 'kept', leftovers: [] });
  // Something was seen of each kind, or nothing could have been broken.
  const labels = Object.fromEntries(cut.answers);
  for (const label of ['200', '429 quota', '429 ban', '503 store_unavailable', '401 invalid_api_key']) {
    expect(labels[label], label).toBeGreaterThan(0);
  }
  expect(cut.quotas.find(({ key }: { key: string }) => key === 'fast').admitted).toBeGreaterThanOrEqual(200);
});

test('a scenario that cannot be played is a row that says why, and the exit code is 1', async () => {
  const running = startProcess(process.execPath, [join(ROOT, 'tools', 'chaos', 'main.ts'), '--only', 'nothing'], {
    env: { PATH: '/nowhere', TMPDIR: '/nowhere' },
  });
  expect(await running.exit).toEqual({ code: 1, signal: null });
  expect(running.stdout).toContain('It could not be played: ');
});

test('the command line chooses what is played, and a wrong one is refused with a sentence', () => {
  expect(readOptions([])?.scenarios).toEqual(SCENARIOS);
  expect(readOptions(['--only', 'link'])?.scenarios.map(({ name }) => name)).toContain('link cut');
  expect(readOptions(['--only', 'link cut'])?.scenarios.map(({ name }) => name)).toEqual(['link cut']);
  expect(readOptions(['--soak'])).toMatchObject({ minutes: 30, scenarios: [...SCENARIOS, SOAK] });
  expect(readOptions(['--only', 'soak', '--minutes', '0.5'])).toMatchObject({ minutes: 0.5, scenarios: [SOAK] });
  expect(readOptions([])?.histories).toBe(null);
  expect(readOptions(['--simulated'])?.histories).toBe(100_000);
  expect(readOptions(['--simulated', '--histories', '7'])?.histories).toBe(7);
  for (const args of [
    ['--histories', '7'],
    ['--simulated', '--histories', '0'],
    ['--only', 'nonsense'],
    ['--only', ''],
    ['--minutes', '0'],
    ['--seed', '-1'],
    ['--keys', '0'],
    ['x'],
  ]) {
    expect(() => readOptions(args)).toThrow(/See `npm run chaos -- --help`\.$/);
  }
});

test('no two scenarios have the same name', () => {
  const names = [...SCENARIOS, SOAK].map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});
