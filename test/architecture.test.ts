import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { RULES } from './support/architecture.ts';
import { type Import, importsOf, type Sources } from './support/imports.ts';
import { longFunctions } from './support/long-functions.ts';

const ROOT = join(import.meta.dirname, '..');

/** A function of more lines is long. */
const MAX_LINES = 60;

describe('the house', async () => {
  const paths = (
    await Array.fromAsync(
      glob('{src,test,tools}/**/*', { cwd: ROOT, withFileTypes: true, exclude: ['**/node_modules'] }),
    )
  )
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(ROOT.length + 1)
        .replaceAll('\\', '/'),
    );
  const sources: Sources = new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));

  /** What Node loads with these files, without what they import dynamically. */
  function loadedBy(...files: string[]): ReadonlySet<string> {
    const imports = importsOf(sources).filter(({ typeOnly, dynamic }) => !typeOnly && !dynamic);
    const loaded = new Set(files);
    // A loop over a set reaches the entries that are added meanwhile.
    for (const file of loaded) for (const { from, to } of imports) if (from === file) loaded.add(to);
    return loaded;
  }

  test('is read', () => {
    expect(sources.size).toBeGreaterThan(0);
    expect(importsOf(sources)).toContainEqual(expect.objectContaining({ from: 'src/main.ts', to: 'src/failure.ts' }));
  });

  test.each(Object.entries(RULES))('%s', (_, rule) => {
    expect(rule(sources)).toEqual([]);
  });

  test('has no function that fills more than a screen, apart from the screens of the console', () => {
    const parts = new Map([...sources].filter(([path]) => /^src\/(?!admin\/console\/page\/)/.test(path)));
    expect(longFunctions(parts, MAX_LINES)).toEqual([]);
  });

  test('imports at the top, apart from what few settings need, and what would make every command load the gateway', () => {
    const later = importsOf(sources).filter(
      ({ from, dynamic }) => dynamic && /^src\/(?!admin\/console\/page\/)/.test(from),
    );
    expect(later.map(({ from, to }) => `${from} ${to}`).sort()).toEqual([
      'src/admin/oidc.ts openid-client',
      'src/certificates/challenge-certificates.ts acme-client',
      'src/certificates/order.ts acme-client',
      'src/config/descriptions.ts src/config/compiled-descriptions.ts',
      'src/io/node-internals.ts node:http2',
      'src/serve/doctor.ts src/stores/redis/open.ts',
      'src/serve/gateway-stores.ts src/stores/redis/open.ts',
      'src/serve/open-store.ts src/stores/redis/open.ts',
      'src/serve/start-gateway.ts src/serve/gateway-process.ts',
      'src/serve/start-gateway.ts src/serve/workers/supervisor.ts',
      'src/serve/tracing.ts src/telemetry/trace.ts',
      'src/serve/workers/worker.ts src/serve/gateway-process.ts',
    ]);
    const loaded = loadedBy('src/main.ts', 'src/library.ts');
    expect(loaded).toContain('src/listen/public.ts');
    for (const name of ['ioredis', 'acme-client', 'ajv', 'openid-client', '@opentelemetry/sdk-trace-base'])
      expect(loaded).not.toContain(name);
  });

  test('depends on the packages that src imports and on no other', () => {
    const packages = packagesOf(importsOf(sources).filter(({ from }) => from.startsWith('src/')));
    // The browser loads them, and no script imports them.
    const fonts = [
      ...readFileSync(join(ROOT, 'tools/package/page.ts'), 'utf8').matchAll(/'(@[\w-]+\/[\w-]+)\/files\//g),
    ];
    const all = new Set([...packages, ...fonts.map(([, name]) => name!)]);
    expect([...all].sort()).toEqual(Object.keys(manifest.dependencies).sort());
  });
});

describe('the image of the load test', async () => {
  const paths = await Array.fromAsync(glob('{src,test/support,tools/kit,tools/load}/**/*.ts', { cwd: ROOT }));
  const imports = importsOf(new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')])));

  test('has each package that the program loads there', () => {
    const files = new Set(['tools/load/main.ts']);
    const loaded = imports.filter(({ typeOnly }) => !typeOnly);
    // A set goes on to what is added to it meanwhile.
    for (const file of files) {
      for (const { from, to } of loaded) {
        // It starts gateways and a Redis of its own. In the image the program is given gateways that run.
        if (from === file && to !== 'tools/load/own-stand.ts' && paths.includes(to)) files.add(to);
      }
    }
    const packages = packagesOf(loaded.filter(({ from }) => files.has(from)));
    const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
    const [, stage = ''] = /^FROM runtime AS load$([\s\S]*?)^FROM /m.exec(dockerfile) ?? [];
    const copied = [...stage.matchAll(/ \.\/node_modules\/(\S+)$/gm)].map(([, name]) => name!);
    expect(copied).toEqual(packages.filter((name) => !(name in manifest.dependencies)));
    const { packages: locked } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
    for (const name of copied) expect(locked[`node_modules/${name}`].dependencies ?? {}, name).toEqual({});
  });
});

/** The npm packages among what is imported, each once and by name. */
function packagesOf(imports: readonly Import[]): string[] {
  const names = imports
    .filter(({ to }) => !/^(?:(?:src|test|tools|bin)\/|package\.json$|node:)/.test(to))
    .map(({ to }) =>
      to
        .split('/')
        .slice(0, to.startsWith('@') ? 2 : 1)
        .join('/'),
    );
  return [...new Set(names)].sort();
}

test('a long function is named with its lines', () => {
  const body = '  work();\n'.repeat(4);
  const text = `class A {\n  #b() {\n${body}  }\n}\nconst c = () => {\n${body}};\nfunction short() {}\n`;
  expect(longFunctions(new Map([['src/a.ts', text]]), 5)).toEqual([
    { path: 'src/a.ts', line: 2, name: 'b', lines: 6 },
    { path: 'src/a.ts', line: 9, name: 'c', lines: 6 },
  ]);
});

describe('the check of', () => {
  const clean = new Map([
    ['src/main.ts', "import { serve } from './cli/serve.ts';\nconst pets = () => import('./cli/pets.ts');\n"],
    ['src/cli/serve.ts', "import { run } from '../serve/run.ts';"],
    [
      'src/serve/run.ts',
      "import { gateway } from '../gateway/gateway.ts';\nimport { open } from '../stores/redis/open.ts';",
    ],
    ['src/cli/pets.ts', "import { pets } from '../pets/pets.ts';"],
    [
      'src/gateway/gateway.ts',
      "import type { Settings } from '../config/settings.ts';\nimport { admit } from '../admit/admit.ts';",
    ],
    [
      'src/admit/admit.ts',
      "import type { Head } from '../http1/request-head.ts';\nimport { Failure } from '../failure.ts';",
    ],
    [
      'src/identify/record-store.ts',
      "import type { Limits } from '../admit/allowance.ts';\nimport { x } from 'lru-cache';",
    ],
    [
      'src/stores/redis/open.ts',
      "import type { Key } from '../../identify/record-store.ts';\nimport { d } from '../../admit/decision.ts';\nimport { read } from '../../identify/record-store.ts';",
    ],
    ['src/forward/forward.ts', "import type { IncomingMessage } from 'node:http';"],
    ['src/admin/sign-in.ts', "import { z } from 'zod';"],
    ['src/cli/operation-command.ts', "import type { z } from 'zod';"],
    [
      'src/admin/console/page/types.ts',
      "import type {\n  showKey,\n} from '../../../operations/catalogue/keys.ts';\nexport type Key = OutputOf<typeof showKey>;",
    ],
    [
      'src/admin/console/page/screens/key-screen.ts',
      "import type { Key } from '../types.ts';\nconst key = useResource<Key>(path);\nhtml`<p>no request</p>`;",
    ],
    ['src/config/setting-values.ts', "import { METHODS } from 'node:http';"],
    [
      'src/annotate/titles.ts',
      "const TITLES: Readonly<Record<Exclude<ErrorCode, 'no_upstream'>, string>> = {\n  overloaded: 'Overloaded',\n};",
    ],
    ['src/failure.ts', "// import { x } from './main.ts';\n/**\n * import('./main.ts')\n */\nexport class Failure {}"],
  ]);
  const planted: Record<string, [path: string, text: string][]> = {
    'arrows between rooms run downhill, types included': [
      ['src/telemetry/log.ts', "import { Terminal } from '../cli/command.ts';"],
      ['src/admin/call.ts', "import type { Terminal } from '../cli/command.ts';"],
      ['src/gateway/a.ts', "import type { Log } from '../telemetry/log.ts';"],
      ['src/http1/a.ts', "import type { IncomingBody } from '../forward/forward.ts';"],
    ],
    'every room has its place in the order': [['src/middleware/a.ts', '']],
    'gateway imports the steps, the ground and nothing else of ours (types aside)': [
      ['src/gateway/b.ts', "import {\n  type Store,\n  open,\n} from '../config/open.ts';"],
      ['src/gateway/c.ts', "export { settings } from '../config/settings.ts';"],
    ],
    'a step imports nothing of ours but itself and the ground (types aside)': [
      ['src/identify/a.ts', "import { WINDOWS } from '../admit/windows.ts';"],
      ['src/annotate/a.ts', "export * from '../admit/allowance.ts';"],
      ['src/forward/a.ts', "const x = await import('../admit/allowance.ts');"],
      ['src/annotate/b.ts', "import { type Key } from '../identify/record-store.ts';"],
      ['src/routing/b.ts', "import '../admit/allowance.ts';"],
    ],
    'http1 owns no socket': [['src/http1/a.ts', "import { Socket } from 'node:net';"]],
    'simulate is pure: it imports nothing but itself, admit, engine, model, failure.ts and types': [
      ['src/simulate/a.ts', "import { readSync } from 'node:fs';"],
      ['src/simulate/b.ts', "import { parsePlans } from '../config/plans.ts';"],
    ],
    'the engine imports nothing but itself and types of model': [
      ['src/engine/a.ts', "import { WINDOWS } from '../model/values.ts';"],
      ['src/engine/b.ts', "import { readSync } from 'node:fs';"],
    ],
    'a store loads only itself, the interfaces that it implements, the decision and the history of admit, io/deadlines.ts, io/resolver.ts and failure.ts':
      [
        ['src/stores/redis/a.ts', "import { x } from '../embedded/keys.ts';"],
        ['src/stores/embedded/a.ts', "import { admit } from '../../admit/admit.ts';"],
        ['src/stores/open.ts', "import { x } from './embedded/keys.ts';"],
      ],
    'a store takes its types from the rooms that use it, never from another store': [
      ['src/stores/redis/a.ts', "import type { X } from '../embedded/keys.ts';"],
      ['src/stores/redis/b.ts', "export type { X } from '../../config/settings.ts';"],
    ],
    'only serve opens stores': [['src/admin/call.ts', "import { open } from '../stores/redis/open.ts';"]],
    'a store opens itself: only its open.ts constructs its classes, and nothing else of it is loaded elsewhere': [
      ['src/serve/a.ts', "import { connectRedis } from '../stores/redis/connection.ts';"],
      ['src/serve/b.ts', "const { EmbeddedKeys } = await import('../stores/embedded/keys.ts');"],
      ['src/serve/c.ts', 'return new RedisKeys({ redis, circuit });'],
      ['src/stores/embedded/a.ts', 'const audit = new EmbeddedAudit({ db });'],
    ],
    'no face imports a face': [
      ['src/library.ts', "import { readPage } from './admin/call.ts';"],
      ['src/cli/keys/create.ts', "import type { Call } from '../../admin/call.ts';"],
    ],
    'a zod object of an input or output of an operation is described below operations/ only': [
      ['src/admin/call.ts', "import { z } from 'zod';"],
      ['src/cli/keys/create.ts', "import { type z, ZodObject } from 'zod';"],
      ['src/library.ts', "const { z } = await import('zod');"],
    ],
    'the page of the console takes the types of responses from the operations': [
      ['src/admin/console/page/a.ts', "request<{ name: string | null }>('GET', path);"],
      ['src/admin/console/page/kit/b.ts', 'interface Key {\n  id: string;\n}\nconst key = useResource<Key>(path);'],
      [
        'src/admin/console/page/screens/c.ts',
        "import type { Key } from './key.ts';\nconst { data } = await request<Key>('GET', path);",
      ],
      ['src/admin/console/page/types.ts', 'export interface Key {\n  readonly id: string;\n}'],
      ['src/admin/console/page/types.ts', 'export type Key = OutputOf<typeof showKey> & { readonly id: string };'],
    ],
    'the record of changes has one writer': [
      ['src/cli/keys/create.ts', "import { AuditTrail } from '../../operations/audit-trail.ts';"],
    ],
    'failure.ts imports nothing': [['src/failure.ts', "import type { X } from './admit/allowance.ts';"]],
    'nothing but cli imports pets': [['src/config/a.ts', "import { pets } from '../pets/pets.ts';"]],
    'pets imports nothing of ours but itself and failure.ts': [
      ['src/pets/a.ts', "import type { X } from '../config/settings.ts';"],
    ],
    'no circle of imports, types included': [
      ['src/failure.ts', "import { a } from './admit/admit.ts';"],
      ['src/admit/admit.ts', "import { a } from './admit.ts';"],
      ['tools/load/run.ts', "import type { Run } from './run.ts';"],
    ],
    'request and response objects are touched in listen, certificates, gateway, forward, http1, admin, pets, io/node-internals.ts and io/http-exchange.ts only':
      [
        ['src/io/a.ts', "import { Server } from 'node:http';"],
        ['src/identify/a.ts', "import type { IncomingMessage } from 'node:http';"],
        ['src/telemetry/a.ts', "import { METHODS, type ServerResponse } from 'node:http';"],
        ['src/config/a.ts', "import * as http from 'node:http';"],
        ['src/cli/a.ts', "import http from 'node:http';"],
      ],
    'undocumented members of Node are touched in io/node-internals.ts only': [
      ['src/listen/a.ts', 'const fd = (socket as Bare)._handle?.fd;'],
      ['src/listen/b.ts', 'socket!._write(text);'],
      ['src/listen/c.ts', "Reflect.get(socket, '_parent');"],
      ['src/listen/d.ts', 'const { _httpMessage: response } = socket;'],
      ['src/listen/e.ts', 'type Bare = { readonly _handle?: object };'],
      ['src/listen/f.ts', 'for (const symbol of Object.getOwnPropertySymbols(session)) use(symbol);'],
      ['src/listen/g.ts', "server.emit('listening');"],
      ['src/listen/h.ts', 'socket.parser?.getCurrentBuffer?.();'],
      ['src/listen/i.ts', 'response.shouldKeepAlive = false;'],
      ['src/listen/j.ts', 'socket.destroySoon = () => {};'],
    ],
    'connections are reset by io/graceful-close.ts and nothing else': [
      ['src/forward/a.ts', 'socket?.resetAndDestroy();'],
      ['src/listen/b.ts', 'socket.resetAndDestroy = () => socket.destroy();'],
    ],
    'names of hosts are looked up by io/resolver.ts and nothing else': [
      ['src/serve/a.ts', "import { lookup } from 'node:dns';"],
      ['src/serve/b.ts', "import { Resolver } from 'node:dns/promises';"],
      ['src/forward/c.ts', "import { connect } from 'node:net';\nconnect({ host, port });"],
      ['src/forward/d.ts', "import { type Socket, connect as connectTls } from 'node:tls';"],
      ['src/gateway/e.ts', "import { request } from 'node:http';"],
      ['src/admin/f.ts', "import { Agent } from 'node:https';"],
      ['src/identify/g.ts', 'const response = await fetch(url);'],
      ['src/stores/redis/h.ts', "import { Redis } from 'ioredis';\nconst redis = new Redis(url);"],
    ],
    'a table keyed by error codes has the type Record<ErrorCode, …>': [
      ['src/operations/a.ts', "const ADVICE: Readonly<Record<string, string>> = {\n  overloaded: 'Wait.',\n};"],
      ['src/annotate/c.ts', "export const SENTENCES = {\n  overloaded: 'Wait.',\n} as const;"],
      ['src/config/b.ts', "const HINTS: Partial<Record<ErrorCode, string>> = {\n  overloaded: 'Wait.',\n};"],
      ['src/gateway/d.ts', "function f() {\n  const titles = {\n    overloaded: 'Overloaded',\n  };\n}"],
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
    'what a file exports, another file names': [
      ['src/admit/own.ts', 'export function ofNoOtherFile() {}'],
      ['src/admit/types.ts', 'export interface OfNoOtherFile {}'],
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
