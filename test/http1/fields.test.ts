import { expect, test } from 'vitest';
import { linesOf, onlyValue, requestIdOf, responseLinesOf, valuesOf } from '../../src/http1/fields.ts';

const FIELDS = ['A', '1', 'X-Id', 'b', 'a', '2', 'aa', '3'];

test('values are found by their name in any case, and by nothing else', () => {
  expect(valuesOf(FIELDS, 'a')).toEqual(['1', '2']);
  expect(valuesOf(FIELDS, 'b')).toEqual([]);
  expect(onlyValue(FIELDS, 'x-id')).toBe('b');
  expect(onlyValue(FIELDS, 'a')).toBeNull();
  expect(onlyValue(FIELDS, 'b')).toBeNull();
});

test.each<[readonly string[], string | null]>([
  [['X-Request-Id', 'a.B_9-'], 'a.B_9-'],
  [['x-request-id', 'a'.repeat(64)], 'a'.repeat(64)],
  [['x-request-id', 'a'.repeat(65)], null],
  [['x-request-id', ''], null],
  [['x-request-id', 'a b'], null],
  [['x-request-id', 'a', 'X-Request-Id', 'a'], null],
  [[], null],
])('the request id in %j is %j', (fields, id) => {
  expect(requestIdOf(fields)).toBe(id);
});

test('no line break in a name or a value begins another field', () => {
  expect(linesOf(['A', '1', 'B', '\t\xff~'])).toBe('A: 1\r\nB: \t\xff~\r\n');
  for (const fields of [
    ['A\r\nB', '1'],
    ['A', '1\r\nB: 2'],
    ['C', '1', 'A', '\n'],
    ['C', '1', 'A\n', '1'],
    ['A', '\x7f'],
    ['A', 'Ā'],
  ]) {
    expect(() => linesOf(fields), JSON.stringify(fields)).toThrow(TypeError);
  }
  expect(() => responseLinesOf(['A', '\r'])).toThrow('a control byte or a wide character in A');
});
