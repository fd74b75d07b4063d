import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { JsonFault, readJson } from '../../src/validate/json.ts';

/** The same value as JSON.parse makes it: objects with a prototype, and all numbers as doubles. */
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? Number(inner) : inner)));

test('any JSON value is read as JSON.parse reads it, however it is written', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 1, '\t', '\r\n '), (value, space) => {
      expect(plain(readJson(JSON.stringify(value, null, space)))).toEqual(plain(value));
    }),
  );
});

test('any text that JSON.parse refuses is refused, and what is read is what JSON.parse reads', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    'a',
    '\\',
    'u00e9',
    '0',
    '1',
    '-',
    '.',
    'e',
    ' ',
    'null',
    '\n',
    '\uFEFF',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
      const text = parts.join('');
      let parsed: unknown;
      try {
        parsed = JSON.parse(text);
      } catch {
        expect(() => readJson(text)).toThrow(JsonFault);
        return;
      }
      try {
        expect(plain(readJson(text))).toEqual(plain(parsed));
      } catch (error) {
        if (!(error instanceof JsonFault)) throw error;
        expect(error.message).toBe('is there twice');
      }
    }),
    { numRuns: 5_000 },
  );
});

test('whole numbers beyond 2^53 are exact', () => {
  fc.assert(
    fc.property(fc.bigInt(), (whole) => {
      expect(BigInt(readJson(String(whole)) as bigint)).toBe(whole);
    }),
  );
});

describe('refused with the place', () => {
  test.each([
    ['{"a":1,"\\u0061":2}', '/a', 'is there twice'],
    ['{"a":{"b/c":[1,{"__proto__":1,"__proto__":2}]}}', '/a/b~1c/1/__proto__', 'is there twice'],
    [`${'['.repeat(10_000)}`, '/0'.repeat(65), 'is nested deeper than 64 levels'],
    ['[1e999]', '/0', 'is a number beyond the range of 64 bits'],
    [`[${'9'.repeat(401)}]`, '/0', 'is a number with too many digits'],
    ['[1] 2', '', 'has something after its end'],
  ])('%s', (text, pointer, message) => {
    expect(() => readJson(text)).toThrow(expect.objectContaining({ pointer, message }));
  });
});

test('objects have no names but their own', () => {
  const object = readJson('{"__proto__":{"admin":true}}') as Record<string, unknown>;
  expect(Object.keys(object)).toEqual(['__proto__']);
  expect(object.constructor).toBeUndefined();
});
