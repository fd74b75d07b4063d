/** What several rounds came to. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Null where there is nothing. */
export function spreadOf(values: readonly number[]): Spread | null {
  const sorted = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

/**
 * The ratio of two contestants round by round, then its median: what disturbed a round disturbed both.
 * @param values of the one, by round; null where a round has none
 * @param others of the other
 */
export function ratioOf(values: readonly (number | null)[], others: readonly (number | null)[]): Spread | null {
  const ratios: number[] = [];
  for (const [round, value] of values.entries()) {
    const other = others[round] ?? null;
    if (value !== null && other !== null && other > 0) ratios.push(value / other);
  }
  return spreadOf(ratios);
}

/** The nearest-rank percentile; 0 of nothing. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(Math.ceil((percent / 100) * sorted.length) - 1, 0)] ?? 0;
}
