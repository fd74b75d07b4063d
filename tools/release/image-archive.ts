import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What names the container of the build, at random: no container that runs has it of its image. */
const OF_THE_BUILD = ['container', 'container_config', 'parent'] as const;

interface Configuration extends Partial<Record<(typeof OF_THE_BUILD)[number], unknown>> {
  readonly config: { readonly Hostname?: string; readonly Image?: string };
  readonly history: readonly { readonly comment?: string }[];
}

/**
 * Writes an archive of `buildah push docker-archive:` once more, without the names that buildah gave the container of the build:
 * they are all that differs between two builds. The archive has what `docker load` reads, without the copies for Docker before 1.10.
 * @param draft the archive that buildah wrote
 * @param folder an empty one for the pieces
 * @param time that all files in the archive get, in seconds since 1970
 * @returns the id of the image, the digest of its configuration
 */
export function writeArchive(draft: string, file: string, folder: string, time: number): string {
  mkdirSync(folder);
  execFileSync('tar', ['-xf', draft, '-C', folder]);
  const [{ Config, Layers, RepoTags }] = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as [
    { readonly Config: string; readonly Layers: readonly string[]; readonly RepoTags: readonly string[] },
  ];
  const { config, history, ...all } = JSON.parse(readFileSync(join(folder, Config), 'utf8')) as Configuration;
  for (const name of OF_THE_BUILD) delete all[name];
  const { Hostname: _, Image: __, ...kept } = config;
  // A comment names the stage before, by an id that has these names in it.
  const steps = history.map(({ comment: _, ...step }) => step);
  const text = JSON.stringify({ ...all, config: kept, history: steps });
  const id = createHash('sha256').update(text).digest('hex');
  writeFileSync(join(folder, `${id}.json`), text);
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify([{ Config: `${id}.json`, RepoTags, Layers }]));
  rmSync(file, { force: true });
  const set = ['--format=gnu', '--mode=0444', '--owner=0', '--group=0', '--numeric-owner', `--mtime=@${time}`];
  // A base image can have the same layer twice.
  const names = ['manifest.json', `${id}.json`, ...new Set(Layers)];
  execFileSync('tar', [...set, '-cf', file, '-C', folder, ...names]);
  return `sha256:${id}`;
}
