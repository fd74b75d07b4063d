import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { digestOf } from '../../../src/identify/api-key.ts';
import { emptyStore } from '../../support/empty-store.ts';
import { ROOT, runTollgate, temporaryFolder } from '../../support/processes.ts';
import { privateRedis, redisCommand, testRedis } from '../../support/redis.ts';
import { LATE_MS } from '../../support/room.ts';
import { entriesOf, runCommand as run } from '../../support/run-command.ts';

const PEPPER = 'a pepper that only the tests use';

async function create(env: NodeJS.ProcessEnv, ...args: string[]) {
  const { code, stdout, stderr } = await run(env, 'keys', 'create', '--json', ...args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

const STORES: Record<string, () => Promise<NodeJS.ProcessEnv>> = {
  'the embedded store': emptyStore,
  Redis: async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { REDIS_URL: url, KEY_PEPPER: PEPPER };
  },
};

describe.each(Object.keys(STORES))('on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    env = await STORES[name]!();
  });

  test('an update takes off what is empty, `default` or `never`, and needs something to change', async () => {
    const made = await create(env, '--plan', 'free', '--name', 'n', '--limit', 'minute=5', '--expires', '90d');
    expect(Date.parse(made.expiresAt) - Date.parse(made.createdAt)).toBe(90 * 86_400_000);
    const words = ['--limit', 'minute=default', '--name', '', '--expires', 'never', '--json'];
    const { stdout } = await run(env, 'keys', 'update', made.id, ...words);
    expect(JSON.parse(stdout)).toMatchObject({ name: null, limits: { minute: 60 }, ownLimits: {}, expiresAt: null });
    expect((await run(env, 'keys', 'update', made.id)).code).toBe(2);
  });

  test('a limit that is missing, or that a key cannot have of its own, is an error that says what to write', async () => {
    for (const of of ['keys', 'customers']) {
      const missing = await run(env, of, 'create', '--plan', 'enterprise');
      expect(missing.stderr).toMatch(/none for: minute, day\. .*: --limit minute=1000 --limit day=1000\.\n$/);
      const ofUnit = await run(env, of, 'create', '--plan', 'free', '--limit', 'tokens-minute=9');
      expect([ofUnit.code, ofUnit.stderr]).toEqual([
        2,
        expect.stringMatching(/plans\.yaml, .* --window tokens-minute\.\n$/),
      ]);
      const unknown = await run(env, of, 'create', '--plan', 'free', '--limit', 'fortnight=9');
      expect([unknown.code, unknown.stderr]).toEqual([
        2,
        expect.stringContaining('must be WINDOW=NUMBER, such as minute'),
      ]);
    }
  });

  test('`keys show` and lists have all limits that a caller is held to: its own, those of its customer, of groups, in units and in flight (reliability 393)', async () => {
    const file = join(await temporaryFolder(), 'plans.yaml');
    writeFileSync(
      file,
      `plans:
  team:
    limits: { minute: 60, month: 100000 }
    in-flight: 20
    units: { tokens: { minute: 90000, month: 5000000 } }
    each-key: { minute: 40, in-flight: 5, units: { tokens: { day: 70000 } } }
    groups: { search: { routes: [/v1/search], limits: { hour: { limit: 10, window: sliding } } } }
  trial: { limits: { minute: 5 }, in-flight: 2, enforce: false }
`,
    );
    const own = { ...env, TOLLGATE_PLANS: file };
    const customer = await run(
      own,
      'customers',
      'create',
      '--plan',
      'team',
      '--name',
      'Acme',
      '--limit',
      'day=900',
      '--json',
    );
    const { id } = JSON.parse(customer.stdout);
    const linesOf = async (keyId: string, columns: string) => {
      const { stdout } = await run({ ...own, TEST_TERMINAL: 'yes', TEST_COLUMNS: columns }, 'keys', 'show', keyId);
      return stdout.split('\n').slice(2, -1);
    };
    const ofCustomer = await create(own, '--customer', id, '--limit', 'hour=9');
    const shared = {
      ...{ minute: 60, day: 900, month: 100_000, 'in-flight': 20, 'search-hour': 10 },
      ...{ 'tokens-minute': 90_000, 'tokens-month': 5_000_000 },
    };
    const ofItsCustomer = Object.fromEntries(
      Object.entries(shared).map(([name, limit]) => [`customer-${name}`, limit]),
    );
    const heldTo = { minute: 40, hour: 9, 'in-flight': 5, ...ofItsCustomer, 'tokens-day': 70_000 };
    expect([JSON.parse(customer.stdout).heldTo, ofCustomer.heldTo]).toEqual([shared, heldTo]);
    expect(entriesOf((await run(own, 'keys', 'list', '--json')).stdout)).toMatchObject([{ id: ofCustomer.id, heldTo }]);
    const textOf = (limits: object) =>
      Object.entries(limits)
        .map(([name, limit]) => `${name}=${limit}`)
        .join(' ');
    const cells = async (what: string) => (await run(own, what, 'list')).stdout.split(/[\t\n]/);
    expect(await cells('keys')).toContain(textOf(heldTo));
    expect(await cells('customers')).toContain(textOf(shared));
    const made = await run(own, 'keys', 'create', '--customer', id);
    expect(made.stdout).toContain('on plan team (minute=40 in-flight=5 customer-minute=60 ');
    await run(own, 'keys', 'revoke', made.stdout.split(' ')[0]!);
    const shown = await linesOf(ofCustomer.id, '80');
    expect(shown.slice(0, 9)).toEqual([
      `customer  Acme (${id})`,
      'plan      team',
      'limits    minute=40 hour=9 in-flight=5',
      '          customer-minute=60 customer-day=900 customer-month=100000',
      '          customer-in-flight=20',
      '          customer-search-hour=10',
      '          customer-tokens-minute=90000 customer-tokens-month=5000000',
      '          tokens-day=70000',
      'windows   customer-month: calendar, UTC; customer-search-hour: sliding, 12',
    ]);
    for (const line of shown) expect(line.length).toBeLessThanOrEqual(80);
    const alone = await create(own, '--plan', 'team', '--limit', 'minute=7');
    expect((await linesOf(alone.id, '120')).slice(0, 4)).toEqual([
      'plan     team',
      'limits   minute=7 month=100000 in-flight=20',
      '         search-hour=10',
      '         tokens-minute=90000 tokens-month=5000000',
    ]);
    // Nothing refuses it.
    const watched = await create(own, '--plan', 'trial');
    expect(await linesOf(watched.id, '80')).toContain('watched only  minute=5');
  });

  test('a key may have a limit of its own for a week and a month, and `keys show` names the kinds of its windows', async () => {
    const file = join(await temporaryFolder(), 'plans.yaml');
    writeFileSync(file, 'plans: { slow: { limits: { minute: { limit: 5, window: sliding }, day: 9 } } }\n');
    const slow = { ...env, TOLLGATE_PLANS: file };
    const made = await create(
      slow,
      '--plan',
      'slow',
      '--limit',
      'week=50',
      '--limit',
      'month=100',
      '--limit',
      'minute=7',
    );
    expect(made.limits).toEqual({ minute: 7, day: 9, week: 50, month: 100 });
    expect(Object.keys(made.limits)).toEqual(['minute', 'day', 'week', 'month']);
    const { stdout } = await run(slow, 'keys', 'show', made.id);
    expect(stdout).toMatch(/^limits +minute=7 day=9 week=50 month=100$/m);
    expect(stdout).toMatch(/^windows +minute: sliding, 12 slices; month: calendar, UTC$/m);
    const csv = (await run(slow, 'keys', 'export')).stdout;
    expect(csv).toContain(',minute=7 week=50 month=100,');
    expect((await run(slow, 'usage', made.id)).stdout).toMatch(/^month\t100\t0\t100\t\d{4}-\d\d-01T00:00:00.000Z$/m);
  });

  test.each([
    ['2099-12-31', '2099-12-31T00:00:00.000Z'],
    ['2099-12-31T12:00:00Z', '2099-12-31T12:00:00.000Z'],
    ['2099-12-31T12:00:00.250+02:00', '2099-12-31T10:00:00.250Z'],
  ])('a key may end at %s', async (given, expiresAt) => {
    expect(await create(env, '--plan', 'free', '--expires', given)).toMatchObject({ expiresAt });
  });

  test('a rotation does not promise the first secret a longer life than its key has', async () => {
    const made = await create(env, '--plan', 'free', '--expires', '1h');
    const rotate = async (overlap: string) => (await run(env, 'keys', 'rotate', made.id, '--overlap', overlap)).stdout;
    expect(await rotate('30d')).toContain(`the old one stops working ${made.expiresAt}.`);
    const { secrets } = JSON.parse((await run(env, 'keys', 'show', made.id, '--json')).stdout);
    expect(await rotate('1m')).not.toContain(made.expiresAt);
    expect(secrets).toHaveLength(2);
    expect(await rotate('0s')).toContain('the old one no longer works.');
  });

  test.each([
    [2, ['create']],
    [2, ['create', '--plan']],
    [2, ['create', '--plan', 'free', '--limit', 'minute']],
    [2, ['create', '--plan', 'free', '--limit', 'minute=-1']],
    [2, ['create', '--plan', 'free', '--limit', 'minute=1.5']],
    [2, ['create', '--plan', 'free', '--limit', 'minute=1000000000000000']],
    [2, ['create', '--plan', 'free', '--limit', 'minute=default']],
    [2, ['create', '--plan', 'free', '--limit', '__proto__=1']],
    [2, ['create', '--plan', 'free', '--limit', 'minute=1', '--limit', 'minute=2']],
    [2, ['create', '--plan', 'free', '--expires', 'soon']],
    [2, ['create', '--plan', 'free', '--expires', '2030-02-30']],
    [2, ['create', '--plan', 'free', '--expires', '99999d']],
    [1, ['create', '--plan', 'free', '--expires', '0s']],
    [1, ['create', '--plan', 'free', '--expires', '2020-01-01']],
    [1, ['create', '--plan', 'gold']],
    [1, ['create', '--plan', 'constructor']],
    [1, ['create', '--plan', 'free', '--name', 'a\nb']],
    [1, ['create', '--plan', 'free', '--name', 'a\u202eb']],
    [1, ['create', '--plan', 'free', '--owner', 'x'.repeat(101)]],
    [2, ['rotate', 'key_x', '--overlap', 'long']],
    [2, ['rotate']],
    [2, ['show', 'a', 'b']],
  ])('exit code %i and one line for keys %j, and no key is made', async (expected, args) => {
    const { code, stdout, stderr } = await run(env, 'keys', ...(args as string[]));
    expect(code).toBe(expected);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(entriesOf((await run(env, 'keys', 'list', '--json')).stdout)).toEqual([]);
  });
});

describe('which store a new key is in', () => {
  const WORDS = ['keys', 'create', '--plan', 'free'];

  test('is said, without the password of a Redis', async () => {
    const TOLLGATE_DATA = await temporaryFolder();
    expect((await run({ TOLLGATE_DATA }, ...WORDS)).stdout).toContain(
      `It is in the embedded store in ${TOLLGATE_DATA};`,
    );
    const { url } = await privateRedis({ configArgs: ['--requirepass', 'right'] });
    const { stdout } = await run({ REDIS_URL: url, KEY_PEPPER: PEPPER }, ...WORDS);
    expect(stdout).toContain(`It is in Redis at ${new URL(url).host};`);
    expect(stdout).not.toContain('right');
  });

  test('has to be said where there is none: no ./data is made in silence', async () => {
    const cwd = await temporaryFolder();
    const env = {
      TOLLGATE_DATA: undefined,
      TOLLGATE_CONFIG: join(ROOT, 'config', 'gateway.yaml'),
      TOLLGATE_PLANS: join(ROOT, 'plans.yaml'),
    };
    const asked = await runTollgate(WORDS, { cwd, env });
    expect(asked).toMatchObject({ code: 2, stdout: '' });
    expect(asked.stderr).toMatch(
      /^There is no store in \S+\/data, and REDIS_URL is not set\. Set REDIS_URL or TOLLGATE_DATA as the gateways have it, .*`--data \.\/data`.*\n$/,
    );
    expect(readdirSync(cwd)).toEqual([]);

    const made = await runTollgate([...WORDS, '--data', './data'], { cwd, env });
    expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining(`embedded store in ${join(cwd, 'data')};`) });
    // From now on it is there.
    expect(await runTollgate(WORDS, { cwd, env })).toMatchObject({ code: 0, stderr: '' });
    const { stdout } = await runTollgate(['keys', 'list', '--json'], { cwd, env });
    expect(entriesOf(stdout)).toHaveLength(2);
  });

  test('is not said twice: --data beside REDIS_URL is refused', async () => {
    const { code, stderr } = await run(
      { REDIS_URL: 'redis://127.0.0.1:1', KEY_PEPPER: PEPPER },
      ...WORDS,
      '--data',
      'x',
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/^The keys are in Redis.*--data.*\n$/);
  });
});

test('the embedded store keeps the digest under the pepper that it made for itself', async () => {
  const folder = await temporaryFolder();
  const { key } = await create({ TOLLGATE_DATA: folder }, '--plan', 'free');
  const pepper = readFileSync(join(folder, 'tollgate.pepper'), 'utf8').trim();
  const files = Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));
  expect(files.includes(digestOf(key, pepper))).toBe(true);
  expect(files.includes(key.slice(8, 30))).toBe(false);
});

describe('as a process of its own', () => {
  test('commands at the same time on one embedded store all succeed', async () => {
    const TOLLGATE_DATA = await temporaryFolder();
    const runs = await Promise.all(
      Array.from({ length: 4 }, () =>
        runTollgate(['keys', 'create', '--plan', 'free', '--json'], { env: { TOLLGATE_DATA } }),
      ),
    );
    expect(runs.map(({ code, stderr }) => [code, stderr])).toEqual(Array(4).fill([0, '']));
    const { stdout } = await runTollgate(['keys', 'list', '--json'], { env: { TOLLGATE_DATA } });
    expect(entriesOf(stdout)).toHaveLength(4);
  });

  test('a Redis that is not there is told within 3 s, without its password', async () => {
    const server = await privateRedis();
    await server.stop();
    const startedMs = performance.now();
    const REDIS_URL = server.url.replace('redis://', 'redis://user:tellnobody@');
    const { code, stdout, stderr } = await runTollgate(['keys', 'list'], { env: { REDIS_URL, KEY_PEPPER: PEPPER } });
    expect(performance.now() - startedMs).toBeLessThan(3_000 + LATE_MS);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^Redis at [\d.]+:\d+ does not answer \(ECONNREFUSED\)\. Check REDIS_URL.*\n$/);
    expect(stderr).not.toContain('tellnobody');
  });

  test('a Redis that is silent is told within 3 s', async () => {
    const server = await privateRedis();
    await server.pause();
    const startedMs = performance.now();
    const { code, stderr } = await runTollgate(['keys', 'list'], {
      env: { REDIS_URL: server.url, KEY_PEPPER: PEPPER },
    });
    expect(performance.now() - startedMs).toBeLessThan(3_000 + LATE_MS);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^Redis at [\d.]+:\d+ does not answer.*\n$/);
  });

  test('a Redis that wants another password says so at once', async () => {
    const server = await privateRedis({ configArgs: ['--requirepass', 'right'] });
    for (const REDIS_URL of [server.url.replace('right', 'wrong'), server.url.replace(':right@', '')]) {
      const { code, stderr } = await runTollgate(['keys', 'list'], { env: { REDIS_URL, KEY_PEPPER: PEPPER } });
      expect(code).toBe(1);
      expect(stderr).toMatch(/refuses us \((WRONGPASS|NOAUTH)\)/);
      expect(stderr).not.toContain('wrong@');
    }
    const { code } = await runTollgate(['keys', 'list'], { env: { REDIS_URL: server.url, KEY_PEPPER: PEPPER } });
    expect(code).toBe(0);
  });
});
