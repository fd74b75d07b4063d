import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve, sep } from 'node:path';
import { threadBundleOf } from '../../src/io/own-program.ts';
import { ROOT } from '../docs/root.ts';
import { buildPackage } from './build.ts';
import { bundleThread, THREADS } from './bundle.ts';

/**
 * Writes the gateway with Node.js as one file that runs on this system and processor (a single executable
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
    for (const thread of THREADS) await bundleThread(thread, join(staged, 'src', threadBundleOf(basename(thread))));
    cpSync(join(ROOT, 'tools', 'package', 'executable.js'), join(staged, 'executable.js'));
    const names = filesBelow(staged).map((path) => relative(staged, path));
    const read = names.filter((name) => name !== 'executable.js' && !name.endsWith('.d.ts'));
    const settings = {
      // Node.js keeps this path in the executable, so it must be the same in every folder.
      main: 'package/executable.js',
      mainFormat: 'module',
      output: resolve(file),
      useVfs: true,
      disableExperimentalSEAWarning: true,
      // Attack: SIGUSR1 starts Node's debugger, which lets whatever reaches its port run code as the gateway.
      execArgv: ['--disable-sigusr1', '--max-semi-space-size=8'],
      assets: Object.fromEntries(read.map((name) => [name.split(sep).join('/'), join(staged, name)])),
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

/** The files below a folder, in one order. */
function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}
