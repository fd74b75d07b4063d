import { expect, test } from 'vitest';
import { IS_DEEP, sample } from './sample.ts';

const items = Array.from({ length: 100 }, (_, i) => i);

test('a sample has as many as are wanted, each once and in order, and is the same for the same seed', () => {
  const some = sample(items, 10);
  expect(some).toHaveLength(IS_DEEP ? 100 : 10);
  expect(some).toEqual([...new Set(some)].toSorted((a, b) => a - b));
  expect(sample(items, 10)).toEqual(some);
});

test('a sample of fewer than are wanted has all of them', () => {
  expect(sample(items, 100)).toEqual(items);
  expect(sample([], 3)).toEqual([]);
});
