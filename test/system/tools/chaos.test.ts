import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readOptions } from '../../../tools/chaos/options.ts';
import { SCENARIOS } from '../../../tools/chaos/scenarios/all.ts';
import { SOAK } from '../../../tools/chaos/scenarios/soak.ts';
import { ROOT, startProcess, temporaryFolder } from '../../support/processes.ts';

async function chaos(...args: string[]) {
  const report = join(await temporaryFolder(), 'report.html');
  const main = join(ROOT, 'tools', 'chaos', 'main.ts');
  const running = startProcess(process.execPath, [main, '--json', '--report', report, ...args]);
  const { code } = await running.exit;
  if (running.stdout === '') throw new Error(running.stderr);
  return { code, ...JSON.parse(running.stdout), page: await readFile(report, 'utf8') };
}

test('chaos starts its own stand, finds the gateways within their bounds, and writes a page that needs nothing but itself', async () => {
  const { code, ok, rows, page } = await chaos('--only', 'link cut', '--seed', '7');
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
  expect(page.match(/<svg/g)?.length).toBeGreaterThanOrEqual(2);
  expect(page).toContain('class="fault"');
  expect(page).not.toMatch(/<script|<link|src=|url\(|https?:/);
});

test('a scenario that cannot be played is a row that says why, and the exit code is 1', async () => {
  const report = join(await temporaryFolder(), 'report.html');
  const running = startProcess(
    process.execPath,
    [join(ROOT, 'tools', 'chaos', 'main.ts'), '--only', 'nothing', '--report', report],
    { env: { PATH: '/nowhere', TMPDIR: '/nowhere' } },
  );
  expect(await running.exit).toEqual({ code: 1, signal: null });
  expect(running.stdout).toContain('It could not be played: ');
});

test('the command line chooses what is played, and a wrong one is refused with a sentence', () => {
  expect(readOptions([])?.scenarios).toEqual(SCENARIOS);
  expect(readOptions(['--only', 'link'])?.scenarios.map(({ name }) => name)).toContain('link cut');
  expect(readOptions(['--only', 'link cut'])?.scenarios.map(({ name }) => name)).toEqual(['link cut']);
  expect(readOptions(['--soak'])).toMatchObject({ minutes: 30, scenarios: [...SCENARIOS, SOAK] });
  expect(readOptions(['--only', 'soak', '--minutes', '0.5'])).toMatchObject({ minutes: 0.5, scenarios: [SOAK] });
  expect(readOptions(['--report', 'some/folder'])?.reportFile).toBe('some/folder/report.html');
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
