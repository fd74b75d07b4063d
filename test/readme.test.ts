import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { parsePlans } from '../src/config/plans.ts';
import { ROOT, runTollgate, startTollgate } from './support/processes.ts';

const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

/** The rows of the table that follows a heading, cells without their backquotes. */
function tableUnder(heading: string): string[][] {
  const section = README.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

test('the two commands of the README are scripts of package.json', () => {
  expect(README).toContain('npm ci && npm start');
  expect(README).toContain('npm ci && npm test');
  expect(manifest.scripts).toMatchObject({ start: expect.any(String), test: expect.any(String) });
});

test('the plans.yaml of the README is accepted', () => {
  const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(README)!;
  expect(parsePlans(yaml!, 'README.md')).not.toHaveProperty('faults');
});

test('the first request of the README works when pasted, and its answer has the fields shown', async () => {
  const running = await startTollgate(['start'], { env: { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' } });
  const [, curl] = await running.until(/^ {2}(curl .*)$/m);
  const { stdout } = await promisify(execFile)('sh', ['-c', curl!]);
  const [, shown] = /HTTP\/1\.1 200 OK\n([\s\S]*?)\n\n/.exec(README)!;
  for (const line of shown!.split('\n')) expect(stdout).toMatch(new RegExp(`^${line.split(':')[0]}: `, 'm'));
  expect(stdout).toContain('X-RateLimit-Remaining: 59');
  expect(stdout).toContain('RateLimit-Policy: "minute";q=60;w=60, "day";q=1000;w=86400');
  expect((await running.stop()).code).toBe(0);
});

test('the error codes of the README are the codes of the gateway, with their status', () => {
  const told = tableUnder('What callers see').flatMap(([statuses, codes]) =>
    [...codes!.matchAll(/`([a-z_]+)`/g)].map(([, code]) => ({ code: code!, statuses: statuses! })),
  );
  const source = readFileSync(join(ROOT, 'src/annotate/error.ts'), 'utf8');
  const [, table] = /const STATUS = \{([\s\S]*?)\}/.exec(source)!;
  const known = [...table!.matchAll(/(\w+): (\d+)/g)];
  expect(told.map(({ code }) => code).sort()).toEqual(known.map(([, code]) => code).sort());
  for (const [, code, status] of known) {
    expect(told.find((row) => row.code === code)?.statuses.split(', ')).toContain(status);
  }
});

test('every command of the README has a help text', async () => {
  const names = tableUnder('Commands').flatMap(([cell]) => {
    const [first, ...others] = [...cell!.matchAll(/`(?:tollgate )?([^`]+)`/g)].map(([, words]) => words!);
    const command = first!.replace(/ [A-Z_]+$/, '');
    return [command, ...others.map((word) => `${command.split(' ')[0]} ${word}`)];
  });
  expect(names.length).toBeGreaterThan(12);
  const finished = await Promise.all(names.map((name) => runTollgate([...name.split(' '), '--help'])));
  for (const [i, { code, stdout }] of finished.entries()) {
    expect({ name: names[i], code }).toEqual({ name: names[i], code: 0 });
    expect(stdout).toContain(`Usage: tollgate ${names[i]}`);
  }
}, 60_000);

test('the libraries of the README are the dependencies, each with its reason', () => {
  const told = tableUnder('Libraries').flatMap(([names]) => names!.split(', '));
  expect(told.filter((name) => name !== 'node:http').sort()).toEqual(Object.keys(manifest.dependencies).sort());
});

test('the folders of the source map are there', () => {
  for (const [folder] of tableUnder('Source map')) {
    expect(existsSync(join(ROOT, folder!.replaceAll('`', '')))).toBe(true);
  }
});
