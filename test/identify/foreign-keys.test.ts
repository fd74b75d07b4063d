import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { ALPHABETS, foreignFingerprintOf, isForeign, type KeyFormat, mint } from '../../src/identify/api-key.ts';
import { storedSecret } from '../../src/operations/key-changes.ts';
import { processorMs } from '../support/stopwatch.ts';
import { FakeStore, identifierOn, told } from './fake-store.ts';
import { PEPPER, someKey } from './some-key.ts';

const format = (differently: Partial<KeyFormat> = {}): KeyFormat => ({
  prefix: 'k_',
  least: 10,
  most: 12,
  alphabet: 'base62',
  ...differently,
});

describe('a key that was made elsewhere', () => {
  test.each([
    ['k_abcdefgh', true],
    ['k_abcdefghij', true],
    ['k_abcdefg', false],
    ['k_abcdefghijk', false],
    ['x_abcdefgh', false],
    ['abcdefghij', false],
    ['k_abcdef-h', false],
    ['k_abcdef.h', false],
    ['k_abcdef h', false],
    ['k_abcdefé0', false],
    ['', false],
  ])('%j is of a format: %s', (text, expected) => {
    expect(isForeign(text, [format()])).toBe(expected);
    expect(foreignFingerprintOf(text, [format()]) !== null).toBe(expected);
  });

  test.each(Object.entries(ALPHABETS) as [keyof typeof ALPHABETS, string][])(
    'of %s may have each of its characters and no other',
    (alphabet, characters) => {
      for (let code = 0x20; code < 0x80; code++) {
        const character = String.fromCharCode(code);
        const text = `k_${character.repeat(9)}`;
        expect([character, isForeign(text, [format({ alphabet })])]).toEqual([
          character,
          characters.includes(character),
        ]);
      }
    },
  );

  test('that begins as our own do is judged by its checksum alone', () => {
    const all = [format({ prefix: '', least: 8, most: 512, alphabet: 'base64url' })];
    expect(isForeign(mint(randomBytes), all)).toBe(false);
    expect(isForeign(`tg_live_${'a'.repeat(38)}`, all)).toBe(false);
    expect(isForeign('tg_test_abcdefgh', all)).toBe(true);
  });

  test('costs one look at each character, however long it is', () => {
    const all = Array.from({ length: 20 }, () => format({ least: 8, most: 512, alphabet: 'hex' }));
    const tookMs = processorMs(() => {
      for (let i = 0; i < 1_000; i++) isForeign(`k_${'a'.repeat(508)}!`, all);
    });
    expect(tookMs).toBeLessThan(2_000);
  });
});

test('the formats in force decide, so that a change of gateway.yaml lets a key in or shuts it out', async () => {
  const store = new FakeStore();
  const secret = 'k_abcdefgh';
  const { key } = someKey({ secrets: [storedSecret(secret, PEPPER, 0)] });
  await store.create(key);
  let formats: readonly KeyFormat[] = [];
  const { identifier } = identifierOn(store, { formats: () => formats });
  expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
  expect(store.lookUps).toBe(0);
  formats = [format()];
  expect(told(await identifier.identify(secret))).toBe(key.id);
  expect(told(await identifier.identify('k_abcdefgi'))).toBe('invalid_api_key');
  formats = [];
  expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
});

test('the form of a secret is in its record after its first use, if there are formats, and is written once (reliability 592)', async () => {
  const store = new FakeStore();
  const secret = 'k_abcdefgh';
  const { form: _, ...stored } = storedSecret(secret, PEPPER, 0);
  const [imported, own] = [someKey({ secrets: [stored] }), someKey()];
  for (const { key } of [imported, own]) await store.create(key);
  const formOfOnly = ({ key }: typeof own) => store.keys.get(key.id)!.secrets[0]!.form;
  const without = identifierOn(store).identifier;
  await without.identify(own.secret);
  await turn();
  expect(formOfOnly(own)).toBeUndefined();
  for (let i = 0; i < 2; i++) {
    const { identifier } = identifierOn(store, { formats: () => [format()] });
    for (const one of [secret, own.secret]) expect((await identifier.identify(one)).kind).toBe('consumer');
    await turn();
    expect([formOfOnly(imported), formOfOnly(own), store.updates]).toEqual(['k_*', 'own', 2]);
  }
});
