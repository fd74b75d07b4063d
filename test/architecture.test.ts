import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RULES } from './support/architecture.ts';
import { importsOf, type Sources } from './support/imports.ts';

const ROOT = join(import.meta.dirname, '..');

describe('the house', async () => {
  const paths = (await Array.fromAsync(glob('{src,test}/**/*', { cwd: ROOT, withFileTypes: true })))
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(ROOT.length + 1)
        .replaceAll('\\', '/'),
    );
  const sources: Sources = new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));

  test('is read', () => {
    expect(sources.size).toBeGreaterThan(0);
    expect(importsOf(sources)).toContainEqual(expect.objectContaining({ from: 'src/main.ts', to: 'src/failure.ts' }));
  });

  test.each(Object.entries(RULES))('%s', (_, rule) => {
    expect(rule(sources)).toEqual([]);
  });
});

describe('the check of', () => {
  const clean = new Map([
    ['src/main.ts', "import { serve } from './cli/serve.ts';\nconst pets = () => import('./cli/pets.ts');\n"],
    [
      'src/cli/serve.ts',
      "import { gateway } from '../gateway/gateway.ts';\nimport { open } from '../stores/redis/open.ts';",
    ],
    ['src/cli/pets.ts', "import { pets } from '../pets/pets.ts';"],
    [
      'src/gateway/gateway.ts',
      "import type { Log } from '../telemetry/log.ts';\nimport { admit } from '../admit/admit.ts';",
    ],
    [
      'src/admit/admit.ts',
      "import type { Key } from '../identify/key-store.ts';\nimport { Failure } from '../failure.ts';",
    ],
    ['src/identify/key-store.ts', "import type { Limits } from '../admit/plan.ts';\nimport { x } from 'lru-cache';"],
    [
      'src/stores/redis/open.ts',
      "import type { Key } from '../../identify/key-store.ts';\nimport { d } from '../../admit/decide.ts';\nimport { read } from '../../identify/key-store.ts';",
    ],
    ['src/forward/forward.ts', "import type { IncomingMessage } from 'node:http';"],
    ['src/config/values.ts', "import { METHODS } from 'node:http';"],
    ['src/failure.ts', "// import { x } from './main.ts';\n/**\n * import('./main.ts')\n */\nexport class Failure {}"],
  ]);
  const planted: Record<string, [path: string, text: string][]> = {
    'main is the top, cli below it, and nothing imports them': [
      ['src/telemetry/log.ts', "import { Terminal } from '../cli/command.ts';"],
      ['src/admin/admin.ts', "import type { Terminal } from '../cli/command.ts';"],
    ],
    'gateway imports the steps and nothing else of ours (types aside)': [
      ['src/gateway/a.ts', "import { log } from '../telemetry/log.ts';"],
      ['src/gateway/b.ts', "import {\n  type Store,\n  open,\n} from '../stores/redis/open.ts';"],
      ['src/gateway/c.ts', "export { settings } from '../config/settings.ts';"],
    ],
    'a step imports nothing of ours but itself and failure.ts (types aside)': [
      ['src/identify/a.ts', "import { WINDOWS } from '../admit/plan.ts';"],
      ['src/annotate/a.ts', "export * from '../admit/plan.ts';"],
      ['src/forward/a.ts', "const x = await import('../config/settings.ts');"],
      ['src/admit/a.ts', "import { type Key } from '../identify/key-store.ts';"],
      ['src/admit/b.ts', "import '../telemetry/log.ts';"],
    ],
    'simulate is pure: it imports nothing but itself, admit, failure.ts and types': [
      ['src/simulate/a.ts', "import { readSync } from 'node:fs';"],
      ['src/simulate/b.ts', "import { parsePlans } from '../config/plans.ts';"],
    ],
    'a store loads only itself, the interfaces of the steps, admit/decide.ts, admit/plan.ts and failure.ts': [
      ['src/stores/redis/a.ts', "import { x } from '../embedded/keys.ts';"],
      ['src/stores/embedded/a.ts', "import { admit } from '../../admit/admit.ts';"],
      ['src/stores/open.ts', "import { x } from './embedded/keys.ts';"],
    ],
    'a store takes its types from the steps, never from another store': [
      ['src/stores/redis/a.ts', "import type { X } from '../embedded/keys.ts';"],
      ['src/stores/redis/b.ts', "export type { X } from '../../config/settings.ts';"],
    ],
    'only cli opens stores': [['src/admin/admin.ts', "import { open } from '../stores/redis/open.ts';"]],
    'failure.ts imports nothing': [['src/failure.ts', "import type { X } from './admit/plan.ts';"]],
    'nothing but cli imports pets': [['src/config/a.ts', "import { pets } from '../pets/pets.ts';"]],
    'pets imports nothing of ours but itself and failure.ts': [
      ['src/pets/a.ts', "import type { X } from '../config/settings.ts';"],
    ],
    'no circle of imports (types and dynamic imports aside)': [
      ['src/failure.ts', "import { a } from './admit/admit.ts';"],
      ['src/admit/admit.ts', "import { a } from './admit.ts';"],
    ],
    'request and response objects are touched in listen, gateway, forward, admin and pets only': [
      ['src/identify/a.ts', "import type { IncomingMessage } from 'node:http';"],
      ['src/telemetry/a.ts', "import { METHODS, type ServerResponse } from 'node:http';"],
      ['src/config/a.ts', "import * as http from 'node:http';"],
      ['src/cli/a.ts', "import http from 'node:http';"],
    ],
    'no file or folder is named utils or helpers': [
      ['src/config/utils.ts', ''],
      ['test/helpers/a.ts', ''],
      ['src/admit/_util.ts', ''],
    ],
    'no module of src keeps a variable': [
      ['src/admit/a.ts', 'let count = 0;'],
      ['src/admit/b.ts', '\nexport let count = 0;'],
    ],
  };

  test('nothing complains about a house in order', () => {
    expect(Object.values(RULES).flatMap((rule) => rule(clean))).toEqual([]);
  });

  test('nothing is forgotten here', () => {
    expect(Object.keys(planted)).toEqual(Object.keys(RULES));
  });

  test.each(Object.entries(planted))('"%s" names each offender', (name, files) => {
    for (const [path, text] of files) {
      const complaints = RULES[name]?.(new Map([...clean, [path, text]])) ?? [];
      expect(complaints, path).toHaveLength(1);
      expect(complaints[0]).toContain(path);
    }
  });
});
