import { expect, test } from 'vitest';
import type { History } from '../../src/admit/history.ts';
import { askedUnit, historyReport, instantText, readHistories } from '../../src/admit/history-report.ts';
import type { ReadHistory } from '../../src/admit/history-store.ts';
import { recordAdmitted, recordRefused } from '../../src/stores/embedded/history-costs.ts';

const HOUR_MS = 3_600_000;
const HOUR = Math.floor(Date.parse('2026-11-22T05:00:00Z') / HOUR_MS);
const nowMs = (HOUR + 2) * HOUR_MS + 5;

/** Cost by hours after the first. */
function historyOf(admitted: Readonly<Record<number, number>>, refused = 0, banned = 0): ReadHistory {
  let history: History | null = null;
  for (const [hour, cost] of Object.entries(admitted))
    history = recordAdmitted(history, (HOUR + Number(hour)) * HOUR_MS, cost);
  return { history: recordRefused(history, HOUR * HOUR_MS, refused, banned), nowMs };
}

test('histories are summed hour by hour, the oldest first, and what is missing is left out', () => {
  const report = historyReport([historyOf({ 1: 5 }, 2, 3), null, historyOf({ 0: 7, 1: 20, 2: 1 })], 'hour');
  expect(report).toEqual({
    step: 'hour',
    buckets: [
      { at: '2026-11-22T05:00:00Z', admitted: 7, refused: 0, banned: 0 },
      { at: '2026-11-22T06:00:00Z', admitted: 25, refused: 2, banned: 3 },
      { at: '2026-11-22T07:00:00Z', admitted: 1, refused: 0, banned: 0 },
    ],
  });
});

test('refusals and bans of two histories are summed too', () => {
  const { buckets } = historyReport([historyOf({ 0: 1 }, 2, 3), historyOf({ 0: 1 }, 10, 20)], 'day');
  expect(buckets).toEqual([{ at: '2026-11-22T00:00:00Z', admitted: 2, refused: 12, banned: 23 }]);
});

test('an hour belongs to a span that it overlaps with', () => {
  const hoursIn = (fromMs: number, toMs: number) =>
    historyReport([historyOf({ 0: 1, 1: 2, 2: 3 })], 'hour', { fromMs, toMs }).buckets.map(({ admitted }) => admitted);
  const at = (hours: number) => (HOUR + hours) * HOUR_MS;
  expect(hoursIn(at(1), at(2))).toEqual([2]);
  expect(hoursIn(at(1) - 1, at(2) + 1)).toEqual([1, 2, 3]);
  expect(hoursIn(at(0), at(1))).toEqual([1]);
  expect(hoursIn(at(3), at(9))).toEqual([]);
});

test('of a consumer its own history and that of its shadow are read', async () => {
  const asked: string[] = [];
  const of = async (id: string) => {
    asked.push(id);
    return null;
  };
  await readHistories({ of }, 'key_1');
  await readHistories({ of }, 'key_1', 'tokens');
  expect(asked).toEqual(['key_1', 'key_1~shadow', 'key_1%tokens', 'key_1~shadow%tokens']);
  expect(historyReport([null], 'hour', undefined, 'tokens')).toEqual({ step: 'hour', unit: 'tokens', buckets: [] });
});

test('an instant is a whole second in UTC', () => {
  expect(instantText(Date.parse('2026-11-22T05:06:07.999Z'))).toBe('2026-11-22T05:06:07Z');
});

test.each([
  [null, { unit: null }],
  ['requests', { unit: null }],
  ['tokens', { unit: 'tokens' }],
  ['token', { fault: '--unit must be one of: requests, tokens, rows.' }],
])('asked for the unit %j, it is %o', (text, asked) => {
  expect(askedUnit(text, ['tokens', 'rows'], '--unit')).toEqual(asked);
});
