import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { testRedis } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';

const refusing = (code: string, more = '') =>
  `${more}export default () => ({ refuse: { status: 403, code: '${code}', message: 'No.' } });\n`;

async function codeOf(gateway: TestGateway, key: string, path = '/a'): Promise<string> {
  const answer = await gateway.get(path, key);
  const body = (await answer.json()) as { readonly code?: string };
  return body.code ?? String(answer.status);
}

const readinessOf = async ({ adminPort }: TestGateway) =>
  (await fetch(`http://127.0.0.1:${adminPort}/readyz`)).json() as Promise<{ settings?: string; faults?: string[] }>;

async function gatewayWith(folder: string, env = {}) {
  const upstream = await startUpstream();
  const routes = `\n  - { path: /a, methods: [GET], upstream: store, policies: ['${folder}/a.ts'] }\n`;
  const gateway = await startGateway({ upstream: upstream.origin, routes, env });
  return { gateway, key: (await gateway.createKey('endless')).key };
}

test('a changed policy, or a file that it imports, is in force within a second, and a broken one leaves the former in force', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'a.ts'), refusing('one'));
  const { gateway, key } = await gatewayWith(folder);
  expect(await codeOf(gateway, key)).toBe('one');

  await writeFile(join(folder, 'b.ts'), "export const code: string = 'two';\n");
  const importing =
    "import { code } from './b.ts';\nexport default () => ({ refuse: { status: 403, code, message: 'No.' } });\n";
  await writeFile(join(folder, 'a.ts'), importing);
  await eventually(async () => expect(await codeOf(gateway, key)).toBe('two'));
  await writeFile(join(folder, 'b.ts'), "export const code: string = 'three';\n");
  await eventually(async () => expect(await codeOf(gateway, key)).toBe('three'));

  await writeFile(join(folder, 'b.ts'), '\nenum Code { four }\n');
  await eventually(async () => {
    expect(await readinessOf(gateway)).toMatchObject({
      settings: 'refused',
      faults: [expect.stringMatching(/b\.ts:2:1: \(file\): the policy .*a\.ts cannot be loaded: TypeScript enum/)],
    });
  });
  expect(await codeOf(gateway, key)).toBe('three');

  await writeFile(join(folder, 'b.ts'), "export const code: string = 'five';\n");
  await eventually(async () => expect(await codeOf(gateway, key)).toBe('five'));
  expect(await readinessOf(gateway)).not.toHaveProperty('faults');
});

test('a policy keeps what it remembers while other settings change', async () => {
  const folder = await temporaryFolder();
  const counting =
    "let calls = 0;\nexport default () => ({ refuse: { status: 403, code: 'call_' + ++calls, message: 'No.' } });\n";
  await writeFile(join(folder, 'a.ts'), counting);
  const { gateway, key } = await gatewayWith(folder);
  expect(await codeOf(gateway, key)).toBe('call_1');
  const file = gateway.env.TOLLGATE_CONFIG!;
  await writeFile(
    file,
    (await readFile(file, 'utf8')).replace('routes:', 'routes:\n  - { path: /b, respond: { status: 404 } }'),
  );
  await eventually(async () => expect((await gateway.get('/b', key)).headers.get('content-length')).toBe('0'));
  expect(await codeOf(gateway, key)).toBe('call_2');
});

test.each([
  ['a.js', 'const a = 1;\nexport default () => {\n  return { refuse: ; };\n};\n', '3:20'],
  ['a.ts', 'const a: number = 1;\nexport default () => {\n  return { refuse: ; };\n};\n', '3:20'],
  ['a.js', "import { missing } from 'node:fs';\nexport default () => null;\n", '1:10'],
  ['a.js', 'throw new Error("at once");\n', '1:7'],
])('a fault of %s, %j, is named with its line and column', async (name, text, place) => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'a.ts'), refusing('one'));
  const { gateway } = await gatewayWith(folder);
  const file = gateway.env.TOLLGATE_CONFIG!;
  await writeFile(join(dirname(file), name), text);
  await writeFile(file, (await readFile(file, 'utf8')).replace(`${folder}/a.ts`, `./${name}`));
  await eventually(async () =>
    expect(await readinessOf(gateway)).toMatchObject({
      faults: [expect.stringContaining(`${name}:${place}`)],
    }),
  );
});

test('a new policy that cannot be loaded is repaired in its own file', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'a.ts'), refusing('one'));
  const { gateway, key } = await gatewayWith(folder);
  const file = gateway.env.TOLLGATE_CONFIG!;
  await writeFile(join(dirname(file), 'new.ts'), 'export default 7;\n');
  await writeFile(file, (await readFile(file, 'utf8')).replace(`${folder}/a.ts`, './new.ts'));
  await eventually(async () => expect(await readinessOf(gateway)).toMatchObject({ settings: 'refused' }));
  expect(await codeOf(gateway, key)).toBe('one');
  await writeFile(join(dirname(file), 'new.ts'), refusing('two'));
  await eventually(async () => expect(await codeOf(gateway, key)).toBe('two'));
});

test('each of several workers loads the policies, and takes a change', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'a.ts'), refusing('one'));
  const { url } = await testRedis();
  const { gateway, key } = await gatewayWith(folder, {
    WORKERS: '2',
    REDIS_URL: url,
    KEY_PEPPER: 'a-pepper-of-this-test',
  });
  const codes = async () => new Set(await Promise.all(Array.from({ length: 20 }, () => codeOf(gateway, key))));
  expect(await codes()).toEqual(new Set(['one']));
  await writeFile(join(folder, 'a.ts'), refusing('two'));
  await eventually(async () => expect(await codes()).toEqual(new Set(['two'])));
  await writeFile(join(folder, 'a.ts'), 'export default 7;\n');
  await eventually(async () => expect(await readinessOf(gateway)).toMatchObject({ settings: 'refused' }));
  expect(await codes()).toEqual(new Set(['two']));
});
