import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

/** For the environment of a process or a thread of ours: it then uses the compile cache of this one, if that has one. */
export function compileCacheVariables(): NodeJS.ProcessEnv {
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}
