import { describe, expect, test } from 'vitest';
import type { StoredKey } from '../../src/model/record.ts';
import {
  deleted,
  edited,
  recognised,
  resumed,
  revoked,
  rotated,
  suspended,
  withSecretEnded,
} from '../../src/operations/key-changes.ts';
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
  const newest = { digest: 'newest', pepper: 'mark' };
  expect(recognised(key, { ...newest, digest }, ['older'])).toBe(key);
  expect(recognised(key, newest, [digest]).secrets).toEqual([{ ...key.secrets[0]!, ...newest }]);
  const retired = recognised({ ...key, retired: ['a', 'older'] }, newest, ['older']);
  expect(retired).toEqual({ ...key, retired: ['a', 'newest'] });
  expect(recognised(key, newest, ['older'])).toEqual({ ...key, retired: ['newest'] });
});

describe('a suspension', () => {
  const { key } = someKey();

  test('is in the record with its beginning, end and reason, and nothing of it is left once it is resumed', () => {
    const once = suspended(key, { untilMs: 50, reason: 'r' }, 5);
    expect(once).toEqual({ ...key, suspended: { atMs: 5, untilMs: 50, reason: 'r' } });
    expect(suspended(once, { untilMs: 50, reason: 'r' }, 9)).toBe(once);
    const longer = suspended(once, { untilMs: null, reason: null }, 9);
    expect(longer.suspended).toEqual({ atMs: 5, untilMs: null });
    expect(JSON.stringify(resumed(longer))).toBe(JSON.stringify(key));
    expect(resumed(key)).toBe(key);
    // One that has ended is no beginning of the next.
    expect(suspended(once, { untilMs: 99, reason: null }, 60).suspended).toEqual({ atMs: 60, untilMs: 99 });
  });

  test('stays through an edit, a rotation and a revocation, and keeps no key from being deleted', () => {
    const held = suspended(key, { untilMs: null, reason: null }, 5);
    expect(edited(held, { name: 'n' }, { plans: new Map(), nowMs: 6 }).suspended).toEqual(held.suspended);
    expect(rotated(held, someKey().key.secrets[0]!, 0, 6).suspended).toEqual(held.suspended);
    const gone = revoked(held, 6);
    expect(gone.suspended).toEqual(held.suspended);
    expect(deleted(gone, 7)).not.toHaveProperty('suspended');
  });

  test.each([
    ['an end that has passed', { untilMs: 5, reason: null }, /already passed/],
    ['a reason of two lines', { untilMs: null, reason: 'a\nb' }, /in one line/],
    ['a long reason', { untilMs: null, reason: 'x'.repeat(201) }, /at most 200/],
  ])('with %s is refused', (_what, given, message) => {
    expect(() => suspended(key, given, 5)).toThrow(message);
  });

  test('of a revoked key is refused, and so is its end', () => {
    const gone = { ...key, revokedAtMs: 1 };
    expect(() => suspended(gone, { untilMs: null, reason: null }, 5)).toThrow(/is revoked and cannot be suspended/);
    expect(() => resumed(gone)).toThrow(/is revoked and cannot be resumed/);
  });
});

describe('the end of one secret', () => {
  const fresh = () => someKey().key.secrets[0]!;
  const [old, other] = [
    { ...fresh(), last4: 'aaaa' },
    { ...fresh(), last4: 'bbbb' },
  ];
  const { key } = someKey({ secrets: [other, old] });

  test('takes it from the record, where only its retired digest is left, and touches nothing else', () => {
    expect(withSecretEnded(key, 'aaaa', 5)).toEqual({ ...key, secrets: [other], retired: [old.digest] });
    const imported = { ...key, secrets: [other, { ...old, last4: '' }] };
    expect(withSecretEnded(imported, '', 5).secrets).toEqual([other]);
  });

  test.each([
    ['which no secret has', key, 'cccc', 'not_found'],
    [
      'of a secret that has ended by itself',
      { ...key, secrets: [other, { ...old, expiresAtMs: 5 }] },
      'aaaa',
      'not_found',
    ],
    ['of the only secret that works', { ...key, secrets: [other, { ...old, expiresAtMs: 5 }] }, 'bbbb', 'conflict'],
    ['of two secrets', { ...key, secrets: [other, old, { ...fresh(), last4: 'aaaa' }] }, 'aaaa', 'conflict'],
    ['of a revoked key', { ...key, revokedAtMs: 1 }, 'aaaa', 'conflict'],
  ])('by characters %s is refused', (_what, stored, last4, code) => {
    expect(() => withSecretEnded(stored, last4, 5)).toThrow(expect.objectContaining({ code }));
  });
});
