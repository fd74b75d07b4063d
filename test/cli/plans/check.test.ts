import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { emptyStore } from '../../support/empty-store.ts';
import { runCommand } from '../../support/run-command.ts';

/** As a process, for what only a process has: its exit code and its streams. */
function plansCheckProcess(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { TOLLGATE_PLANS: _, ...inherited } = process.env;
  return spawnSync(process.execPath, ['src/main.ts', 'plans', 'check', ...args], {
    encoding: 'utf8',
    env: { ...inherited, ...env },
  });
}

/** In this process: a process for each call takes half a second of the processor. */
async function plansCheck(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { TOLLGATE_PLANS: _, ...inherited } = process.env;
  const { code: status, ...printed } = await runCommand({ ...inherited, ...env }, 'plans', 'check', ...args);
  return { status, ...printed };
}

describe('tollgate plans check', () => {
  test('a sound file exits with 0 and one line of what was found', () => {
    expect(plansCheckProcess([])).toMatchObject({
      status: 0,
      stdout:
        'plans.yaml: 4 plans (free, pro, business, enterprise), bans after 10 refusals, ' +
        '30 failed authentications a minute and address.\n',
      stderr: '',
    });
  });

  test('a faulty file exits with 1 and every fault with its position on stderr', () => {
    const { status, stdout, stderr } = plansCheckProcess(['test/config/faults/limit-as-text.yaml']);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr.trimEnd().split('\n')).toEqual([
      expect.stringMatching(
        /^test\/config\/faults\/limit-as-text\.yaml:1:36: plans\.free\.limits\.minute: must be .+, not "60"\.$/,
      ),
      expect.stringMatching(
        /^test\/config\/faults\/limit-as-text\.yaml:1:47: plans\.free\.limits\.day: must be .+, not "1_000"\.$/,
      ),
    ]);
  });

  test('checks the file that TOLLGATE_PLANS names, unless another is given', async () => {
    const env = { TOLLGATE_PLANS: 'test/config/faults/plans-empty.yaml' };
    expect(await plansCheck([], env)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('plans-empty.yaml:1:8: plans:'),
    });
    expect(await plansCheck(['plans.yaml'], env)).toMatchObject({ status: 0 });
  });

  test('--json is one object for machines, whatever the outcome', async () => {
    const sound = await plansCheck(['--json']);
    expect(sound).toMatchObject({ status: 0, stderr: '' });
    expect(JSON.parse(sound.stdout)).toEqual({
      ...{ file: 'plans.yaml', valid: true, faults: [], warnings: [], comparedWithRoutes: true },
    });
    const faulty = await plansCheck(['--json', 'test/config/faults/bans-after-zero.yaml']);
    expect(faulty).toMatchObject({ status: 1, stderr: '' });
    expect(JSON.parse(faulty.stdout)).toEqual({
      file: 'test/config/faults/bans-after-zero.yaml',
      valid: false,
      faults: [
        {
          file: 'test/config/faults/bans-after-zero.yaml',
          line: 2,
          column: 16,
          path: 'bans.after',
          message: 'must be a whole number from 1 to 1000000, not 0.',
        },
      ],
      warnings: [],
      comparedWithRoutes: true,
    });
  });

  test('warns of windows that make no difference, and fails for it only with --strict', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-plans-'));
    const file = join(folder, 'plans.yaml');
    writeFileSync(
      file,
      'plans:\n  a: { limits: { minute: 60, hour: 60, day: 50 } }\n  b: { limits: { second: 0, minute: 0 } }\n',
    );
    const { status, stderr } = await plansCheck([file]);
    const strict = await plansCheck([file, '--strict']);
    rmSync(folder, { recursive: true });
    expect(stderr.trimEnd().split('\n')).toEqual([
      `warning: ${file}:2:36: plans.a.limits.hour: is no more than the minute limit, which then makes no difference.`,
      expect.stringContaining(`warning: ${file}:2:45: plans.a.limits.day: is below the minute limit of 60`),
      expect.stringContaining('plans.b.limits.second: is 0 and refuses every request'),
      expect.stringContaining('plans.b.limits.minute: is 0 and refuses every request'),
    ]);
    expect([status, strict.status]).toEqual([0, 1]);
  });

  test('warns of units that no route charges or no plan limits and of what never fits, and with --against of unused plans', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-plans-'));
    const [plans, gateway] = [join(folder, 'plans.yaml'), join(folder, 'gateway.yaml')];
    writeFileSync(
      plans,
      `plans:
  a:
    limits: { minute: 60 }
    units: { tokens: { minute: 400, day: 1000 }, bytes: { day: 5 } }
    each-key: { units: { tokens: { day: 300 } } }
    groups: { search: { routes: [/v1/search], limits: { day: 5 }, units: { tokens: { day: 900 } } } }
`,
    );
    writeFileSync(
      gateway,
      `upstreams: { store: { targets: [http://127.0.0.1:9000] } }
routes:
  - { path: /v1/chat, methods: [GET], upstream: store, cost: { tokens: { reserve: 500 }, rows: 1 } }
  - { path: /v1/mini, methods: [GET], upstream: store, cost: { tokens: { reserve: { header: X-Max, default: 5000 } } } }
  - { path: /v1/search, methods: [GET], upstream: store }
`,
    );
    const env = { TOLLGATE_CONFIG: gateway, ...(await emptyStore()) };
    const { stdout } = await plansCheck([plans, '--against', '--json'], env);
    rmSync(folder, { recursive: true });
    const told = JSON.parse(stdout).warnings.map(({ path, message }: { path: string; message: string }) => {
      return `${path} ${message}`;
    });
    const never = 'is below what /v1/chat takes in advance, 500: keys of this plan can never call it.';
    const unsaid =
      'is below what /v1/mini takes in advance of requests that do not say it, 5000: those of keys of this plan are all refused.';
    expect(told.toSorted()).toEqual([
      'plans has no plan that limits `rows`, which /v1/chat charges: it is not counted.',
      'plans.a is used by no live key.',
      `plans.a.each-key.units.tokens.day ${never}`,
      `plans.a.each-key.units.tokens.day ${unsaid}`,
      'plans.a.groups.search.units.tokens is charged by no route for which these limits are.',
      'plans.a.units.bytes is charged by no route for which these limits are.',
      `plans.a.units.tokens.day ${unsaid}`,
      `plans.a.units.tokens.minute ${never}`,
      `plans.a.units.tokens.minute ${unsaid}`,
    ]);
  });

  test('a missing file, a directory and a wrong word are told in a sentence, without a stack trace', async () => {
    for (const file of ['absent.yaml', 'src']) {
      const { status, stderr } = await plansCheck([file]);
      expect(status).toBe(1);
      expect(stderr).toMatch(/^\S+:1:1: \(file\): (does not exist|is a directory, not a file)\. Give the file .+\n$/);
    }
    expect(await plansCheck(['a.yaml', 'b.yaml'])).toMatchObject({ status: 2, stdout: '' });
  });
});
