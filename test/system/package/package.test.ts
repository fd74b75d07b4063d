import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { ROOT, type Running, startProcess, temporaryFolder } from '../../support/processes.ts';
import { builtRelease, RELEASE } from '../../support/release.ts';
import { ROOM } from '../../support/room.ts';
import { describedSettings, expectChecked } from './described-settings.ts';

// The package as people get it: built, packed, and installed from the tarball into a folder that has nothing else.

const run = promisify(execFile);
/** Ports that are free, for `start`. */
const FREE = { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' };
/** npm, npx and the programs of the package run on the Node.js of the tests. */
const PATH = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;

let folder: string;
let installed: string;

beforeAll(async () => {
  const tarball = join(await builtRelease(), RELEASE.tarball);
  folder = await temporaryFolder();
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball], {
    cwd: folder,
    env: { ...process.env, PATH },
  });
  installed = join(folder, 'node_modules', 'tollgate');
}, 180_000 * ROOM);

function start(program: string, args: readonly string[], env: Record<string, string> = {}, cwd = folder): Running {
  return startProcess(program, args, { cwd, env: { PATH, NODE_COMPILE_CACHE: undefined, ...env } });
}

/** The sum of the sizes of the files in a folder. */
function bytesIn(path: string): number {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

const contentOf = (path: string) => readFileSync(join(installed, path), 'utf8');

describe('the package', () => {
  test('has JavaScript, declarations of the library and the files that are read, and nothing of development', () => {
    const files = readdirSync(installed, { recursive: true, encoding: 'utf8' }).map((file) =>
      file.replaceAll('\\', '/'),
    );
    const tops = new Set(files.map((file) => file.split('/')[0]));
    expect([...tops].sort()).toEqual(
      [
        ...['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md', 'SECURITY.md', 'THIRD-PARTY-NOTICES'],
        ...['bin', 'config', 'docs', 'examples', 'package.json', 'plans.yaml', 'src'],
      ].sort(),
    );
    // What its documents tell the reader to copy.
    for (const file of ['prometheus/alerts.yml', 'redis.acl', 'systemd/tollgate.service', 'deploy/fly/fly.toml'])
      expect(files).toContain(`config/${file}`);
    expect(files).toContain('examples/moving/caddy/before/Caddyfile');
    expect(files).toContain('src/library.d.ts');
    for (const file of ['engine.lua', 'engine.lua.map', 'refusals.lua', 'fleet.lua'])
      expect(files).toContain(`src/stores/redis/${file}`);
    const sources = files.filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'));
    expect(sources).toEqual([]);
  });

  test('has the size that the documents say, and so has the Node.js beside it', () => {
    const install = readFileSync(join(ROOT, 'docs/guides/install.md'), 'utf8');
    const [, ofNode] = /macOS on x64 and arm64 \((\d+) MB on disk/.exec(install)!;
    const [, ofTollgate] = /The package itself has (\d+) MB/.exec(install)!;
    const [node] = readdirSync(join(folder, 'node_modules')).filter((name) => /^node-(?:linux|darwin)/.test(name));
    const deviation = (said: string | undefined, path: string) => Math.abs(bytesIn(path) / 1e6 / Number(said) - 1);
    expect(deviation(ofNode, join(folder, 'node_modules', node!))).toBeLessThan(0.1);
    expect(deviation(ofTollgate, installed)).toBeLessThan(0.1);
  });

  test('runs no script when it is installed, and depends on what the gateway needs alone', () => {
    const published = JSON.parse(contentOf('package.json')) as Record<string, unknown>;
    expect(published.scripts).toBeUndefined();
    expect(published.devDependencies).toBeUndefined();
    expect(published.private).toBeUndefined();
    expect(published.devDependencies).toBeUndefined();
    expect(published.dependencies).toEqual({ zod: manifest.dependencies.zod });
    expect(published.peerDependencies).toBeUndefined();
    expect(published.engines).toEqual(manifest.engines);
  });

  test('has the licence of each package in its bundle', () => {
    const notices = contentOf('THIRD-PARTY-NOTICES');
    for (const name of Object.keys(manifest.dependencies)) expect(notices).toMatch(new RegExp(`^${name} \\d`, 'm'));
    expect(notices).toContain('Permission is hereby granted');
  });

  test('brings the Node.js of this machine, and no package besides but that of its types', async () => {
    const { stdout } = await run('npm', ['ls', '--all', '--parseable'], { cwd: folder, env: { ...process.env, PATH } });
    const names = [...stdout.matchAll(/^.*node_modules\/(.+)$/gm)].map(([, name]) => name!);
    const own = names.filter((name) => name in manifest.optionalDependencies);
    expect(own).toHaveLength(1);
    expect(names.sort()).toEqual([...own, 'tollgate', 'zod'].sort());
  });

  test('names the line of the TypeScript where a defect arose', async () => {
    const planted =
      'const s=JSON.stringify;JSON.stringify=(v,...r)=>{if(v?.node)throw Error("planted");return s(v,...r)}';
    const words = [
      '--import',
      `data:text/javascript,${planted}`,
      join(installed, 'bin', 'tollgate.js'),
      'version',
      '--json',
    ];
    const running = start(process.execPath, words);
    expect(await running.exit).toEqual({ code: 1, signal: null });
    const [, line] = /planted \(\S*src\/cli\/version\.ts:(\d+):\d+\)/.exec(running.stderr) ?? [running.stderr];
    const lines = readFileSync(join(ROOT, 'src/cli/version.ts'), 'utf8').split('\n');
    expect(lines[Number(line) - 1]).toContain('stringify');
  });

  test('has every page that its README links to, and every picture that it shows', () => {
    const links = [...contentOf('README.md').matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, path]) => path!);
    expect(links.length).toBeGreaterThan(40);
    expect(links).toContain('docs/guides/console/now-desktop-light.png');
    expect(links.filter((path) => !existsSync(join(installed, path)))).toEqual([]);
  });

  test('runs on its own Node.js where PATH has an older one, or none', async () => {
    const older = await temporaryFolder();
    await writeFile(join(older, 'node'), '#!/bin/sh\n[ "$1" = --version ] && echo v20.20.2\n', { mode: 0o755 });
    const command = join(folder, 'node_modules', '.bin', 'tollgate');
    for (const path of [`${older}:/usr/bin:/bin`, '/usr/bin:/bin']) {
      const { stdout, stderr } = await run(command, ['version'], { env: { PATH: path }, cwd: '/' });
      expect([stdout, stderr]).toEqual([`${manifest.version}\n`, '']);
    }
  });

  test('says what to do where an older Node.js runs the program or imports the library', async () => {
    const older = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"20.20.2"}})';
    const failed = async (...words: string[]) => {
      const running = start(process.execPath, ['--import', older, ...words]);
      expect(await running.exit).toEqual({ code: 1, signal: null });
      return running.stderr;
    };
    const program = await failed(join(installed, 'bin', 'tollgate.js'), 'version');
    expect(program).toContain('or later, this is 20.20.2. Start it with `npx tollgate COMMAND`, which uses');
    const library = await failed('--input-type=module', '--eval', 'import "tollgate"');
    expect(library).toMatch(
      /Error: The library of Tollgate needs Node\.js 26\.5\.1 or later, this is 20\.20\.2\. Run your program/,
    );
  });

  test('says its version', async () => {
    const { stdout } = await run('npx', ['tollgate', '--version'], { cwd: folder, env: { ...process.env, PATH } });
    expect(stdout).toBe(`${manifest.version}\n`);
  });
});

describe('npx tollgate start, in an empty folder', () => {
  test('serves a request with the embedded store, and the console', async () => {
    const running = start('npx', ['tollgate', 'start'], FREE);
    const [, origin] = await running.until(/^Tollgate {3}(\S+)$/m, { withinMs: 30_000 });
    const [, admin] = await running.until(/^admin {6}(\S+) /m);
    const [, key] = await running.until(/^ {2}free +(tg_live_\w+)$/m);
    await running.until(/^settings {3}\S+\/data\/gateway\.yaml and /m);
    const response = await fetch(`${origin}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
    expect([response.status, response.headers.get('x-ratelimit-remaining')]).toEqual([200, '59']);
    expect(await response.json()).toContainEqual(expect.objectContaining({ name: 'Biscuit' }));
    const page = await (await fetch(`${admin}/console/`)).text();
    const script = await fetch(`${admin}${/\/console\/main-[^"]+/.exec(page)![0]}`);
    expect([script.status, script.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8']);
    // Ctrl-C: a terminal signals the whole group. npx would not pass SIGTERM on.
    process.kill(-running.pid, 'SIGINT');
    await running.until(/"msg":"drained"/);
  });

  test('takes the settings of the folder if there are some, and does not mix them with its own', async () => {
    const elsewhere = await temporaryFolder();
    await writeFile(join(elsewhere, 'plans.yaml'), 'plans: { mine: { limits: { minute: 1 } } }\n');
    const running = start(process.execPath, [join(installed, 'bin', 'tollgate.js'), 'start'], FREE, elsewhere);
    expect(await running.exit).toMatchObject({ code: 1 });
    expect(running.stderr).toContain('config/gateway.yaml:1:1: (file): does not exist.');
  });
});

describe('tollgate serve of the package', () => {
  /** Starts it with the settings of the package. @returns it, and the path of its plans.yaml */
  async function serve(more = '', variables: Record<string, string> = {}) {
    const settings = await temporaryFolder();
    const [gatewayFile, plansFile] = [join(settings, 'gateway.yaml'), join(settings, 'plans.yaml')];
    await writeFile(gatewayFile, `${contentOf('config/gateway.yaml')}\n${more}`);
    await writeFile(plansFile, contentOf('plans.yaml'));
    const env = {
      ...FREE,
      ...variables,
      TOLLGATE_CONFIG: gatewayFile,
      TOLLGATE_PLANS: plansFile,
      TOLLGATE_DATA: join(settings, 'data'),
    };
    const running = start(join(folder, 'node_modules', '.bin', 'tollgate'), ['serve'], env);
    await running.until(/"msg":"serving"/, { withinMs: 30_000 });
    return { running, plansFile };
  }

  test('reads changed settings in its thread', async () => {
    const { running, plansFile } = await serve();
    await writeFile(plansFile, `${contentOf('plans.yaml')}\n# changed\n`);
    await running.until(/"msg":"settings and plans in force"/);
  });

  test('is ended by its watchdog when it hangs (reliability 212)', async () => {
    const NODE_OPTIONS = `--import ${join(ROOT, 'test', 'support', 'hangs.ts')}`;
    const { running } = await serve('watchdog: 2s\n', { NODE_OPTIONS });
    running.signal('SIGUSR2');
    expect(await running.exit).toEqual({ code: null, signal: 'SIGKILL' });
  });
});

describe('settings that few gateways have', () => {
  const program = () => join(folder, 'node_modules', '.bin', 'tollgate');
  const acme = '{ tls: { acme: { domains: [api.example.com], email: ops@example.com, agreeToTerms: true } } }';
  const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' };

  test('need no further package: acme, validate, traces', async () => {
    const { env } = await describedSettings(acme);
    const checked = start(program(), ['gateway', 'check'], { ...FREE, ...env, ...collector });
    expect([await checked.exit, checked.stderr]).toEqual([{ code: 0, signal: null }, '']);
  });

  test('check requests and send traces, after a reload too', async () => {
    const { env, description } = await describedSettings();
    await expectChecked(start(program(), ['serve'], { ...FREE, ...env, ...collector }), description);
  });
});

/** The pieces of a guide in a language, in their order. */
function piecesOf(guide: string, language: string): readonly string[] {
  const text = readFileSync(join(ROOT, 'docs', 'guides', guide), 'utf8');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, piece]) => piece!);
}

describe('the examples of docs/guides/embed.md and policies.md', async () => {
  const [plansTest, server] = piecesOf('embed.md', 'ts');
  const [policy, policyTest] = piecesOf('policies.md', 'ts');

  beforeAll(async () => {
    await writeFile(join(folder, 'plans.test.ts'), plansTest!);
    await writeFile(join(folder, 'server.ts'), server!);
    await mkdir(join(folder, 'policies'));
    await writeFile(join(folder, 'policies', 'tenant.ts'), policy!);
    await writeFile(join(folder, 'tenant.test.ts'), policyTest!);
    await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
    // What a project of a reader has besides: vitest, and the types of Node.js.
    await mkdir(join(folder, 'node_modules', '@types'), { recursive: true });
    await symlink(join(ROOT, 'node_modules', 'vitest'), join(folder, 'node_modules', 'vitest'));
    await symlink(join(ROOT, 'node_modules', '@types', 'node'), join(folder, 'node_modules', '@types', 'node'));
  });

  test('are typed, also where the types of libraries are checked', async () => {
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    const strict = ['--noEmit', '--strict', '--target', 'esnext', '--module', 'nodenext', '--types', 'node'];
    // vitest's own declarations are not ours to check.
    const checked = run(process.execPath, [tsc, ...strict, 'server.ts'], { cwd: folder }).then(
      () => '',
      ({ stdout }: { stdout: string }) => stdout,
    );
    expect(await checked).toBe('');
    const tests = ['plans.test.ts', 'tenant.test.ts', 'policies/tenant.ts'];
    const extensions = '--allowImportingTsExtensions';
    const withVitest = run(process.execPath, [tsc, ...strict, '--skipLibCheck', extensions, ...tests], { cwd: folder });
    await expect(
      withVitest.then(
        () => '',
        ({ stdout }: { stdout: string }) => stdout,
      ),
    ).resolves.toBe('');
  });

  test('test plans with vitest', async () => {
    const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
    const running = start(process.execPath, [vitest, 'run', '--root', folder, 'plans.test.ts']);
    const { code } = await running.exit;
    expect(running.stdout + running.stderr).toMatch(/Tests .*1 passed/);
    expect(code).toBe(0);
  });

  test('test a policy with vitest', async () => {
    const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
    const running = start(process.execPath, [vitest, 'run', '--root', folder, 'tenant.test.ts']);
    const { code } = await running.exit;
    expect(running.stdout + running.stderr).toMatch(/Tests .*3 passed/);
    expect(code).toBe(0);
  });

  test('decide about requests of a gateway that is started with the settings of the guide', async () => {
    const [settings] = piecesOf('policies.md', 'yaml');
    const service =
      "listen: { port: 0 }\nadmin: { port: 0 }\nupstreams: { store: { targets: ['http://127.0.0.1:9'] } }\n";
    await writeFile(join(folder, 'guided.yaml'), `${service}${settings}`);
    await writeFile(join(folder, 'guided-plans.yaml'), 'plans: { free: { limits: { minute: 5 } } }\n');
    const files = { TOLLGATE_CONFIG: 'guided.yaml', TOLLGATE_PLANS: 'guided-plans.yaml', TOLLGATE_DATA: 'guided-data' };
    const program = join(folder, 'node_modules', '.bin', 'tollgate');
    const made = start(program, ['keys', 'create', '--plan', 'free', '--owner', 'acme', '--json'], files);
    expect((await made.exit).code).toBe(0);
    const { key } = JSON.parse(made.stdout) as { key: string };
    const [line] = await start(program, ['serve'], files).until(/^\{.*"msg":"serving"\}$/m, { withinMs: 30_000 });
    const { port } = JSON.parse(line) as { port: number };
    const answer = await fetch(`http://127.0.0.1:${port}/v1/tenants/other/pets`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    expect([answer.status, await answer.json()]).toEqual([403, expect.objectContaining({ code: 'wrong_tenant' })]);
  });

  test('put a gateway before a service of the same program', async () => {
    const running = start(process.execPath, ['server.ts'], { PORT: '0' });
    const [, key, url] = await running.until(/Bearer (\w+)' (\S+)/, { withinMs: 30_000 });
    const response = await fetch(url!, { headers: { Authorization: `Bearer ${key}` } });
    expect(await response.text()).toMatch(/^Hello, key_\w+\n$/);
    running.signal('SIGTERM');
    expect(await running.exit).toEqual({ code: 0, signal: null });
  });
});
