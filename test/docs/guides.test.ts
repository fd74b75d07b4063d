import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import manifest from '../../package.json' with { type: 'json' };
import { parseKeysFile } from '../../src/config/keys-file.ts';
import { loadConfiguration } from '../../src/config/settings.ts';
import { main } from '../../src/main.ts';
import { ROOMS } from '../support/architecture.ts';
import { blocksOf, PAGES, textOf } from '../support/guides.ts';
import { ROOT, startProcess, startTollgate, temporaryFolder } from '../support/processes.ts';

const run = promisify(execFile);

/** What stands between backquotes in the running text of a page. */
function codeOf(page: string): string[] {
  const text = textOf(page).replaceAll(/^ *```[\s\S]*?^ *```$/gm, '');
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replaceAll(/\s+/g, ' '));
}

/** The lines that a page tells the reader to type, those that go on behind a backslash put together. */
function linesToType(page: string): string[] {
  return blocksOf(page)
    .filter(({ language }) => ['sh', 'console'].includes(language))
    .flatMap(({ language, text }) => {
      const lines = text.replaceAll('\\\n', ' ').split('\n');
      return language === 'sh' ? lines : lines.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2));
    })
    .map((line) => line.trim());
}

/** The first cells of the rows of the first table of a page. */
function firstColumn(page: string): string[] {
  const rows = textOf(page)
    .split('\n')
    .filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) => row.split('|')[1]!.trim());
}

describe('the README', () => {
  const readme = textOf('README.md');
  const [shown, refused] = blocksOf('README.md')
    .map(({ text }) => text)
    .filter((text) => text.startsWith('HTTP/1.1'));

  test('fits on two screens', () => {
    expect(readme.split('\n').length).toBeLessThan(140);
  });

  test('names two commands that are scripts of package.json', () => {
    expect(readme).toContain('npm ci && npm start');
    expect(readme).toContain('npm ci && npm test');
    expect(manifest.scripts).toMatchObject({ start: expect.any(String), test: expect.any(String) });
  });

  test('names each page that is written by hand', () => {
    for (const page of PAGES.slice(1)) expect(readme).toContain(`](${page})`);
  });

  test('shows what npm start prints, what the first request gets when it is pasted, and what a spent quota gets', async () => {
    const running = await startTollgate(['start'], { env: { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' } });
    const [, curl] = await running.until(/^ {2}(curl .*)$/m);
    const [, output] = /\$ npm ci && npm start\n([\s\S]*?)```/.exec(readme)!;
    // The rows of the log are of requests.
    const printed = output!.split('\n').filter((line) => !/^\d\d:\d\d:\d\d /.test(line));
    for (const line of printed.map((text) => text.trim())) {
      const [beginning] = line.split(/:\d+|tg_live_|…/);
      expect(running.stdout).toContain(beginning);
    }

    const first = (await run('sh', ['-c', curl!])).stdout;
    const fieldsOf = (answer: string) => answer.split(/\r?\n\r?\n/)[0]!.split(/\r?\n/);
    for (const line of fieldsOf(shown!)) expect(first).toMatch(new RegExp(`^${line.split(':')[0]}`, 'm'));
    for (const exact of ['X-RateLimit-Limit: 60', 'X-RateLimit-Remaining: 59']) {
      expect(shown).toContain(exact);
      expect(first).toContain(exact);
    }
    expect(first).toContain(/^RateLimit-Policy: .*$/m.exec(shown!)![0]);

    let last = '';
    for (let sent = 1; sent <= 60; sent++) last = (await run('sh', ['-c', curl!])).stdout;
    for (const line of fieldsOf(refused!)) expect(last).toMatch(new RegExp(`^${line.split(':')[0]}`, 'm'));
    const bodyOf = (answer: string) => JSON.parse(answer.slice(answer.indexOf('{"code"'))) as Record<string, unknown>;
    const timeless = (body: Record<string, unknown>) =>
      JSON.stringify(body)
        .replace(/\d+ s/, 'N s')
        .replace(/"resetAt":\d+/, '"resetAt":0');
    expect(timeless(bodyOf(last))).toBe(timeless(bodyOf(refused!)));
    expect((await running.stop()).code).toBe(0);
  });
});

test('on the PATH of a clone, the command takes the paths of its caller, also those that are not given', async () => {
  const [path] = /export PATH=[^`]*/.exec(textOf('docs/guides/keys.md'))!;
  const cwd = await temporaryFolder();
  writeFileSync(join(cwd, 'plans.yaml'), 'plans: { ours: { limits: { minute: 5 } } }\n');
  writeFileSync(join(cwd, 'broken.yaml'), 'plans: { ours: { limits: { minut: 5 } } }\n');
  const check = async (...words: string[]) => {
    const command = `${path.replace('/path/to/clone', '"$CLONE"')}; tollgate plans check "$@"`;
    const running = startProcess('sh', ['-c', command, 'sh', ...words], { cwd, env: { ...process.env, CLONE: ROOT } });
    const { code } = await running.exit;
    return { code, output: running.stdout + running.stderr };
  };
  expect(await check()).toEqual({ code: 0, output: expect.stringContaining('plans.yaml: 1 plan (ours)') });
  expect(await check('broken.yaml')).toEqual({
    code: 1,
    output: expect.stringMatching(/^broken\.yaml:1:\d+: .*minut/m),
  });
});

describe('each piece of YAML', () => {
  const pieces = PAGES.flatMap((page) =>
    blocksOf(page)
      .filter(({ language }) => language === 'yaml')
      .map(({ text }) => ({ page, text })),
  );

  test('says whose it is', () => {
    expect(pieces.length).toBeGreaterThan(8);
    for (const { page, text } of pieces) expect(text, page).toMatch(/^# (gateway|plans|keys)\.yaml\n/);
  });

  test.each(pieces)('of $page is accepted', async ({ page, text }) => {
    if (text.startsWith('# keys.yaml')) {
      expect(parseKeysFile(text, 'keys.yaml', ['pro', 'business'])).not.toHaveProperty('faults');
      return;
    }
    const folder = await temporaryFolder();
    const [gateway, plans] = [join(folder, 'gateway.yaml'), join(folder, 'plans.yaml')];
    const ours = readFileSync(join(ROOT, 'config/gateway.yaml'), 'utf8');
    const oursPlans = readFileSync(join(ROOT, 'plans.yaml'), 'utf8');
    if (text.startsWith('# plans.yaml')) {
      writeFileSync(plans, text);
      writeFileSync(gateway, ours);
    } else {
      // A piece stands in the place of its part of the whole file.
      const { upstreams, routes } = parse(ours) as Record<string, unknown>;
      writeFileSync(gateway, stringify({ upstreams, routes, ...(parse(text) as object) }));
      writeFileSync(plans, oursPlans);
      const policy = /\.\/policies\/(\w+\.ts)/.exec(text)?.[1];
      if (policy !== undefined) {
        mkdirSync(join(folder, 'policies'));
        writeFileSync(join(folder, 'policies', policy), blocksOf(page).find(({ language }) => language === 'ts')!.text);
      }
    }
    expect(await loadConfiguration({ TOLLGATE_CONFIG: gateway, TOLLGATE_PLANS: plans })).not.toHaveProperty('faults');
  });
});

/** Words that only begin the name of a command. */
const GROUPS = ['cache', 'keys', 'customers', 'gateway', 'plans', 'bans', 'routes', 'import'];

/** The words behind `tollgate` of each command that the pages name, without redirections and what follows in a pipe. */
function commandsOf(page: string): string[] {
  const typed = linesToType(page).flatMap((line) => {
    const called = /^(?:docker compose exec \S+ |npm run -s (?=tollgate --))?tollgate (?:-- )?(.*)$/.exec(line);
    return called === null ? [] : [called[1]!.split(/ [|>] /)[0]!];
  });
  const named = codeOf(page).flatMap((code) => /^tollgate (?!X$)(.*)$/.exec(code)?.[1] ?? []);
  return [...typed, ...named];
}

test('each command that a page names has a help text, and each of its options stands there', async () => {
  const helps = new Map<string, string>();
  const helpOf = async (words: string) => {
    if (!helps.has(words)) {
      let text = '';
      const out = (piece: string) => {
        text += piece;
      };
      const code = await main([...words.split(' '), '--help'], { env: {}, out, error: out, isTerminal: false });
      expect({ words, code, text }).toEqual({
        words,
        code: 0,
        text: expect.stringContaining(`Usage: tollgate ${words}`),
      });
      helps.set(words, text);
    }
    return helps.get(words)!;
  };
  for (const page of PAGES) {
    for (const command of commandsOf(page)) {
      if (GROUPS.includes(command)) continue;
      const [first, second] = command.split(' ');
      // `usage` is a command itself, and also the first word of others.
      const hasTwoWords = GROUPS.includes(first!) || /^usage [a-z]+( |$)/.test(command);
      const help = await helpOf(hasTwoWords ? `${first} ${second}` : first!);
      for (const [, option] of command.matchAll(/(?<= )(--[a-z0-9-]+)/g)) {
        expect(help, `${page}: ${command}`).toContain(`${option} `);
      }
    }
  }
  expect(helps.size).toBeGreaterThan(12);
});

test('each script that a page names is one of package.json, and knows the options that it is given', async () => {
  const named = PAGES.flatMap((page) =>
    [...linesToType(page), ...codeOf(page)].flatMap((code) => {
      const called = /^npm run (?:-s )?([a-z:]+)(?: -- (.*))?$/.exec(code);
      return called === null || called[1] === 'tollgate' ? [] : [{ page, script: called[1]!, words: called[2] ?? '' }];
    }),
  );
  const scripts = new Set(named.map(({ script }) => script));
  expect([...scripts]).toEqual(expect.arrayContaining(['load', 'chaos', 'bench', 'fuzz', 'conformance']));
  for (const { page, script } of named) expect(Object.keys(manifest.scripts), page).toContain(script);
  for (const script of ['load', 'chaos', 'bench']) {
    const { stdout } = await run('npm', ['run', '-s', script, '--', '--help'], { cwd: ROOT });
    for (const { page, words } of named.filter((one) => one.script === script)) {
      for (const [option] of words.matchAll(/--[a-z]+/g)) expect(stdout, page).toContain(option);
    }
  }
});

test('each file of config and bin that a page names is there', () => {
  const named = PAGES.flatMap((page) =>
    [...codeOf(page), ...linesToType(page)].flatMap((code) =>
      [...code.matchAll(/(?<![\w/.])(?:config|bin)\/[\w./-]*\w/g)].map(([file]) => ({ page, file })),
    ),
  );
  expect(named.length).toBeGreaterThan(10);
  for (const { page, file } of named) expect(existsSync(join(ROOT, file)), `${page}: ${file}`).toBe(true);
});

test('the libraries are the dependencies, each with its reason', () => {
  const named = firstColumn('docs/internals/libraries.md').flatMap((names) => names.split(', '));
  expect(named.filter((name) => !name.startsWith('node:')).sort()).toEqual(
    Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }).sort(),
  );
});

test('the source map shows the rooms of src in the order of the architecture test, and names files that exist', () => {
  const map = textOf('docs/internals/source-map.md');
  const shown = [...map.split('```')[1]!.matchAll(/^([\w-]+)(?:\/|\.ts) /gm)].map(([, name]) => name);
  expect(shown).toEqual(ROOMS);
  const paths = [...map.matchAll(/`((?:src|test|tools|config)\/[\w./-]+)`/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(50);
  expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
