import { expect, test } from 'vitest';
import { Numbers } from '../../src/stores/redis/decision-call.ts';

test('the numbers of a text come one after the other, to the last digit', () => {
  const numbers = new Numbers(Buffer.from('0 7 1790000000000 9007199254740991 10'));
  expect(Array.from({ length: 5 }, () => numbers.next())).toEqual([0, 7, 1_790_000_000_000, 2 ** 53 - 1, 10]);
  expect(() => numbers.next()).toThrow('that the script does not return');
});

test.each(['', ' 1', '-3', '1.5', 'x', '1e3', '+1', '\n1', '\u0661'])('%j begins with no number', (text) => {
  expect(() => new Numbers(Buffer.from(text)).next()).toThrow('that the script does not return');
});
