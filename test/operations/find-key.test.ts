import { expect, test } from 'vitest';
import { digestOf, type KeyFormat } from '../../src/identify/api-key.ts';
import { keyOfSecret } from '../../src/operations/find-key.ts';
import { deleted } from '../../src/operations/key-changes.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { someKey } from '../identify/some-key.ts';

const PEPPERS = ['new pepper', 'old pepper'];
const NOW_MS = 1_800_000_000_000;

async function storeWith(...keys: ReturnType<typeof someKey>['key'][]) {
  const store = new FakeStore();
  for (const key of keys) await store.create(key);
  return (secret: string, formats: readonly KeyFormat[] = []) =>
    keyOfSecret(secret, { keys: store, peppers: PEPPERS, keyFormats: () => formats, nowMs: () => NOW_MS });
}

test.each(PEPPERS)('a secret is found under %j', async (pepper) => {
  const { key, secret } = someKey({}, pepper);
  expect(await (await storeWith(someKey().key, key))(secret)).toEqual({ key, isCurrent: true });
});

test('a secret under a pepper that is no longer given is not found', async () => {
  const { key, secret } = someKey({}, 'another pepper');
  await expect((await storeWith(key))(secret)).rejects.toMatchObject({ code: 'not_found' });
});

test('a secret of another gateway is found if a format describes it, and only then', async () => {
  const secret = 'old_0123456789abcdef';
  const { key } = someKey();
  const imported = { ...key, secrets: [{ ...key.secrets[0]!, digest: digestOf(secret, PEPPERS[0]!) }] };
  const find = await storeWith(imported);
  expect(await find(secret, [{ prefix: 'old_', least: 20, most: 20, alphabet: 'hex' }])).toEqual({
    key: imported,
    isCurrent: true,
  });
  await expect(find(secret)).rejects.toMatchObject({ code: 'not_found' });
});

test.each([
  [NOW_MS, false],
  [NOW_MS + 1, true],
])('a secret that ends at %i is current: %j', async (expiresAtMs, isCurrent) => {
  const { key, secret } = someKey({}, PEPPERS[0]);
  const ending = { ...key, secrets: [{ ...key.secrets[0]!, expiresAtMs }] };
  expect(await (await storeWith(ending))(secret)).toEqual({ key: ending, isCurrent });
});

test('a secret that was rotated away is found and is not current; that of a deleted key is not found', async () => {
  const { key, secret, digest } = someKey({}, PEPPERS[1]);
  const rotated = { ...key, secrets: [], retired: [digest] };
  expect(await (await storeWith(rotated))(secret)).toEqual({ key: rotated, isCurrent: false });
  const tombstone = deleted({ ...key, revokedAtMs: 1 }, 2);
  await expect((await storeWith(tombstone))(secret)).rejects.toMatchObject({ code: 'not_found' });
});
