import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { emptyStore } from '../../support/empty-store.ts';
import { ROOT } from '../../support/processes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** Preloaded: when the process ends, it writes what the process has loaded and opened to the file that SEEN names. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs';
  import { registerHooks, syncBuiltinESMExports } from 'node:module';
  const seen = { loaded: [], opened: [] };
  registerHooks({ load(url, context, next) { seen.loaded.push(url); return next(url, context); } });
  const { openSync, writeFileSync } = fs;
  fs.openSync = (path, ...rest) => { seen.opened.push(path); return openSync(path, ...rest); };
  syncBuiltinESMExports();
  process.on('exit', () => writeFileSync(process.env.SEEN, JSON.stringify(seen)));`)}`;

/** Each module costs about a millisecond before the command does anything. */
const MAX_MODULES = 79;

let seen: { readonly loaded: readonly string[]; readonly opened: readonly string[] };
beforeAll(async () => {
  const SEEN = join(await temporaryFolder(), 'seen.json');
  const command = ['bin/tollgate.js', 'keys', 'create', '--plan', 'pro'];
  const env = { PATH: process.env.PATH, ...(await emptyStore()), SEEN };
  await promisify(execFile)(process.execPath, ['--import', HOOK, ...command], { cwd: ROOT, env });
  seen = JSON.parse(await readFile(SEEN, 'utf8'));
});

test('`keys create` on the embedded store loads few modules, and nothing of ioredis', () => {
  const src = pathToFileURL(join(ROOT, 'src/')).href;
  const ours = seen.loaded.filter((url) => url.startsWith(src)).map((url) => url.slice(src.length));
  expect(ours).toContain('operations/key-changes.ts');
  expect(ours.length, ours.join('\n')).toBeLessThanOrEqual(MAX_MODULES);
  expect(seen.loaded.filter((url) => url.includes('/node_modules/ioredis/'))).toEqual([]);
});

test('`keys create` reads each settings file once', () => {
  const settings = seen.opened.filter((path) => String(path).endsWith('.yaml'));
  expect(settings.toSorted()).toEqual(['config/gateway.yaml', 'plans.yaml']);
});
