import { openStore } from '../../src/serve/open-store.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** The environment of an embedded store without keys. Commands that read make none. */
export async function emptyStore(): Promise<{ TOLLGATE_DATA: string }> {
  const env = { TOLLGATE_DATA: await temporaryFolder() };
  await (await openStore(env, { missingStore: 'make' })).close();
  return env;
}
