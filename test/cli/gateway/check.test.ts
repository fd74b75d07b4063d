import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { createAuthority } from '../../support/certificates.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';

const UPSTREAMS = 'upstreams: { store: { targets: [http://127.0.0.1:9000] } }\n';
const ROUTES = 'routes:\n- { path: /v1/pets, methods: [GET], upstream: store }\n';

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await temporaryFolder();
  file = join(folder, 'gateway.yaml');
});
const check = (env: NodeJS.ProcessEnv, ...words: string[]) =>
  runCommand({ TOLLGATE_CONFIG: file, TOLLGATE_DATA: join(folder, 'data'), ...env }, 'gateway', 'check', ...words);

test('sound settings are told in two lines, by serve --check as well, and nothing is started or made', async () => {
  writeFileSync(file, UPSTREAMS + ROUTES);
  const expected = {
    code: 0,
    stdout:
      `${file}: 1 route, 1 upstream (store), clients on 127.0.0.1:8080, admin on 127.0.0.1:9090.\n` +
      'plans.yaml: 4 plans (free, pro, business, enterprise).\n',
    stderr: '',
  };
  expect(await check({})).toEqual(expected);
  expect(await check({ TOLLGATE_CONFIG: 'no such file' }, file)).toEqual(expected);
  const env = { TOLLGATE_CONFIG: file, TOLLGATE_DATA: join(folder, 'data') };
  expect(await runCommand(env, 'serve', '--check')).toEqual(expected);
  expect(await runCommand(env, 'serve', '--strict')).toMatchObject({ code: 2 });
});

test('a gateway that forwards nothing needs no upstream, and a route that forwards needs one', async () => {
  writeFileSync(
    file,
    "routes:\n- { path: '/**', auth: none, limits: { minute: 600 }, redirect: { to: 'https://api.example.com/**' } }\n",
  );
  expect(await check({})).toMatchObject({ code: 0, stdout: expect.stringContaining('1 route, 0 upstreams, clients') });
  writeFileSync(file, ROUTES);
  expect(await check({})).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is not one of `upstreams`; it must be defined there.'),
  });
});

test('a description that is missing is told beside a fault of the environment', async () => {
  writeFileSync(
    file,
    `${UPSTREAMS}routes:\n- { path: /v1/pets, methods: [GET], upstream: store, validate: nope.yaml }\n`,
  );
  const { code, stderr } = await check({ ADMIN_TOKEN: 'short' });
  expect([code, stderr]).toEqual([1, expect.stringMatching(/nope\.yaml.*\n.*environment: ADMIN_TOKEN: /)]);
});

test('every fault of both files, the environment and the files that they name is told', async () => {
  writeFileSync(file, `listen: { port: many }\n${UPSTREAMS}${ROUTES}`);
  const plans = join(folder, 'plans.yaml');
  writeFileSync(plans, 'plans: {}\n');
  const { code, stdout, stderr } = await check({ TOLLGATE_PLANS: plans, ADMIN_TOKEN: 'short' });
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^environment: ADMIN_TOKEN: .*too easy to guess/),
    expect.stringContaining(`${file}:1:17: listen.port: `),
    expect.stringContaining(`${plans}:1:8: plans: `),
  ]);
  writeFileSync(file, `listen: { tls: { cert: ${folder}/none.crt, key: ${folder}/none.key } }\n${UPSTREAMS}${ROUTES}`);
  const tokens = join(folder, 'tokens.yaml');
  writeFileSync(tokens, '- { name: Ann, role: queen, sha256: 0 }\n', { mode: 0o600 });
  const named = await check({ ADMIN_TOKENS_FILE: tokens });
  expect(named.stderr).toMatch(/tokens\.yaml:1:22: .*role: must be one of viewer/);
  expect(named.stderr).toContain('listen.tls: ');
  expect(named.code).toBe(1);
});

test('a warning makes the exit code 1 with --strict alone, and --json is one object', async () => {
  const { cert, key } = await (await createAuthority(folder)).issue('gateway');
  writeFileSync(file, `listen: { tls: { cert: ${cert}, key: ${key} } }\n${UPSTREAMS}${ROUTES}`);
  chmodSync(folder, 0o755);
  chmodSync(key, 0o644);
  const loose = await check({});
  // Other users can reach the folder of the tests only if they can enter every folder above it.
  const warnings = loose.stderr === '' ? [] : [expect.stringContaining(`chmod 600 ${key}`)];
  expect([loose.code, (await check({}, '--strict')).code]).toEqual([0, warnings.length]);
  const { stdout, stderr } = await check({}, '--json');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual({ gateway: file, plans: 'plans.yaml', valid: true, faults: [], warnings });
});
