import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { Failure } from '../../src/failure.ts';
import { ROOT } from '../docs/root.ts';
import { buildBinary } from '../package/binary.ts';
import { buildPackage } from '../package/build.ts';
import { type Sbom, sbomText } from '../package/sbom.ts';
import { buildImage, hasBuildah } from './image.ts';
import type { ReleaseOptions } from './options.ts';
import { sbomOfExecutable, sbomOfImage, sbomOfTarball, sha256Of } from './sboms.ts';

const { name, version } = manifest;

/** The names of the files of a release. The SBOM of each has `.cdx.json` behind its name. */
export const FILES = {
  tarball: `${name}-${version}.tgz`,
  executable: `${name}-${version}-${process.platform}-${process.arch}`,
  image: `${name}-${version}-image-${process.arch}.tar`,
} as const;

/**
 * Writes the files of a release, their SBOMs and SHA256SUMS.
 * @returns what SHA256SUMS has, and what was left out and why
 * @throws Failure `refused` if another Node.js than that of package-lock.json runs this: its executable would be another
 */
export async function release({ folder, image }: ReleaseOptions): Promise<string> {
  const node = process.versions.node;
  const locked = Object.values(manifest.optionalDependencies)[0];
  if (node !== locked) {
    const advice = 'Run `npm ci`, then `npm run build:release`, which takes the Node.js of package-lock.json.';
    throw new Failure('refused', `The release is made of Node.js ${locked}, and this is ${node}. ${advice}`);
  }
  mkdirSync(folder, { recursive: true });
  const at = (file: string) => join(resolve(folder), file);
  mkdirSync(join(ROOT, 'dist'), { recursive: true });
  const draft = mkdtempSync(join(ROOT, 'dist', 'release-'));
  try {
    const built = join(draft, 'package');
    await buildPackage(built);
    pack(built, at(FILES.tarball));
    await buildBinary(at(FILES.executable), built);
  } finally {
    rmSync(draft, { recursive: true });
  }
  const sboms: [string, Sbom][] = [
    [at(FILES.tarball), sbomOfTarball(at(FILES.tarball))],
    [at(FILES.executable), sbomOfExecutable(at(FILES.executable))],
  ];
  const isWithImage = image && hasBuildah();
  if (isWithImage) {
    const { time, revision } = sourcesOf(ROOT);
    const id = buildImage(at(FILES.image), time, revision);
    sboms.push([at(FILES.image), sbomOfImage(at(FILES.image), id)]);
  }
  for (const [file, sbom] of sboms) writeFileSync(`${file}.cdx.json`, sbomText(sbom));
  const files = sboms.flatMap(([file]) => [file, `${file}.cdx.json`]).sort();
  const sums = files.map((file) => `${sha256Of(file)}  ${basename(file)}\n`).join('');
  writeFileSync(at('SHA256SUMS'), sums);
  return isWithImage || !image ? sums : `${sums}No image: buildah is not installed.\n`;
}

/** The time and the name of the commit; SOURCE_DATE_EPOCH is the time where it is set. */
function sourcesOf(folder: string): { time: number; revision: string } {
  const git = (...words: string[]) => execFileSync('git', words, { cwd: folder, encoding: 'utf8' }).trim();
  const time = process.env.SOURCE_DATE_EPOCH ?? git('log', '-1', '--format=%ct');
  return { time: Number(time), revision: git('rev-parse', 'HEAD') };
}

/** npm writes the same bytes for the same files: it sorts them, and sets their times and owners. */
function pack(built: string, file: string): void {
  const words = ['pack', '--silent', '--ignore-scripts', '--pack-destination', dirname(file)];
  execFileSync('npm', words, { cwd: built, stdio: ['ignore', 'ignore', 'inherit'] });
}
