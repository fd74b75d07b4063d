import { readFile, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { main } from '../../../src/main.ts';
import { ask, STORES, startWithAdmin, TOKEN } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { startReplica, type TestGateway } from '../../support/gateway.ts';
import { privateRedis } from '../../support/redis.ts';
import { entriesOf } from '../../support/run-command.ts';

const EDITING = { admin: { editPlans: 'true' } };
const plansWith = (minute: number | string) => `plans: { starter: { limits: { minute: ${minute} } } }\n`;
const fileOf = ({ env }: TestGateway) => env.TOLLGATE_PLANS!;
const FILE = { from: 'file', by: { kind: 'file', name: 'plans.yaml' } };
const API = { from: 'api', by: { kind: 'token', name: 'ADMIN_TOKEN' } };

interface Entry {
  readonly version: string;
  readonly since: string;
  readonly from: string;
  readonly by: object;
}
const historyOf = async (gateway: TestGateway): Promise<readonly Entry[]> =>
  (await ask(gateway, 'GET', '/admin/plans/history')).body.versions;
const inForce = async (gateway: TestGateway) => (await ask(gateway, 'GET', '/admin/plans')).body.versions.plans;

/** Writes plans.yaml, and waits until the gateways have it in force. */
async function change(gateways: readonly TestGateway[], text: string): Promise<string> {
  const before = await inForce(gateways[0]!);
  await writeFile(fileOf(gateways[0]!), text);
  await eventually(async () => expect(await inForce(gateways[0]!)).not.toBe(before));
  const version = await inForce(gateways[0]!);
  for (const gateway of gateways) await eventually(async () => expect(await inForce(gateway)).toBe(version));
  return version;
}

const recordedActions = async (gateway: TestGateway) =>
  (await ask(gateway, 'GET', '/admin/audit')).body.changes.map(({ action }: { action: string }) => action);

describe.each(Object.entries(STORES))('the history of plans, on %s', (_, store) => {
  test('has the version of the start, each change of the file and each write of the API, with who made it', async () => {
    const gateway = await startWithAdmin(await store(), { ...EDITING, plans: plansWith(10) });
    const first = await inForce(gateway);
    await eventually(async () => expect(await historyOf(gateway)).toMatchObject([{ version: first, ...FILE }]));
    const second = await change([gateway], plansWith(6));
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2));
    const write = (reason: unknown) =>
      ask(gateway, 'PUT', '/admin/plans/file', { text: plansWith(7), reason }, { 'If-Match': `"${second}"` });
    for (const reason of [7, 'two\nlines', 'x'.repeat(201)]) expect((await write(reason)).status).toBe(400);
    const put = await write('TICKET-12');
    expect(put.body).toMatchObject({ inForce: true });
    await eventually(async () =>
      expect(await historyOf(gateway)).toMatchObject([
        { version: put.body.version, ...API, reason: 'TICKET-12', changes: ['starter minute 6 → 7'] },
        { version: second, ...FILE, reason: null, changes: ['starter minute 10 → 6'] },
        { version: first, ...FILE, reason: null, changes: null },
      ]),
    );
    // The refused attempts are one entry.
    expect(await recordedActions(gateway)).toEqual(['plans.write', 'plans.write', 'plans.load']);
    // A change of gateway.yaml alone, and a file with faults, are no version of the plans.
    await writeFile(fileOf(gateway), plansWith('many'));
    await eventually(async () => expect((await recordedActions(gateway))[0]).toBe('plans.load'));
    expect(await historyOf(gateway)).toHaveLength(3);
  });

  test('a version is shown with its text and the difference from the one before it or from another one', async () => {
    const gateway = await startWithAdmin(await store(), { plans: plansWith(10) });
    const first = await inForce(gateway);
    const second = await change([gateway], plansWith(6));
    const third = await change([gateway], plansWith(7));
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(3));
    const show = (path: string) => ask(gateway, 'GET', `/admin/plans/history/${path}`);
    const { body } = await show(third.slice(0, 6));
    expect(body).toMatchObject({ version: third, text: plansWith(7), against: second, ...FILE });
    expect(body.patch.split('\n').filter((line: string) => /^[-+]plans/.test(line))).toEqual([
      `-${plansWith(6).trim()}`,
      `+${plansWith(7).trim()}`,
    ]);
    expect((await show(`${third}?against=${first}`)).body).toMatchObject({
      against: first,
      patch: expect.stringContaining(`-${plansWith(10)}`),
    });
    expect((await show(first)).body).toMatchObject({ text: plansWith(10), against: null, patch: '' });
    expect((await show('0000')).body).toMatchObject({ status: 404, code: 'not_found' });
    expect((await show('abc')).body).toMatchObject({ status: 400, message: expect.stringContaining('4 to 12') });
  });

  test('a restored version is written, in force, recorded, and an entry of its own', async () => {
    const gateway = await startWithAdmin(await store(), { ...EDITING, plans: plansWith(10) });
    const first = await inForce(gateway);
    const second = await change([gateway], plansWith(6));
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2));
    const restore = (version: string, ifMatch: Record<string, string> = { 'If-Match': `"${second}"` }) =>
      ask(gateway, 'POST', `/admin/plans/history/${version}/restore`, undefined, ifMatch);
    expect((await restore(first, {})).body).toMatchObject({ status: 428, code: 'precondition_required' });
    expect((await restore(first, { 'If-Match': `"${first}"` })).status).toBe(412);
    expect((await restore('0000')).status).toBe(404);
    const { status, body, headers } = await ask(
      gateway,
      'POST',
      `/admin/plans/history/${first}/restore`,
      { reason: 'too strict' },
      { 'If-Match': `"${second}"` },
    );
    expect([status, body]).toEqual([200, { version: first, inForce: true, whyNotInForce: null }]);
    expect([headers.get('etag'), await readFile(fileOf(gateway), 'utf8')]).toEqual([`"${first}"`, plansWith(10)]);
    await eventually(async () =>
      expect((await historyOf(gateway)).map(({ version, from }) => [version, from])).toEqual([
        [first, 'api'],
        [second, 'file'],
        [first, 'file'],
      ]),
    );
    const [done] = (await ask(gateway, 'GET', '/admin/audit')).body.changes.filter(
      ({ outcome }: { outcome: string }) => outcome === 'done',
    );
    expect(done).toMatchObject({
      action: 'plans.write',
      before: { version: second },
      after: { version: first, changes: ['starter minute 6 → 10'], reason: 'too strict' },
    });
  });

  test('a version whose plans lack one that live keys use is not restored, and without admin.editPlans none is', async () => {
    const both = 'plans: { starter: { limits: { minute: 1 } }, pro: { limits: { minute: 2 } } }\n';
    const gateway = await startWithAdmin(await store(), { ...EDITING, plans: plansWith(10) });
    const first = await inForce(gateway);
    await change([gateway], both);
    await gateway.createKey('pro');
    const path = `/admin/plans/history/${first}/restore`;
    const { status, body } = await ask(gateway, 'POST', path, undefined, { 'If-Match': '*' });
    expect([status, body.message]).toEqual([409, expect.stringContaining('lacks `pro`, which 1 live key uses')]);
    expect(await readFile(fileOf(gateway), 'utf8')).toBe(both);
    const other = await startWithAdmin(await store(), { plans: plansWith(10) });
    await eventually(async () => expect(await historyOf(other)).toHaveLength(1));
    expect((await ask(other, 'POST', path, undefined, { 'If-Match': '*' })).status).toBe(403);
  });

  test('the commands list, show and roll back, and a rollback is recorded with who made it', async () => {
    const gateway = await startWithAdmin(await store(), { plans: plansWith(10) });
    const first = await inForce(gateway);
    const second = await change([gateway], plansWith(6));
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2));
    expect((await gateway.command('plans', 'history', '--no-header')).stdout).toMatch(
      new RegExp(
        `^${second}\t[^\t]+\tfile\tplans.yaml \\(file\\)\tstarter minute 10 → 6\t-\n` +
          `${first}\t[^\t]+\tfile\tplans.yaml \\(file\\)\tunknown\t-\n$`,
      ),
    );
    expect(entriesOf((await gateway.command('plans', 'history', '--json')).stdout)).toEqual(await historyOf(gateway));
    expect((await gateway.command('plans', 'show', first.slice(0, 4))).stdout).toBe(plansWith(10));
    const diff = await gateway.command('plans', 'show', second, '--diff');
    expect(diff.stdout).toContain(`-${plansWith(10)}+${plansWith(6)}`);
    expect((await gateway.command('plans', 'show', first, second, '--diff')).stdout).toContain(`+${plansWith(10)}`);
    expect(await gateway.command('plans', 'show', 'abc')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('4 to 12'),
    });
    const { code, stdout, stderr } = await gateway.command('plans', 'rollback', '--reason', 'TICKET-13');
    expect([code, stdout]).toEqual([0, expect.stringContaining(`-${plansWith(6)}+${plansWith(10)}`)]);
    expect(stderr).toContain(`plans.yaml is version ${first} again.`);
    await eventually(async () =>
      expect((await historyOf(gateway))[0]).toMatchObject({
        version: first,
        from: 'command',
        by: { kind: 'shell', user: expect.any(String), host: expect.any(String) },
        reason: 'TICKET-13',
        changes: ['starter minute 6 → 10'],
      }),
    );
    expect(await recordedActions(gateway)).toEqual(['plans.write', 'plans.load']);
    expect((await gateway.command('plans', 'rollback', first)).stdout).toContain('nothing was changed');
  });
});

describe('a rollback on a terminal', () => {
  /** Rolls back in this process. `answer` is what the person says, after a while in which the file may change. */
  async function rollBack({ env }: TestGateway, answer: () => Promise<string | null>, ...words: string[]) {
    let [printed, complaint, asked] = ['', '', 0];
    const code = await main(['plans', 'rollback', ...words], {
      env,
      isTerminal: true,
      out: (text) => {
        printed += text;
      },
      error: (text) => {
        complaint += text;
      },
      question: async () => {
        asked++;
        return answer();
      },
    });
    return { code, printed, complaint, asked };
  }

  test.each([
    ['the embedded store', 'is asked of the gateway that owns the store'],
    ['Redis', 'is done on the store'],
  ])(
    'on %s %s, shows the difference and asks, changes nothing without a yes, and nothing that somebody changed meanwhile (reliability 466)',
    async (name) => {
      const gateway = await startWithAdmin(await STORES[name]!(), { plans: plansWith(10) });
      await change([gateway], plansWith(6));
      await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2));
      for (const answer of ['', null]) {
        const refused = await rollBack(gateway, async () => answer);
        expect(refused).toMatchObject({
          code: 1,
          asked: 1,
          complaint: expect.stringContaining('Nothing was changed.'),
        });
        expect(refused.printed).toContain(`-${plansWith(6)}+${plansWith(10)}`);
      }
      const meanwhile = await rollBack(gateway, async () => {
        await writeFile(fileOf(gateway), plansWith(5));
        return 'y';
      });
      expect(meanwhile).toMatchObject({ code: 1, complaint: expect.stringContaining('has been changed since') });
      expect(await readFile(fileOf(gateway), 'utf8')).toBe(plansWith(5));
      const [{ version }] = (await historyOf(gateway)).slice(-1) as [Entry];
      expect(await rollBack(gateway, async () => 'n', version, '--yes')).toMatchObject({ code: 0, asked: 0 });
      expect(await readFile(fileOf(gateway), 'utf8')).toBe(plansWith(10));
    },
  );

  test('of a gateway that an admin names replaces the file of that gateway, if its settings allow it', async () => {
    for (const [settings, outcome] of [
      [
        EDITING,
        { code: 0, complaint: expect.stringMatching(/^plans.yaml is version .* The gateway has it in force.\n$/) },
      ],
      [{}, { code: 1, complaint: expect.stringContaining('set `admin: { editPlans: true }`') }],
    ] as const) {
      const gateway = await startWithAdmin(await STORES.Redis!(), { ...settings, plans: plansWith(10) });
      await change([gateway], plansWith(6));
      await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2));
      const env = { TOLLGATE_GATEWAY: `http://127.0.0.1:${gateway.adminPort}`, TOLLGATE_TOKEN: TOKEN };
      expect(await rollBack({ ...gateway, env }, async () => 'y')).toMatchObject(outcome);
      expect(await readFile(fileOf(gateway), 'utf8')).toBe(plansWith(outcome.code === 0 ? 10 : 6));
    }
  });

  test('to a version whose plans lack one that live keys use is refused without a gateway, too', async () => {
    const both = 'plans: { starter: { limits: { minute: 1 } }, pro: { limits: { minute: 2 } } }\n';
    const gateway = await startWithAdmin(await STORES['the embedded store']!(), { plans: plansWith(10) });
    await change([gateway], both);
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2));
    await gateway.createKey('pro');
    await gateway.process.stop();
    const lacks = expect.stringContaining('lacks `pro`, which 1 live key uses');
    expect(await rollBack(gateway, async () => 'y')).toMatchObject({ code: 1, asked: 1, complaint: lacks });
    expect(await readFile(fileOf(gateway), 'utf8')).toBe(both);
  });
});

describe('gateways that read the same file', () => {
  test('leave one entry for each version, and one in the record of changes', async () => {
    const gateway = await startWithAdmin(await STORES.Redis!(), { plans: plansWith(10) });
    const gateways = [gateway, await startReplica({ ...gateway, env: { ...gateway.env, WORKERS: '2' } })];
    const versions = [await inForce(gateway)];
    for (const minute of [6, 10, 6]) versions.unshift(await change(gateways, plansWith(minute)));
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(4));
    expect((await historyOf(gateways[1]!)).map(({ version }) => version)).toEqual(versions);
    expect(await recordedActions(gateway)).toEqual(['plans.load', 'plans.load', 'plans.load']);
  });

  test('have a version in force at once while the store is away, and record it when it is back', async () => {
    const server = await privateRedis({ asProcess: true });
    const env = { REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' };
    const gateway = await startWithAdmin(env, { plans: plansWith(10), more: 'redis: { timeout: 200ms }' });
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(1));
    const metric = async () =>
      (await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text()).match(
        /tollgate_settings_info\{.*\}/,
      )![0];
    const before = await metric();
    await server.pause();
    await writeFile(fileOf(gateway), plansWith(6));
    await eventually(async () => expect(await metric()).not.toBe(before));
    const takenMs = Date.now();
    await server.resume();
    await eventually(async () => expect(await historyOf(gateway)).toHaveLength(2), { withinMs: 30_000 });
    expect(Date.parse((await historyOf(gateway))[0]!.since)).toBeLessThanOrEqual(takenMs);
  });
});
