import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  addCells,
  type Cells,
  DIMENSIONS,
  decodeNames,
  decodeRecord,
  encodeNames,
  encodeRecord,
  nameOf,
  newCells,
  newRecord,
  othersOf,
  quantileMs,
  requestsIn,
  type TrafficRecord,
} from '../../../src/operations/traffic/traffic-record.ts';
import { bucketOf, statusCellOf } from '../../../src/telemetry/traffic-counter.ts';

/** A series with these requests: their status and how long each took. */
function cells(...requests: readonly (readonly [status: number, totalMs: number])[]): Cells {
  const counted = newCells();
  for (const [status, totalMs] of requests) {
    counted[statusCellOf(status)]!++;
    counted[bucketOf(totalMs)]!++;
  }
  return counted;
}

const number = fc.nat({ max: 2 ** 40 });
const record = fc
  .record({
    reports: number,
    lost: number,
    marks: fc.uniqueArray(fc.nat({ max: 2 ** 32 - 1 }), { maxLength: 64 }),
    series: fc.uniqueArray(fc.tuple(fc.nat({ max: 299 }), fc.array(number, { minLength: 16, maxLength: 16 })), {
      selector: ([id]) => id,
    }),
  })
  .map(
    ({ marks, series, ...rest }): TrafficRecord => ({
      ...rest,
      marks: new Set(marks),
      series: new Map(series.map(([id, counts]) => [id, Float64Array.from(counts)])),
    }),
  );
const names = Array.from({ length: 300 }, (_, i) => nameOf(DIMENSIONS[i % 4]!, `value ${i}`));

describe('a record of traffic', () => {
  test('is read as it was written', () => {
    fc.assert(
      fc.property(record, (one) => {
        const read = decodeRecord(encodeRecord({ ...one, series: new Map(one.series) }, names, Infinity))!;
        expect({ ...read, series: [...read.series] }).toEqual({
          ...one,
          series: [...one.series].sort(([a], [b]) => a - b),
        });
      }),
    );
  });

  test('that is too large counts series together and loses no request of any dimension', () => {
    const sums = ({ series }: TrafficRecord) =>
      DIMENSIONS.map((dimension) => {
        const sum = newCells();
        for (const [id, counts] of series) {
          if (id === othersOf(dimension) || (id > 3 && names[id - 4]!.startsWith(dimension))) addCells(sum, counts);
        }
        return [...sum];
      });
    fc.assert(
      fc.property(record, fc.integer({ min: 900, max: 3_000 }), (one, maxBytes) => {
        const before = sums(one);
        const bytes = encodeRecord(one, names, maxBytes);
        expect(bytes.length).toBeLessThanOrEqual(maxBytes);
        expect(sums(decodeRecord(bytes)!)).toEqual(before);
      }),
    );
  });

  test('that is damaged, or of a later version, is none', () => {
    const bytes = encodeRecord({ ...newRecord(), series: new Map([[5, cells([200, 3])]]) }, names, Infinity);
    expect(decodeRecord(Buffer.concat([Buffer.of(2), bytes.subarray(1)]))).toBeNull();
    expect(decodeRecord(Buffer.from('anything'))).toBeNull();
    expect(decodeRecord(bytes.subarray(0, 4))).toBeNull();
    expect(decodeRecord(Buffer.alloc(0))).toBeNull();
    expect(decodeNames(bytes)).toBeNull();
    expect(decodeNames(encodeNames(['route /ü', 'plan']))).toEqual(['route /ü', 'plan']);
  });
});

test.each([
  [[], 0.5, null],
  [[[200, 3]], 0.5, 2.5],
  [
    [
      [200, 3],
      [200, 30],
    ],
    0.99,
    49.5,
  ],
  [[[200, 60_000]], 0.5, 10_000],
] as const)('of requests %j the latency of the part %d is %s ms', (requests, part, expected) => {
  expect(quantileMs(cells(...requests), part)).toBe(expected);
});

test.each([
  [101, '1xx'],
  [204, '2xx'],
  [308, '3xx'],
  [499, '4xx'],
  [504, '5xx'],
  [0, '5xx'],
])('a request that ended with %d is counted as %s', (status, expected) => {
  expect(`${statusCellOf(status) + 1}xx`).toBe(expected);
  expect(requestsIn(cells([status, 1]))).toBe(1);
});
