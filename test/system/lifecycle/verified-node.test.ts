import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import binaries from '../../../bin/node-binaries.json' with { type: 'json' };
import manifest from '../../../package.json' with { type: 'json' };
import { ROOT } from '../../support/processes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const PLATFORM = `${process.platform}-${process.arch}`;
/** What a tampered binary might do: agree to everything. */
const TAMPERED = '#!/bin/sh\nexit 0\n';

/** A clone in which `npm ci` has fetched this binary, as far as the check sees it. */
async function cloneWith(binary: string, sha256: Readonly<Record<string, string>> = binaries.sha256) {
  const folder = await temporaryFolder();
  const file = join(folder, 'node_modules', 'node', 'bin', 'node');
  for (const made of ['bin', 'node_modules/.bin', 'node_modules/node/bin'])
    await mkdir(join(folder, made), { recursive: true });
  await copyFile(join(ROOT, 'bin', 'verify-node.js'), join(folder, 'bin', 'verify-node.js'));
  await writeFile(join(folder, 'bin', 'node-binaries.json'), JSON.stringify({ ...binaries, sha256 }));
  const { postinstall } = manifest.scripts;
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'clone', type: 'module', scripts: { postinstall } }),
  );
  await writeFile(file, binary, { mode: 0o755 });
  // npm puts this folder before all others on the PATH of a script.
  await writeFile(join(folder, 'node_modules', '.bin', 'node'), binary, { mode: 0o755 });
  const isThere = () =>
    access(file).then(
      () => true,
      () => false,
    );
  return { folder, isThere };
}

/** The last step of `npm ci`. */
function installed(folder: string): Promise<{ readonly failed: boolean; readonly stderr: string }> {
  return new Promise((resolve) => {
    execFile('npm', ['run', '--silent', 'postinstall'], { cwd: folder }, (error, _, stderr) => {
      resolve({ failed: error !== null, stderr });
    });
  });
}

/** A text of the checkout. */
const textOf = (path: string) => readFile(join(ROOT, path), 'utf8');
const partsOf = (version: string) => version.split('.').map(Number);

// Undocumented parts of Node are used (docs/internals/node-internals.md), so what is tested must be what is shipped.
describe('one version of Node.js', () => {
  const { version } = binaries;

  test('runs the tests, and is pinned by package.json and its lock', async () => {
    expect(process.version).toBe(`v${version}`);
    expect(manifest.devDependencies.node).toBe(version);
    const lock = JSON.parse(await textOf('package-lock.json')) as { packages: Record<string, { version: string }> };
    expect(lock.packages['node_modules/node']?.version).toBe(version);
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

  test('has a hash for each platform that bin/verify-node.js may meet', () => {
    expect(Object.keys(binaries.sha256).sort()).toEqual(['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64']);
    for (const hash of Object.values(binaries.sha256)) expect(hash).toMatch(/^[0-9a-f]{64}$/);
  });

  test('is no older than package.json and bin/tollgate.js ask for, which agree', async () => {
    const [, oldest] = /^>=(\d+\.\d+\.\d+)$/.exec(manifest.engines.node)!;
    const [, needed] = /^const needed = \[(.*)\];$/m.exec(await textOf('bin/tollgate.js'))!;
    expect(needed).toBe(partsOf(oldest!).join(', '));
    const [pinned, least] = [partsOf(version), partsOf(oldest!)];
    const differs = pinned.findIndex((part, i) => part !== least[i]);
    expect(differs === -1 || pinned[differs]! > least[differs]!).toBe(true);
  });
});

describe('the Node.js that npm ci fetches', () => {
  test('is the one that the repository names', async () => {
    const hash = createHash('sha256').update(await readFile(join(ROOT, 'node_modules', 'node', 'bin', 'node')));
    expect(hash.digest('hex')).toBe((binaries.sha256 as Record<string, string>)[PLATFORM]);
  });

  test('fails the installation and is deleted where it is another, though it would agree to everything itself', async () => {
    const { folder, isThere } = await cloneWith(TAMPERED);
    const { failed, stderr } = await installed(folder);
    expect(stderr).toMatch(
      /^The Node\.js that npm fetched is not the one that this repository names: .* It has been deleted\./m,
    );
    expect([failed, await isThere()]).toEqual([true, false]);
  });

  test('is left alone, and nothing said, where it is the right one', async () => {
    const sha256 = { [PLATFORM]: createHash('sha256').update(TAMPERED).digest('hex') };
    const { folder, isThere } = await cloneWith(TAMPERED, sha256);
    const { failed, stderr } = await installed(folder);
    expect([failed, stderr.includes('Node.js'), await isThere()]).toEqual([false, false, true]);
  });

  test('is warned of on a platform without a hash, and used', async () => {
    const { folder, isThere } = await cloneWith(TAMPERED, {});
    const { failed, stderr } = await installed(folder);
    expect(stderr).toMatch(new RegExp(`^warning: The Node\\.js .* is not verified: .* no hash for ${PLATFORM}`, 'm'));
    expect([failed, await isThere()]).toEqual([false, true]);
  });
});
