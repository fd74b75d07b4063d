import { expect, test } from 'vitest';
import { Recording } from '../../src/simulate/recording.ts';
import { lineOf } from './recorded.ts';

const T = 1_790_000_000_000;
const units = [{ unit: 'tokens', reserved: 5, settled: 3, why: null }];

test('a recording grows with the log, and its rows are read in the order of the decisions', () => {
  const recording = new Recording();
  recording.read(lineOf({ decidedAtMs: T + 9 }).repeat(70_000));
  recording.read(lineOf({ decidedAtMs: T + 1 }).repeat(70_000));
  const momentsMs: number[] = [];
  recording.inOrderOfDecision((rows, row) => momentsMs.push(rows.momentMs(row) - T));
  expect(momentsMs).toEqual([...new Array(70_000).fill(1), ...new Array(70_000).fill(9)]);
});

test('a log that is too long is refused with a sentence that says what to do; each unit counts as a decision', () => {
  const tooLong = /^The log has more than 10 decisions, .+ Give the lines of a shorter time, .*`grep .+`\.$/;
  const recording = new Recording(null, 10);
  recording.read(lineOf({}).repeat(10));
  expect(() => recording.read(lineOf({}))).toThrow(tooLong);
  const inUnits = new Recording(null, 10);
  inUnits.read(lineOf({ units }).repeat(5));
  expect(inUnits.census.lines).toBe(5);
  expect(() => inUnits.read(lineOf({ units }))).toThrow(tooLong);
});
