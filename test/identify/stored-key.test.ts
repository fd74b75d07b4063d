import { expect, test } from 'vitest';
import { digestsOf, readStoredKey } from '../../src/identify/key-store.ts';
import { someKey } from './some-key.ts';

const { key } = someKey({ limits: { minute: 0, day: 'unlimited' } });

test('a record is read as it was written, with fields of later versions', () => {
  const written = { ...key, later: { a: 1 } };
  expect(readStoredKey(JSON.stringify(written))).toEqual(written);
});

test.each([
  ['another program’s text', 'x'],
  ['nothing', 'null'],
  ['a key without secrets', JSON.stringify({ ...key, secrets: undefined })],
  ['a limit below 0', JSON.stringify({ ...key, limits: { minute: -1 } })],
  ['a time with a fraction', JSON.stringify({ ...key, createdAtMs: 0.5 })],
])('%s is no key', (_, text) => {
  expect(() => readStoredKey(text)).toThrow('The store holds a value that is not an API key');
});

test('to a key belong the digests of its secrets and the retired ones', () => {
  const digests = key.secrets.map(({ digest }) => digest);
  expect(digestsOf(key)).toEqual(digests);
  expect(digestsOf({ ...key, retired: ['a', 'b'] })).toEqual([...digests, 'a', 'b']);
});
