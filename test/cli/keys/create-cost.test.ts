import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { emptyStore } from '../../support/empty-store.ts';
import { ROOT } from '../../support/processes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** Preloaded: when the process ends, it writes what the process has opened to the file that SEEN names. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const seen = { opened: [] };
  const { openSync, writeFileSync } = fs;
  fs.openSync = (path, ...rest) => { seen.opened.push(path); return openSync(path, ...rest); };
  syncBuiltinESMExports();
  process.on('exit', () => writeFileSync(process.env.SEEN, JSON.stringify(seen)));`)}`;

let seen: { readonly opened: readonly string[] };
beforeAll(async () => {
  const SEEN = join(await temporaryFolder(), 'seen.json');
  const command = ['bin/tollgate.js', 'keys', 'create', '--plan', 'pro'];
  const env = { PATH: process.env.PATH, ...(await emptyStore()), SEEN };
  await promisify(execFile)(process.execPath, ['--import', HOOK, ...command], { cwd: ROOT, env });
  seen = JSON.parse(await readFile(SEEN, 'utf8'));
});

test('`keys create` reads each settings file once', () => {
  const settings = seen.opened.filter((path) => String(path).endsWith('.yaml'));
  expect(settings.toSorted()).toEqual(['config/gateway.yaml', 'plans.yaml']);
});
