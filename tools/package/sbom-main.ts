import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { ROOT } from '../docs/root.ts';
import { productionPackages } from './lock.ts';

/**
 * `npm run -s sbom`: prints the SBOM (CycloneDX) of what the gateway brings along, from package-lock.json.
 *
 * npm writes that of all packages, and those of development are left out here: with `--omit=dev` npm 11 leaves out packages
 * that the gateway needs, if one of development has them as peers, such as @opentelemetry/api.
 */
interface Sbom {
  readonly metadata: { readonly component: object };
  readonly components: readonly { readonly 'bom-ref': string; readonly name: string; readonly version: string }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const written = execFileSync(
  'npm',
  ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'],
  { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, stdio: ['ignore', 'pipe', 'inherit'] },
);
const all = JSON.parse(written) as Sbom;
const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
const wanted = new Set(packages.map(({ name, version }) => `${name}@${version}`));
const components = all.components
  .filter(({ name, version }) => wanted.has(`${name}@${version}`))
  .map((component) => ({ ...component, scope: 'required' }));
const refs = new Set([...components.map((component) => component['bom-ref']), `${manifest.name}@${manifest.version}`]);
const dependencies = all.dependencies
  .filter(({ ref }) => refs.has(ref))
  .map((one) => ({ ...one, dependsOn: one.dependsOn.filter((ref) => refs.has(ref)) }));
const metadata = { ...all.metadata, component: { ...all.metadata.component, name: manifest.name } };
process.stdout.write(`${JSON.stringify({ ...all, metadata, components, dependencies }, null, 2)}\n`);
