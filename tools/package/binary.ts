import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, sep } from 'node:path';
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
 * @throws Error if the compiler or Node.js fails; both have printed why
 */
export async function buildBinary(file: string): Promise<void> {
  const folder = mkdtempSync(join(ROOT, 'dist', 'binary-'));
  try {
    const staged = join(folder, 'package');
    await buildPackage(staged);
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
      main: join(staged, 'executable.js'),
      mainFormat: 'module',
      output: file,
      useVfs: true,
      disableExperimentalSEAWarning: true,
      // Attack: SIGUSR1 starts Node's debugger, which lets whatever reaches its port run code as the gateway.
      execArgv: ['--disable-sigusr1', '--max-semi-space-size=8'],
      assets: Object.fromEntries(files.map(([name, path]) => [name!.split(sep).join('/'), path])),
    };
    const written = join(folder, 'sea.json');
    writeFileSync(written, JSON.stringify(settings));
    rmSync(file, { force: true });
    execFileSync(process.execPath, ['--build-sea', written], { stdio: ['ignore', 'ignore', 'inherit'] });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Puts a program and all that it imports into one file. */
async function bundle(input: string, file: string): Promise<void> {
  await build({ input, platform: 'node', output: { file, format: 'cjs', codeSplitting: false }, logLevel: 'warn' });
}

/** The files below a folder, without those of packages inside it: each package is named itself. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : filesBelow(path);
    return entry.isFile() ? [path] : [];
  });
}
