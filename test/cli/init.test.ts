import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { main } from '../../src/main.ts';
import { ROOT, temporaryFolder } from '../support/processes.ts';
import { runCommand } from '../support/run-command.ts';

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});
const init = (...words: string[]) => runCommand({}, 'init', folder, ...words);
const textOf = (name: string) => readFileSync(join(folder, name), 'utf8');
/** Runs the command on a terminal on which a person gives these answers, and null to leave. */
async function initAnswering(answers: readonly (string | null)[], env: NodeJS.ProcessEnv = {}) {
  const questions: string[] = [];
  let printed = '';
  const question = async (text: string) => {
    questions.push(text);
    return answers[questions.length - 1] ?? null;
  };
  const print = (text: string) => {
    printed += text;
  };
  const code = await main(['init', folder], { env, out: print, error: print, isTerminal: true, question });
  return { code, questions, printed };
}
const checked = (env: NodeJS.ProcessEnv = {}) => {
  const files = { TOLLGATE_CONFIG: join(folder, 'config/gateway.yaml'), TOLLGATE_PLANS: join(folder, 'plans.yaml') };
  return runCommand({ ...files, ...env }, 'gateway', 'check', '--strict');
};
const envFile = () =>
  Object.fromEntries(
    [...textOf('tollgate.env').matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value!]),
  ) as NodeJS.ProcessEnv;

test.each(['tiers', 'single', 'sliding', 'basic=60/minute,basic=500/day,big=1000/minute'])(
  'what it writes for the plans %s is sound, and says the next commands',
  async (plans) => {
    const { code, stdout, stderr } = await init('--upstream', 'http://127.0.0.1:3000', '--plans', plans);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(
      new RegExp(
        `^${folder}/config/gateway.yaml is written\\.\n(?:.* is written\\.\n)+\nNext:\n {2}cd ${folder}\n {2}tollgate doctor\n`,
      ),
    );
    expect(await checked()).toMatchObject({ code: 0, stdout: expect.stringContaining('1 upstream (service)') });
    expect(textOf('config/gateway.yaml')).toContain('targets: ["http://127.0.0.1:3000"]');
    expect(readdirSync(folder).toSorted()).toEqual(['.gitignore', 'config', 'plans.yaml']);
    expect(textOf('.gitignore')).toBe('tollgate.env\ndata/\nsecrets/\n');
  },
);

test('an editor finds the schema of each file by its first line', async () => {
  expect((await init('--upstream', 'http://127.0.0.1:3000')).code).toBe(0);
  for (const [file, title] of [
    ['config/gateway.yaml', 'gateway.schema.json'],
    ['plans.yaml', 'plans.schema.json'],
  ] as const) {
    const [, schema] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(textOf(file))!;
    const found = join(folder, dirname(file), schema!);
    expect(readFileSync(found, 'utf8')).toBe(readFileSync(join(ROOT, 'config', title), 'utf8'));
  }
});

test('a .gitignore that is there is kept, and the lines that it should have are named', async () => {
  writeFileSync(join(folder, '.gitignore'), 'mine\n');
  const { code, stdout } = await init('--upstream', 'http://127.0.0.1:3000');
  expect([code, textOf('.gitignore')]).toEqual([0, 'mine\n']);
  expect(stdout).toContain('.gitignore was there and is kept. It should have tollgate.env, data/, secrets/.');
});

test.each([
  ['localhost:3100', 'http://localhost:3100'],
  ['[::1]:3100', 'http://[::1]:3100'],
])('the address %s without a scheme is one of http', async (given, target) => {
  expect((await init('--upstream', given)).code).toBe(0);
  expect(textOf('config/gateway.yaml')).toContain(`targets: ["${target}"]`);
});

test('the next commands are those of an installation that npx finds', async () => {
  const env = { npm_lifecycle_event: 'npx' };
  const { stdout } = await runCommand(env, 'init', folder, '--upstream', 'http://127.0.0.1:3000');
  expect(stdout).toMatch(/ {2}npx tollgate doctor\n {2}npx tollgate keys create .*\n {2}npx tollgate serve\n$/);
});

test('three questions on a terminal, with defaults; a wrong answer is explained and asked again', async () => {
  const { code, questions, printed } = await initAnswering(['localhost', '', '', 'redis://:p%40ss@cache:6379']);
  expect([code, questions.length]).toEqual([0, 4]);
  expect(questions[0]).toBe(questions[1]);
  expect(printed).toMatch(/^The address of the service is no address of an HTTP server/);
  expect(textOf('config/gateway.yaml')).toContain('"http://127.0.0.1:9000"');
  const env = envFile();
  expect(env.REDIS_URL).toBe('redis://:p%40ss@cache:6379');
  expect(await checked(env)).toMatchObject({ code: 0 });
  expect(printed).not.toContain('p%40ss');
});

test('a person who leaves at a question has nothing written', async () => {
  expect(await initAnswering(['http://127.0.0.1:3000', null])).toMatchObject({
    code: 1,
    printed: 'Nothing was written.\n',
  });
  expect(readdirSync(folder)).toEqual([]);
});

test('the environment file has new secrets, for its owner alone, and is never replaced', async () => {
  expect((await init('--upstream', 'http://127.0.0.1:3000', '--env')).code).toBe(0);
  const before = textOf('tollgate.env');
  expect(statSync(join(folder, 'tollgate.env')).mode & 0o777).toBe(0o600);
  const { KEY_PEPPER, ADMIN_TOKEN } = envFile();
  expect([KEY_PEPPER!.length, ADMIN_TOKEN!.length, KEY_PEPPER === ADMIN_TOKEN]).toEqual([43, 43, false]);
  const again = await init('--upstream', 'http://127.0.0.1:4000', '--store', 'redis', '--force');
  expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/tollgate\.env was there and is kept/)]);
  expect(textOf('tollgate.env')).toBe(before);
  expect(textOf('config/gateway.yaml')).toContain(':4000');
});

test('--store takes the address of a Redis that has no password', async () => {
  expect((await init('--upstream', 'http://127.0.0.1:3000', '--store', 'redis://cache:6380')).code).toBe(0);
  expect(envFile().REDIS_URL).toBe('redis://cache:6380');
});

test('no file is replaced without --force, and none is written if one is there', async () => {
  writeFileSync(join(folder, 'plans.yaml'), 'mine');
  const { code, stderr } = await init('--upstream', 'http://127.0.0.1:3000');
  expect([code, stderr]).toEqual([1, expect.stringMatching(/plans\.yaml exists\. .*--force/)]);
  expect([textOf('plans.yaml'), existsSync(join(folder, 'config'))]).toEqual(['mine', false]);
});

test.each([
  [[], /^--upstream is missing/],
  [['--upstream', 'ftp://host'], /is no address of an HTTP server/],
  [['--upstream', 'http://h', '--plans', 'gold'], /The plans must be tiers, single, sliding, or plans such as/],
  [['--upstream', 'http://h', '--plans', 'a=0x1/minute'], /The plans must be/],
  [
    ['--upstream', 'http://h', '--plans', 'ok=5/day,big=custom/minute'],
    /: 'big=custom\/minute' is not NAME=NUMBER\/WINDOW, .* `custom` .* into plans.yaml afterwards/,
  ],
  [['--upstream', 'http://h', '--plans', 'big=5/min'], /'big=5\/min' is not .* minute, hour, day, week or month\.\n$/],
  [['--upstream', 'http://h', '--plans', 'a=5/day,a=6/day'], /^The plan a has two limits for the day\. Give one\.\n$/],
  [['--upstream', 'http://h', '--store', 'redis://:secret@h'], /belongs into REDIS_URL/],
  [['--upstream', 'http://h', '--store', 'redis://h?password=secret'], /belongs into REDIS_URL/],
  [['--upstream', 'http://h', '--store', 'secret'], /must be embedded, redis, or the address/],
  [['--upstream', 'http://h', '--store', 'ftp://h'], /The address of the Redis /],
])('without a terminal, %j is wrong usage and writes nothing', async (words, message) => {
  const { code, stdout, stderr } = await init(...words);
  expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(message)]);
  expect(stderr).not.toContain('secret');
  expect(readdirSync(folder)).toEqual([]);
});

test('a folder that cannot be written is told', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const { code, stderr } = await runCommand({}, 'init', file, '--upstream', 'http://127.0.0.1:3000');
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^The folder .* cannot be made \(E.*Name another/)]);
});
