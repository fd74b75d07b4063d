import { expect, test } from 'vitest';
import { Numbers } from '../../src/stores/redis/decision-call.ts';
import { packed } from '../../tools/kit/message-pack.ts';

const WIDTHS = [0x94, 0x07, 0xcc, 0xff, 0xcd, 0x01, 0x00, 0xce, 0xff, 0xff, 0xff, 0xff];
const allOf = (numbers: Numbers) => Array.from({ length: numbers.size }, () => numbers.next());

test('the numbers of a reply come one after the other, to the last digit', () => {
  const large = [0, 7, 1_790_000_000_000, 2 ** 53 - 1, 2 ** 53, 10];
  const numbers = new Numbers(packed(large));
  expect(allOf(numbers)).toEqual(large);
  expect(() => numbers.next()).toThrow('that the script does not return');
  const short = new Numbers(Buffer.from(WIDTHS));
  expect(allOf(short)).toEqual([7, 255, 256, 2 ** 32 - 1]);
  expect(short.isAtEnd).toBe(true);
  expect(allOf(new Numbers(Buffer.from([0xdd, 0, 0, 0, 1, 5])))).toEqual([5]);
});

test.each([
  ['nothing', []],
  ['a text', [...Buffer.from('1 2')]],
  ['a number', [0x05]],
  ['an empty list', [0x90]],
  ['a list that breaks off', [0x92]],
  ['a number that breaks off', [0x91, 0xcd, 0x01]],
  ['the length of a list that breaks off', [0xdc, 0x00]],
  ['a negative number', [0x91, 0xff]],
  ['another negative number', [0x91, 0xd0, 0x80]],
  ['half a number', [0x91, 0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]],
  ['a text in a list', [0x91, 0xa1, 0x31]],
  ['nil', [0x91, 0xc0]],
])('%s begins with no number', (_, bytes) => {
  expect(() => new Numbers(Buffer.from(bytes)).next()).toThrow('that the script does not return');
});
