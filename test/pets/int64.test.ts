import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN, parseInt64, toJson } from '../../src/pets/pet.ts';

const SEED = { seed: 64, numRuns: 500 };
const int64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });

describe('int64', () => {
  test('every int64 is read and written back without losing a digit', () => {
    fc.assert(
      fc.property(int64, (value) => {
        expect(parseInt64(toJson(value))).toBe(value);
        expect(toJson({ value: [value] })).toBe(`{"value":[${value}]}`);
      }),
      SEED,
    );
  });

  test('a number just outside int64, or any further out, is refused', () => {
    const outside = fc.bigInt({ min: 1n, max: 2n ** 200n });
    fc.assert(
      fc.property(outside, (distance) => {
        expect(parseInt64(String(INT64_MAX + distance))).toBeNull();
        expect(parseInt64(String(INT64_MIN - distance))).toBeNull();
      }),
      SEED,
    );
  });

  test('whatever is accepted was written in the one canonical way', () => {
    const nearMiss = fc.string({ unit: fc.constantFrom(...'0123456789-+.eE "x\n'), maxLength: 22 });
    fc.assert(
      fc.property(nearMiss, (text) => {
        const value = parseInt64(text);
        expect(value === null || String(value) === text).toBe(true);
      }),
      { ...SEED, numRuns: 2_000 },
    );
  });

  test.each(['', '-', '-0', '+1', '01', '-01', '1.0', '1e3', '0x1', '1n', ' 1', '1 ', '1_0', '"1"', 'null', '１'])(
    '%j is no int64',
    (text) => expect(parseInt64(text)).toBeNull(),
  );

  test('a megabyte of digits is refused without converting it', () => {
    expect(parseInt64('9'.repeat(1_000_000))).toBeNull();
  });

  test('JSON without big integers is what JSON.stringify makes of it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => toJson(value) === JSON.stringify(value)),
      SEED,
    );
  });
});
