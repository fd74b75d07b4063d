import { expect, test } from 'vitest';
import { momentFrom, pastFrom } from '../../src/operations/operation-values.ts';

const NOW_MS = Date.UTC(2026, 10, 27, 17, 33);

test.each([
  ['yesterday', '2026-11-26T00:00:00Z'],
  ['today', '2026-11-27T00:00:00Z'],
  ['tomorrow', '2026-11-28T00:00:00Z'],
  ['2026-11-28', '2026-11-28T00:00:00Z'],
])('%s is the midnight UTC at which that day begins', (text, time) => {
  expect(momentFrom(text, NOW_MS)).toBe(Date.parse(time));
  expect(pastFrom(text, NOW_MS)).toBe(Date.parse(time));
});

test('a duration is from now, or before it, and another word is no moment', () => {
  expect([momentFrom('24h', NOW_MS), pastFrom('24h', NOW_MS)]).toEqual([NOW_MS + 86_400_000, NOW_MS - 86_400_000]);
  for (const text of ['Tomorrow', 'next week', '', 'constructor', '__proto__', 'toString'])
    expect([momentFrom(text, NOW_MS), pastFrom(text, NOW_MS)], text).toEqual([null, null]);
});
