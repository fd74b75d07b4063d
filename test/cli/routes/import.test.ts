import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseGatewayFile } from '../../../src/config/gateway-file.ts';
import { importedRoutes } from '../../../src/config/imported-routes.ts';
import { runCommand } from '../../support/run-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

// `tollgate routes import`.

const DESCRIPTION = `
openapi: 3.1.0
info: { title: Pets, version: '1' }
servers: [{ url: 'https://api.example.com/{version}', variables: { version: { default: v1 } } }]
paths:
  /pets:
    get: { responses: { 200: { description: ok } } }
    head: {}
    post: {}
  /pets/{pet-id}:
    $ref: '#/components/pathItems/Pet'
  /pets/{other}: { get: {} }
  /files/{name}.{ending}: { get: {} }
  /old: { get: { deprecated: true, x-deprecated-since: 2025-12-05, x-sunset: 2030-12-05, x-successor: /v2/pets } }
  /older: { get: { deprecated: true }, delete: { deprecated: true, requestBody: {} } }
  /mixed: { get: { deprecated: true, security: [] }, head: {}, put: {}, post: { x-sunset: 2031-01-01 }, delete: {} }
  /open: { get: { security: [] } }
  /wrong: { get: { x-sunset: soon, x-successor: "/a>\\n  - path: /evil" } }
components:
  pathItems:
    Pet: { get: {}, trace: {} }
`;

async function run(text: string, ...words: string[]) {
  const file = join(await temporaryFolder(), 'openapi.yaml');
  await writeFile(file, text);
  return { file, ...(await runCommand({}, 'routes', 'import', file, ...words)) };
}

test('paths, methods, base path and deprecations become routes that the gateway takes', async () => {
  const { code, stdout, stderr, file } = await run(DESCRIPTION, '--upstream', 'store', '--validate');
  expect([code, stderr]).toEqual([0, '9 routes, 2 not mapped: see the comments.\n']);
  expect(parseGatewayFile(stdout, 'gateway.yaml')).not.toHaveProperty('faults');
  const today = new Date().toISOString().slice(0, 10);
  expect(stdout).toMatch(/^# yaml-language-server: \$schema=gateway\.schema\.json\n/);
  expect(parse(stdout)).toEqual({
    listen: { host: '127.0.0.1', port: 8080, maxBodyBytes: '1MiB' },
    admin: { host: '127.0.0.1', port: 9090 },
    upstreams: { store: { targets: ['http://127.0.0.1:9000'], validate: file } },
    routes: [
      { path: '/v1/pets', methods: ['GET', 'POST'], upstream: 'store' },
      { path: '/v1/pets/{pet_id}', methods: ['GET'], upstream: 'store' },
      {
        path: '/v1/old',
        methods: ['GET'],
        upstream: 'store',
        deprecated: { since: '2025-12-05', sunset: '2030-12-05', successor: '/v2/pets' },
      },
      { path: '/v1/older', methods: ['GET', 'DELETE'], upstream: 'store', body: true, deprecated: { since: today } },
      { path: '/v1/mixed', methods: ['GET'], upstream: 'store', deprecated: { since: today } },
      { path: '/v1/mixed', methods: ['PUT', 'DELETE'], upstream: 'store' },
      { path: '/v1/mixed', methods: ['POST'], upstream: 'store', deprecated: { since: today, sunset: '2031-01-01' } },
      { path: '/v1/open', methods: ['GET'], upstream: 'store' },
      { path: '/v1/wrong', methods: ['GET'], upstream: 'store', deprecated: { since: today } },
    ],
  });
  for (const comment of [
    '# "/v1/files/{name}.{ending}" is not mapped: a segment is only partly a parameter',
    '# "/v1/pets/{other}" is not mapped: it matches the same paths as "/v1/pets/{pet-id}".',
    '# By the description GET needs no key',
    '# x-sunset is left out',
    '# x-successor is left out',
  ]) {
    expect(stdout).toContain(comment);
  }
});

test('--out writes a new file, and never over one that is there', async () => {
  const out = join(await temporaryFolder(), 'gateway.yaml');
  expect((await run(DESCRIPTION, '--out', out)).code).toBe(0);
  const text = await readFile(out, 'utf8');
  expect(text).toContain('/v1/pets');
  expect(JSON.parse(await readFile(join(out, '..', 'gateway.schema.json'), 'utf8'))).toHaveProperty(
    'properties.routes',
  );
  const again = await run('{"openapi":"3.0.0","paths":{"/x":{"get":{}}}}', '--out', out);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('exists already')]);
  expect(await readFile(out, 'utf8')).toBe(text);
});

describe('refused with a sentence (reliability 177)', () => {
  test.each([
    ['swagger: "2.0"\npaths: {}', 'convert it to OpenAPI 3'],
    ['openapi: 3.1.0\npaths: { /a: { $ref: "other.yaml#/a" } }', 'only references within the file'],
    ['openapi: 3.1.0\npaths: { /a: { $ref: "#/paths/~1a" } }', 'in a circle'],
    [`{"openapi":"3.1.0","x":"${'x'.repeat(10_000_000)}"}`, 'is larger than 4096 KiB'],
    ['openapi: 3.1.0\npaths: {}', 'must be a list of at least one route'],
  ])('%.60s', async (text, sentence) => {
    const { code, stderr, stdout } = await run(text);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(sentence);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
});

test('whatever the paths and extensions are, the file has the routes that it counts and no other setting', () => {
  const piece = fc.constantFrom(
    '/',
    'a',
    '{a}',
    '{',
    '}',
    '$',
    `$${'{A}'}`,
    '\n',
    '\u2028',
    '\u0085',
    '"',
    "'",
    ': ',
    '#',
    '- ',
    '%',
    '%2e',
    '..',
    'é',
    '\\',
    '**',
    ' ',
    '\uD800',
  );
  const path = fc.array(piece, { maxLength: 6 }).map((pieces) => `/${pieces.join('')}`);
  const text = fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(fc.dictionary(path, text, { minKeys: 1, maxKeys: 4 }), (paths) => {
      const root = {
        paths: Object.fromEntries(
          Object.entries(paths).map(([at, extension]) => [
            at,
            { get: { 'x-sunset': extension, 'x-successor': extension } },
          ]),
        ),
      };
      const options = { upstream: 'service', target: 'http://a', validates: true, today: '2026-11-23' };
      const made = importedRoutes({ file: 'a\nroutes: []', text: '', root, version: '3.1', basePath: '' }, options);
      expect(made.routes + made.unmapped).toBe(Object.keys(paths).length);
      if (made.routes === 0) return;
      expect(parseGatewayFile(made.text, 'gateway.yaml')).not.toHaveProperty('faults');
      const read = parse(made.text) as { routes: unknown[] };
      expect(Object.keys(read)).toEqual(['listen', 'admin', 'upstreams', 'routes']);
      expect(read.routes).toHaveLength(made.routes);
    }),
    { numRuns: 500 },
  );
});
