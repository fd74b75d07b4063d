/** The word among `known` that was probably meant, with at most two letters wrong or swapped; null if none is close. */
export function meantBy(given: string, known: Iterable<string>): string | null {
  let best: string | null = null;
  let least = Math.min(2, Math.floor(given.length / 3)) + 1;
  // A typing error is short; the distance of a long text would take long.
  if (given.length > 64) return null;
  for (const word of known) {
    const distance = distanceOf(given.toLowerCase(), word.toLowerCase());
    if (distance < least) [best, least] = [word, distance];
  }
  return best;
}

/** How many letters must be inserted, left out, replaced, or swapped with their neighbour. */
function distanceOf(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, replaced, isSwap ? before[j - 2]! + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
