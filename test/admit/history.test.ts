import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bucketsOf, expanded, type History, lastUsedMsOf } from '../../src/admit/history.ts';
import { DAYS_KEPT, HOURS_KEPT, hourOf } from '../../src/engine/history-form.ts';
import { historyEndsAtMs, packed } from '../../src/engine/history-moves.ts';
import { recordAdmitted, recordRefused } from '../../src/stores/embedded/history-costs.ts';

const HOUR_MS = 3_600_000;
// The first hour of a day.
const DAY = 20_000;
const HOUR = DAY * 24;

const buckets = (history: History, step: 'hour' | 'day', hour: number) =>
  bucketsOf(history, step, hour * HOUR_MS).map(({ atMs, admitted, refused, banned }) => [
    atMs / HOUR_MS - HOUR,
    admitted,
    refused,
    banned,
  ]);
const after = (history: History | null, ...steps: readonly (readonly [hour: number, cost: number])[]) =>
  steps.reduce<History | null>((all, [hour, cost]) => recordAdmitted(all, (HOUR + hour) * HOUR_MS, cost), history)!;

test('cost is counted in its hour and its day', () => {
  const history = after(null, [0, 1], [0, 2], [23, 10], [24, 100]);
  expect(buckets(history, 'hour', HOUR + 24)).toEqual([
    [0, 3, 0, 0],
    [23, 10, 0, 0],
    [24, 100, 0, 0],
  ]);
  expect(buckets(history, 'day', HOUR + 24)).toEqual([
    [0, 13, 0, 0],
    [24, 100, 0, 0],
  ]);
  expect(lastUsedMsOf(history)).toBe((HOUR + 24) * HOUR_MS);
});

test('cost of an earlier hour is added where it belongs, up to 47 hours back; beyond that all begins anew', () => {
  const history = after(null, [47, 1], [0, 2]);
  expect(buckets(history, 'hour', HOUR + 47)).toEqual([
    [0, 2, 0, 0],
    [47, 1, 0, 0],
  ]);
  expect(buckets(after(history, [-1, 5]), 'hour', HOUR - 1)).toEqual([[-1, 5, 0, 0]]);
});

test('an hour is kept for 48 hours and a day for 92 days, whatever comes in between', () => {
  const last = after(null, [0, 1], [HOURS_KEPT - 1, 2]);
  expect(buckets(last, 'hour', HOUR + HOURS_KEPT - 1)).toHaveLength(2);
  expect(buckets(last, 'hour', HOUR + HOURS_KEPT)).toEqual([[HOURS_KEPT - 1, 2, 0, 0]]);
  // The place of the first hour is used again, and holds nothing of it.
  expect(buckets(after(last, [HOURS_KEPT, 4]), 'hour', HOUR + HOURS_KEPT)).toEqual([
    [47, 2, 0, 0],
    [48, 4, 0, 0],
  ]);
  expect(buckets(after(null, [0, 1], [1_000, 2]), 'hour', HOUR + 1_000)).toEqual([[1_000, 2, 0, 0]]);
  const days = after(null, [0, 1], [24 * (DAYS_KEPT - 1), 2]);
  expect(buckets(days, 'day', HOUR + 24 * (DAYS_KEPT - 1))).toEqual([
    [0, 1, 0, 0],
    [24 * 91, 2, 0, 0],
  ]);
  expect(buckets(days, 'day', HOUR + 24 * DAYS_KEPT)).toEqual([[24 * 91, 2, 0, 0]]);
  expect(buckets(after(days, [24 * DAYS_KEPT, 4]), 'day', HOUR + 24 * DAYS_KEPT)).toEqual([
    [2184, 2, 0, 0],
    [2208, 4, 0, 0],
  ]);
  expect(buckets(after(null, [0, 1], [24 * 200, 2]), 'day', HOUR + 24 * 200)).toEqual([[4_800, 2, 0, 0]]);
});

test('what is later than the clock is left out', () => {
  const history = after(null, [0, 1], [30, 2]);
  expect(buckets(history, 'hour', HOUR + 29)).toEqual([[0, 1, 0, 0]]);
  expect(buckets(history, 'day', HOUR + 23)).toEqual([[0, 1, 0, 0]]);
});

test('refusals count for the last hour, and of a past hour and day they are kept in a byte each', () => {
  let history = recordRefused(null, HOUR * HOUR_MS, 3, 100);
  history = recordRefused(history, (HOUR - 5) * HOUR_MS, 1, 0);
  expect(buckets(history, 'hour', HOUR)).toEqual([[0, 0, 4, 100]]);
  history = recordRefused(history, (HOUR + 1) * HOUR_MS, 10, 0);
  expect(buckets(history, 'hour', HOUR + 1)).toEqual([
    [0, 0, 4, 100],
    [1, 0, 10, 0],
  ]);
  expect(buckets(history, 'day', HOUR + 1)).toEqual([[0, 0, 14, 100]]);
  history = recordRefused(history, (HOUR + 24) * HOUR_MS, 0, 7);
  expect(buckets(history, 'hour', HOUR + 24)).toEqual([
    [0, 0, 4, 100],
    [1, 0, 10, 0],
    [24, 0, 0, 7],
  ]);
  expect(buckets(history, 'day', HOUR + 24)).toEqual([
    [0, 0, 14, 100],
    [24, 0, 0, 7],
  ]);
  // Their places are used again, and hold nothing of them.
  const hours = recordRefused(Uint8Array.from(history), (HOUR + 24 + 48) * HOUR_MS, 1, 1);
  expect(buckets(hours, 'hour', HOUR + 72)).toEqual([[72, 0, 1, 1]]);
  const days = recordAdmitted(recordRefused(history, (HOUR + 24 * 93) * HOUR_MS, 1, 1), (HOUR + 24 * 93) * HOUR_MS, 1);
  expect(buckets(days, 'day', HOUR + 24 * 93)).toEqual([[24 * 93, 1, 1, 1]]);
});

test('a cost and a count that are too large stay at the largest', () => {
  const large = after(null, [0, 2 ** 40 - 2], [0, 1]);
  expect(buckets(large, 'hour', HOUR)).toEqual([[0, 2 ** 40 - 1, 0, 0]]);
  expect(buckets(after(large, [0, 5]), 'day', HOUR)).toEqual([[0, 2 ** 40 - 1, 0, 0]]);
  const refused = recordRefused(recordRefused(null, HOUR * HOUR_MS, 2 ** 32 - 2, 1), HOUR * HOUR_MS, 5, 0);
  expect(buckets(refused, 'hour', HOUR)).toEqual([[0, 0, 2 ** 32 - 1, 1]]);
});

test('a byte is exact to 15 and then within 7 %', () => {
  expect([0, 1, 15, 16, 17, 18, 31, 32, 33].map((count) => packed(count))).toEqual([0, 1, 15, 16, 16, 17, 23, 24, 24]);
  expect([0, 15, 16, 17, 23, 24, 31].map((byte) => expanded(byte))).toEqual([0, 15, 17, 19, 31, 34, 62]);
  for (let count = 1; count < 2 ** 32; count = Math.ceil(count * 1.3)) {
    expect(packed(count)).toBeLessThan(256);
    expect(Math.abs(expanded(packed(count)) - count) / count).toBeLessThan(0.07);
  }
});

test('a history ends 92 days after the hour that was counted in last', () => {
  expect(historyEndsAtMs(0)).toBe((1 + 92 * 24) * HOUR_MS);
  expect([0, HOUR_MS - 1, HOUR_MS].map(hourOf)).toEqual([0, 0, 1]);
});

test('each hour of the last 48 and each day of the last 92 is there, and their sums agree', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ pause: fc.nat(3), cost: fc.integer({ min: 1, max: 1_000_000 }) }), {
        minLength: 1,
        maxLength: 300,
      }),
      (uses) => {
        let history: History | null = null;
        let hour = HOUR;
        const byHour = new Map<number, number>();
        for (const { pause, cost } of uses) {
          hour += pause;
          history = recordAdmitted(history, hour * HOUR_MS, cost);
          byHour.set(hour, (byHour.get(hour) ?? 0) + cost);
        }
        const inHours = [...byHour].filter(([one]) => one > hour - 48).map(([one, cost]) => [one - HOUR, cost, 0, 0]);
        expect(buckets(history!, 'hour', hour)).toEqual(inHours);
        const total = [...byHour.values()].reduce((sum, cost) => sum + cost, 0);
        expect(buckets(history!, 'day', hour).reduce((sum, [, cost]) => sum + cost!, 0)).toBe(total);
      },
    ),
    { seed: 20261122, numRuns: 500 },
  );
});
