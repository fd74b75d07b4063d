import { hash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { digestOf } from '../../../../src/identify/api-key.ts';
import { byReadability, type StoredKey } from '../../../../src/model/record.ts';
import { withStore } from '../../../../src/serve/open-store.ts';
import { createKey, STORES } from '../../../cli/ledger-commands.ts';
import { eventually } from '../../../support/conditions.ts';
import { startTollgate, temporaryFolder } from '../../../support/processes.ts';
import { privateRedis } from '../../../support/redis.ts';
import { entriesOf, runCommand as run } from '../../../support/run-command.ts';

type Entries = Readonly<Record<string, object>>;

async function fileOf(keys: Entries, set = 'partners'): Promise<string> {
  const file = join(await temporaryFolder(), 'keys.yaml');
  // JSON is YAML.
  await writeFile(file, JSON.stringify({ set, keys }, null, 1));
  return file;
}

async function everyKey(env: NodeJS.ProcessEnv): Promise<StoredKey[]> {
  return withStore(env, async ({ keys }) =>
    byReadability((await keys.list({ limit: 10_000, cursor: null })).records).readable.toSorted(byEntry),
  );
}

/** Keys of no entry first, then by the name of the entry: the store has those of one millisecond in no order. */
function byEntry(a: StoredKey, b: StoredKey): number {
  const [one, other] = [a, b].map(({ applied }) => applied?.name ?? '');
  return one! < other! ? -1 : 1;
}

const audit = async (env: NodeJS.ProcessEnv) => entriesOf((await run(env, 'audit', '--json', '--limit', '100')).stdout);

/** The entries whose key has the secret that the folder has for it. */
async function entriesWithTheirSecret(env: NodeJS.ProcessEnv, folder: string): Promise<string[]> {
  return withStore(env, async ({ keys, peppers }) => {
    const found = await Promise.all(
      readdirSync(folder).map(async (name) => {
        const secret = readFileSync(join(folder, name), 'utf8').trimEnd();
        const key = await keys.findByDigest(digestOf(secret, peppers[0]!));
        return key?.applied !== undefined && `${key.applied.set}.${key.applied.name}` === name
          ? [key.applied.name]
          : [];
      }),
    );
    return found.flat().sort();
  });
}

function many(count: number): Entries {
  return Object.fromEntries(
    Array.from({ length: count }, (_, i) => [`k${String(i).padStart(4, '0')}`, { plan: 'pro' }]),
  );
}

describe.each(Object.keys(STORES))('keys apply, on %s', (name) => {
  let env: NodeJS.ProcessEnv;
  let secrets: string;
  beforeEach(async () => {
    env = await STORES[name]!();
    secrets = join(await temporaryFolder(), 'secrets');
    // The embedded store exists, as beside a gateway.
    await run(env, 'keys', 'list');
  });
  const apply = (file: string, ...words: string[]) => run(env, 'keys', 'apply', file, ...words);
  const applied = async (keys: Entries, set?: string) => {
    const done = await apply(await fileOf(keys, set), '--secrets', secrets);
    expect([done.code, done.stderr]).toEqual([0, '']);
  };

  test('makes the keys of the file, and writes each secret once to a file that only its owner may read', async () => {
    const file = await fileOf({
      shop: {
        plan: 'pro',
        name: "Jo's shop",
        owner: 'Jo',
        notes: 'a\nb',
        limits: { minute: 7 },
        expires: '2099-01-01',
      },
      acme: { plan: 'free' },
    });
    const { code, stdout, stderr } = await apply(file, '--secrets', secrets);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^\+ shop key_\w{16}: plan: pro, .*limits: minute=7.*\n\+ acme .*\n2 created, 0 changed, /);
    expect(await everyKey(env)).toMatchObject([
      { plan: 'free', name: 'acme', limits: {}, expiresAtMs: null },
      {
        ...{ plan: 'pro', name: "Jo's shop", owner: 'Jo', notes: 'a\nb', limits: { minute: 7 } },
        expiresAtMs: Date.UTC(2099, 0),
      },
    ]);
    expect(readdirSync(secrets)).toEqual(['partners.acme', 'partners.shop']);
    expect(await entriesWithTheirSecret(env, secrets)).toEqual(['acme', 'shop']);
    for (const one of readdirSync(secrets)) {
      expect(statSync(join(secrets, one)).mode & 0o777).toBe(0o600);
      expect(stdout).not.toContain(readFileSync(join(secrets, one), 'utf8').trim());
    }
  });

  test('no character of a file or of a stored key moves the cursor or turns the text around', async () => {
    await applied({ shop: { plan: 'pro' } });
    // Written by another program: a command refuses such a name.
    const [key] = await everyKey(env);
    await withStore(env, ({ keys }) => keys.update(key!.id, (present) => ({ ...present, name: '\u009b2J\u202eold' })));
    const { stdout } = await apply(await fileOf({ shop: { plan: 'pro', name: 'new' } }), '--dry-run');
    expect(stdout).toContain('name: "\\u{9b}2J\\u{202e}old" → new');
    const faulty = await apply(await fileOf({ '\u009b2J\u202e': { plan: 'pro' } }), '--dry-run');
    expect(faulty.stderr).toContain('keys["\\u{9b}2J\\u{202e}"]: is not a name');
    expect(stdout + faulty.stderr).not.toMatch(/[\u007f-\u009f\u202e\u2066]/);
  });

  test('applied again there is nothing to do: no write, no entry in the record of changes, exit code 0', async () => {
    const file = await fileOf({
      shop: { plan: 'pro', limits: { day: 'unlimited', minute: 7 }, expires: '2099-01-01' },
    });
    await apply(file, '--secrets', secrets);
    const [keys, changes] = [await everyKey(env), await audit(env)];
    expect(changes).toMatchObject([{ action: 'key.create', outcome: 'done', after: { entry: 'partners/shop' } }]);
    expect((await run(env, 'keys', 'show', changes[0].target)).stdout).toContain('partners/shop, of `keys apply`');
    const again = await apply(file, '--prune');
    expect(again).toEqual({
      code: 0,
      stdout: `Nothing to do: 1 key of the set partners as ${file} says.\n`,
      stderr: '',
    });
    expect([await everyKey(env), await audit(env)]).toEqual([keys, changes]);
  });

  test('only what an entry names is managed, and its limits as a whole', async () => {
    await applied({ shop: { plan: 'pro', limits: { minute: 7, day: 9 } } });
    const [{ id }] = (await everyKey(env)) as [StoredKey];
    await run(env, 'keys', 'update', id, '--owner', 'Ann', '--plan', 'business', '--limit', 'hour=8');
    const { stdout } = await apply(await fileOf({ shop: { plan: 'pro', limits: { minute: 7 } } }));
    expect(stdout).toBe(
      `~ shop ${id}: plan: business → pro, limits: minute=7 hour=8 day=9 → minute=7\n0 created, 1 changed, 0 revoked, 0 unchanged.\n`,
    );
    expect(await everyKey(env)).toMatchObject([{ id, plan: 'pro', owner: 'Ann', limits: { minute: 7 } }]);
    await apply(await fileOf({ shop: { plan: 'pro', owner: '', limits: {} } }));
    expect(await everyKey(env)).toMatchObject([{ id, owner: null, limits: {}, name: 'shop' }]);
    expect((await audit(env))[0]).toMatchObject({ action: 'key.update', target: id, before: { owner: 'Ann' } });
  });

  test('a suspended key stays suspended, whatever its entry changes (reliability 265)', async () => {
    await applied({ shop: { plan: 'pro' } });
    const [{ id }] = (await everyKey(env)) as [StoredKey];
    await run(env, 'keys', 'suspend', id, '--reason', 'r');
    const [{ suspended }] = (await everyKey(env)) as [StoredKey];
    await apply(await fileOf({ shop: { plan: 'business', name: 'n', expires: '2099-01-01' } }));
    expect(await everyKey(env)).toMatchObject([{ id, plan: 'business', name: 'n', suspended }]);
  });

  test('--dry-run prints the same changes and writes nothing; with --exit-code it is 1 if there are any', async () => {
    await applied({ shop: { plan: 'pro' }, old: { plan: 'free' } });
    const before = [await everyKey(env), await audit(env)];
    const file = await fileOf({ shop: { plan: 'free', expires: '2099-01-01' }, acme: { plan: 'free' } });
    const folder = join(await temporaryFolder(), 'none');
    const dry = await apply(file, '--dry-run', '--prune', '--secrets', folder);
    expect([dry.code, dry.stderr]).toEqual([0, '']);
    expect(dry.stdout).toMatch(/~ shop key_\w+: plan: pro → free, expires: - → 2099-01-01T00:00:00.000Z\n/);
    expect(dry.stdout).toMatch(/- old key_\w+: revoked\n1 to be created, 1 to be changed, 1 to be revoked, 0 unch/);
    expect((await apply(file, '--dry-run', '--exit-code')).code).toBe(1);
    expect([await everyKey(env), await audit(env)]).toEqual(before);
    expect(() => statSync(folder)).toThrow('ENOENT');
    const done = await apply(file, '--prune', '--yes', '--secrets', folder, '--json');
    expect(JSON.parse(done.stdout)).toMatchObject({
      ...{ set: 'partners', dryRun: false, created: 1, changed: 1, revoked: 1, unchanged: 0, refused: 0, unknown: 0 },
      keys: [
        { entry: 'shop', action: 'update', outcome: 'done', changes: { plan: { from: 'pro', to: 'free' } } },
        { entry: 'acme', action: 'create', outcome: 'done' },
        { entry: 'old', action: 'revoke', outcome: 'done' },
      ],
    });
    expect((await apply(file, '--dry-run', '--exit-code')).code).toBe(0);
  });

  test('a file with a fault is not applied at all, and each fault is told with its line and column', async () => {
    const file = await fileOf({
      good: { plan: 'free' },
      gold: { plan: 'gold' },
      typo: { plan: 'free', ower: 'x' },
      soon: { plan: 'free', expires: '90d' },
    });
    const wrong = await apply(file, '--secrets', secrets);
    expect([wrong.code, wrong.stdout]).toEqual([1, '']);
    expect(wrong.stderr).toContain(`${file}:8:12: keys.gold.plan: is not a plan of plans.yaml. The plans are: free,`);
    expect(wrong.stderr).toContain(`${file}:12:4: keys.typo.ower: is an unknown key. Did you mean \`owner\`?`);
    const late = await fileOf({
      good: { plan: 'free' },
      past: { plan: 'free', expires: '2020-01-01' },
      whole: { plan: 'enterprise', limits: { minute: 5 } },
      none: { id: 'key_none', plan: 'free' },
    });
    const refused = await apply(late, '--secrets', secrets);
    expect([refused.code, refused.stdout]).toEqual([1, '']);
    const places = refused.stderr.split('\n').map((line) => line.slice(late.length).split(': ').slice(0, 2).join(' '));
    expect(places.slice(0, 3)).toEqual([':7:11 keys.past', ':11:12 keys.whole', ':18:10 keys.none.id']);
    const both = await apply(await fileOf({ two: { plan: 'basik', expires: '90d' } }), '--secrets', secrets);
    expect(both.stderr).toMatch(
      /keys\.two\.plan: is not a plan of plans\.yaml[\s\S]*keys\.two\.expires: must be a date/,
    );
    const twice = await apply(await fileOf({ a: { id: 'key_1' }, b: { id: 'key_1' } }));
    expect(twice.stderr).toContain('keys.b.id: is the id of `a` as well');
    expect(await everyKey(env)).toEqual([]);
    expect((await apply(await fileOf({ good: { plan: 'free' } }))).code).toBe(2);
    expect(await everyKey(env)).toEqual([]);
  });

  test('--prune revokes keys of the set that the file lacks and no other, after a question or with --yes (reliability 190)', async () => {
    const byHand = await createKey(env, '--plan', 'pro');
    await applied({ shop: { plan: 'pro' }, gone: { plan: 'pro' } });
    await applied({ shop: { plan: 'pro' } }, 'another');
    const file = await fileOf({ shop: { plan: 'pro' } });
    const revoked = async () => (await everyKey(env)).filter(({ revokedAtMs }) => revokedAtMs !== null);
    expect((await apply(file)).stdout).toMatch(
      /^Nothing to do: .*\n1 key of this set is not in the file \(gone\); --prune revokes it\.\n$/,
    );
    expect(JSON.parse((await apply(file, '--json')).stdout)).toMatchObject({ revoked: 0, notInFile: ['gone'] });
    expect((await apply(file, '--prune')).code).toBe(2);
    const no = await run({ ...env, TEST_TERMINAL: 'yes', TEST_INPUT: 'n' }, 'keys', 'apply', file, '--prune');
    expect([no.code, no.stderr]).toEqual([
      1,
      expect.stringMatching(/^- gone key_\w+: revoked\nNothing was changed\.\n$/),
    ]);
    expect(await revoked()).toEqual([]);
    const yes = await run({ ...env, TEST_TERMINAL: 'yes', TEST_INPUT: 'y' }, 'keys', 'apply', file, '--prune');
    expect(yes.code).toBe(0);
    expect(await revoked()).toMatchObject([{ applied: { set: 'partners', name: 'gone' } }]);
    const empty = await fileOf({});
    expect(await apply(empty, '--prune', '--yes')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--allow-empty'),
    });
    expect(await revoked()).toHaveLength(1);
    expect((await apply(empty, '--prune', '--yes', '--allow-empty')).code).toBe(0);
    const left = (await everyKey(env)).filter(({ revokedAtMs }) => revokedAtMs === null);
    expect(left).toMatchObject([{ id: byHand }, { applied: { set: 'another', name: 'shop' } }]);
  });

  test('an entry with an id takes a key over, also under another name or from another set, and its secret stays', async () => {
    const id = await createKey(env, '--plan', 'pro', '--name', 'Jo');
    const [before] = await everyKey(env);
    expect((await apply(await fileOf({ jo: { id, plan: 'pro' } }))).stdout).toContain(
      `~ jo ${id}: entry: - → "partners/jo"`,
    );
    expect(await everyKey(env)).toEqual([{ ...before, applied: { set: 'partners', name: 'jo' } }]);
    await apply(await fileOf({ ann: { id } }), '--prune');
    await apply(await fileOf({ ann: { id } }, 'another'));
    expect(await everyKey(env)).toEqual([{ ...before, applied: { set: 'another', name: 'ann' } }]);
    await applied({ shop: { plan: 'pro' } });
    const made = (await everyKey(env)).find(({ applied: as }) => as?.name === 'shop')!;
    await apply(await fileOf({ renamed: { id: made.id } }));
    const again = await apply(await fileOf({ shop: { plan: 'pro' } }), '--secrets', secrets);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining(`${made.id}, is now that of \`renamed\``)]);
    const both = await apply(await fileOf({ renamed: { id: made.id }, shop: { plan: 'pro' } }));
    expect(both.stderr).toContain('keys.shop: is the same key as `renamed`');
  });

  test('a digest in place of a secret makes a key for a secret that its holder has, and changes no other (reliability 546)', async () => {
    const theirs = 'a secret that another gateway has made';
    const sha256 = hash('sha256', theirs, 'hex');
    const file = await fileOf({ acme: { plan: 'pro', sha256, last4: 'made' } });
    expect(await run(env, 'keys', 'apply', file)).toMatchObject({ code: 0, stderr: '' });
    const [key] = await everyKey(env);
    const digests = await withStore(env, async ({ peppers }) => peppers.map((pepper) => digestOf(theirs, pepper)));
    expect(key!.secrets).toMatchObject([{ digest: digests[0], last4: 'made' }]);
    expect((await run(env, 'keys', 'apply', file)).stdout).toMatch(/^Nothing to do: 1 key /);
    // Rotated, it keeps the new secret, and the file stays as it is.
    await run(env, 'keys', 'rotate', key!.id);
    expect(await run(env, 'keys', 'apply', file)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Nothing/) });
    const other = await fileOf({ acme: { plan: 'pro', sha256: hash('sha256', 'another', 'base64') } });
    expect(await run(env, 'keys', 'apply', other)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^\S+:6:14: keys\.acme\.sha256: key_\w+ has other secrets than this one, and keeps them\./,
      ),
    });
    const second = await fileOf({ acme: { plan: 'pro', sha256 }, twin: { plan: 'pro', sha256 } });
    expect(await run(env, 'keys', 'apply', second)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('twin: refused: Another key has this secret'),
    });
    expect(await everyKey(env)).toHaveLength(1);
  });

  test('a key that was revoked or deleted does not come back, is told, and does not keep the others from being applied', async () => {
    await applied({ shop: { plan: 'pro' }, gone: { plan: 'pro' } });
    for (const { id, applied: as } of await everyKey(env)) {
      await run(env, 'keys', 'revoke', id);
      if (as?.name === 'gone') await run(env, 'keys', 'delete', id, '--yes');
    }
    const file = await fileOf({ shop: { plan: 'free' }, gone: { plan: 'pro' }, acme: { plan: 'free' } });
    const { code, stdout, stderr } = await apply(file, '--secrets', secrets);
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining('1 created, 0 changed, 0 revoked, 0 unchanged, 2 refused.'),
    ]);
    expect(stderr).toMatch(
      /^shop: key_\w+ was revoked on .* and does not come back\. Take .*\ngone: key_\w+ was deleted on /,
    );
    expect((await everyKey(env)).map(({ applied: as, plan }) => [as?.name, plan]).sort()).toEqual([
      ['acme', 'free'],
      ['shop', 'pro'],
    ]);
  });

  test('a file of the folder is never overwritten, so no secret of another store is lost', async () => {
    await applied({ shop: { plan: 'pro' } });
    const secret = readFileSync(join(secrets, 'partners.shop'), 'utf8');
    const other = { ...(await STORES['the embedded store']!()), KEY_PEPPER: env.KEY_PEPPER };
    await run(other, 'keys', 'list');
    const refused = await run(other, 'keys', 'apply', await fileOf({ shop: { plan: 'pro' } }), '--secrets', secrets);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('partners.shop exists already')]);
    expect(readFileSync(join(secrets, 'partners.shop'), 'utf8')).toBe(secret);
    expect(await everyKey(other)).toEqual([]);
  });

  test('of two applies at once each key is made once, and each file that is left has a secret that works', async () => {
    const entries = many(150);
    const file = await fileOf(entries);
    const other = await temporaryFolder();
    await mkdir(secrets);
    // Two processes with a folder of their own, and a third one that shares a folder.
    const running = await Promise.all(
      [secrets, other, secrets].map((folder) => startTollgate(['keys', 'apply', file, '--secrets', folder], { env })),
    );
    const codes = await Promise.all(running.map(async ({ exit }) => (await exit).code));
    expect(codes).toEqual([0, 0, 0]);
    const keys = await everyKey(env);
    expect(keys.map(({ applied: as }) => as!.name).sort()).toEqual(Object.keys(entries));
    const inFirst = await entriesWithTheirSecret(env, secrets);
    const inOther = await entriesWithTheirSecret(env, other);
    expect(inFirst).toHaveLength(readdirSync(secrets).length);
    expect(inOther).toHaveLength(readdirSync(other).length);
    expect([...inFirst, ...inOther].sort()).toEqual(Object.keys(entries));
  });

  test('killed half way and applied again, every key has the one secret that is in its file (reliability 189)', async () => {
    const entries = many(600);
    const file = await fileOf(entries);
    const running = await startTollgate(['keys', 'apply', file, '--secrets', secrets], { env });
    await eventually(() => readdirSync(secrets).some((one) => /^partners\.k\d+$/.test(one)));
    running.signal('SIGKILL');
    await running.exit;
    const [made, files] = [await everyKey(env), readdirSync(secrets)];
    expect(made.length).toBeLessThan(600);
    // A key is never without its secret on the disk.
    const names = new Set(files.map((one) => one.split('.')[1]));
    expect(made.filter(({ applied: as }) => !names.has(as!.name))).toEqual([]);
    expect((await apply(file, '--secrets', secrets)).code).toBe(0);
    expect(readdirSync(secrets).filter((one) => !one.endsWith('.draft'))).toHaveLength(600);
    expect(await entriesWithTheirSecret(env, secrets)).toEqual(Object.keys(entries));
  });
});

test('with a Redis that stops half way it ends with an error, and applied again it makes the rest (reliability 189)', async () => {
  const redis = await privateRedis();
  const env = { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that only the tests use' };
  const secrets = join(await temporaryFolder(), 'secrets');
  const entries = many(600);
  const file = await fileOf(entries);
  const running = await startTollgate(['keys', 'apply', file, '--secrets', secrets, '--json'], { env });
  await eventually(() => readdirSync(secrets).some((one) => /^partners\.k\d+$/.test(one)));
  await redis.pause();
  const { code } = await running.exit;
  expect(code).toBe(1);
  const { created } = JSON.parse(running.stdout);
  expect(created).toBeGreaterThan(0);
  expect(created).toBeLessThan(600);
  await redis.resume();
  expect((await run(env, 'keys', 'apply', file, '--secrets', secrets)).code).toBe(0);
  expect(await entriesWithTheirSecret(env, secrets)).toEqual(Object.keys(entries));
});
