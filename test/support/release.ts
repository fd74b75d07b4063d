import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import manifest from '../../package.json' with { type: 'json' };
import { ROOT } from './processes.ts';

const run = promisify(execFile);

/** The files of a release, by the names that `npm run build:release` gives them. */
export const RELEASE = {
  tarball: `${manifest.name}-${manifest.version}.tgz`,
  executable: `${manifest.name}-${manifest.version}-${process.platform}-${process.arch}`,
} as const;

/** The time that both releases name. */
export const SOURCE_DATE_EPOCH = '1750000000';

/**
 * The release of this clone. It is built once for all test files: the first one that asks builds it, and the others wait.
 * @returns its folder
 * @throws Error with what the build printed
 */
export async function builtRelease(): Promise<string> {
  const shared = process.env.TEST_RELEASE!;
  const [folder, result] = [join(shared, 'files'), join(shared, 'result')];
  try {
    // Only one process can make it.
    mkdirSync(join(shared, 'begun'));
    const error = await buildRelease(ROOT, folder).then(
      () => '',
      (cause) => String(cause),
    );
    writeFileSync(`${result}.draft`, error);
    renameSync(`${result}.draft`, result);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    while (!existsSync(result)) await sleep(200);
  }
  const error = readFileSync(result, 'utf8');
  if (error !== '') throw new Error(error);
  return folder;
}

/**
 * Types `npm run build:release` in a clone.
 * @param umask of the shell, in octal
 */
export async function buildRelease(
  clone: string,
  folder: string,
  env: Readonly<Record<string, string>> = {},
  umask = '022',
): Promise<void> {
  const command = `umask ${umask} && exec npm run -s build:release -- --no-image "$0"`;
  await run('sh', ['-c', command, folder], { cwd: clone, env: { ...process.env, SOURCE_DATE_EPOCH, ...env } });
}
