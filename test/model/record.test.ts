import { expect, test } from 'vitest';
import { z } from 'zod';
import { Failure } from '../../src/failure.ts';
import { unreadable } from '../../src/identify/record-store.ts';
import {
  byReadability,
  digestsOf,
  insistedRecord,
  listedRecord,
  looksLikeRecord,
  orUnreadable,
  readRecord,
  readStoredKey,
  UnreadableRecord,
} from '../../src/model/record.ts';
import { someKey } from '../identify/some-key.ts';

const schema = z.object({ id: z.string() });
const form = {
  read: (text: string) => readRecord(text, schema, 'a note'),
  placeOf: (id: string) => `tg:note:{${id}}`,
};

test.each([
  ['no text', null],
  ['text of another program', 'x'],
  ['other JSON', '{"name":"a"}'],
  ['the record of another id', '{"id":"b"}'],
])('%s under the name of a record is an unreadable one with its id and its place (reliability 361)', (_what, text) => {
  const listed = listedRecord(text, 'a', form);
  expect(listed).toBeInstanceOf(UnreadableRecord);
  expect(listed).toMatchObject({ id: 'a', code: 'store_corrupt', message: expect.stringContaining('tg:note:{a}') });
  expect(() => insistedRecord(text, 'a', form)).toThrow(UnreadableRecord);
});

test('a record is read in a list and alone', () => {
  expect(listedRecord('{"id":"a"}', 'a', form)).toEqual({ id: 'a' });
  expect(insistedRecord('{"id":"a"}', 'a', form)).toEqual({ id: 'a' });
});

test.each([new TypeError('a fault of the program'), new Failure('store_unavailable', 'away')])(
  '%s is no property of the record: it is thrown',
  async (error) => {
    const read = () => {
      throw error;
    };
    expect(() => listedRecord('{"id":"a"}', 'a', { ...form, read })).toThrow(error);
    await expect(orUnreadable(Promise.reject(error))).rejects.toBe(error);
  },
);

test('a list keeps what it refers to, read or unreadable', async () => {
  const bad = new UnreadableRecord('b', 'damaged');
  expect(await orUnreadable(Promise.resolve('a'))).toBe('a');
  expect(await orUnreadable(Promise.reject(bad))).toBe(bad);
  expect(byReadability([{ id: 'a' }, bad])).toEqual({ readable: [{ id: 'a' }], unreadable: [bad] });
  expect(unreadable(bad)).toEqual({ kind: 'unreadable', cause: 'damaged' });
});

test.each([
  ['{"id":"a"}', true],
  ['{"id":"a","name":"b"}', true],
  ['{"id":"a"', false],
  ['{"id":"ab"}', false],
  ['{"name":"b","id":"a"}', false],
])('%s looks like the record of a: %s', (text, expected) => {
  expect(looksLikeRecord(text, 'a')).toBe(expected);
});

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
