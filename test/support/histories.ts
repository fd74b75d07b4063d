import fc from 'fast-check';
import type { Allowance } from '../../src/admit/plan.ts';
import { allowance } from './allowance.ts';

/** One step of a history: the clock moves, then `n` requests of `cost` come under `plan`. */
export interface Step {
  readonly afterMs: number;
  readonly plan: Allowance;
  readonly cost: number;
  readonly n: number;
}

const limit = fc.integer({ min: 0, max: 12 });
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });

const plan: fc.Arbitrary<Allowance> = fc
  .record({
    second: optional(limit),
    minute: optional(limit),
    hour: optional(limit),
    day: optional(limit),
    bans: fc.option(
      fc.record({
        after: fc.integer({ min: 1, max: 6 }),
        withinMs: fc.constantFrom(1_000, 60_000, 600_000),
        firstMs: fc.constantFrom(1_000, 1_500, 60_000),
        factor: fc.constantFrom(1, 1.1, 1.5, 2, 3.3),
        longestMs: fc.constantFrom(60_000, 3_600_000),
        forgetMs: fc.constantFrom(1_000, 60_000, 86_400_000),
      }),
      { nil: null },
    ),
  })
  .map(({ bans, ...limits }) =>
    allowance(Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)), bans),
  );

/** Random histories of one consumer: bursts, pauses of every length, clocks set back, plans that change on the way. */
export const histories: fc.Arbitrary<readonly Step[]> = fc.array(plan, { minLength: 1, maxLength: 3 }).chain((plans) =>
  fc.array(
    fc.record({
      afterMs: fc.oneof(
        { weight: 6, arbitrary: fc.integer({ min: 0, max: 2_000 }) },
        { weight: 3, arbitrary: fc.constantFrom(999, 1_000, 59_999, 60_000, 60_001, 3_600_000, 86_400_000) },
        { weight: 1, arbitrary: fc.integer({ min: -4_000_000, max: 0 }) },
      ),
      plan: fc.constantFrom(...plans),
      cost: fc.oneof(
        { weight: 4, arbitrary: fc.constant(1) },
        { weight: 1, arbitrary: fc.integer({ min: 1, max: 13 }) },
      ),
      n: fc.integer({ min: 0, max: 9 }),
    }),
    { minLength: 1, maxLength: 25 },
  ),
);
