import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { emptyStore } from '../support/empty-store.ts';
import { cleanEnvironment, ROOT, TOLLGATE } from '../support/processes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Preloaded: when the process ends, it writes which files the process has opened to the file that SEEN names. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const opened = [];
  const { openSync, writeFileSync } = fs;
  fs.openSync = (path, ...rest) => { opened.push(path); return openSync(path, ...rest); };
  syncBuiltinESMExports();
  process.on('exit', () => writeFileSync(process.env.SEEN, JSON.stringify(opened)));`)}`;

test('a command reads each settings file once', async () => {
  const SEEN = join(await temporaryFolder(), 'seen.json');
  const command = [...TOLLGATE.slice(1), 'keys', 'create', '--plan', 'pro'];
  const env = cleanEnvironment({ ...(await emptyStore()), SEEN });
  await promisify(execFile)(process.execPath, ['--import', HOOK, ...command], { cwd: ROOT, env });
  const opened = JSON.parse(await readFile(SEEN, 'utf8')) as readonly string[];
  const settings = opened.filter((path) => String(path).endsWith('.yaml'));
  expect(settings.toSorted()).toEqual(['config/gateway.yaml', 'plans.yaml']);
});
