import { execFile } from 'node:child_process';
import { appendFile, chmod, copyFile, cp, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { eventually } from '../../support/conditions.ts';
import { ROOT, type Running, startProcess, temporaryFolder } from '../../support/processes.ts';
import { privateRedis } from '../../support/redis.ts';
import { builtRelease, RELEASE } from '../../support/release.ts';
import { ROOM } from '../../support/room.ts';
import { describedSettings, expectChecked } from './described-settings.ts';

// The executable of a release (`npm run build:release`), which is that of `npm run build:binary`, started in a folder that has nothing else, and without Node.js on the PATH.

const FREE = { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' };
const TOKEN = 'a-token-that-only-the-tests-use';
const run = promisify(execFile);

let binary: string;
let folder: string;

beforeAll(async () => {
  binary = join(await temporaryFolder(), 'a-name-of-its-own');
  await copyFile(join(await builtRelease(), RELEASE.executable), binary);
  folder = await temporaryFolder();
}, 300_000 * ROOM);

function start(args: readonly string[], env: Record<string, string> = {}): Running {
  return startProcess(binary, args, {
    cwd: folder,
    env: { ...FREE, PATH: '/nowhere', NODE_COMPILE_CACHE: undefined, ...env },
  });
}

/** A clone of the settings that come with Tollgate. */
async function settings(): Promise<Record<'TOLLGATE_CONFIG' | 'TOLLGATE_PLANS' | 'TOLLGATE_DATA', string>> {
  const at = await temporaryFolder();
  const [TOLLGATE_CONFIG, TOLLGATE_PLANS] = [join(at, 'gateway.yaml'), join(at, 'plans.yaml')];
  await cp(join(ROOT, 'config', 'gateway.yaml'), TOLLGATE_CONFIG);
  await cp(join(ROOT, 'plans.yaml'), TOLLGATE_PLANS);
  await chmod(TOLLGATE_PLANS, 0o600);
  return { TOLLGATE_CONFIG, TOLLGATE_PLANS, TOLLGATE_DATA: join(at, 'data') };
}

test('says its version', async () => {
  const { stdout } = await run(binary, ['--version'], { cwd: folder });
  expect(stdout).toBe(`${manifest.version}\n`);
});

test('has the size that the documents say', async () => {
  const [, said] = /is one file of (\d+) MB/.exec(await readFile(join(ROOT, 'docs/guides/install.md'), 'utf8'))!;
  expect(Math.abs((await stat(binary)).size / 1e6 / Number(said) - 1)).toBeLessThan(0.1);
});

test('start serves a request and the console, and writes into its data folder alone', async () => {
  const running = start(['start']);
  const [, origin] = await running.until(/^Tollgate {3}(\S+)$/m, { withinMs: 30_000 });
  const [, admin] = await running.until(/^admin {6}(\S+) /m);
  const [, key] = await running.until(/^ {2}free +(tg_live_\w+)$/m);
  const response = await fetch(`${origin}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect([response.status, response.headers.get('x-ratelimit-remaining')]).toEqual([200, '59']);
  expect(await response.json()).toContainEqual(expect.objectContaining({ name: 'Biscuit' }));
  const page = await (await fetch(`${admin}/console/`)).text();
  const [main] = /\/console\/main-[^"]+/.exec(page)!;
  expect((await fetch(`${admin}${main}`)).status).toBe(200);
  expect(await running.stop()).toEqual({ code: 0, signal: null });
  expect(await readdir(folder)).toEqual(['data']);
});

test('serve reads changed settings, and checks drafts, in its threads', async () => {
  const env = { ...(await settings()), ADMIN_TOKEN: TOKEN };
  const running = start(['serve'], env);
  const [line] = await running.until(/^\{.*"msg":"serving"\}$/m, { withinMs: 30_000 });
  const { admin } = JSON.parse(line) as { admin: number };
  const checked = await fetch(`http://127.0.0.1:${admin}/admin/plans/check`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ text: 'plans: { small: { limits: { minute: -1 } } }' }),
  });
  expect(await checked.json()).toMatchObject({ faults: [{ path: 'plans.small.limits.minute' }] });
  await writeFile(env.TOLLGATE_PLANS, `${await readFile(env.TOLLGATE_PLANS, 'utf8')}# changed\n`);
  await running.until(/"msg":"settings and plans in force"/);
});

test('serve loads policies from files, types and imports included, and again after a change', async () => {
  const env = await settings();
  const at = dirname(env.TOLLGATE_CONFIG);
  const routes = 'routes: [{ path: /a, methods: [GET], upstream: s, policies: [./policies/a.ts] }]';
  await writeFile(env.TOLLGATE_CONFIG, `upstreams: { s: { targets: ['http://127.0.0.1:9'] } }\n${routes}\n`);
  await mkdir(join(at, 'policies'));
  const policy = "import type { Policy } from 'tollgate';\nimport { code } from './code.ts';\n";
  const answer = "{ refuse: { status: 403, code, message: 'No.' } }";
  await writeFile(join(at, 'policies/a.ts'), `${policy}export default (() => (${answer})) satisfies Policy;\n`);
  await writeFile(join(at, 'policies/code.ts'), "export const code: string = 'one';\n");
  const checked = start(['gateway', 'check'], env);
  expect([await checked.exit, checked.stderr]).toEqual([{ code: 0, signal: null }, '']);
  const made = start(['keys', 'create', '--plan', 'free', '--json'], env);
  expect((await made.exit).code).toBe(0);
  const { key } = JSON.parse(made.stdout) as { key: string };
  const [line] = await start(['serve'], env).until(/^\{.*"msg":"serving"\}$/m, { withinMs: 30_000 });
  const { port } = JSON.parse(line) as { port: number };
  const ask = async () =>
    (await fetch(`http://127.0.0.1:${port}/a`, { headers: { Authorization: `Bearer ${key}` } })).json();
  expect(await ask()).toMatchObject({ code: 'one' });
  await writeFile(join(at, 'policies/code.ts'), "export const code: string = 'two';\n");
  await eventually(async () => expect(await ask()).toMatchObject({ code: 'two' }));
});

test('serve checks requests against a description, which its thread reads again after a change', async () => {
  const { env, description } = await describedSettings();
  const checked = start(['gateway', 'check'], env);
  expect([await checked.exit, checked.stderr]).toEqual([{ code: 0, signal: null }, '']);
  await expectChecked(start(['serve'], env), description);
});

test('serve that hangs is ended by its watchdog, whose thread needs no file (reliability 212)', async () => {
  const env = await settings();
  await appendFile(env.TOLLGATE_CONFIG, '\nwatchdog: 2s\n');
  const running = start(['serve'], { ...env, NODE_OPTIONS: `--import ${join(ROOT, 'test', 'support', 'hangs.ts')}` });
  await running.until(/"msg":"serving"/, { withinMs: 30_000 });
  running.signal('SIGUSR2');
  expect(await running.exit).toEqual({ code: null, signal: 'SIGKILL' });
  expect(running.stdout).toContain('"msg":"the main thread no longer turns: this process ends itself"');
});

test('serve starts workers of its own kind, which count in one Redis, and whose processes have no debugger', async () => {
  const { url } = await privateRedis();
  const env = { ...(await settings()), REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use', WORKERS: '2' };
  const running = start(['serve'], env);
  const [line] = await running.until(/^\{.*"msg":"serving"\}$/m, { withinMs: 30_000 });
  const { port } = JSON.parse(line) as { port: number };
  await running.until((output) => output.match(/"msg":"worker serving"/g)?.length === 2);
  const created = start(['keys', 'create', '--plan', 'free', '--json'], env);
  expect(await created.exit).toMatchObject({ code: 0 });
  const { key } = JSON.parse(created.stdout) as { key: string };
  // There is no service: what counts is that both workers know the key.
  const call = () => fetch(`http://127.0.0.1:${port}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
  await eventually(async () => expect((await call()).headers.get('x-ratelimit-remaining')).toBe('50'));
  const pids = [...running.stdout.matchAll(/"pid":(\d+),.*"worker serving"/g)].map(([, pid]) => Number(pid));
  for (const pid of [running.pid, ...pids]) process.kill(pid, 'SIGUSR1');
  expect((await call()).status).toBe(502);
  expect(running.stderr).not.toContain('Debugger listening');
  expect(await running.stop()).toEqual({ code: 0, signal: null });
});
