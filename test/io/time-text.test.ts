import { expect, test } from 'vitest';
import { daysUntil, durationText, momentText } from '../../src/io/time-text.ts';

const NOW_MS = Date.UTC(2026, 0, 31, 12);
const [S, MIN, H, D] = [1_000, 60_000, 3_600_000, 86_400_000];

test.each([
  [0, 'now'],
  [1, 'in 1 s'],
  [34 * S, 'in 34 s'],
  [118_001, 'in 119 s'],
  [119_001, 'in 2 min'],
  [119 * MIN, 'in 119 min'],
  [119 * MIN + 1, 'in 2 h'],
  [2 * H + 1, 'in 3 h'],
  [47 * H, 'in 47 h'],
  [47 * H + 1, 'in 2 d'],
  [90 * D - 1, 'in 90 d'],
  [-999, 'now'],
  [-S, '1 s ago'],
  [-120 * S + 1, '119 s ago'],
  [-120 * S, '2 min ago'],
  [-3 * MIN - 59 * S, '3 min ago'],
  [-2 * H, '2 h ago'],
  [-48 * H + 1, '47 h ago'],
  [-48 * H, '2 d ago'],
  [-800 * D, '800 d ago'],
])('%i ms from now is on a terminal %j', (ms, text) => {
  expect(momentText(NOW_MS + ms, NOW_MS, { isTerminal: true })).toBe(text);
});

test('elsewhere a moment is ISO 8601 in UTC', () => {
  expect(momentText(NOW_MS + 34 * S, NOW_MS, { isTerminal: false })).toBe('2026-01-31T12:00:34.000Z');
});

test.each([
  [0, '0 ms'],
  [250, '250 ms'],
  [1_500, '1500 ms'],
  [60 * S, '1 min'],
  [90 * S, '90 s'],
  [H, '1 h'],
  [36 * H, '36 h'],
  [7 * D, '7 d'],
])('a duration of %i ms is %j, exactly', (ms, text) => {
  expect(durationText(ms)).toBe(text);
});

test.each([
  [26.1 * D, 27],
  [26 * D, 26],
  [1, 1],
  [0, 0],
])('a moment in %d ms is so many days away, rounded up as a command writes it', (ms, days) => {
  expect(daysUntil(NOW_MS + ms, NOW_MS)).toBe(days);
  if (days > 2) expect(momentText(NOW_MS + ms, NOW_MS, { isTerminal: true })).toBe(`in ${days} d`);
});
