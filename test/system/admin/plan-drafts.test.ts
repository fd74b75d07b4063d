import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { ask, openWithAdmin } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { emptyStore } from '../../support/empty-store.ts';
import { PLANS, type TestGateway } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';

/** What the command says of the same text in a file, without the name of the file. */
async function commandOn(text: string) {
  const file = join(await temporaryFolder(), 'plans.yaml');
  await writeFile(file, text);
  const { stdout } = await runCommand({}, 'plans', 'check', file, '--json');
  // biome-ignore lint/suspicious/noExplicitAny: the command's own JSON
  const { faults, warnings } = JSON.parse(stdout) as any;
  const withoutFile = ({ file: _, ...rest }: { file: string }) => rest;
  return { faults: faults.map(withoutFile), warnings: warnings.map(withoutFile) };
}

const BOMB = `plans: &a { limits: { minute: 1 } }\n${'b'.repeat(5)}: [*a${', *a'.repeat(1_000)}]\n`;
const many = (count: number, entry: string) =>
  Array.from({ length: count }, (_, i) => entry.replaceAll('#', String(i)));

// Of the store a draft takes the live keys alone: test/cli/plans/diff.test.ts counts them on both.
describe('drafts of plans.yaml', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await emptyStore());
  });
  const check = (text: string) => ask(gateway, 'POST', '/admin/plans/check', { text });
  const diff = (text: string) => ask(gateway, 'POST', '/admin/plans/diff', { text });

  test.each([
    ['a sound file', PLANS],
    ['a limit that is text', 'plans:\n  free: { limits: { minute: "60", day: 5 } }\n'],
    ['an unknown key', 'plans:\n  free:\n    limit: { minute: 60 }\n'],
    [
      'faults and warnings',
      'plans:\n  a: { limits: { minute: 60, hour: 60, day: 50 } }\n  b: { limits: { second: 0 } }\nbans: 7\n',
    ],
    ['warnings alone', 'plans:\n  a: { limits: { minute: 60, hour: 60, day: 50 } }\n'],
    ['broken YAML', 'plans:\n  free: { limits: { minute: 60 }\n'],
    ['two keys of one name', 'plans:\n  free: { limits: { minute: 6 } }\n  free: { limits: { minute: 6 } }\n'],
    ['no text', ''],
    ['a list', '- 1\n- 2\n'],
    ['an alias', BOMB],
    ['a text above 512 KiB', `plans: { a: { limits: { minute: 1 } } }\n${'#'.repeat(512 * 1024)}`],
    ['a byte order mark', `\uFEFF${PLANS}`],
    [
      'names with control characters and emoji',
      'plans:\n  "a\\u202e<img onerror=1>": { limits: { minute: 1 } }\n  "🐟": 3\n',
    ],
  ])('%s has the faults and warnings of `plans check`, at their lines', async (_, text) => {
    const { status, body } = await check(text);
    const expected = await commandOn(text);
    const ofRoutes = (warning: { message: string }) => !warning.message.includes('is below the cost of');
    expect([status, body.faults]).toEqual([200, expected.faults.slice(0, 1_000)]);
    expect(body.moreFaults).toBe(Math.max(0, expected.faults.length - 1_000));
    expect(body.warnings.filter(ofRoutes)).toEqual(expected.warnings);
  });

  test('half of a surrogate pair is a fault at its place, as text that is not UTF-8', async () => {
    const { body } = await ask(gateway, 'POST', '/admin/plans/check', '{"text":"plans:\\n  a\\ud800: 1\\n"}');
    expect(body.faults).toEqual([
      { line: 2, column: 4, path: '', message: 'is not UTF-8 text. Save the file as UTF-8.' },
    ]);
  });

  test('a limit below the cost of a route of gateway.yaml is a warning at its line', async () => {
    const { body } = await check('plans:\n  tiny:\n    limits:\n      minute: 4\n');
    expect(body).toMatchObject({
      faults: [],
      warnings: [
        { line: 4, path: 'plans.tiny.limits.minute', message: expect.stringContaining('the cost of /v1/costly, 5') },
      ],
    });
  });

  test('of more than a thousand faults a thousand come, and the number of the others', async () => {
    const { body } = await check(`plans:\n${many(1_500, '  p#: 1').join('\n')}\n`);
    expect([body.faults.length, body.moreFaults]).toEqual([1_000, 500]);
  });

  test('the difference counts the live keys and says what a reload would refuse', async () => {
    await gateway.createKey('small');
    await gateway.createKey('small', '--limit', 'minute=9');
    await gateway.createKey('gentle');
    const draft = PLANS.replace('small: { limits: { minute: 3,', 'small: { limits: { minute: 5,').replace(
      /^ {2}gentle.*\n/m,
      '',
    );
    const { status, body } = await diff(draft);
    expect([status, body.faults]).toEqual([200, []]);
    expect(body.changes).toEqual([
      {
        plan: 'small',
        what: 'limits.minute',
        change: 'raised',
        from: 3,
        to: 5,
        keys: 1,
        keysOfCustomers: 0,
        customers: 0,
        breaks: false,
      },
      {
        plan: 'gentle',
        what: 'plan',
        change: 'removed',
        from: null,
        to: null,
        keys: 1,
        keysOfCustomers: 0,
        customers: 0,
        breaks: true,
      },
    ]);
    expect(body.refused).toEqual([expect.stringMatching(/^plans\.yaml: plans: lacks `gentle`, which 1 live key uses/)]);
    expect(body.live).toEqual({ keysRead: expect.any(Number), isComplete: true, unreadable: [] });
    const message = 'has no plan `gentle`, which 1 live key uses; keep it, or move them to another plan first.';
    expect([body.warnings, body.lost]).toEqual([
      expect.arrayContaining(body.lost),
      [expect.objectContaining({ path: 'plans', message })],
    ]);
  });

  test('the difference from another text, which must have no fault', async () => {
    const from = PLANS.replace('small: { limits: { minute: 3,', 'small: { limits: { minute: 5,');
    const compared = async (other: unknown) =>
      (await ask(gateway, 'POST', '/admin/plans/diff', { text: PLANS, from: other })).body;
    const { changes, patch } = await compared(from);
    expect(changes).toMatchObject([{ plan: 'small', what: 'limits.minute', change: 'lowered', from: 5, to: 3 }]);
    expect(patch).toMatch(/^-.*minute: 5.*\n\+.*minute: 3/m);
    expect(await compared('plans: 5')).toMatchObject({
      status: 400,
      message: expect.stringContaining('from:1:8: plans'),
    });
    expect(await compared(5)).toMatchObject({ status: 400, message: 'from must be text.' });
  });

  test('a draft with faults has no difference and no patch', async () => {
    const { status, body } = await diff('plans: 5\n');
    expect([status, body.changes, body.patch, body.faults.length]).toEqual([200, [], '', 1]);
  });

  test.each([
    ['a change', PLANS.replace('minute: 60', 'minute: 90')],
    ['another last line', PLANS.trimEnd()],
    ['a wholly new text', 'plans: { a: { limits: { minute: 1 } } }'],
    ['CR LF', PLANS.replaceAll('\n', '\r\n')],
  ])('git and patch turn the file into the draft: %s', async (_, draft) => {
    const { patch } = (await diff(draft)).body;
    for (const command of ['git apply', 'patch --binary -p1', 'patch --binary -p0']) {
      const folder = await temporaryFolder();
      await writeFile(join(folder, 'plans.yaml'), PLANS);
      // With -p0 the names of the patch are taken as they are, and `patch` is given the file.
      const words = command.endsWith('-p0') ? `${command} plans.yaml` : command;
      const done = spawnSync(words, { shell: true, cwd: folder, input: patch, encoding: 'utf8' });
      expect([words, done.stdout + done.stderr, done.status]).toEqual([words, expect.any(String), 0]);
      expect(readFileSync(join(folder, 'plans.yaml'), 'utf8')).toBe(draft);
    }
  });

  test('the same text has an empty patch', async () => {
    expect((await diff(PLANS)).body).toMatchObject({ patch: '', changes: [] });
  });

  test('pasted lines of the gateway are replayed under the draft, and the callers’ verdicts compared', async () => {
    const { key, id } = await gateway.createKey('free');
    for (let i = 0; i < 3; i++) expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    const log = await eventually(() => {
      const lines = gateway.process.stdout
        .split('\n')
        .filter((line) => line.includes(id) && line.includes('"request"'));
      return lines.length === 3 ? lines.join('\n') : false;
    });
    const text = PLANS.replace('minute: 60', 'minute: 2');
    const { status, body } = await ask(gateway, 'POST', '/admin/plans/simulate', { text, log });
    expect([status, body.span?.requests, body.faults]).toEqual([200, 3, []]);
    expect(body.report).toMatchObject({
      totals: { requests: 3, recorded: { refused: 0 }, simulated: { refused: 1 }, newlyRefused: 1 },
      byPlan: [{ plan: 'free', limits: expect.stringContaining('minute 2') }],
      keys: [{ id, plan: 'free', newlyRefused: 1 }],
    });
    const same = await ask(gateway, 'POST', '/admin/plans/simulate', { text: PLANS, log });
    expect(same.body.report.differs).toEqual({ verdicts: 0, bans: 0 });
  });

  test('the first group of routes of a plan is tried on the log, and on what the gateway remembers', async () => {
    const { key, id } = await gateway.createKey('free');
    for (let i = 0; i < 3; i++) expect((await gateway.get('/v1/pets?limit=1', key)).status).toBe(200);
    const log = await eventually(() => {
      const lines = gateway.process.stdout
        .split('\n')
        .filter((line) => line.includes(id) && line.includes('"request"'));
      return lines.length === 3 ? lines.join('\n') : false;
    });
    const group = 'groups: { pets: { routes: [GET /v1/pets], limits: { minute: 2 } } }';
    const text = PLANS.replace(/^ {2}free: \{/m, `  free: { ${group},`);
    for (const record of [{ log }, { record: 'recent' }]) {
      const { status, body } = await ask(gateway, 'POST', '/admin/plans/simulate', { text, ...record });
      expect([status, body.faults]).toEqual([200, []]);
      const mine = body.report.keys.filter((one: { id: string }) => one.id === id);
      expect(mine).toMatchObject([{ customerId: null, plan: 'free', newlyRefused: 1 }]);
      const [free] = body.report.byPlan.filter(({ plan }: { plan: string }) => plan === 'free');
      expect(free.limits).toContain('; pets: minute 2 on GET /v1/pets');
    }
    const { changes } = (await diff(text)).body;
    expect(changes).toMatchObject([
      { plan: 'free', what: 'groups.pets', change: 'added', to: 'minute 2 on GET /v1/pets' },
    ]);
  });

  test('the recent requests of the gateway are replayed under the draft', async () => {
    const { key, id } = await gateway.createKey('free');
    for (let i = 0; i < 4; i++) expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    const text = PLANS.replace('minute: 60', 'minute: 3');
    const { status, body } = await ask(gateway, 'POST', '/admin/plans/simulate', { text, record: 'recent' });
    expect([status, body.kept]).toEqual([200, expect.stringContaining('that this gateway decided since 20')]);
    expect([body.isComplete, body.baseline]).toEqual([true, { verdicts: 0 }]);
    expect(body.report.keys).toContainEqual(expect.objectContaining({ id, plan: 'free', newlyRefused: 1 }));
  });

  test.each([
    [{ text: PLANS }, 400, 'Give either'],
    [{ text: PLANS, record: 'recent', log: '' }, 400, 'Give either'],
    [{ text: PLANS, record: 'old' }, 400, 'record must be "recent"'],
    [{ text: PLANS, log: 'no line\n' }, 400, 'no line of a request'],
    [{ text: 5, log: 'x' }, 400, 'text must be text'],
    [{ log: 'x' }, 400, 'text is missing'],
    [{ text: PLANS, log: 'x', other: 1 }, 400, 'There is no member "other"'],
    ['[]', 400, 'must be a JSON object'],
    ['{"text":', 400, 'not valid JSON'],
    [{ text: PLANS, log: 'x'.repeat(16 * 1024 * 1024 + 1) }, 413, 'log is larger than'],
    ['x'.repeat(28 * 1024 * 1024 + 1), 413, 'The body is larger'],
  ])('a simulation that cannot be done is refused in a sentence (%#)', async (body, status, sentence) => {
    const told = await ask(gateway, 'POST', '/admin/plans/simulate', body);
    expect([told.status, told.body.message]).toEqual([status, expect.stringContaining(sentence)]);
  });

  test('a simulation of a draft with faults says only those', async () => {
    const { status, body } = await ask(gateway, 'POST', '/admin/plans/simulate', { text: 'plans: 1', log: 'x' });
    expect([status, body.faults.length, body.report]).toEqual([200, 1, null]);
  });

  test.each([
    ['200,000 names', `plans:\n${many(200_000, ' a#:').join('\n').slice(0, 500_000)}\n`],
    ['deep brackets', `plans: ${'['.repeat(200_000)}`],
    [
      'aliases of aliases',
      `a: &a [x,x,x,x,x,x,x,x,x]\n${many(30, 'b#: &b# [*a,*a,*a,*a,*a,*a,*a,*a,*a]').join('\n')}\nplans: *b29\n`,
    ],
    ['ten thousand plans', `plans:\n${many(10_000, ' p#: { limits: { minute: 1 } }').join('\n')}\n`],
  ])('callers are served while %s are checked', async (_, text) => {
    const { key } = await gateway.createKey('endless');
    let isChecked = false;
    const checking = check(text).then((told) => {
      isChecked = true;
      return told;
    });
    let served = 0;
    while (!isChecked) {
      expect((await gateway.get('/v1/pets', key)).status).toBe(200);
      if (!isChecked) served++;
    }
    // On a busy machine the check may end at its bound of time, which is as good for callers.
    expect([200, 422]).toContain((await checking).status);
    expect(served).toBeGreaterThan(0);
  });

  test('GET /admin/plans says the kind of each window in words', async () => {
    const { body } = await ask(gateway, 'GET', '/admin/plans');
    expect(body.plans.find(({ name }: { name: string }) => name === 'enterprise').windows).toEqual([
      { window: 'minute', limit: 'custom', form: 'fixed', shadow: false },
      { window: 'day', limit: 'custom', form: 'fixed', shadow: false },
    ]);
  });

  test('the file is readable and says that it is not writable, and PUT is refused, unless the settings allow it', async () => {
    const { status, body, headers } = await ask(gateway, 'GET', '/admin/plans/file');
    expect([status, body.text, body.path, body.writable]).toEqual([200, PLANS, 'plans.yaml', false]);
    expect(body.whyNotWritable).toContain('editPlans');
    const etag = headers.get('etag')!;
    expect(etag).toBe(`"${body.version}"`);
    const told = await ask(gateway, 'PUT', '/admin/plans/file', { text: PLANS }, { 'If-Match': etag });
    expect([told.status, told.body.code, told.body.message]).toEqual([
      403,
      'forbidden',
      expect.stringContaining('editPlans'),
    ]);
  });
});

test('a path of TOLLGATE_PLANS within the working folder is the path of the patch', async () => {
  const { PlansFile } = await import('../../../src/operations/plans/plans-file.ts');
  const pathOf = (path: string) => new PlansFile(path, () => 0).pathInPatch;
  expect(['plans.yaml', './deploy/plans.yaml', '../plans.yaml', '/etc/tollgate/p.yaml'].map(pathOf)).toEqual([
    ...['plans.yaml', 'deploy/plans.yaml', 'plans.yaml', 'p.yaml'],
  ]);
});
