/*
 * Sums of amounts that are multiplied by decimal numbers, such as prices. They are exact: a price of 0.15 is 15/100, not the nearest
 * binary fraction.
 */

/** A decimal number from 0: `digits` divided by ten to the power of `decimals`. */
export interface Factor {
  readonly digits: number;
  /** From 0 to `MAX_DECIMALS`. */
  readonly decimals: number;
}

export const MAX_FACTOR = 1_000_000;
export const MAX_DECIMALS = 9;

const POWERS: readonly number[] = Array.from({ length: MAX_DECIMALS + 1 }, (_, i) => 10 ** i);

/** The decimal number that `String` writes, as a factor. @returns null unless it is from 0 to `MAX_FACTOR`, with at most 9 decimals */
export function factorOf(number: number): Factor | null {
  if (!(number >= 0 && number <= MAX_FACTOR)) return null;
  const { digits, decimals } = decimalOf(number);
  return decimals > MAX_DECIMALS ? null : { digits: Number(digits), decimals };
}

export function numberOf({ digits, decimals }: Factor): number {
  return digits / POWERS[decimals]!;
}

/** The extremes of some factors, of which there is at least one. */
export function smallestOf(factors: readonly Factor[]): Factor {
  return factors.reduce((one, other) => (numberOf(other) < numberOf(one) ? other : one));
}

export function largestOf(factors: readonly Factor[]): Factor {
  return factors.reduce((one, other) => (numberOf(other) > numberOf(one) ? other : one));
}

/** An amount, which need not be whole, and what it is multiplied by. */
interface Term {
  /** Finite, from 0. */
  readonly amount: number;
  readonly factor: Factor;
}

/** The sum of the products, rounded up. Each amount counts as the decimal number that `String` writes. */
export function weightedSum(terms: readonly Term[]): number {
  let decimals = 0;
  for (const { factor } of terms) decimals = Math.max(decimals, factor.decimals);
  let sum = 0;
  let isWhole = true;
  for (const { amount, factor } of terms) {
    isWhole &&= Number.isInteger(amount);
    sum += amount * factor.digits * POWERS[decimals - factor.decimals]!;
  }
  // If the sum is that small, so was every product, and all of them are exact.
  if (!isWhole || sum > Number.MAX_SAFE_INTEGER) return longSum(terms);
  const scale = POWERS[decimals]!;
  const rest = sum % scale;
  return (sum - rest) / scale + (rest > 0 ? 1 : 0);
}

function longSum(terms: readonly Term[]): number {
  const products = terms.map(({ amount, factor }) => {
    const { digits, decimals } = decimalOf(amount);
    return { digits: digits * BigInt(factor.digits), decimals: decimals + factor.decimals };
  });
  const decimals = Math.max(...products.map((product) => product.decimals));
  const scale = 10n ** BigInt(decimals);
  const sum = products.reduce((all, one) => all + one.digits * 10n ** BigInt(decimals - one.decimals), 0n);
  return Number((sum + scale - 1n) / scale);
}

/** @param number finite, from 0 */
function decimalOf(number: number): { readonly digits: bigint; readonly decimals: number } {
  const [, whole = '', fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(number))!;
  const digits = BigInt(whole + fraction);
  const decimals = fraction.length - Number(exponent);
  return decimals < 0 ? { digits: digits * 10n ** BigInt(-decimals), decimals: 0 } : { digits, decimals };
}
