import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { mint } from '../../../src/identify/api-key.ts';
import { ask, openWithAdmin, STORES, TOKEN } from '../../admin/operator.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { runCommand } from '../../support/run-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

async function fileOf(keys: object, customers: object = {}): Promise<string> {
  const file = join(await temporaryFolder(), 'keys.yaml');
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ set: 'partners', customers, keys }, null, 1));
  return file;
}

const folderOf = async () => join(await temporaryFolder(), 'secrets');
const secretIn = (folder: string, name: string) => readFileSync(join(folder, name), 'utf8').trimEnd();
const changesOf = async (gateway: TestGateway, query = '') =>
  (await ask(gateway, 'GET', `/admin/audit?limit=100${query}`)).body.changes;

/** Machines from which a command asks the gateway: that of its embedded store, and one that has no store. */
const FACES = [
  ['the embedded store', 'the machine of its store'],
  ['the embedded store', 'a laptop'],
  ['Redis', 'a laptop'],
] as const;

describe.each(FACES)('the gateway on %s, asked from %s', (store, machine) => {
  let gateway: TestGateway;
  let env: NodeJS.ProcessEnv;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[store]!());
    const url = `http://127.0.0.1:${gateway.adminPort}`;
    env =
      machine === 'a laptop'
        ? { TOLLGATE_GATEWAY: url, TOLLGATE_TOKEN: TOKEN }
        : { ...gateway.env, ADMIN_TOKEN: undefined };
  });
  const apply = (file: string, ...words: string[]) => runCommand(env, 'keys', 'apply', file, ...words);

  test('applies hundreds of keys and their customers in slices, records each change, and the secrets work at once', async () => {
    const secrets = await folderOf();
    const names = Array.from({ length: 250 }, (_, i) => `k${i}`);
    const keys = Object.fromEntries(names.map((name, i) => [name, i % 2 ? { plan: 'small' } : { customer: 'acme' }]));
    const file = await fileOf(keys, { acme: { plan: 'small', meta: { team: 'blue' } }, alone: { plan: 'free' } });
    const dry = await apply(file, '--dry-run', '--json');
    expect([dry.code, JSON.parse(dry.stdout)]).toMatchObject([0, { created: 252, refused: 0, dryRun: true }]);
    expect(await changesOf(gateway)).toEqual([]);
    expect(existsSync(secrets)).toBe(false);
    expect((await apply(file)).code).toBe(2);
    const { code, stdout, stderr } = await apply(file, '--secrets', secrets, '--json');
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toMatchObject({ created: 252, changed: 0, refused: 0, unknown: 0 });
    expect(JSON.parse(stdout).customers).toHaveLength(2);
    expect(readdirSync(secrets).toSorted()).toEqual(names.map((name) => `partners.${name}`).toSorted());
    expect((await gateway.get('/v1/pets', secretIn(secrets, 'partners.k0'))).status).toBe(200);
    expect((await gateway.get('/v1/pets', secretIn(secrets, 'partners.k249'))).status).toBe(200);
    const made = await changesOf(gateway, '&action=customer.create');
    const kind = machine === 'a laptop' ? 'token' : 'shell';
    expect(made).toMatchObject(Array(2).fill({ actor: { kind }, outcome: 'done' }));
    expect(await changesOf(gateway, '&action=key.create')).toHaveLength(100);
    expect(await changesOf(gateway, '&action=key.apply')).toEqual([]);
    const again = await apply(file);
    expect(again).toEqual({
      code: 0,
      stdout: `Nothing to do: 250 keys and 2 customers of the set partners as ${file} says.\n`,
      stderr: '',
    });
    expect(gateway.process.stdout + gateway.process.stderr).not.toContain(secretIn(secrets, 'partners.k0'));
  });

  test('revokes what the file lacks, in the order of their making, and finds keys by their set', async () => {
    const secrets = await folderOf();
    const both = await fileOf({ k0: { plan: 'small' }, extra: { plan: 'free' } });
    await apply(both, '--secrets', secrets);
    const listed = await runCommand(env, 'keys', 'list', '--set', 'partners', '--json');
    expect(JSON.parse(listed.stdout).keys).toHaveLength(251);
    expect(JSON.parse((await runCommand(env, 'keys', 'list', '--set', 'other', '--json')).stdout).keys).toEqual([]);
    const one = await fileOf({ extra: { plan: 'free' } });
    const { stdout } = await apply(one, '--json');
    expect(JSON.parse(stdout).notInFile.toSorted()).toEqual(Array.from({ length: 250 }, (_, i) => `k${i}`).toSorted());
    const pruned = await apply(one, '--prune', '--yes');
    expect(pruned.code).toBe(0);
    expect(pruned.stdout).toMatch(
      /^- k\d+ key_\w+: revoked\n[\s\S]*0 created, 0 changed, 250 revoked, 1 unchanged\.\n$/,
    );
    expect((await changesOf(gateway, '&action=key.revoke'))[0]).toMatchObject({ outcome: 'done' });
  });

  test('refuses the faults of the file with their places, and what only the store knows', async () => {
    const file = await fileOf({ gold: { plan: 'gold' }, soon: { plan: 'free', expires: '90d' } });
    expect((await apply(file)).stderr).toMatch(
      /:6:12: keys\.gold\.plan: is not a plan of plans\.yaml[\s\S]*keys\.soon\.expires: must be a date/,
    );
    const late = await fileOf({ none: { id: 'key_none' }, past: { plan: 'free', expires: '2020-01-01' } });
    const { code, stderr } = await apply(late);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/:6:10: keys\.none\.id: is the id of no key[\s\S]*:\d+:11: keys\.past/),
    ]);
  });
});

test('the admin API takes a file in part: each entry has its outcome, and a wrong one is an attempt that is recorded', async () => {
  const gateway = await openWithAdmin(await STORES['the embedded store']!());
  const post = (body: object) => ask(gateway, 'POST', '/admin/keys/apply', body);
  const secret = mint(randomBytes);
  const keys = { new: { plan: 'small' }, bare: { plan: 'small' }, past: { plan: 'small', expires: '2020-01-01' } };
  const { status, body } = await post({ set: 'api', keys, secrets: { new: secret } });
  expect([status, body.outcomes]).toMatchObject([
    200,
    [
      { entry: 'new', kind: 'done', action: 'create', hasSecret: true, at: null },
      { entry: 'bare', kind: 'refused', action: 'create', hasSecret: null, why: expect.stringContaining('no secret') },
      { entry: 'past', kind: 'refused', action: null, at: [] },
    ],
  ]);
  const again = await post({ set: 'api', keys: { new: keys.new }, secrets: { new: mint(randomBytes) } });
  expect(again.body.outcomes).toMatchObject([{ kind: 'same', action: null, changes: {}, hasSecret: false }]);
  const stolen = await post({ set: 'api', keys: { thief: keys.new }, secrets: { thief: secret } });
  expect(stolen.body.outcomes).toMatchObject([{ kind: 'refused', hasSecret: null }]);
  const { id } = body.outcomes[0];
  const foreign = await post({ set: 'other', prune: [{ id, name: 'new' }] });
  expect(foreign.body.outcomes).toMatchObject([{ kind: 'same', action: 'revoke' }]);
  for (const wrong of [
    { set: 'api', keys: { x: { plan: 'none' } } },
    { set: 'api', keys: { x: { customer: 'none' } } },
    { set: 'api', keys: { x: {} } },
    { set: 'api', secrets: { x: 'tg_live_x' } },
    { set: 'api', prune: [{ id: 'cus_0000000000000000', name: 'x' }] },
    { keys: {} },
  ]) {
    expect((await post(wrong)).status).toBe(400);
  }
  const { body: refused } = await ask(gateway, 'GET', '/admin/audit?action=key.apply');
  expect(refused.changes).toMatchObject([{ action: 'key.apply', outcome: 'refused', count: 3 }]);
  expect((await gateway.get('/v1/pets', secret)).status).toBe(200);
  expect(gateway.process.stdout + gateway.process.stderr).not.toContain(secret);
});

describe('a command whose gateway', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES['the embedded store']!());
  });
  const servers: { close(): void }[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  /** A gateway behind a proxy. `what` is asked of each slice that is to be applied: whether the gateway gets it, and the command its answer. */
  async function behind(what: (slice: { secrets: Record<string, string> }) => { gets: boolean; answers: boolean }) {
    const server = createServer(async (request, response) => {
      const body = await text(request);
      const sent = JSON.parse(body || '{}');
      const isApplied = request.url === '/admin/keys/apply' && sent.dryRun !== true;
      const { gets, answers } = isApplied ? what(sent) : { gets: true, answers: true };
      const { method = '', url } = request;
      const answer = gets
        ? await fetch(`http://127.0.0.1:${gateway.adminPort}${url}`, {
            method,
            headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
            ...(method === 'GET' ? {} : { body }),
          })
        : null;
      if (answer === null || !answers) return response.destroy();
      response.writeHead(answer.status).end(await answer.text());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
    const env = {
      TOLLGATE_GATEWAY: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      TOLLGATE_TOKEN: TOKEN,
    };
    return (file: string, folder: string) => runCommand(env, 'keys', 'apply', file, '--secrets', folder);
  }
  const WORKS = { gets: true, answers: true };

  test('never gets a new secret before it is on the disk, and gets the same one from the next command (reliability 189)', async () => {
    const [folder, file] = [await folderOf(), await fileOf({ first: { plan: 'small' } })];
    const seen: string[] = [];
    const apply = await behind(({ secrets }) => {
      expect(secretIn(folder, 'partners.first.pending')).toBe(secrets.first);
      seen.push(secrets.first!);
      return seen.length === 3 ? WORKS : { gets: false, answers: false };
    });
    expect((await apply(file, folder)).stderr).toMatch(/It is unknown whether the change was made/);
    expect((await apply(file, folder)).code).toBe(1);
    expect(await apply(file, folder)).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(folder)).toEqual(['partners.first']);
    expect(new Set([...seen, secretIn(folder, 'partners.first')]).size).toBe(1);
    expect((await gateway.get('/v1/pets', seen[0])).status).toBe(200);
  });

  test('ends in the middle reports what is done and that there may be more, and the next command finds it (reliability 477)', async () => {
    const names = Array.from({ length: 150 }, (_, i) => `m${i}`);
    const [folder, file] = [
      await folderOf(),
      await fileOf(Object.fromEntries(names.map((name) => [name, { plan: 'free' }]))),
    ];
    let slices = 0;
    const dying = await behind(() => ({ gets: true, answers: ++slices === 1 }));
    const { code, stdout, stderr } = await dying(file, folder);
    expect([code, stdout]).toEqual([1, expect.stringContaining('100 created, 0 changed, 0 revoked, 0 unchanged.\n')]);
    expect(stderr).toMatch(/^warning: Some records that are not counted may have been written\. Repeat the command/);
    expect(readdirSync(folder).filter((name) => name.endsWith('.pending'))).toHaveLength(50);
    const again = await (await behind(() => WORKS))(file, folder);
    expect(again).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^Nothing to do: 150 keys/) });
    expect(readdirSync(folder).toSorted()).toEqual(names.map((name) => `partners.${name}`).toSorted());
    for (const name of ['m0', 'm149']) {
      expect((await gateway.get('/v1/pets', secretIn(folder, `partners.${name}`))).status).toBe(200);
    }
  });

  test('makes a key whose file cannot get its name: it counts as made, and its secret is not lost', async () => {
    const [folder, file] = [await folderOf(), await fileOf({ taken: { plan: 'small' } })];
    const apply = await behind(() => {
      writeFileSync(join(folder, 'partners.taken'), 'of another');
      return WORKS;
    });
    const { stdout, stderr } = await apply(file, folder);
    expect(stdout).toContain('1 created');
    expect(stderr).toMatch(/^taken: was made, and its secret stays in .*partners\.taken\.pending: /);
    expect(secretIn(folder, 'partners.taken')).toBe('of another');
    expect((await gateway.get('/v1/pets', secretIn(folder, 'partners.taken.pending'))).status).toBe(200);
  });

  test.each<[string, (file: string, secret: string) => void]>([
    ['that others can read', (file, secret) => writeFileSync(file, secret, { mode: 0o644 })],
    [
      'that is a link to a file',
      (file, secret) => {
        writeFileSync(`${file}.elsewhere`, secret, { mode: 0o600 });
        symlinkSync(`${file}.elsewhere`, file);
      },
    ],
    ['that is a link to nothing', (file) => symlinkSync(`${file}.missing`, file)],
    ['that is a pipe to which no one writes', (file) => execFileSync('mkfifo', ['-m', '600', file])],
    ...(process.getuid?.() === 0
      ? [
          [
            'of another user',
            (file: string, secret: string) => {
              writeFileSync(file, secret, { mode: 0o600 });
              chownSync(file, 65_534, 65_534);
            },
          ] as [string, (file: string, secret: string) => void],
        ]
      : []),
  ])('would get a prepared secret %s, which may be planted, sends none (reliability 200)', async (_, plant) => {
    const [folder, file] = [await folderOf(), await fileOf({ planted: { plan: 'small' } })];
    mkdirSync(folder);
    plant(join(folder, 'partners.planted.pending'), `${mint(randomBytes)}\n`);
    let slices = 0;
    const apply = await behind(() => {
      slices++;
      return WORKS;
    });
    expect((await apply(file, folder)).stderr).toMatch(/mode 600/);
    expect(slices).toBe(0);
  });
});

test('a command says that its gateway is of a version without what it asks for, and sends no secret (reliability 479)', async () => {
  const bodies: string[] = [];
  const older = createServer(async (request, response) => {
    bodies.push(await text(request));
    const message = 'This is used with GET, HEAD, PATCH, DELETE.';
    response.writeHead(405).end(JSON.stringify({ code: 'method_not_allowed', message, status: 405 }));
  });
  await new Promise<void>((resolve) => older.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(older.address() as AddressInfo).port}`;
  const folder = await folderOf();
  const file = await fileOf({ shop: { plan: 'small' } });
  const told = await runCommand(
    { TOLLGATE_GATEWAY: url, TOLLGATE_TOKEN: TOKEN },
    ...['keys', 'apply', file, '--secrets', folder],
  );
  older.close();
  expect(told).toEqual({
    code: 1,
    stdout: '',
    stderr: `The gateway at ${url} cannot be asked. It does not know this operation: it is of an earlier version of Tollgate.\n`,
  });
  expect(bodies).toEqual([JSON.stringify({ set: 'any', dryRun: true })]);
  expect(existsSync(folder)).toBe(false);
});
