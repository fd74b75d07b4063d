import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfiguration } from '../../src/config/settings.ts';
import { eventually } from '../support/conditions.ts';
import { PLANS, startGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { startUpstream } from '../support/upstream.ts';

// `validate` in gateway.yaml: the descriptions that it names.

const description = (maximum: number) => `
openapi: 3.1.0
paths:
  /pets:
    get: { parameters: [{ name: limit, in: query, schema: { type: integer, maximum: ${maximum} } }] }
  /pets/{id}: { get: {}, delete: {} }
  /pets/{id}.json: { get: {} }
`;

async function load(routes: string, text: string | null = description(9), upstream = '') {
  const folder = await temporaryFolder();
  const file = join(folder, 'openapi.yaml');
  if (text !== null) await writeFile(file, text);
  const gateway = `upstreams: { store: { targets: [http://127.0.0.1:9]${upstream} } }\nroutes:\n${routes}`;
  await writeFile(join(folder, 'gateway.yaml'), gateway.replaceAll('FILE', file));
  await writeFile(join(folder, 'plans.yaml'), PLANS);
  const env = { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_PLANS: join(folder, 'plans.yaml') };
  const loaded = await loadConfiguration(env);
  const shortened = (lines: readonly string[]) => lines.map((line) => line.replaceAll(`${folder}/`, ''));
  return 'faults' in loaded
    ? { faults: shortened(loaded.faults), warnings: [], settings: null }
    : { faults: [], warnings: shortened(loaded.warnings), settings: loaded.settings };
}

describe('a route with a description that would refuse all its requests, or that cannot be used, is a fault', () => {
  test.each([
    [
      '  - { path: /dogs, methods: [GET], upstream: store, validate: FILE }',
      'gateway.yaml:3:63: routes[0].validate: openapi.yaml describes no path that this route serves (/dogs).',
    ],
    [
      '  - { path: /pets, methods: [GET, PUT], upstream: store, validate: FILE }',
      'gateway.yaml:3:68: routes[0].validate: openapi.yaml describes no PUT for /pets; describe it, or leave the method out of the route.',
    ],
    [
      '  - { path: /v1/pets, methods: [GET], upstream: store, validate: FILE }',
      'describes no path that this route serves (/v1/pets)',
    ],
  ])('%s', async (routes, fault) => {
    expect((await load(routes)).faults).toEqual([expect.stringContaining(fault)]);
  });

  test('with both paths where a rewrite takes away what the server of the description has', async () => {
    const route =
      '  - { path: /store/v1/pets, methods: [GET], upstream: store, rewrite: { stripPrefix: /store/v1 }, validate: FILE }';
    const text = `servers: [{ url: https://api.example.com/store/v1 }]${description(9)}`;
    expect((await load(route, text)).faults).toEqual([
      expect.stringContaining(
        'openapi.yaml describes no path that this route serves (/pets). The service gets /pets of /store/v1/pets by `rewrite`, and the description has ' +
          '/store/v1/pets, /store/v1/pets/{id}, /store/v1/pets/{id}.json (with /store/v1 of its first server in front). ' +
          'Change the path or `rewrite` of the route, or `servers` of the description, so that both are the same.',
      ),
    ]);
  });

  test('with the place in the description, or without one at all', async () => {
    const route = '  - { path: /pets, methods: [GET], upstream: store, validate: FILE }';
    const faulty = description(9).replace('maximum: 9', 'maximun: 9');
    expect((await load(route, faulty)).faults).toEqual([
      'openapi.yaml:1:1: /paths/~1pets/get/parameters/0/schema/maximun: is no keyword that is known here. Correct it, or leave it out; one of your own begins with `x-`.',
    ]);
    expect((await load(route, null)).faults).toEqual([
      'openapi.yaml:1:1: (file): does not exist. It is named in line 3 of gateway.yaml.',
    ]);
  });
});

test('a route has the description of its upstream, its own, or none; the path is the one that the service gets', async () => {
  const { settings, warnings } = await load(
    `  - { path: '/pets/**', methods: [GET], upstream: store }
  - { path: /v2/pets, methods: [GET], upstream: store, rewrite: { stripPrefix: /v2 }, validate: FILE }
  - { path: /free, methods: [GET], upstream: store, validate: false }
  - { path: /down, methods: [GET], upstream: store, respond: {} }
`,
    description(9),
    ', validate: FILE',
  );
  const files = settings!.routes.map((route) => route.description?.split('/').at(-1) ?? null);
  expect(files).toEqual(['openapi.yaml', 'openapi.yaml', null, null]);
  expect(settings!.descriptions.size).toBe(1);
  expect(warnings.filter((line) => line.startsWith('openapi'))).toEqual([
    expect.stringContaining('/paths/~1pets~1{id}.json: has a segment that is only partly a parameter'),
  ]);
});

test('a description that changes comes into force, and one with a fault does not', async () => {
  const file = join(await temporaryFolder(), 'openapi.yaml');
  const replace = async (text: string) => {
    await writeFile(`${file}.new`, text);
    await rename(`${file}.new`, file);
  };
  await replace(description(9));
  const upstream = await startUpstream();
  const routes = `\n  - { path: /pets, methods: [GET], upstream: store, validate: ${file} }`;
  const gateway = await startGateway({ upstream: upstream.origin, routes });
  const { key } = await gateway.createKey('endless');
  const statusOf = async (path: string) => (await gateway.get(path, key)).status;
  expect([await statusOf('/pets?limit=9'), await statusOf('/pets?limit=10')]).toEqual([200, 400]);
  await replace(description(10));
  await eventually(async () => expect(await statusOf('/pets?limit=10')).toBe(200));
  await replace('openapi: [');
  await gateway.process.until(/new settings rejected/);
  expect([await statusOf('/pets?limit=10'), await statusOf('/pets?limit=11')]).toEqual([200, 400]);
});
