import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { chmod, lstat, mkdir, readdir, readFile, rename, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { PlansFile } from '../../../src/operations/plans/plans-file.ts';
import { ask, auditLines, STORES, startWithAdmin } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { PLANS, type TestGateway } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/processes.ts';

const EDITING = { admin: { editPlans: 'true' } };
const fileOf = ({ env }: TestGateway) => env.TOLLGATE_PLANS!;
const read = async (gateway: TestGateway) => (await ask(gateway, 'GET', '/admin/plans/file')).body;
const put = (gateway: TestGateway, text: string, ifMatch: string | null) =>
  ask(gateway, 'PUT', '/admin/plans/file', { text }, ifMatch === null ? {} : { 'If-Match': ifMatch });

describe.each(Object.entries(STORES))('PUT /admin/plans/file, on %s', (_, store) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startWithAdmin(await store(), EDITING);
  });

  test('replaces the file, waits until it is in force, keeps its mode, and is recorded', async () => {
    await chmod(fileOf(gateway), 0o640);
    const { version: before, writable } = await read(gateway);
    expect(writable).toBe(true);
    const text = `${PLANS}# ${before}\n`.replace('day: 1000', 'day: 1001');
    const { status, body, headers } = await put(gateway, text, `"${before}"`);
    expect([status, body]).toEqual([200, { version: expect.any(String), inForce: true, whyNotInForce: null }]);
    expect(headers.get('etag')).toBe(`"${body.version}"`);
    expect(await readFile(fileOf(gateway), 'utf8')).toBe(text);
    expect((await stat(fileOf(gateway))).mode & 0o777).toBe(0o640);
    expect(await readdir(dirname(fileOf(gateway)))).not.toContain('.plans.yaml.draft');
    const { plans, versions } = (await ask(gateway, 'GET', '/admin/plans')).body;
    expect([plans[0].limits.day, versions.plans]).toEqual([1001, body.version]);
    const states = { before: { version: before }, after: { version: body.version } };
    const line = await eventually(() => auditLines(gateway).find(({ action }) => action === 'plans.write') ?? false);
    expect(line).toMatchObject({ outcome: 'done', id: null, ...states });
    const { changes } = (await ask(gateway, 'GET', '/admin/audit')).body;
    expect(changes[0]).toMatchObject({ action: 'plans.write', outcome: 'done', target: null, ...states });
    expect(changes[0].after.changes).toEqual([expect.stringMatching(/ day 1000 → 1001$/)]);
    // The gateway has taken what it has written: that is the same change, and no second entry.
    expect(changes.filter(({ action }: { action: string }) => action === 'plans.load')).toEqual([]);
  });

  test('of writers of the same version one writes and the others get 412', async () => {
    const { version, text } = await read(gateway);
    const told = await Promise.all([1, 2, 3].map((i) => put(gateway, `${text}# ${i}\n`, `"${version}"`)));
    expect(told.map(({ status }) => status).sort()).toEqual([200, 412, 412]);
    const written = told.findIndex(({ status }) => status === 200) + 1;
    const now = await read(gateway);
    expect(now.text).toBe(`${text}# ${written}\n`);
    for (const { status, headers } of told) if (status === 412) expect(headers.get('etag')).toBe(`"${now.version}"`);
  });

  test('a text with faults is 422 with each of them, and nothing is written', async () => {
    const before = await read(gateway);
    const { status, body } = await put(gateway, 'plans:\n  free: 5\n', '*');
    expect([status, body.code]).toEqual([422, 'invalid_plans']);
    expect(body.faults).toEqual([expect.objectContaining({ line: 2, column: 9, path: 'plans.free' })]);
    expect(await read(gateway)).toEqual(before);
  });

  test('without If-Match it is 428, and an older version is 412', async () => {
    expect((await put(gateway, PLANS, null)).body).toMatchObject({ status: 428, code: 'precondition_required' });
    expect((await put(gateway, PLANS, '"000000000000"')).body).toMatchObject({ status: 412 });
    const { version } = await read(gateway);
    // Strong comparison: a weak tag never matches.
    expect((await put(gateway, PLANS, `W/"${version}"`)).status).toBe(412);
  });

  test('a plan that live keys use does not go unless `removed` names it', async () => {
    const { id } = await gateway.createKey('gentle');
    const before = await read(gateway);
    const text = before.text.replace(/^ {2}gentle.*\n/m, '');
    const { status, body } = await put(gateway, text, '*');
    expect([status, body.message]).toEqual([409, expect.stringContaining('lacks `gentle`, which 1 live key uses')]);
    expect(await read(gateway)).toEqual(before);
    expect((await put(gateway, `${text}removed: [gentle]\n`, '*')).body).toMatchObject({ inForce: true });
    expect((await put(gateway, before.text, '*')).body).toMatchObject({ inForce: true });
    await gateway.command('keys', 'revoke', id);
  });

  test('the same text changes nothing and is recorded as that', async () => {
    const { text, version } = await read(gateway);
    expect((await put(gateway, text, `"${version}"`)).body).toMatchObject({ version, inForce: true });
    expect((await ask(gateway, 'GET', '/admin/audit')).body.changes[0]).toMatchObject({ outcome: 'unchanged' });
  });

  test('a byte order mark survives', async () => {
    const { text } = await read(gateway);
    expect((await put(gateway, `\uFEFF${text}`, '*')).body).toMatchObject({ inForce: true });
    expect((await read(gateway)).text).toBe(`\uFEFF${text}`);
    expect((await put(gateway, text, '*')).status).toBe(200);
  });
});

describe('a file that cannot be replaced', () => {
  test('a symbolic link is 409 with a sentence, and neither the link nor its target changes', async () => {
    const gateway = await startWithAdmin(await STORES['the embedded store']!(), EDITING);
    const file = fileOf(gateway);
    const target = join(dirname(file), '..data.yaml');
    await rename(file, target);
    await symlink(target, file);
    const { writable, whyNotWritable } = await read(gateway);
    expect([writable, whyNotWritable]).toEqual([false, expect.stringContaining('symbolic link')]);
    const { status, body } = await put(gateway, `${PLANS}\n`, '*');
    expect([status, body.message]).toEqual([409, expect.stringContaining('is a symbolic link')]);
    expect([(await lstat(file)).isSymbolicLink(), await readFile(target, 'utf8')]).toEqual([true, PLANS]);
  });

  test('a refusal of gateway.yaml keeps the new version from taking effect, and the response says so', async () => {
    const gateway = await startWithAdmin(await STORES['the embedded store']!(), EDITING);
    await writeFile(gateway.env.TOLLGATE_CONFIG!, 'routes: 5\n');
    const { status, body } = await put(gateway, `${PLANS}\n`, '*');
    expect([status, body.inForce, body.whyNotInForce]).toEqual([200, false, expect.stringContaining('gateway.yaml')]);
  });

  // The superuser may write everywhere, so the file is replaced by another user.
  test('in a folder that the user may not write to: a sentence, and nothing is left behind', async () => {
    const folder = await temporaryFolder();
    await chmod(folder, 0o755);
    await writeFile(join(folder, 'plans.yaml'), PLANS);
    await chmod(folder, 0o555);
    const program = `
      import { PlansFile } from ${JSON.stringify(join(import.meta.dirname, '../../../src/operations/plans/plans-file.ts'))};
      const file = new PlansFile(${JSON.stringify(join(folder, 'plans.yaml'))}, Date.now);
      console.log(await file.obstacle());
      await file.replace('x', () => true).catch((error) => console.log(error.code, error.message));`;
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      cwd: folder,
      ...user,
    });
    const sentence = 'plans.yaml cannot be replaced: the user of the gateway may not write to its folder';
    expect([stdout.split('\n'), stderr]).toEqual([
      [expect.stringContaining(sentence), expect.stringContaining(`conflict ${sentence}`), ''],
      '',
    ]);
    await chmod(folder, 0o755);
    expect(await readdir(folder)).toEqual(['plans.yaml']);
    expect(await readFile(join(folder, 'plans.yaml'), 'utf8')).toBe(PLANS);
  });
});

describe('writers of several processes', () => {
  test('the draft of a process that ended does not stop the next writer, one of a running writer does', async () => {
    const folder = await temporaryFolder();
    const [path, draft] = [join(folder, 'plans.yaml'), join(folder, '.plans.yaml.draft')];
    await writeFile(path, PLANS);
    await writeFile(draft, 'half');
    const file = new PlansFile(path, () => Date.now());
    await expect(file.replace('new', () => true)).rejects.toThrow('Another gateway is writing plans.yaml');
    expect([await readFile(path, 'utf8'), await readFile(draft, 'utf8')]).toEqual([PLANS, 'half']);
    const longAgo = new Date(Date.now() - 120_000);
    await utimes(draft, longAgo, longAgo);
    expect(await file.replace('new', () => true)).toMatchObject({ kind: 'written' });
    expect([await readFile(path, 'utf8'), await readdir(folder)]).toEqual(['new', ['plans.yaml']]);
  });

  test('a writer whose draft was taken for abandoned gives up, and leaves the draft of the other one', async () => {
    const folder = await temporaryFolder();
    const [path, draft] = [join(folder, 'plans.yaml'), join(folder, '.plans.yaml.draft')];
    await writeFile(path, PLANS);
    const replaceDraft = () => {
      rmSync(draft);
      writeFileSync(draft, 'half');
      return true;
    };
    const file = new PlansFile(path, () => Date.now());
    await expect(file.replace('new', replaceDraft)).rejects.toThrow('Another gateway is writing plans.yaml');
    expect([await readFile(path, 'utf8'), await readFile(draft, 'utf8')]).toEqual([PLANS, 'half']);
  });

  test('of many writers of one version exactly one writes', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'x'));
    const path = join(folder, 'x', 'plans.yaml');
    await writeFile(path, PLANS);
    const files = Array.from({ length: 4 }, () => new PlansFile(path, () => Date.now()));
    const { version } = files[0]!.read();
    const done = await Promise.all(files.map((file, i) => file.replace(`text ${i}`, (found) => found === version)));
    expect(done.map(({ kind }) => kind).sort()).toEqual([...Array(3).fill('changed'), 'written']);
    const winner = done.findIndex(({ kind }) => kind === 'written');
    expect(await readFile(path, 'utf8')).toBe(`text ${winner}`);
  });
});

test('with several workers the supervisor checks, compares and writes, and the workers serve by the new file', async () => {
  const gateway = await startWithAdmin({ ...(await STORES.Redis!()), WORKERS: '2' }, EDITING);
  const { key } = await gateway.createKey('free');
  const { text, version } = await read(gateway);
  const draft = text.replace('minute: 60', 'minute: 7');
  const { body: compared } = await ask(gateway, 'POST', '/admin/plans/diff', { text: draft });
  expect(compared.changes).toEqual([expect.objectContaining({ what: 'limits.minute', to: 7, keys: 1 })]);
  expect((await put(gateway, draft, `"${version}"`)).body).toMatchObject({ inForce: true });
  await eventually(async () => {
    const answers = await Promise.all(Array.from({ length: 4 }, () => gateway.get('/usage', key)));
    for (const answer of answers) expect(await answer.json()).toMatchObject({ windows: { minute: { limit: 7 } } });
  });
});
