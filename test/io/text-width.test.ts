import { expect, test } from 'vitest';
import { shortened, wrapped } from '../../src/io/text-width.ts';

test.each([
  ['plain', 10, 'plain'],
  ['plain', 5, 'plain'],
  ['plain', 4, 'pla…'],
  ['漢字漢字', 8, '漢字漢字'],
  ['漢字漢字', 7, '漢字漢…'],
  ['漢字漢字', 6, '漢字…'],
  ['😀😀', 3, '😀…'],
  ['x', 0, ''],
])('%j in %i cells is %j', (text, width, shown) => {
  expect(shortened(text, width)).toBe(shown);
});

test.each([
  ['one two three', 7, ['one two', 'three']],
  ['日本 日本', 5, ['日本', '日本']],
  ['https://a.example/long', 5, ['https://a.example/long']],
  ['', 5, ['']],
])('%j in lines of %i cells is %j', (text, width, lines) => {
  expect(wrapped(text, width)).toEqual(lines);
});
