/**
 * One of the suspects that fails by itself, found by halves; null where none is found that does so each time.
 * @param fails whether something fails with these
 */
export async function culprit<T>(
  suspects: readonly T[],
  fails: (some: readonly T[]) => Promise<boolean>,
): Promise<T | null> {
  let left = suspects;
  while (left.length > 1) {
    const middle = Math.ceil(left.length / 2);
    const half = left.slice(0, middle);
    left = (await fails(half)) ? half : left.slice(middle);
  }
  return left.length === 1 && (await fails(left)) ? left[0]! : null;
}
