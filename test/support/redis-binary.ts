import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { debianRedis } from './redis-debian.ts';

const run = promisify(execFile);

/** A server program that can be started. Plain data: it goes from the main process to the workers. */
export interface RedisBinary {
  readonly path: string;
  /** For LD_LIBRARY_PATH, where the program brings libraries of its own. */
  readonly libraryPath: string | null;
  /** `redis-server 7.0.15`, `valkey-server 8.1.4`. */
  readonly version: string;
  readonly origin: 'on the PATH' | "Debian's package under node_modules/.cache";
}

/**
 * The server program of this machine: `redis-server` or `valkey-server` on the PATH, else Debian's package, which is
 * fetched the first time (contract section 1, `npm test`).
 * @throws Error with the reason when there is neither
 */
export async function localRedis(cacheFolder: string, env: NodeJS.ProcessEnv = process.env): Promise<RedisBinary> {
  return (await redisOnPath(env)) ?? (await debianRedis(cacheFolder, versionOf));
}

/** @returns null when the PATH has no program that runs */
export async function redisOnPath(env: NodeJS.ProcessEnv): Promise<RedisBinary | null> {
  for (const name of ['redis-server', 'valkey-server']) {
    for (const folder of (env.PATH ?? '').split(delimiter).filter((part) => part !== '')) {
      const path = join(folder, name);
      if (!(await isExecutable(path))) continue;
      const version = await versionOf(path, null);
      if (version !== null) return { path, libraryPath: null, version, origin: 'on the PATH' };
    }
  }
  return null;
}

/** What `--version` says, as `redis-server 7.0.15`. Null when the program does not run here. */
export async function versionOf(path: string, libraryPath: string | null): Promise<string | null> {
  try {
    const { stdout } = await run(path, ['--version'], { env: redisEnvironment(libraryPath), timeout: 10_000 });
    const [, name, version] = /^(Redis|Valkey) server v=(\S+)/m.exec(stdout) ?? [];
    return name === undefined ? null : `${name.toLowerCase()}-server ${version}`;
  } catch {
    return null;
  }
}

/** The environment to start the program in. */
export function redisEnvironment(libraryPath: string | null): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C', ...(libraryPath === null ? {} : { LD_LIBRARY_PATH: libraryPath }) };
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
