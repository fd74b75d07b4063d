import { expect, test } from 'vitest';
import { ratioOf, spreadOf } from '../../../tools/kit/statistics.ts';

test.each([
  [[3], { median: 3, min: 3, max: 3 }],
  [[3, 1, 10], { median: 3, min: 1, max: 10 }],
  [[4, 1, 10, 2], { median: 3, min: 1, max: 10 }],
  [[1, Number.NaN, 3, Number.POSITIVE_INFINITY], { median: 2, min: 1, max: 3 }],
])('the spread of %j', (values, spread) => {
  expect(spreadOf(values)).toEqual(spread);
});

test('nothing has no spread', () => {
  expect(spreadOf([])).toBeNull();
  expect(ratioOf([], [])).toBeNull();
  expect(ratioOf([1, null], [null, 1])).toBeNull();
});

test('a ratio pairs the rounds, and leaves out those that one of both lacks', () => {
  expect(ratioOf([10, null, 30, 40], [10, 10, 10, null])).toEqual({ median: 2, min: 1, max: 3 });
});

test('nothing is divided by zero', () => {
  expect(ratioOf([1, 4], [0, 2])).toEqual({ median: 2, min: 2, max: 2 });
});
