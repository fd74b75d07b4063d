import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { ROOT } from '../docs/root.ts';
import { productionPackages } from './lock.ts';

/** A list of what software is made of, in CycloneDX, as far as it is changed here. */
export interface Sbom {
  readonly serialNumber?: string;
  readonly metadata: {
    readonly timestamp?: string;
    readonly tools?: readonly { readonly version?: string }[];
    readonly component: SbomComponent;
  };
  readonly components: readonly SbomComponent[];
  readonly dependencies: readonly SbomDependency[];
}

export interface SbomComponent {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly scope?: 'required' | 'optional';
  readonly type?: string;
  readonly description?: string;
  readonly cpe?: string;
  readonly purl?: string;
  readonly licenses?: readonly object[];
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
  readonly hashes?: readonly { readonly alg: 'SHA-256' | 'SHA-512'; readonly content: string }[];
}

export interface SbomDependency {
  readonly ref: string;
  readonly dependsOn: readonly string[];
}

/** What Tollgate itself is called in an SBOM. */
export const OWN_REF = `${manifest.name}@${manifest.version}`;

/** The packages of package-lock.json that bring Node.js along, one for each platform. */
const NODE_PACKAGES = new Set(
  Object.entries(manifest.optionalDependencies).map(([name, version]) => `${name}@${version}`),
);

/**
 * The SBOM of the packages that the gateway brings along, from package-lock.json. The same lock gives the same bytes, by npm 10
 * and npm 11: it has no number of its own, no version of npm and no folders, and a time only where SOURCE_DATE_EPOCH is set.
 *
 * npm writes that of all packages, and those of development are left out here: with `--omit=dev` npm 11 leaves out packages
 * that the gateway needs, if one of development has them as peers, such as @opentelemetry/api.
 * @param isWithNode whether the packages that bring Node.js are listed too, as optional
 */
export function lockedSbom(isWithNode: boolean): Sbom {
  const written = execFileSync(
    'npm',
    ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'],
    { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const { serialNumber: __, metadata, ...all } = JSON.parse(written) as Sbom;
  const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const required = new Set(packages.map(({ name, version }) => `${name}@${version}`));
  const scopeOf = ({ name, version }: SbomComponent): 'required' | 'optional' | null => {
    if (required.has(`${name}@${version}`)) return 'required';
    return isWithNode && NODE_PACKAGES.has(`${name}@${version}`) ? 'optional' : null;
  };
  const components = all.components.flatMap(({ properties: _, ...component }) => {
    const scope = scopeOf(component);
    return scope === null ? [] : [{ ...component, scope }];
  });
  const refs = new Set([...components.map((component) => component['bom-ref']), OWN_REF]);
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map((one) => ({ ...one, dependsOn: one.dependsOn.filter((ref) => refs.has(ref)) }));
  const { timestamp: _, tools = [], ...about } = metadata;
  const epoch = process.env.SOURCE_DATE_EPOCH;
  const time = epoch === undefined ? {} : { timestamp: new Date(Number(epoch) * 1000).toISOString() };
  // npm names the root by its folder.
  const component = { ...metadata.component, name: manifest.name };
  const named = { ...time, ...about, tools: tools.map(({ version: _, ...tool }) => tool), component };
  return { ...all, metadata: named, components, dependencies };
}

/** As it is written into a file. */
export function sbomText(sbom: Sbom): string {
  return `${JSON.stringify(sbom, null, 2)}\n`;
}
