import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..', '..');

/** An image of somebody else that Dockerfile or docker-compose.yml begins with: the variable that replaces it, and its name. */
export interface BaseImage {
  readonly variable: string;
  readonly tag: string;
  /** `sha256:…`, or null where it is pinned by its tag alone. */
  readonly digest: string | null;
}

export function baseImages(): readonly BaseImage[] {
  const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');
  const found = [
    ...read('Dockerfile').matchAll(/^ARG (\w+_IMAGE)=(\S+)$/gm),
    ...read('docker-compose.yml').matchAll(/^ +image: \$\{(\w+_IMAGE):-([^}]+)\}$/gm),
  ];
  const images = found
    .filter(([, variable]) => variable !== 'TOLLGATE_IMAGE')
    .map(([, variable = '', name = '']) => [variable, name.split('@')] as const)
    .map(([variable, [tag = '', digest = null]]) => ({ variable, tag, digest }));
  return [...new Map(images.map((image) => [image.variable, image])).values()];
}

/**
 * Variables that name by its tag each base image of which this engine has a stand-in: one that was made here, and so has
 * no digest. What came from a registry is used by its digest.
 */
export async function standIns(
  docker: (...args: string[]) => Promise<string>,
): Promise<Readonly<Record<string, string>>> {
  const variables: Record<string, string> = {};
  for (const { variable, tag } of baseImages()) {
    const digests = await docker('image', 'inspect', '--format', '{{len .RepoDigests}}', tag).catch(() => '');
    if (digests.trim() === '0') variables[variable] = tag;
  }
  return variables;
}
