import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { isSea } from 'node:sea';
import manifest from '../../package.json' with { type: 'json' };
import { Failure } from '../failure.ts';

/**
 * Packages that only some settings need. A clone, the image and the executable have all of them; the npm package leaves them to whoever
 * sets such a thing, because they are half of all packages (`peerDependencies`, optional).
 */
export const ADDED_PACKAGES = {
  'acme-client': 'acme',
  ajv: 'validate',
  'ajv-formats': 'validate',
  '@opentelemetry/exporter-trace-otlp-http': 'traces',
  '@opentelemetry/resources': 'traces',
  '@opentelemetry/sdk-trace-base': 'traces',
} as const satisfies Readonly<Record<string, string>>;

type Purpose = (typeof ADDED_PACKAGES)[keyof typeof ADDED_PACKAGES];

/**
 * @param setting what needs them, which begins the message
 * @throws Failure `bad_settings` if a package for this purpose is not installed
 */
export function needPackages(purpose: Purpose, setting: string): void {
  // The executable has all, and its threads see no folder of packages.
  if (isSea()) return;
  const names = Object.entries(ADDED_PACKAGES).flatMap(([name, of]) => (of === purpose ? [name] : []));
  const { dependencies, peerDependencies } = manifest as Versions;
  if (names.every((name) => isInstalled(name, (peerDependencies ?? dependencies)[name]!))) return;
  const versioned = names.map((name) => `${name}@${(peerDependencies ?? dependencies)[name]}`);
  const what = names.length === 1 ? 'a package that does' : 'packages that do';
  throw new Failure(
    'bad_settings',
    `${setting} needs ${what} not come with Tollgate: \`npm install ${versioned.join(' ')}\`.`,
  );
}

interface Versions {
  readonly dependencies: Readonly<Record<string, string>>;
  /** Only the npm package has them. */
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Whether a package is there that its own manifest says to be of the needed major version. One that npm has left half written is not. */
function isInstalled(name: string, needed: string): boolean {
  try {
    const file = findPackageJSON(name, import.meta.url);
    if (file === undefined) return false;
    const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version?: unknown };
    return typeof version === 'string' && version.split('.')[0] === needed.split('.')[0];
  } catch {
    return false;
  }
}
