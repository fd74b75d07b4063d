import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { type Finding, findingsOfServer } from '../../src/serve/doctor.ts';
import { NEEDED_COMMANDS, type ServerDiagnosis } from '../../src/stores/redis/diagnosis.ts';
import { createAuthority } from '../support/certificates.ts';
import { freePort } from '../support/free-port.ts';
import { temporaryFolder } from '../support/processes.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { asOperator, rulesIn } from '../support/redis-user.ts';
import { runCommand } from '../support/run-command.ts';
import { startUpstream } from '../support/upstream.ts';

const KEY_PEPPER = 'a pepper that only the tests use';

let folder: string;
let config: string;
beforeEach(async () => {
  folder = await temporaryFolder();
  config = join(folder, 'gateway.yaml');
  const { origin } = await startUpstream();
  write(`[${origin}]`);
});
const write = (targets: string, more = '') =>
  writeFileSync(
    config,
    `${more}upstreams: { store: { targets: ${targets}, connectTimeout: 500ms } }\nroutes:\n- { path: /v1/pets, methods: [GET], upstream: store }\n`,
  );
const envOf = (env: NodeJS.ProcessEnv) => ({ TOLLGATE_CONFIG: config, TOLLGATE_DATA: join(folder, 'data'), ...env });
async function examined(env: NodeJS.ProcessEnv) {
  const { code, stdout, stderr } = await runCommand(envOf(env), 'doctor', '--json');
  expect(stderr).toBe('');
  const { state, findings } = JSON.parse(stdout) as { state: string; findings: Finding[] };
  const of = (check: string) => findings.filter((finding) => finding.check === check);
  const states = Object.fromEntries(findings.map((finding) => [finding.check, finding.state]));
  return { code, state, states, of };
}

test('a sound embedded store: a line for each check, and exit code 0', async () => {
  expect((await runCommand(envOf({}), 'keys', 'create', '--plan', 'pro', '--data', join(folder, 'data'))).code).toBe(0);
  const { code, states } = await examined({});
  expect([code, states]).toEqual([
    0,
    {
      settings: 'ok',
      node: 'ok',
      store: 'ok',
      pepper: 'ok',
      records: 'ok',
      disk: 'ok',
      target: 'ok',
      'open files': states['open files'],
    },
  ]);
  const { stdout } = await runCommand(envOf({}), 'doctor');
  expect(stdout).toMatch(/^ok {4}settings {5}\S.*\nok {4}node/);
});

test('an old pepper that no secret needs is a warning, and so are secrets that need one which was removed (reliability 590)', async () => {
  const [old, next] = [KEY_PEPPER, 'the next pepper of the tests'];
  const create = (pepper: string) =>
    runCommand(
      envOf({ KEY_PEPPER: pepper }),
      'keys',
      'create',
      '--plan',
      'pro',
      '--json',
      '--data',
      join(folder, 'data'),
    );
  const found = async (pepper: string) =>
    (await examined({ KEY_PEPPER: pepper }))
      .of('pepper')
      .map(({ state, message }) => `${state} ${message}`)
      .slice(1);
  const { id } = JSON.parse((await create(old)).stdout);
  expect(await found(old)).toEqual([]);
  expect((await create(`${next},${old}`)).code).toBe(0);
  expect(await found(`${next},${old}`)).toEqual([
    expect.stringMatching(/^ok An older pepper is still needed by 1 secret: `tollgate keys list --pepper old`/),
  ]);
  expect(await found(next)).toEqual([
    expect.stringMatching(/^warn A pepper that KEY_PEPPER does not have is needed by 1 secret, whose requests get 401/),
  ]);
  expect((await runCommand(envOf({ KEY_PEPPER: `${next},${old}` }), 'keys', 'revoke', id, '--yes')).code).toBe(0);
  expect(await found(`${next},${old}`)).toEqual([
    expect.stringMatching(/^warn No secret needs a pepper behind the first\. Leave it out of KEY_PEPPER/),
  ]);
});

test('a store that is not there yet is a warning, and is not made', async () => {
  const { code, of } = await examined({});
  expect([code, of('store')]).toEqual([0, [expect.objectContaining({ state: 'warn' })]]);
  expect((await examined({})).of('store')).toHaveLength(1);
  expect((await runCommand(envOf({}), 'doctor', '--strict')).code).toBe(1);
});

test('faults of the settings fail, each with its place, and what needs no settings is looked at', async () => {
  write('[]');
  const { code, states, of } = await examined({ KEY_PEPPER: 'short' });
  expect([code, states.node, states.store]).toEqual([1, 'ok', 'fail']);
  expect(of('settings').map(({ state }) => state)).toEqual(['fail', 'fail']);
});

test('a target that cannot be reached fails, and warns only beside another that can', async () => {
  const gone = `http://127.0.0.1:${await freePort()}`;
  write(`[${gone}]`);
  const { code, of } = await examined({});
  expect([code, of('target')]).toEqual([
    1,
    [
      {
        check: 'target',
        state: 'fail',
        message: expect.stringMatching(/ECONNREFUSED\)\. Start the service, or correct/),
      },
    ],
  ]);
  const { origin } = await startUpstream();
  write(`[${gone}, ${origin}]`);
  expect((await examined({})).of('target').map(({ state }) => state)).toEqual(['warn', 'ok']);
});

test.each([
  [60, 'ok', /valid until/],
  [3, 'warn', /ends in [23] days.*Renew it/],
  [-1, 'fail', /ended on .*Replace it/],
])('a certificate that ends in %i days is %s', async (days, state, message) => {
  const { cert, key } = await (await createAuthority(folder)).issue('gateway', days);
  const { origin } = await startUpstream();
  write(`[${origin}]`, `listen: { tls: { cert: ${cert}, key: ${key} } }\n`);
  expect((await examined({})).of('certificate')).toEqual([
    { check: 'certificate', state, message: expect.stringMatching(message) },
  ]);
});

describe('on Redis', () => {
  test('the product user is enough, a wrong pepper fails, and no password is printed', async () => {
    const { url } = await privateRedis();
    const env = { REDIS_URL: url, KEY_PEPPER };
    expect((await runCommand(envOf(env), 'keys', 'create', '--plan', 'pro')).code).toBe(0);
    const { code, states } = await examined(env);
    expect([code, states]).toMatchObject([0, { redis: 'ok', acl: 'ok', clock: 'ok', pepper: 'ok', memory: 'ok' }]);
    const wrong = await examined({ ...env, KEY_PEPPER: 'another pepper of the tests' });
    expect([wrong.code, wrong.states.pepper]).toEqual([1, 'fail']);
    const { stdout } = await runCommand(envOf(env), 'doctor', '--json');
    expect(stdout).not.toContain(new URL(url).password || 'never');
  });

  test('a right that is lacking fails with its name, and persistence that is off fails for a user who may ask', async () => {
    const { url } = await privateRedis();
    const operator = asOperator(url);
    await redisCommand(
      operator,
      'ACL',
      'SETUSER',
      'poor',
      'on',
      '>secret',
      ...rulesIn('redis.acl').slice(1),
      '-zadd',
      '-publish',
    );
    const poor = new URL(operator);
    Object.assign(poor, { username: 'poor', password: 'secret' });
    const { code, of } = await examined({ REDIS_URL: poor.href, KEY_PEPPER });
    expect([code, of('acl')]).toEqual([
      1,
      [{ check: 'acl', state: 'fail', message: expect.stringMatching(/lacks `\+zadd \+publish`.*config\/redis\.acl/) }],
    ]);
    await redisCommand(operator, 'CONFIG', 'SET', 'save', '');
    expect((await examined({ REDIS_URL: operator, KEY_PEPPER })).of('persistence')).toMatchObject([{ state: 'fail' }]);
    await redisCommand(operator, 'CONFIG', 'SET', 'appendonly', 'yes');
    expect((await examined({ REDIS_URL: operator, KEY_PEPPER })).of('persistence')).toMatchObject([{ state: 'ok' }]);
  });

  test('a server that does not answer fails within seconds, with what to do', async () => {
    const { code, of } = await examined({ REDIS_URL: `redis://127.0.0.1:${await freePort()}`, KEY_PEPPER });
    expect([code, of('redis')]).toEqual([
      1,
      [{ check: 'redis', state: 'fail', message: expect.stringMatching(/does not answer.*Check REDIS_URL/) }],
    ]);
  });

  test('the rights that are looked for are those of config/redis.acl', () => {
    const given = rulesIn('redis.acl').filter((rule) => /^\+[a-z]+$/.test(rule));
    expect(NEEDED_COMMANDS.map(([name]) => `+${name}`).toSorted()).toEqual(given.toSorted());
  });
});

test.each([
  [{}, []],
  [{ clockAheadMs: 5_000 }, [['clock', 'warn', /5\.0 s ahead of/]]],
  [{ clockAheadMs: -2_500, latencyMs: 2_000 }, []],
  [{ persistence: 'snapshots' }, [['persistence', 'warn', /appendonly yes/]]],
  [{ persistence: 'failing' }, [['persistence', 'fail', /disk is full/]]],
  [
    { persistence: null, memory: null },
    [
      ['persistence', 'warn', /may not ask/],
      ['memory', 'warn', /\+info/],
    ],
  ],
  [{ denied: null }, [['acl', 'warn', /Redis 7 can/]]],
  [{ denied: ['publish'] }, [['acl', 'warn', /lacks `\+publish`/]]],
  [{ denied: ['set'] }, [['acl', 'fail', /lacks `\+set`/]]],
] as const)('a server with %j', (facts, expected) => {
  const sound: ServerDiagnosis = {
    ...{ where: '127.0.0.1:6379', version: '7.4.0', latencyMs: 1, clockAheadMs: 3, persistence: 'log' },
    ...{ memory: { policy: 'noeviction', maxBytes: 0 }, denied: [] },
  };
  const found = [...findingsOfServer({ ...sound, ...facts })].filter(({ state }) => state !== 'ok');
  expect(found).toEqual(
    expected.map(([check, state, message]) => ({ check, state, message: expect.stringMatching(message) })),
  );
});
