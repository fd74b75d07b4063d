import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/processes.ts';
import { testRedis } from '../../support/redis.ts';
import { runCommand } from '../../support/run-command.ts';

const OLD = `
plans:
  free: { limits: { minute: 60, day: 1000 } }
  pro: { limits: { minute: 300, hour: 5000 }, bans: off }
  gone: { limits: { day: 5 } }
  enterprise: { limits: { minute: custom } }
`;
const NEW = `
plans:
  free: { limits: { minute: 30, day: 2000 } }
  pro: { limits: { minute: unlimited, second: 9 }, shadow: { minute: 200 }, enforce: true }
  enterprise: { limits: { minute: 500 } }
  trial: { limits: { day: 5 } }
bans: { first: 90s, factor: 3, forget: 7d }
failed-authentication: { minute: 20 }
`;
const GATEWAY = `
upstreams: { store: { targets: [http://127.0.0.1:9000] } }
routes:
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/report, methods: [GET], upstream: store, cost: 40 }
  - { path: /v1/status, methods: [GET], upstream: store, cost: 900, auth: none, limits: { minute: 1000 } }
`;

let folder: string;
let old: string;
let now: string;

beforeAll(async () => {
  folder = await temporaryFolder();
  [old, now] = [join(folder, 'old.yaml'), join(folder, 'new.yaml')];
  await Promise.all([writeFile(old, OLD), writeFile(now, NEW), writeFile(join(folder, 'gateway.yaml'), GATEWAY)]);
});

const changesOf = async (env: NodeJS.ProcessEnv, ...words: string[]) =>
  JSON.parse((await runCommand(env, 'plans', 'diff', old, now, '--json', ...words)).stdout).changes as {
    plan: string | null;
    what: string;
    keys: number | null;
  }[];

describe('tollgate plans diff', () => {
  test('tells of units of plans, of each key and of groups', async () => {
    const [before, after] = [join(folder, 'units-old.yaml'), join(folder, 'units-new.yaml')];
    const plan = (units: string, more: string) => `plans: { a: { limits: { minute: 9 }, ${units}${more} } }\n`;
    const group = (units: string) => `groups: { g: { routes: [/v1/g], limits: { day: 5 }${units} } }`;
    await writeFile(before, plan('units: { tokens: { minute: 100, day: 500 }, rows: { day: 5 } }, ', group('')));
    await writeFile(
      after,
      plan(
        'units: { tokens: { minute: 200, day: { limit: 500, window: sliding } } }, each-key: { units: { tokens: { day: 50 } } }, ',
        group(', units: { tokens: { day: 9 } }'),
      ),
    );
    const { stdout } = await runCommand({}, 'plans', 'diff', before, after, '--json');
    const told = JSON.parse(stdout).changes.map((it: object) => Object.values(it).slice(0, 5));
    expect(told).toEqual([
      ['a', 'units.tokens.minute', 'raised', 100, 200],
      ['a', 'units.tokens.day.window', 'changed', 'fixed', 'sliding'],
      ['a', 'units.tokens.day.slices', 'added', null, 12],
      ['a', 'units.rows', 'removed', 'day 5', null],
      ['a', 'groups.g.units.tokens', 'added', null, 'day 9'],
      ['a', 'each-key.units.tokens', 'added', null, 'day 50'],
    ]);
  });

  test('tells what was added, removed, raised and lowered, plan by plan', async () => {
    const told = (await changesOf({})).map((it) => Object.values(it).slice(0, 5));
    const bans = (plan: string) => [
      [plan, 'bans.first', 'raised', '1m', '90s'],
      [plan, 'bans.forget', 'raised', '1d', '7d'],
      [plan, 'bans.factor', 'raised', 2, 3],
    ];
    expect(told).toEqual([
      ['free', 'limits.minute', 'lowered', 60, 30],
      ['free', 'limits.day', 'raised', 1000, 2000],
      ...bans('free'),
      ['pro', 'limits.second', 'added', null, 9],
      ['pro', 'limits.minute', 'raised', 300, 'unlimited'],
      ['pro', 'limits.hour', 'removed', 5000, null],
      ['pro', 'bans', 'added', null, 'on'],
      ['pro', 'shadow.minute', 'added', null, 200],
      ['gone', 'plan', 'removed', null, null],
      ['enterprise', 'limits.minute', 'changed', 'custom', 500],
      ...bans('enterprise'),
      ['trial', 'plan', 'added', null, null],
      [null, 'failed-authentication.minute', 'lowered', 30, 20],
    ]);
  });

  test('tells a change in the kind of a window, setting by setting, also of one that is only watched', async () => {
    const [fixed, other] = [join(folder, 'fixed.yaml'), join(folder, 'other.yaml')];
    await writeFile(
      fixed,
      `plans:
  a: { limits: { minute: 60, day: 900, month: 9000 }, shadow: { minute: 50 } }
  b: { limits: { minute: { limit: 60, window: sliding }, day: { limit: 900, align: calendar }, month: { limit: 9, anchor: 15 } } }
`,
    );
    await writeFile(
      other,
      `plans:
  a:
    limits: { minute: { limit: 60, window: sliding }, day: { limit: 900, align: calendar }, month: { limit: 9000, anchor: 1 } }
    shadow: { minute: { limit: 50, window: sliding, slices: 30 } }
  b:
    limits:
      minute: { limit: 60, window: sliding, slices: 30 }
      day: { limit: 900, align: calendar, zone: Europe/Berlin }
      month: { limit: 9, anchor: 1 }
      week: { limit: 50, align: calendar }
      hour: 40
`,
    );
    const { stdout } = await runCommand({}, 'plans', 'diff', fixed, other, '--json');
    const told = JSON.parse(stdout).changes.map((it: object) => Object.values(it).slice(0, 5));
    expect(told).toEqual([
      ['a', 'limits.minute.window', 'changed', 'fixed', 'sliding'],
      ['a', 'limits.minute.slices', 'added', null, 12],
      ['a', 'limits.day.window', 'removed', 'fixed', null],
      ['a', 'limits.day.align', 'added', null, 'calendar'],
      ['a', 'limits.day.zone', 'added', null, 'UTC'],
      ['a', 'shadow.minute.window', 'changed', 'fixed', 'sliding'],
      ['a', 'shadow.minute.slices', 'added', null, 30],
      ['b', 'limits.hour', 'added', null, 40],
      ['b', 'limits.week', 'added', null, 50],
      ['b', 'limits.minute.slices', 'raised', 12, 30],
      ['b', 'limits.day.zone', 'changed', 'UTC', 'Europe/Berlin'],
      ['b', 'limits.week.align', 'added', null, 'calendar'],
      ['b', 'limits.week.zone', 'added', null, 'UTC'],
      ['b', 'limits.month.anchor', 'changed', '15', '1'],
    ]);
    // A key with its own limit of a window that goes keeps the limit and loses the kind.
    const back = JSON.parse((await runCommand({}, 'plans', 'diff', other, fixed, '--json')).stdout).changes;
    expect(back.map((it: object) => Object.values(it).slice(0, 5))).toEqual(
      expect.arrayContaining([
        ['b', 'limits.week', 'removed', 50, null],
        ['b', 'limits.week.align', 'removed', 'calendar', null],
        ['b', 'limits.week.zone', 'removed', 'UTC', null],
        ['b', 'limits.week.window', 'added', null, 'fixed'],
      ]),
    );
  });

  test('is a table, or lines for other programs; files that allow the same differ in nothing', async () => {
    const { stdout } = await runCommand({}, 'plans', 'diff', old, now);
    expect(stdout.split('\n').slice(0, 2)).toEqual([
      'PLAN\tWHAT\tCHANGE\tFROM\tTO\tLIVE KEYS\tWARNING\tCUSTOMERS',
      'free\tlimits.minute\tlowered\t60\t30\t-\t\t-',
    ]);
    const shown = await runCommand({ TEST_TERMINAL: 'yes' }, 'plans', 'diff', old, now);
    expect(shown.stdout).toMatch(/^PLAN +WHAT +CHANGE +FROM +TO +LIVE KEYS/);
    const same = join(folder, 'same.yaml');
    await writeFile(same, `# The same, said otherwise.\nbans: { after: 10, first: 60s }\n${OLD}`);
    expect(await runCommand({ TEST_TERMINAL: 'yes' }, 'plans', 'diff', old, same)).toEqual({
      code: 0,
      stdout: `${old} and ${same} allow the same.\n`,
      stderr: '',
    });
  });

  test('refuses a faulty file with the position, and one file alone', async () => {
    const bad = join(folder, 'bad.yaml');
    await writeFile(bad, 'plans: { free: { limits: { minute: lots } } }\n');
    const { code, stderr } = await runCommand({}, 'plans', 'diff', old, bad);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('bad.yaml:1:36: plans.free.limits.minute'),
    });
    expect((await runCommand({}, 'plans', 'diff', old, old)).code).toBe(2);
    expect((await runCommand({}, 'plans', 'diff', old)).code).toBe(2);
  });
});

describe.each(['embedded', 'redis'])('against the %s store', (kind) => {
  let env: Record<string, string>;
  beforeAll(async () => {
    env = { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_PLANS: old, TOLLGATE_DATA: join(folder, 'data') };
    if (kind === 'redis') env = { ...env, REDIS_URL: (await testRedis()).url, KEY_PEPPER: 'a pepper for this test' };
    const create = async (...words: string[]) => {
      const { code, stdout, stderr } = await runCommand(env, 'keys', 'create', '--json', '--plan', ...words);
      if (code !== 0) throw new Error(stderr);
      return JSON.parse(stdout).id as string;
    };
    for (const words of [
      ['free'],
      ['free'],
      ['free', '--limit', 'minute=7'],
      ['gone'],
      ['enterprise', '--limit', 'minute=9'],
    ]) {
      await create(...words);
    }
    await runCommand(env, 'keys', 'revoke', await create('free'));
  });

  test('diff counts the live keys that each change touches, without those that have a limit of their own', async () => {
    const keys = new Map((await changesOf(env, '--against')).map((it) => [`${it.plan} ${it.what}`, it.keys]));
    expect(keys.get('free limits.minute')).toBe(2);
    expect(keys.get('free limits.day')).toBe(3);
    expect(keys.get('free bans.first')).toBe(3);
    expect(keys.get('pro limits.second')).toBe(0);
    expect(keys.get('gone plan')).toBe(1);
    expect(keys.get('enterprise limits.minute')).toBe(0);
    expect(keys.get('null failed-authentication.minute')).toBe(null);
    const { code, stdout } = await runCommand(env, 'plans', 'diff', old, now, '--against');
    expect(code).toBe(1);
    expect(stdout).toContain('gone\tplan\tremoved\t-\t-\t1\tcould not be served any more\t0\n');
    // Elsewhere than on a terminal each line is a change.
    expect(stdout).not.toContain('key_');
  });

  test('diff shows whom the changes affect, with their limits before and after', async () => {
    const words = ['plans', 'diff', old, now, '--against'];
    const { affected } = JSON.parse((await runCommand(env, ...words, '--json')).stdout);
    const free = { plan: 'free', keys: 3, customers: 0 };
    expect(affected).toMatchObject([free, { plan: 'gone', keys: 1 }, { plan: 'enterprise', keys: 1 }]);
    const day = { window: 'day', from: 1000, to: 2000 };
    const minute = { window: 'minute', from: 60, to: 30 };
    const limits = affected[0].callers.map((one: { limits: unknown }) => one.limits);
    expect(limits).toEqual([[minute, day], [minute, day], [day]]);
    const { stdout } = await runCommand({ ...env, TEST_TERMINAL: 'yes', TEST_COLUMNS: '120' }, ...words);
    expect(stdout).toMatch(/AFFECTED +NAME +PLAN +LIMITS\n/);
    expect(stdout).toMatch(/key_\w+ +- +free +minute 60 → 30, day 1000 → 2000\n/);
  });

  test('diff exits with 1 where a plan goes that live keys use, but not where `removed` names it or nobody asks', async () => {
    const onPurpose = join(folder, 'on-purpose.yaml');
    await writeFile(onPurpose, `${NEW}removed: [gone]\n`);
    expect((await runCommand(env, 'plans', 'diff', old, onPurpose, '--against')).code).toBe(0);
    expect((await runCommand(env, 'plans', 'diff', old, now)).code).toBe(0);
    expect((await runCommand(env, 'plans', 'check', onPurpose, '--against')).stderr).not.toContain('`gone`');
  });

  test('check refuses plans that live keys use and the file lacks, as a gateway does', async () => {
    const message = 'has no plan `gone`, which 1 live key uses; keep it, or move them to another plan first.';
    const { code, stdout } = await runCommand(env, 'plans', 'check', now, '--against', '--json');
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ valid: false, faults: [{ line: 3, path: 'plans', message }] });
    const printed = await runCommand(env, 'plans', 'check', now, '--against');
    expect([printed.code, printed.stdout]).toEqual([1, '']);
    expect(printed.stderr).toMatch(
      /^\S+\.yaml:3:\d+: plans: has no plan `gone`, which 1 live key uses; .*\.\nwarning: /,
    );
    expect((await runCommand(env, 'plans', 'check', now)).code).toBe(0);
  });

  test('check warns of plans without keys, and of limits below what a route costs', async () => {
    const onPurpose = join(folder, 'on-purpose.yaml');
    await writeFile(onPurpose, `${NEW}removed: [gone]\n`);
    const { code, stdout } = await runCommand(env, 'plans', 'check', onPurpose, '--against', '--json');
    expect(code).toBe(0);
    const warnings = JSON.parse(stdout).warnings.map((it: { line: number; path: string; message: string }) => [
      it.line,
      it.path,
      it.message,
    ]);
    expect(warnings).toEqual([
      [3, 'plans.free.limits.minute', 'is below the cost of /v1/report, 40: keys of this plan can never call it.'],
      [4, 'plans.pro', 'is used by no live key.'],
      [4, 'plans.pro.limits.second', 'is below the cost of /v1/report, 40: keys of this plan can never call it.'],
      [6, 'plans.trial', 'is used by no live key.'],
      [6, 'plans.trial.limits.day', 'is below the cost of /v1/report, 40: keys of this plan can never call it.'],
    ]);
    expect((await runCommand(env, 'plans', 'check', onPurpose, '--against', '--strict')).code).toBe(1);
  });

  test('check warns of keys that bring no limit where the plan has none for them', async () => {
    const custom = join(folder, 'custom.yaml');
    await writeFile(
      custom,
      'plans:\n  free: { limits: { minute: custom } }\n  gone: { limits: { day: 5 } }\n  enterprise: { limits: { minute: 50 } }\n',
    );
    const { stderr } = await runCommand(env, 'plans', 'check', custom, '--against');
    expect(stderr).toContain(
      'custom.yaml:2:29: plans.free.limits.minute: is `custom`, and 2 live keys bring no limit of their own: they could not be served.',
    );
  });
});
