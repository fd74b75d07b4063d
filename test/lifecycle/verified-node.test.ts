import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import binaries from '../../bin/node-binaries.json' with { type: 'json' };
import manifest from '../../package.json' with { type: 'json' };
import { ROOT } from '../support/processes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

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

describe('the Node.js that npm ci fetches', () => {
  test('is the one that the repository names', async () => {
    expect(manifest.devDependencies.node).toBe(binaries.version);
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
