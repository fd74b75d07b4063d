import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { baseImages } from '../compose/images.ts';
import { lockedSbom, OWN_REF, type Sbom, type SbomComponent } from '../package/sbom.ts';

/** The SBOM of the tarball: the packages that are in it, and as optional the Node.js of each platform, which npm installs beside it. */
export function sbomOfTarball(file: string): Sbom {
  return about(lockedSbom(true), file);
}

/** The SBOM of the executable: the packages that are in it, and the Node.js that it was made of. */
export function sbomOfExecutable(file: string): Sbom {
  const sbom = lockedSbom(false);
  const { node } = process.versions;
  const component: SbomComponent = {
    'bom-ref': `node@${node}`,
    type: 'platform',
    name: 'node',
    version: node,
    scope: 'required',
    description: `The program of the npm package ${packageOfNode()}, of which the executable is made`,
    cpe: `cpe:2.3:a:nodejs:node.js:${node}:*:*:*:*:*:*:*`,
    purl: `pkg:npm/${packageOfNode()}@${node}`,
    hashes: [{ alg: 'SHA-256', content: sha256Of(process.execPath) }],
    licenses: [{ license: { id: 'MIT' } }],
  };
  return withComponent(about(sbom, file), component);
}

/**
 * The SBOM of the image: the packages that are in it, and the image it begins with, whose own packages are not listed.
 * @param id the digest of the image
 */
export function sbomOfImage(file: string, id: string): Sbom {
  const sbom = lockedSbom(false);
  const locked = baseImages().find(({ variable }) => variable === 'NODE_IMAGE')!;
  const own = process.env.NODE_IMAGE;
  const { tag, digest } = own === undefined ? locked : { tag: own, digest: null };
  const [name = tag, version = ''] = tag.split(':');
  const base: SbomComponent = {
    'bom-ref': tag,
    type: 'container',
    name,
    version,
    scope: 'required',
    description: 'The image that this one begins with. Scanners of images list what is in it, Node.js too.',
    ...(digest === null ? {} : { hashes: [{ alg: 'SHA-256', content: digest.replace('sha256:', '') }] }),
  };
  return withComponent(about(sbom, file, { 'tollgate:image': id }), base);
}

/** The package of package-lock.json that has the Node.js of this platform. */
export function packageOfNode(): string {
  const names = Object.keys(manifest.optionalDependencies);
  return names.find((name) => name.endsWith(`-${process.platform}-${process.arch}`)) ?? 'node';
}

export function sha256Of(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

/** Says which file the SBOM is about, by its hash. */
function about(sbom: Sbom, file: string, more: Readonly<Record<string, string>> = {}): Sbom {
  const said = { 'tollgate:file': basename(file), ...more };
  const properties = Object.entries(said).map(([name, value]) => ({ name, value }));
  const hashes = [{ alg: 'SHA-256' as const, content: sha256Of(file) }];
  return { ...sbom, metadata: { ...sbom.metadata, component: { ...sbom.metadata.component, hashes, properties } } };
}

/** Adds what Tollgate depends on and no lock of npm lists. */
function withComponent(sbom: Sbom, component: SbomComponent): Sbom {
  const ref = component['bom-ref'];
  const dependencies = sbom.dependencies.map((one) =>
    one.ref === OWN_REF ? { ...one, dependsOn: [...one.dependsOn, ref] } : one,
  );
  const components = [...sbom.components, component];
  return { ...sbom, components, dependencies: [...dependencies, { ref, dependsOn: [] }] };
}
