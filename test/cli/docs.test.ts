import { expect, test } from 'vitest';
import { runCommand } from '../support/run-command.ts';

test('`docs` lists every page of README.md, in its groups', async () => {
  const { code, stdout } = await runCommand({}, 'docs');
  expect(code).toBe(0);
  expect(stdout.match(/^\w+$/gm)).toEqual([
    'Start',
    'Callers',
    'Traffic',
    'Operate',
    'Build',
    'Reference',
    'Internals',
    'Promises',
    'Project',
  ]);
  for (const name of [
    'readme',
    'guides/limits',
    'guides/load-test',
    'reference/log',
    'operate/security',
    'contract',
    'changelog',
  ])
    expect(stdout).toMatch(new RegExp(`^ {2}${name} +\\S`, 'm'));
});

test.each([
  ['guides/limits', '# Choosing a window'],
  ['limits', '# Choosing a window'],
  ['docs/guides/limits.md', '# Choosing a window'],
  ['Choosing a Window', '# Choosing a window'],
  ['gateway-yaml', '# gateway.yaml'],
  ['readme', '# Tollgate'],
])('`docs %s` shows that page', async (word, heading) => {
  const { code, stdout } = await runCommand({}, 'docs', word);
  expect([code, stdout.split('\n')[0]]).toEqual([0, heading]);
});

test('`docs PAGE#SECTION` shows a section with what belongs to it, as links name it', async () => {
  const { code, stdout } = await runCommand({}, 'docs', 'guides/move-from.md#traefik');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^## Traefik\n[\s\S]*\n### What differs\n/);
  expect(stdout).not.toContain('## Caddy');
  for (const [link, line] of [
    ['../contract.md#section-3', /^## .*3/],
    ['reliability.md#244', /^\| <a id="244"><\/a>244 /m],
    ['move-from#what-differs-1', /^### What differs\n\n- Both slide/],
  ] as const)
    expect((await runCommand({}, 'docs', link)).stdout, link).toMatch(line);
  expect(await runCommand({}, 'docs', 'limits#nothing')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      "The page guides/limits has no section 'nothing'. Its sections are: fixed-windows, sliding-windows,",
    ),
  });
});

test('a word for no page, or for several, is an error that says what to do', async () => {
  expect(await runCommand({}, 'docs', 'nothing-of-this')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('`tollgate docs` lists them'),
  });
  const { stderr } = await runCommand({}, 'docs', 'admin-api');
  expect(stderr).toBe('Several pages have this name: guides/admin-api, reference/admin-api.\n');
});

test.each([[['']], [['limits', 'plans']], [['--serve']]])('`docs` with %j is wrong usage', async (words) => {
  expect(await runCommand({}, 'docs', ...words)).toMatchObject({ code: 2, stdout: '' });
});
