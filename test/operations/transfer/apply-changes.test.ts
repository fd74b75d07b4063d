import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DURABLE } from '../../../src/admit/ledger.ts';
import { parsePlans } from '../../../src/config/plans-schema.ts';
import { Failure } from '../../../src/failure.ts';
import { digestOf, mint } from '../../../src/identify/api-key.ts';
import type { StoredKey } from '../../../src/model/record.ts';
import { type ApplyDeps, applyChanges, finishPrepared } from '../../../src/operations/transfer/apply-changes.ts';
import { planApply } from '../../../src/operations/transfer/apply-plan.ts';
import { SecretFolder } from '../../../src/operations/transfer/secret-folder.ts';
import { temporaryFolder } from '../../support/processes.ts';

const PEPPER = 'a pepper that only the tests use';
const FILE = { set: 'partners', keys: { shop: { plan: 'pro' } } };
const parsed = parsePlans('plans: { pro: { limits: { minute: 1 } } }', 'plans.yaml');
if ('faults' in parsed) throw new Error('The plans of this test have faults.');
const { plans } = parsed.value;

/** A store that runs `onCreate` for each creation, which may throw, before it keeps the keys. */
function storeWith(onCreate: (key: StoredKey) => 'created' | 'lost') {
  const keys = new Map<string, StoredKey>();
  const store: ApplyDeps['keys'] = {
    get: async (id) => keys.get(id) ?? null,
    update: async () => null,
    delete: async () => null,
    createEach: async (created) => {
      for (const key of created) {
        const outcome = onCreate(key);
        keys.set(key.id, key);
        if (outcome === 'lost') throw new Failure('store_unavailable', 'The answer was lost.');
      }
      return created.map(() => 'created');
    },
  };
  return { keys, store };
}

async function apply(folder: string, store: ApplyDeps['keys']): Promise<unknown> {
  const customers = { get: async () => null, create: async () => DURABLE, update: async () => null };
  const secrets = await SecretFolder.read(folder);
  const scan = async () => ({ found: [], searched: 0, cursor: null });
  const plan = await planApply(FILE, { keys: { ...store, scan }, customers, plans, prune: false, nowMs: 1 });
  const deps: ApplyDeps = {
    ...{ keys: store, customers, plans, peppers: [PEPPER], random: randomBytes, nowMs: () => 1, secrets },
    recorded: (_, work) => work(),
  };
  try {
    await finishPrepared(plan, { ...deps, secrets });
    return (await Array.fromAsync(applyChanges(plan, deps))).map(({ kind }) => kind);
  } catch (error) {
    return error;
  }
}

const secretIn = (folder: string, name: string) => readFileSync(join(folder, name), 'utf8').trimEnd();

test('the secret is in the folder before the store is asked to create its key, and the next apply uses it (reliability 189)', async () => {
  const folder = await temporaryFolder();
  const seen: string[] = [];
  const failing = storeWith((key) => {
    const secret = secretIn(folder, 'partners.shop.pending');
    expect(key.secrets.map(({ digest }) => digest)).toEqual([digestOf(secret, PEPPER)]);
    seen.push(secret);
    throw new Failure('store_unavailable', 'Redis does not answer.');
  });
  expect(await apply(folder, failing.store)).toMatchObject({ code: 'store_unavailable' });
  expect(await apply(folder, failing.store)).toMatchObject({ code: 'store_unavailable' });
  expect(failing.keys.size).toBe(0);
  const { keys, store } = storeWith(() => 'created');
  expect(await apply(folder, store)).toEqual(['done']);
  expect(readdirSync(folder)).toEqual(['partners.shop']);
  expect(new Set([...seen, secretIn(folder, 'partners.shop')]).size).toBe(1);
  expect([...keys.values()][0]!.secrets[0]!.digest).toBe(digestOf(seen[0]!, PEPPER));
});

test('a key whose creation lost its answer keeps its secret, which the next apply gives its name (reliability 189)', async () => {
  const folder = await temporaryFolder();
  const { keys, store } = storeWith(() => 'lost');
  expect(await apply(folder, store)).toMatchObject({ code: 'store_unavailable' });
  expect(readdirSync(folder)).toEqual(['partners.shop.pending']);
  expect(await apply(folder, store)).toEqual([]);
  expect(readdirSync(folder)).toEqual(['partners.shop']);
  expect([...keys.values()][0]!.secrets[0]!.digest).toBe(digestOf(secretIn(folder, 'partners.shop'), PEPPER));
});

test('a key whose file cannot get its name counts as made, and its secret is not lost', async () => {
  const folder = await temporaryFolder();
  const { keys, store } = storeWith(() => {
    writeFileSync(join(folder, 'partners.shop'), 'of somebody else');
    return 'created';
  });
  expect(await apply(folder, store)).toEqual(['done']);
  expect(readFileSync(join(folder, 'partners.shop'), 'utf8')).toBe('of somebody else');
  expect([...keys.values()][0]!.secrets[0]!.digest).toBe(digestOf(secretIn(folder, 'partners.shop.pending'), PEPPER));
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
  ['that is a pipe to which nobody writes', (file) => execFileSync('mkfifo', ['-m', '600', file])],
])('a prepared secret %s is not used: somebody else may have planted it (reliability 200)', async (_, plant) => {
  const folder = await temporaryFolder();
  plant(join(folder, 'partners.shop.pending'), `${mint(randomBytes)}\n`);
  const { keys, store } = storeWith(() => 'created');
  expect(await apply(folder, store)).toMatchObject({ code: 'refused', message: expect.stringMatching(/mode 600/) });
  expect([...keys.keys()]).toEqual([]);
});

test.runIf(process.getuid?.() === 0)('nor is one that belongs to another user (reliability 200)', async () => {
  const folder = await temporaryFolder();
  const file = join(folder, 'partners.shop.pending');
  writeFileSync(file, `${mint(randomBytes)}\n`, { mode: 0o600 });
  chownSync(file, 65_534, 65_534);
  const { keys, store } = storeWith(() => 'created');
  expect(await apply(folder, store)).toMatchObject({ code: 'refused' });
  expect(keys.size).toBe(0);
});
