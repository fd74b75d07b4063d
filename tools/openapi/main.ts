import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { openApi } from '../../src/admin/openapi.ts';
import { ROOT } from '../docs/root.ts';

// `npm run openapi:check`: a linter reads the OpenAPI description of the admin API, and three generators make clients of it, which
// are compiled. The tools have a package of their own, because they are larger than the gateway. The last line counts the checks.

const HERE = import.meta.dirname;
/** Below the packages of the tools, so that what is generated finds the ones that it imports. */
const MADE = join(HERE, 'node_modules', '.cache', 'made');
const DESCRIPTION = join(MADE, 'openapi.json');

/** The compiler of this repository; the tools bring others. */
const TSC = join(ROOT, 'node_modules', '.bin', 'tsc');
const COMPILE = [
  ...[
    '--ignoreConfig',
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--module',
    'esnext',
    '--moduleResolution',
    'bundler',
  ],
  ...['--lib', 'es2022,dom,dom.iterable', '--skipLibCheck'],
];

/** Each is a name, and the commands that must end with 0. */
const CHECKS: readonly (readonly [string, ...(readonly string[])[]])[] = [
  ['Redocly', ['redocly', 'lint', '--extends', 'recommended', DESCRIPTION]],
  ['openapi-typescript', ['openapi-typescript', DESCRIPTION, '-o', 'types.ts'], [TSC, ...COMPILE, 'types.ts']],
  ['oazapfts', ['oazapfts', DESCRIPTION, 'oazapfts.ts'], [TSC, ...COMPILE, 'oazapfts.ts']],
  ['Hey API', ['openapi-ts', '-i', DESCRIPTION, '-o', 'hey-api'], [TSC, ...COMPILE, 'hey-api/index.ts']],
];

const PATH = [join(HERE, 'node_modules', '.bin'), process.env.PATH].join(delimiter);
const env = { ...process.env, PATH, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };

const done = (words: readonly string[], cwd: string) =>
  spawnSync(words[0]!, words.slice(1), { cwd, env, stdio: 'inherit' }).status === 0;

if (!done(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], HERE)) finish(['npm ci']);
rmSync(MADE, { recursive: true, force: true });
mkdirSync(MADE, { recursive: true });
writeFileSync(DESCRIPTION, JSON.stringify(openApi(), null, 2));
finish(CHECKS.filter(([, ...commands]) => !commands.every((words) => done(words, MADE))).map(([name]) => name));

function finish(failed: readonly string[]): never {
  for (const name of failed) console.log(`FAILED: ${name}`);
  console.log(`${CHECKS.length - failed.length} passed, ${failed.length} failed, 0 skipped`);
  process.exit(failed.length === 0 ? 0 : 1);
}
