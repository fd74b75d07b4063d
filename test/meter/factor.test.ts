import fc from 'fast-check';
import { expect, test } from 'vitest';
import { factorOf, largestOf, numberOf, smallestOf, weightedSum } from '../../src/meter/factor.ts';
import { SEED, tries } from '../support/sample.ts';

/** A decimal number as text, with at most 15 digits, so that a double has each of them. */
const decimal = (maxWhole: number, maxDecimals: number) =>
  fc
    .tuple(fc.nat(maxWhole), fc.array(fc.nat(9), { maxLength: maxDecimals }))
    .map(([whole, decimals]) => (decimals.length === 0 ? String(whole) : `${whole}.${decimals.join('')}`));

/** The number times ten to the power of 20, exactly. */
function exactly(text: string): bigint {
  const [whole = '', decimals = ''] = text.split('.');
  return BigInt(whole + decimals.padEnd(20, '0'));
}

test('a sum is that of exact fractions, rounded up', () => {
  const term = fc.tuple(
    fc.oneof(
      decimal(999_999_999, 6),
      fc.nat({ max: 1_000_000_000 }).map((n) => String(n * 1000)),
    ),
    fc.oneof(decimal(999_999, 9), fc.constantFrom('0', '0.1', '0.15', '0.7', '2.5', '0.000000001', '1000000')),
  );
  fc.assert(
    fc.property(fc.array(term, { minLength: 1, maxLength: 8 }), (terms) => {
      const sum = terms.reduce((all, [amount, factor]) => all + exactly(amount) * exactly(factor), 0n);
      const scale = 10n ** 40n;
      const found = weightedSum(
        terms.map(([amount, by]) => ({ amount: Number(amount), factor: factorOf(Number(by))! })),
      );
      expect(found).toBe(Number((sum + scale - 1n) / scale));
    }),
    { seed: SEED, numRuns: tries(2_000, 200_000) },
  );
});

test.each<[string, readonly (readonly [number, number])[], number]>([
  ['what binary fractions would make 31', [[300, 0.1]], 30],
  [
    'three times a third of a tenth',
    [
      [1, 0.1],
      [1, 0.1],
      [1, 0.1],
    ],
    1,
  ],
  ['nothing', [[0, 0]], 0],
  ['the smallest number that is above nothing', [[Number.MIN_VALUE, 0.000000001]], 1],
  [
    'a whole number and the smallest',
    [
      [5, 1],
      [Number.MIN_VALUE, 1],
    ],
    6,
  ],
  [
    'as many tokens as an amount may have',
    [
      [1e12, 0.15],
      [1e12, 0.85],
    ],
    1e12,
  ],
  [
    'beyond what a double counts exactly',
    [
      [1e12, 1e6],
      [1, 0.000000001],
    ],
    1e18,
  ],
])('the sum of %s', (_what, terms, sum) => {
  expect(weightedSum(terms.map(([amount, by]) => ({ amount, factor: factorOf(by)! })))).toBe(sum);
});

test.each<[number, boolean]>([
  [0, true],
  [1_000_000, true],
  [0.000000001, true],
  [0.1234567891, false],
  [1e-10, false],
  [1_000_000.1, false],
  [-1, false],
  [Number.NaN, false],
  [Number.POSITIVE_INFINITY, false],
])('whether %d may be a factor', (number, isFactor) => {
  const factor = factorOf(number);
  expect(factor === null ? null : numberOf(factor)).toBe(isFactor ? number : null);
});

test('the extremes of factors are those of their numbers', () => {
  const factors = [2.5, 0.15, 10, 0].map((number) => factorOf(number)!);
  expect([smallestOf(factors), largestOf(factors)].map(numberOf)).toEqual([0, 10]);
});
