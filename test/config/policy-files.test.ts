import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { configurationOf, loadConfiguration } from '../../src/config/settings.ts';
import { runTollgate, temporaryFolder } from '../support/processes.ts';

// The files that `policies` of routes name: which are found, and what is wrong with them.

const SERVICE = "upstreams: { store: { targets: ['http://127.0.0.1:9'] } }";

async function folderWith(policies: readonly string[], files: Readonly<Record<string, string>>) {
  const folder = await temporaryFolder();
  const routes = policies.map(
    (name, i) => `\n  - { path: /r${i}, methods: [GET], upstream: store, policies: ['${name}'] }`,
  );
  const all = {
    'config/gateway.yaml': `${SERVICE}\nroutes:${routes.join('')}\n`,
    'plans.yaml': 'plans: { free: { limits: { minute: 5 } } }\n',
    ...files,
  };
  for (const [name, text] of Object.entries(all)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  const env = { TOLLGATE_CONFIG: join(folder, 'config/gateway.yaml'), TOLLGATE_PLANS: join(folder, 'plans.yaml') };
  return { folder, env };
}

test('paths are relative to the folder of gateway.yaml, and what a policy imports belongs to it', async () => {
  const { folder, env } = await folderWith(['./policies/a.ts', '../b.mjs'], {
    'config/policies/a.ts':
      "import type { Policy } from 'tollgate';\nimport { c } from './lib/c.ts';\nconst d = await import('./d.json', { with: { type: 'json' } });\nexport default (() => c(d)) as Policy;",
    'config/policies/lib/c.ts': "export * from '../a.ts';\nexport { e as c } from './e.js';",
    'b.mjs': 'export default () => {};',
  });
  const loaded = await loadConfiguration(env);
  if ('faults' in loaded) throw new Error(loaded.faults.join('\n'));
  const [a, b] = ['./policies/a.ts', '../b.mjs'].map((name) => loaded.settings.policyFiles.get(name)!);
  const own = [
    'config/policies/a.ts',
    'config/policies/lib/c.ts',
    'config/policies/d.json',
    'config/policies/lib/e.js',
  ];
  expect(a!.files).toEqual(own.map((name) => join(folder, name)));
  expect(b).toMatchObject({ path: join(folder, 'b.mjs'), files: [join(folder, 'b.mjs')] });

  // The version is that of all files, one that is missing as yet included.
  await writeFile(join(folder, 'config/policies/lib/e.js'), 'export const e = () => undefined;');
  const again = await loadConfiguration(env);
  if ('faults' in again) throw new Error(again.faults.join('\n'));
  expect(again.versions.settings).not.toBe(loaded.versions.settings);
  expect(again.settings.policyFiles.get('./policies/a.ts')!.version).not.toBe(a!.version);
  expect(again.settings.policyFiles.get('../b.mjs')!.version).toBe(b!.version);
  expect(again.signature).not.toBe(loaded.signature);
});

test('a file that is missing, or is no module, is a fault with its line and column', async () => {
  const { folder, env } = await folderWith(['./none.ts', './tenant.yaml', './folder.ts'], {
    'config/tenant.yaml': '{}',
    'config/folder.ts/a.ts': '',
  });
  const loaded = await loadConfiguration(env);
  const file = join(folder, 'config/gateway.yaml');
  expect('faults' in loaded ? loaded.faults : []).toEqual([
    `${file}:3:62: routes[0].policies[0]: names the file ${join(folder, 'config/none.ts')}, which does not exist.`,
    `${file}:4:62: routes[1].policies[0]: must be a file that ends with .ts, .mts, .js, .mjs.`,
    `${file}:5:62: routes[2].policies[0]: names the file ${join(folder, 'config/folder.ts')}, which is a directory, not a file.`,
  ]);
});

test('an object names only policies that the program gives', async () => {
  const upstreams = { store: { targets: ['http://127.0.0.1:9'] } };
  const routes = [{ path: '/', methods: ['GET'], upstream: 'store', policies: ['tenant', './tenant.ts'] }];
  const plans = { plans: { free: { limits: { minute: 5 } } } };
  const read = await configurationOf({ gateway: { upstreams, routes }, plans, policies: ['tenant'] }, {});
  expect('faults' in read ? read.faults : []).toEqual([
    'gateway: routes[0].policies[1]: is not one of the `policies` that `createGateway` was given; they are tenant.',
  ]);
});

test('a surrounding route without the policy of another one gets a warning', async () => {
  const { env, folder } = await folderWith([], { 'config/a.ts': 'export default () => {};' });
  const routes = `
  - { path: '/**', methods: [GET], upstream: store }
  - { path: /v1/admin, methods: [GET], upstream: store, policies: [./a.ts] }`;
  await writeFile(join(folder, 'config/gateway.yaml'), `${SERVICE}\nroutes:${routes}\n`);
  const loaded = await loadConfiguration(env);
  expect('warnings' in loaded ? loaded.warnings : []).toEqual([expect.stringContaining('(without the policy ./a.ts)')]);
});

test('gateway check imports the policies, and serve starts with none that cannot be loaded', async () => {
  const broken = {
    'config/syntax.ts': 'export default () => {\n  return {;\n};\n',
    'config/enum.ts': '\nenum Kind { a }\nexport default () => Kind.a;\n',
    'config/throws.ts': 'const a = 1;\n  null.x;\nexport default () => a;\n',
    'config/none.js': 'export const policy = () => {};\n',
    'config/common.js': 'module.exports = () => {};\n',
    'config/text.mjs': "export default 'policy';\n",
    'config/missing.ts': "import { a } from './nowhere.ts';\nexport default a;\n",
    'config/types.ts': "import { Policy } from 'tollgate';\nexport default (() => {}) as Policy;\n",
    'config/within.ts': "import { a } from './enum.ts';\nexport default a;\n",
  };
  const { folder, env } = await folderWith(
    [...Object.keys(broken).map((name) => name.replace('config', '.')), './good.ts'],
    {
      ...broken,
      'config/good.ts': 'export default () => {};',
    },
  );
  const at = (place: string, message: string) =>
    expect.stringContaining(`${join(folder, 'config')}/${place}: (file): ${message}`);
  const faults = [
    at('syntax.ts:2:11', 'the policy ./syntax.ts cannot be loaded: Unexpected token'),
    at('enum.ts:2:1', 'the policy ./enum.ts cannot be loaded: TypeScript enum is not supported in strip-only mode.'),
    at('throws.ts:2:8', 'the policy ./throws.ts cannot be loaded: Cannot read properties of null'),
    at('none.js:1:1', 'must have a function as its default export: `export default policy`.'),
    at('common.js:1:1', 'must be an ECMAScript module: `export default policy`, not `module.exports`.'),
    at('text.mjs:1:1', 'must have a function as its default export'),
    at('missing.ts:1:1', 'the policy ./missing.ts cannot be loaded: Cannot find module'),
    at('types.ts:1:1', "the policy ./types.ts cannot be loaded: Cannot find package 'tollgate'"),
    at('enum.ts:2:1', 'the policy ./within.ts cannot be loaded: TypeScript enum'),
  ];
  for (const command of [['gateway', 'check'], ['serve', '--check'], ['serve']]) {
    const { code, stderr } = await runTollgate(command, { env: { ...env, TOLLGATE_DATA: join(folder, 'data') } });
    expect({ command, code, lines: stderr.trimEnd().split('\n') }).toEqual({ command, code: 1, lines: faults });
  }
});
