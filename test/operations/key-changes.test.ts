import { expect, test } from 'vitest';
import type { StoredKey } from '../../src/identify/key-store.ts';
import { recognised, rotated } from '../../src/operations/key-changes.ts';
import { someKey } from '../identify/some-key.ts';

test('the digests that a key has retired are bounded, and the first ones stay: one of them came with an import', () => {
  let key: StoredKey = someKey().key;
  const digests: string[] = [];
  for (let i = 0; i < 100; i++) {
    digests.push(key.secrets[0]!.digest);
    key = rotated(key, someKey().key.secrets[0]!, 0, 5);
  }
  expect(key.retired).toEqual([...digests.slice(0, 16), ...digests.slice(-16)]);
});

test('a secret is retired when it has ended, not while it still works', () => {
  const { key, digest } = someKey();
  const after = rotated(key, someKey().key.secrets[0]!, 1_000, 5);
  expect(after.retired).toBeUndefined();
  expect(rotated(after, someKey().key.secrets[0]!, 1_000, 1_005).retired).toEqual([digest]);
});

test('a recognised secret goes under the newest pepper where it stands, and among the retired where it stands nowhere', () => {
  const { key, digest } = someKey();
  expect(recognised(key, [digest, 'older'])).toBe(key);
  expect(recognised(key, ['newest', digest]).secrets).toEqual([{ ...key.secrets[0]!, digest: 'newest' }]);
  const retired = recognised({ ...key, retired: ['a', 'older'] }, ['newest', 'older']);
  expect(retired).toEqual({ ...key, retired: ['a', 'newest'] });
  expect(recognised(key, ['newest', 'older'])).toEqual({ ...key, retired: ['newest'] });
});
