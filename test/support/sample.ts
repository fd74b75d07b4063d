import { randomInt } from 'node:crypto';

/** The seed of this run: a new one for each, printed at its start. `TEST_SEED` repeats one. vitest.config.ts hands it to the workers. */
export const SEED = Number(process.env.TEST_SEED ?? randomInt(2 ** 31));

/** Whether the walks that take long are walked whole: `npm run test:deep`. */
export const IS_DEEP = process.env.TEST_DEEP === '1';

/** @returns `n` of the items, chosen by {@link SEED} and in their order; all of them in `npm run test:deep` */
export function sample<T>(items: readonly T[], n: number): readonly T[] {
  if (IS_DEEP || items.length <= n) return items;
  const left = items.map((_, i) => i);
  let state = SEED;
  while (left.length > n) {
    // Numerical Recipes' generator: its high bits are good enough to choose by.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    left.splice(Math.floor((state / 2 ** 32) * left.length), 1);
  }
  return left.map((i) => items[i]!);
}

/** How often something random is tried: `n` times, and as often as `deep` in `npm run test:deep`. */
export function tries(n: number, deep: number): number {
  return IS_DEEP ? deep : n;
}
