import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { ROOT } from '../docs/root.ts';
import { writeArchive } from './image-archive.ts';

const { name, version } = manifest;

export function hasBuildah(): boolean {
  try {
    execFileSync('buildah', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Builds the image of the commit and writes it as `docker load` reads it. buildah gives every file of a layer, and the image, one
 * time; `docker build` without BuildKit keeps the time of each step.
 * @param time of the sources, in seconds since 1970
 * @returns its id, the digest of its configuration
 */
export function buildImage(file: string, time: number, revision: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-image-'));
  const base = process.env.NODE_IMAGE;
  const words = [
    // The other format has no HEALTHCHECK.
    ...['build', '--format', 'docker', '--no-cache', '--timestamp', String(time), '--iidfile', join(folder, 'id')],
    ...['--build-arg', `VERSION=${version}`, '--build-arg', `REVISION=${revision}`],
    ...(base === undefined ? [] : ['--build-arg', `NODE_IMAGE=${base}`]),
    // Where containers cannot be started, as in a container.
    ...(process.env.BUILDAH_ISOLATION === 'chroot' ? ['--network', 'host'] : []),
  ];
  try {
    // COPY keeps the modes of files: those of git, and not those of the umask of the clone.
    const archive = ['-c', 'tar.umask=0022', 'archive', '--format=tar', 'HEAD'];
    const tar = execFileSync('git', archive, { cwd: ROOT, maxBuffer: 256 * 1024 * 1024 });
    const context = join(folder, 'context');
    mkdirSync(context);
    execFileSync('tar', ['-xpf', '-', '-C', context], { input: tar });
    execFileSync('buildah', [...words, context], { stdio: ['ignore', 'ignore', 'inherit'] });
    const id = readFileSync(join(folder, 'id'), 'utf8').trim();
    const draft = join(folder, 'draft.tar');
    const target = `docker-archive:${draft}:${name}:${version}`;
    execFileSync('buildah', ['push', '--quiet', id, target], { stdio: ['ignore', 'ignore', 'inherit'] });
    return writeArchive(draft, file, join(folder, 'pieces'), time);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
