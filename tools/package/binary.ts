import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { build } from 'rolldown';
import { threadBundleOf } from '../../src/io/own-program.ts';
import { ROOT } from '../docs/root.ts';
import { buildPackage } from './build.ts';
import { productionPackages } from './lock.ts';

/** The programs that run in threads, which see no file of the executable. */
const THREADS = ['src/config/settings-thread', 'src/gateway/body-thread', 'src/operations/plans/draft-thread'] as const;
/** What no program reads at run time. */
const UNREAD = /\.(?:map|md|markdown|d\.[cm]?ts|ts|flow)$/;

/**
 * Writes the gateway with Node.js and its packages as one file that runs on this system and processor (a single executable
 * application of Node.js, whose virtual file system has the files of the npm package). It is made of the Node.js that runs this.
 * Another build of the same commit by the same Node.js writes the same bytes: no name of a folder gets into it.
 * @param built the folder of {@link buildPackage}, which stays as it is; it is built here if null
 * @throws Error if the compiler or Node.js fails; both have printed why
 */
export async function buildBinary(file: string, built: string | null = null): Promise<void> {
  const folder = mkdtempSync(join(ROOT, 'dist', 'binary-'));
  try {
    const staged = join(folder, 'package');
    if (built === null) await buildPackage(staged);
    else cpSync(built, staged, { recursive: true });
    for (const thread of THREADS)
      await bundle(join(staged, `${thread}.js`), join(staged, dirname(thread), threadBundleOf(basename(thread))));
    cpSync(join(ROOT, 'tools', 'package', 'executable.js'), join(staged, 'executable.js'));
    const own = filesBelow(staged).map((path) => [relative(staged, path), path]);
    const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).flatMap((one) => {
      const files = filesBelow(join(ROOT, one.path)).filter((path) => !UNREAD.test(path));
      return files.map((path) => [relative(ROOT, path), path]);
    });
    const files = [...own, ...packages].filter(([name]) => name !== 'executable.js' && !name!.endsWith('.d.ts'));
    const settings = {
      // Node.js keeps this path in the executable, so it must be the same in every folder.
      main: 'package/executable.js',
      mainFormat: 'module',
      output: resolve(file),
      useVfs: true,
      disableExperimentalSEAWarning: true,
      // Attack: SIGUSR1 starts Node's debugger, which lets whatever reaches its port run code as the gateway.
      execArgv: ['--disable-sigusr1', '--max-semi-space-size=8'],
      assets: Object.fromEntries(files.map(([name, path]) => [name!.split(sep).join('/'), path])),
    };
    writeFileSync(join(folder, 'sea.json'), JSON.stringify(settings));
    rmSync(file, { force: true });
    execFileSync(process.execPath, ['--build-sea', 'sea.json'], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    chmodSync(file, 0o755);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Puts a program and all that it imports into one file, without the comments that name the folder of each module. */
async function bundle(input: string, file: string): Promise<void> {
  const output = { file, format: 'cjs', codeSplitting: false } as const;
  await build({ input, platform: 'node', experimental: { attachDebugInfo: 'none' }, output, logLevel: 'warn' });
}

/** The files below a folder, without those of packages inside it: each package is named itself. */
function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : filesBelow(path);
    return entry.isFile() ? [path] : [];
  });
}
