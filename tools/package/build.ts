import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { ROOT } from '../docs/root.ts';
import { bundleInto } from './bundle.ts';

/** Files beside the bundle, as they lie in the repository. */
const filesBeside = () => [
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'plans.yaml', 'config/gateway.yaml'],
  // The documents, which the README and messages name. Of their screenshots, which are larger than all the rest, only those of the README.
  ...globSync('docs/{,guides/,reference/,operate/,internals/}*.md', { cwd: ROOT }),
  ...globSync('docs/concepts/*.svg', { cwd: ROOT }),
  // The files that the documents tell the reader to copy. Those of compose stay: they build the image from a clone.
  ...globSync('config/{prometheus,grafana,deploy,kubernetes,systemd}/**/*.{yml,yaml,json,toml,service}', { cwd: ROOT }),
  ...globSync('config/{prometheus.yml,redis.conf,redis.acl,sentinel.acl,keys.yaml}', { cwd: ROOT }),
  ...globSync('examples/**', { cwd: ROOT }).filter((path) => statSync(join(ROOT, path)).isFile()),
  ...[...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].map(([, path]) => path!),
];
const SCHEMAS = ['config/gateway.schema.json', 'config/plans.schema.json', 'config/keys.schema.json'] as const;
/** The console, whose built page alone goes into the package: `bundleInto` writes it. */
const CONSOLE = join('src', 'admin', 'console');
/** The module of the library, whose declarations go with it, and those of what its declarations name. */
const LIBRARY = join('src', 'library');

/**
 * Writes the program into a folder, without types and documents: what the image has.
 * @throws Error if a module cannot be bundled
 */
export async function buildProgram(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await bundleInto(folder);
  copyAssets(join(ROOT, 'src'), join(folder, 'src'));
  cpSync(join(ROOT, 'bin'), join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, 'bin', 'tollgate.js'), bundledBin());
  cpSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(publishedManifest(), null, 2)}\n`);
  setModes(folder);
}

/**
 * Writes the npm package into a folder: the program, the library with its types, and the documents.
 * @throws Error if the compiler finds a fault; it has printed the fault
 */
export async function buildPackage(folder: string): Promise<void> {
  await buildProgram(folder);
  declareInto(folder);
  dropDeclarations(folder);
  for (const file of [...filesBeside(), ...SCHEMAS]) cpSync(join(ROOT, file), join(folder, file));
  writeFileSync(join(folder, 'bin', 'library.js'), await libraryOn(folder));
  setModes(folder);
}

/** Gives every file the mode that git keeps: npm packs the modes that it finds, which are those of the umask of the clone. */
function setModes(folder: string): void {
  for (const file of filesBelow(folder)) chmodSync(file, statSync(file).mode & 0o100 ? 0o755 : 0o644);
}

/** What npm reads: without the scripts and the packages of development. */
function publishedManifest() {
  const { name, version, description, license, type, engines, bin, optionalDependencies } = manifest;
  // All packages are in the bundle. The types of the library name those of zod.
  const { zod } = manifest.dependencies;
  return {
    ...{ name, version, description, license, type, engines, bin },
    exports: {
      '.': { types: './src/library.d.ts', default: './bin/library.js' },
      './package.json': './package.json',
    },
    files: [
      ...['bin', 'src', 'config', 'docs', 'examples', 'plans.yaml'],
      ...['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'THIRD-PARTY-NOTICES'],
    ],
    keywords: ['api-gateway', 'rate-limiting', 'quota', 'api-keys', 'reverse-proxy'],
    dependencies: { zod },
    optionalDependencies,
  };
}

/** The module that programs import: the library, or an error that says what it needs where Node.js cannot read it. */
async function libraryOn(folder: string): Promise<string> {
  const names = Object.keys(await import(join(folder, `${LIBRARY}.js`)));
  return `import { isNodeTooOld, neededNode } from './needed-node.js';

if (isNodeTooOld) {
  throw new Error(
    \`The library of Tollgate needs Node.js \${neededNode} or later, this is \${process.versions.node}. Run your program by npm or npx \` +
      '("npx node FILE"), which use the Node.js that Tollgate brings, or install Node.js 26, for example with "nvm install 26".',
  );
}
export const { ${names.join(', ')} } = await import('../${LIBRARY}.js');
`;
}

/** Writes the declarations of all modules. */
function declareInto(folder: string): void {
  mkdirSync(join(ROOT, 'dist'), { recursive: true });
  const draft = mkdtempSync(join(ROOT, 'dist', 'tsconfig-'));
  try {
    const settings = {
      extends: join(ROOT, 'tsconfig.json'),
      compilerOptions: {
        noEmit: false,
        declaration: true,
        emitDeclarationOnly: true,
        rootDir: ROOT,
        outDir: folder,
      },
      include: [join(ROOT, 'src')],
      exclude: [join(ROOT, CONSOLE, 'page')],
    };
    const file = join(draft, 'tsconfig.json');
    writeFileSync(file, JSON.stringify(settings));
    execFileSync(process.execPath, [join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', file], {
      stdio: 'inherit',
    });
  } finally {
    rmSync(draft, { recursive: true });
  }
}

/** Removes the declarations that no program can import: those that the library's do not lead to. */
function dropDeclarations(folder: string): void {
  const kept = new Set<string>();
  const keep = (file: string): void => {
    if (kept.has(file)) return;
    kept.add(file);
    const text = readFileSync(file, 'utf8');
    for (const [, path] of text.matchAll(/(?:from |import\()['"](\.{1,2}\/[^'"]+)\.[jt]s['"]/g)) {
      keep(`${join(dirname(file), path!)}.d.ts`);
    }
  };
  keep(join(folder, `${LIBRARY}.d.ts`));
  for (const file of filesBelow(join(folder, 'src'))) if (file.endsWith('.d.ts') && !kept.has(file)) rmSync(file);
}

/** Copies what the modules read at run time: scripts for Redis, descriptions of APIs. */
function copyAssets(from: string, to: string): void {
  for (const file of filesBelow(from)) {
    if (file.endsWith('.ts') || file.startsWith(join(ROOT, CONSOLE))) continue;
    cpSync(file, join(to, relative(from, file)));
  }
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

function bundledBin(): string {
  const text = readFileSync(join(ROOT, 'bin', 'tollgate.js'), 'utf8');
  // An error names the line of the TypeScript.
  const bundled = text
    .replace("'../src/main.ts'", "'../src/main.js'")
    .replace(/^const \{ runProcess \}/m, 'process.setSourceMapsEnabled(true);\n$&');
  if (bundled === text) throw new Error('bin/tollgate.js does not import ../src/main.ts any more.');
  return bundled;
}
