import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { optionsOf, parseWords } from '../../src/cli/terminal/command.ts';
import { commandsMeantBy, meantBy } from '../../src/cli/terminal/meant.ts';
import { OF_STORE, VARIABLES } from '../../src/cli/terminal/variables.ts';
import { ALL_COMMANDS, main } from '../../src/main.ts';
import { ROOT, temporaryFolder } from '../support/processes.ts';
import { runCommand } from '../support/run-command.ts';

const commands = ALL_COMMANDS;

/** The words of a command line as a shell would read them, without settings, redirections and what is around it. */
function wordsOf(line: string): string[] {
  const command = /\btollgate (.*?)(?:\)| [<>|] .*)?$/.exec(line)?.[1] ?? '';
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, one, other, plain]) => one ?? other ?? plain!);
}

describe('every command', () => {
  test('has an example that it takes, and a help text with its options, variables and examples', async () => {
    expect(commands.length).toBeGreaterThan(30);
    for (const command of commands) {
      expect(command.examples, command.name).not.toEqual([]);
      const names = command.name.split(' ');
      for (const line of command.examples) {
        const words = wordsOf(line);
        expect(words.slice(0, names.length), line).toEqual(names);
        expect(() => parseWords(command, words.slice(names.length)), line).not.toThrow();
      }
      const { code, stdout } = await runCommand({}, ...names, '--help');
      expect(code).toBe(0);
      for (const text of [
        ...Object.keys(command.options).map((name) => `--${name}`),
        ...command.environment,
        ...command.examples,
      ]) {
        expect(stdout, command.name).toContain(text);
      }
      expect(await runCommand({}, 'help', ...names)).toEqual({ code, stdout, stderr: '' });
    }
  });

  test('names the environment variables that it reads', async () => {
    // These would serve, or write into this folder.
    const skipped = ['serve', 'start', 'pets', 'init', 'schema', 'docs', 'help', 'version', 'completion'];
    const readBy = new Map<string, string[]>();
    for (const command of commands.filter(({ name }) => !skipped.includes(name))) {
      const read = new Set<string>();
      const values: NodeJS.ProcessEnv = { TOLLGATE_DATA: await temporaryFolder() };
      const env = new Proxy(values, {
        get: (target, name) => {
          read.add(String(name));
          return target[String(name)];
        },
      });
      for (const line of command.examples) {
        await main(wordsOf(line), {
          env,
          out: () => {},
          error: () => {},
          isTerminal: false,
          hiddenInput: async () => '',
        });
      }
      readBy.set(command.name, [...read]);
      const special = ['TOLLGATE_PLANS', 'TOLLGATE_CONFIG', 'BACKUP_PASSPHRASE'].filter((name) => read.has(name));
      expect(command.environment, command.name).toEqual(expect.arrayContaining(special));
    }
    const onStore = commands.filter(({ environment }) => environment.includes('REDIS_URL')).map(({ name }) => name);
    expect(onStore.length).toBeGreaterThan(20);
    for (const name of onStore) {
      expect(commands.find((command) => command.name === name)!.environment, name).toEqual(
        expect.arrayContaining(name === 'init' ? [] : [...OF_STORE]),
      );
    }
  });
});

test('a command that prints a table takes --no-header, and its help lists it and NO_COLOR', async () => {
  const names = [
    'keys list',
    'plans show',
    'plans diff',
    'plans history',
    'plans simulate',
    'bans list',
    'customers list',
    'customers usage',
    'audit',
    'usage',
    'now',
    'deprecations',
  ];
  const having = commands.filter((command) => 'no-header' in optionsOf(command)).map(({ name }) => name);
  expect(having.toSorted()).toEqual(names.toSorted());
  for (const name of names) {
    const { stdout } = await runCommand({}, ...name.split(' '), '--help');
    expect(stdout, name).toMatch(/^ {2}--no-header {2,}\S/m);
    expect(stdout, name).toMatch(/^ {2}NO_COLOR {2,}\S/m);
  }
  expect((await runCommand({}, 'keys', 'show', 'KEY_ID', '--no-header')).code).toBe(2);
});

test('the variables of the help texts are those of the contract', () => {
  const contract = readFileSync(join(ROOT, 'docs', 'contract.md'), 'utf8');
  const missing = Object.keys(VARIABLES).filter((name) => !new RegExp(`\\b${name}\\b`).test(contract));
  expect(missing).toEqual([]);
});

test.each([
  [['keys', 'lst'], "There is no command 'keys lst'. Did you mean `tollgate keys list`? See `tollgate keys --help`.\n"],
  [['key', 'create'], "There is no command 'key'. Did you mean `tollgate keys create`? See `tollgate --help`.\n"],
  [['sevre'], "There is no command 'sevre'. Did you mean `tollgate serve`? See `tollgate --help`.\n"],
  [
    ['plans', 'simulte'],
    "There is no command 'plans simulte'. Did you mean `tollgate plans simulate`? See `tollgate plans --help`.\n",
  ],
  [
    ['keys', 'create', '--paln', 'x'],
    "Unknown option '--paln'. Did you mean --plan? See `tollgate keys create --help`.\n",
  ],
  [['keys', 'create', '--zzzzzz'], "Unknown option '--zzzzzz'. See `tollgate keys create --help`.\n"],
])('%j: what was probably meant is said', async (words, stderr) => {
  expect(await runCommand({}, ...words)).toEqual({ code: 2, stdout: '', stderr });
});

test('a word far from every command is told which command lists them all, and a long one costs nothing', async () => {
  const stderr = "There is no command 'elephant'. `tollgate help` lists the commands.\n";
  expect(await runCommand({}, 'elephant')).toEqual({ code: 2, stdout: '', stderr });
  expect((await runCommand({}, 'keys', 'elephant')).stderr).toMatch(/The commands are: keys create, keys update, /);
  expect(meantBy('x'.repeat(100_000), ['keys'])).toBeNull();
});

// The habits of people who know kubectl, gh or stripe.
test.each([
  ['keys ls', '`tollgate keys list`'],
  ['keys get', '`tollgate keys list`'],
  ['keys get acme', '`tollgate keys show`'],
  ['keys describe acme', '`tollgate keys show`'],
  ['keys rm acme', '`tollgate keys delete`'],
  ['keys remove acme', '`tollgate keys delete`'],
  ['keys edit acme --name x', '`tollgate keys update`'],
  ['keys disable acme', '`tollgate keys suspend`'],
  ['keys re', '`tollgate keys revoke` or `tollgate keys resume` or `tollgate keys restore`'],
  ['key ls', '`tollgate keys list`'],
  ['keyz list', '`tollgate keys list`'],
  ['cust ls', '`tollgate customers list`'],
  ['customers update acme', '`tollgate customers edit`'],
  ['plans list', '`tollgate plans show`'],
  ['plans get', '`tollgate plans show`'],
  ['bans rm acme', '`tollgate bans lift`'],
  ['unban acme', '`tollgate bans lift`'],
  ['ban acme', '`tollgate keys suspend` or `tollgate customers suspend`'],
  ['get keys', '`tollgate keys list`'],
  ['get key acme', '`tollgate keys show`'],
  ['describe customer acme', '`tollgate customers show`'],
  ['delete key acme', '`tollgate keys delete`'],
  ['crate keys', '`tollgate keys create`'],
  ['create', '`tollgate keys create` or `tollgate customers create`'],
  ['apply -f keys.yaml', '`tollgate keys apply`'],
  ['get usage acme', '`tollgate usage`'],
  ['list audit', '`tollgate audit`'],
])('`tollgate %s` is told what was probably meant: %s', async (line, meant) => {
  const { code, stdout, stderr } = await runCommand({}, ...line.split(' '));
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^There is no command '[^']+'\. Did you mean /);
  expect(stderr).toContain(`Did you mean ${meant}? See \`tollgate `);
});

test.each([
  ['keys list -o json', 'Did you mean --json?'],
  ['keys list --output wide', 'Did you mean --json?'],
  ['keys show KEY_ID --jq .id', 'Give --json, and pipe the output to jq.'],
  ['keys list -n 5', 'Did you mean --limit?'],
  ['keys list --filter plan=pro', 'Did you mean --search?'],
  ['keys list -q', '`--no-header | cut -f 1` prints the first column alone.'],
  ['keys list --no-headers', 'Did you mean --no-header?'],
  ['keys list --sort-by plan', '`--no-header | sort` orders the rows otherwise.'],
  ['keys list -A', 'Did you mean --all?'],
  ['keys list --server http://127.0.0.1:9090', 'Did you mean --gateway?'],
  ['keys list --token x', 'The token of a gateway is in TOLLGATE_TOKEN'],
  ['audit -f', '`watch tollgate …` repeats a command.'],
  ['keys revoke KEY_ID --force', 'Did you mean --yes?'],
  ['keys apply -f keys.yaml', 'FILE is given by itself, without an option.'],
  ['keys show --name acme', 'KEY_ID is given by itself, without an option.'],
  ['usage --customer acme', 'ID is given by itself, without an option.'],
  ['routes import openapi.yaml -o gateway.yaml', 'Did you mean --out?'],
  ['keys export --gatewy http://127.0.0.1:9090', 'Did you mean --gateway?'],
  ['doctor --gateway http://127.0.0.1:9090', 'This command works on the store itself.'],
])('`tollgate %s` is told the option that it has: %s', async (line, advice) => {
  const { code, stdout, stderr } = await runCommand({}, ...line.split(' '));
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^Unknown option '-/);
  expect(stderr).toContain(`. ${advice}`);
});

test.each([
  ['keys create acme --plan free', "Unexpected word 'acme'. Did you mean --name? See `tollgate keys create --help`.\n"],
  [
    'usage get acme',
    "Unexpected word 'acme'. The command is `tollgate usage ID [options]`. See `tollgate usage --help`.\n",
  ],
  ['--json keys list', "There is no command '--json'. Options follow the command: `tollgate keys list [options]`.\n"],
  [
    '--gateway URL keys list',
    "There is no command '--gateway'. Options follow the command: `tollgate keys list [options]`.\n",
  ],
  [
    'keys --json list',
    "There is no command 'keys --json'. Options follow the command: `tollgate keys list [options]`.\n",
  ],
  [
    'keys list --plan free --plan pro',
    '--plan is given several times; give it once. See `tollgate keys list --help`.\n',
  ],
])('`tollgate %s` is told where its words belong', async (line, stderr) => {
  expect(await runCommand({}, ...line.split(' '))).toEqual({ code: 2, stdout: '', stderr });
});

test('a group alone is an error that shows the help of its commands', async () => {
  const { stdout } = await runCommand({}, 'keys', '--help');
  expect(await runCommand({}, 'keys')).toEqual({ code: 2, stdout: '', stderr: stdout });
});

test.each([
  ['logs', 'standard output'],
  ['reload', 'SIGHUP'],
  ['status', '`tollgate doctor`'],
  ['start-server', '`tollgate serve`'],
  ['events', 'GET /admin/events/requests'],
  ['auth login', 'TOLLGATE_TOKEN'],
  ['config view', '`tollgate gateway check`'],
  ['edit plans', 'plans.yaml'],
  ['plans add big', 'plans.yaml'],
  ['-v', '`tollgate version`'],
])('what there is in place of `tollgate %s` is said', async (line, text) => {
  const { code, stdout, stderr } = await runCommand({}, ...line.split(' '));
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^There is no command '/);
  expect(stderr).toContain(text);
});

test('what is suggested in place of other words is a command that there is', () => {
  const names = commands.map(({ name }) => name);
  const groups = new Set(names.map((name) => name.split(' ')[0]!));
  const words = ['get', 'ls', 'rm', 'describe', 'edit', 'new', 'validate', 'roll', 'log', 'login', 'kez', 'elephant'];
  for (const first of [...words, ...groups]) {
    for (const second of words) {
      const { commands: meant, sentence } = commandsMeantBy([first, second], names);
      const said = [...(sentence ?? '').matchAll(/`tollgate ([a-z ]+)`/g)].map(([, name]) => name!);
      for (const name of [...meant, ...said]) {
        expect(names.includes(name) || (name !== first && groups.has(name)), `${first} ${second}: ${name}`).toBe(true);
      }
    }
  }
});

test.each([
  ['list', ['list', 'lift'], 'list'],
  ['lits', ['list', 'lift'], 'list'],
  ['ls', ['list'], null],
  ['crete', ['create', 'rotate'], 'create'],
  ['LIST', ['list'], 'list'],
])('%s among %j is %s', (given, known, meant) => {
  expect(meantBy(given, known)).toBe(meant);
});

test('an option takes a negative number as its value, and says of another value with a dash how it is written', async () => {
  for (const command of commands) {
    for (const [name, option] of Object.entries(optionsOf(command))) {
      if (option.type === 'boolean') continue;
      const positionals = command.positionals.filter((word) => !word.startsWith('['));
      const given = parseWords(command, [...positionals, `--${name}`, '-500']).options[name];
      expect(given, `${command.name} --${name}`).toEqual(option.multiple === true ? ['-500'] : '-500');
      expect(parseWords(command, [...positionals, `--${name}=--x`]).options[name]?.toString()).toBe('--x');
      for (const more of [['--json'], ['-x'], ['--help-me', '5'], []]) {
        const run = () => parseWords(command, [...positionals, `--${name}`, ...more]);
        expect(run, `${command.name} --${name}`).toThrow(
          more[0] === undefined
            ? `--${name} needs a value, ${option.value ?? 'VALUE'}, but nothing follows. See`
            : `but ${more[0]} follows. A value that begins with - is written as --${name}=-…. See`,
        );
      }
    }
  }
  expect(await runCommand({}, 'keys', 'topup', 'key_1', '--window', 'day', '--amount', '-500')).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^--amount is '-500'; it must be a whole number from 1 to /),
  });
  expect((await runCommand({}, 'audit', '--limit', '-5')).stderr).toMatch(/^--limit is '-5'; it must be /);
});

test('the help names every command once, in groups, each with one short line within 80 columns; without a command it is an error', async () => {
  const { code, stdout, stderr } = await runCommand({});
  expect([code, stdout]).toEqual([2, '']);
  expect((await runCommand({}, 'help')).stdout).toBe(stderr);
  expect(stderr.match(/^\w+:$/gm)).toEqual(['Run:', 'Settings:', 'Keys:', 'Customers:', 'Look:', 'Help:']);
  for (const { name } of commands) expect(stderr.match(new RegExp(`^ {2}${name} {2,}\\S`, 'gm')), name).toHaveLength(1);
  expect(stderr).toContain('`tollgate help COMMAND`');
  for (const line of stderr.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
});

test('the help of a command is as wide as the terminal, from 60 to 110 columns', async () => {
  for (const [columns, width] of [
    [40, 60],
    [100, 100],
    [300, 110],
  ] as const) {
    const { stdout } = await runCommand({ TEST_COLUMNS: String(columns) }, 'plans', 'diff', '--help');
    const texts = stdout.slice(0, stdout.indexOf('Examples:')).split('\n');
    const longest = Math.max(...texts.map((line) => line.length));
    expect(longest).toBeLessThanOrEqual(width);
    expect(longest).toBeGreaterThan(width - 12);
  }
});

test('help, version and the help of a group', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect((await runCommand({}, 'version')).stdout).toBe(`${version}\n`);
  expect((await runCommand({}, '--version')).stdout).toBe(`${version}\n`);
  expect(await runCommand({}, 'help')).toEqual(await runCommand({}, '--help'));
  const group = await runCommand({}, 'help', 'gateway');
  expect([group.code, group.stdout]).toEqual([
    0,
    expect.stringMatching(/Usage: tollgate gateway COMMAND[\s\S]*gateway check /),
  ]);
});

describe('completion', () => {
  /** What bash offers for a line whose last word is to be completed. */
  function offered(script: string, line: string): string[] {
    const words = line.split(' ');
    const test = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tollgate; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-uc', `${script}\n${test}`, 'bash', ...words], {
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    return stdout.split('\n').filter((word) => word !== '');
  }

  test('in bash offers commands, their second words, options and the values of options', async () => {
    const { stdout: script } = await runCommand({}, 'completion', 'bash');
    expect(offered(script, 'tollgate ke')).toEqual(['keys']);
    expect(offered(script, 'tollgate keys re')).toEqual(['revoke', 'resume', 'restore']);
    expect(offered(script, 'tollgate keys create --na')).toEqual(['--name']);
    expect(offered(script, 'tollgate usage --da')).toEqual(['--days', '--data']);
    expect(offered(script, 'tollgate keys import --format n')).toEqual(['ndjson']);
    expect(offered(script, 'tollgate completion f')).toEqual(['fish']);
    // A file: left to the shell.
    expect(offered(script, 'tollgate keys import x')).toEqual([]);
    const all = offered(script, 'tollgate ');
    expect(new Set(commands.map(({ name }) => name.split(' ')[0]!)).difference(new Set(all))).toEqual(new Set());
  });

  test.each(['bash', 'zsh', 'fish'])('for %s has every command and option', async (shell) => {
    const { code, stdout } = await runCommand({}, 'completion', shell);
    expect(code).toBe(0);
    for (const { name, options } of commands) {
      for (const word of name.split(' ')) expect(stdout).toContain(word);
      for (const option of Object.keys(options))
        expect(stdout, name).toContain(shell === 'fish' ? `-l ${option} ` : `--${option}`);
    }
  });

  test('another shell is wrong usage', async () => {
    expect(await runCommand({}, 'completion', 'tcsh')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/bash, zsh, fish/),
    });
  });
});
