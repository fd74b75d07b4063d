import { expect, test } from 'vitest';
import { amountOf, MAX_AMOUNT, pointerOf, wholeNumberOf } from '../../src/meter/cost.ts';

test.each<[string, number | null]>([
  ['0', 0],
  ['12', 12],
  ['1.5', 2],
  ['0.0001', 1],
  ['1e3', 1000],
  ['1.2E+1', 12],
  ['-0', 0],
  ['-0.0', 0],
  [String(MAX_AMOUNT), MAX_AMOUNT],
  [`${MAX_AMOUNT}.5`, null],
  [String(MAX_AMOUNT + 1), null],
  ['9007199254740993', null],
  ['1e999', null],
  ['-1', null],
  ['-1e-3', null],
  ['0x10', null],
  ['1_000', null],
  ['01', null],
  ['.5', null],
  ['5.', null],
  ['+5', null],
  [' 5', null],
  ['5\n', null],
  ['', null],
  ['NaN', null],
  ['Infinity', null],
  [`1.${'0'.repeat(38)}`, 1],
  [`1.${'0'.repeat(39)}`, null],
])('the amount of %j is %j', (text, amount) => {
  expect(amountOf(text)).toBe(amount);
});

test.each<[string, number | null]>([
  ['1.5', 2],
  ['-0', 0],
  ['2e12', 2e12],
  ['1e999', Infinity],
  [`1${'0'.repeat(40)}`, Infinity],
  // It is cut, so that its exponent is not known.
  [`0.${'0'.repeat(38)}e`, Infinity],
  ['-1', null],
  [`-1${'0'.repeat(40)}`, null],
  ['x'.repeat(50), null],
  [`1${' '.repeat(50)}`, null],
  ['1e', null],
])('the whole number of %j is %j', (text, number) => {
  expect(wholeNumberOf(text)).toBe(number);
});

test.each<[string, readonly string[] | null]>([
  ['/usage/total_tokens', ['usage', 'total_tokens']],
  ['/a~1b/c~0d/~01', ['a/b', 'c~d', '~1']],
  ['/', ['']],
  ['//0/', ['', '0', '']],
  ['/é😀"\\', ['é😀"\\']],
  ['', null],
  ['usage', null],
  ['#/usage', null],
  ['/a~', null],
  ['/a~2', null],
  ['/\ud800', null],
])('the tokens of the pointer %j', (text, tokens) => {
  expect(pointerOf(text)).toEqual(tokens);
});
