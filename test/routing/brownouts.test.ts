import { expect, test } from 'vitest';
import { type Brownout, brownoutEndMs } from '../../src/routing/brownouts.ts';

const at = (text: string) => Date.parse(text);
const once = (from: string, to: string): Brownout => ({ kind: 'once', fromMs: at(from), toMs: at(to) });
/** Tuesdays and Thursdays, 9:30 to 10:00 in UTC. */
const WEEKLY: Brownout = { kind: 'weekly', days: [2, 4], fromMinute: 570, toMinute: 600 };
const NIGHT: Brownout[] = [
  { kind: 'weekly', days: [5], fromMinute: 1380, toMinute: 1440 },
  { kind: 'weekly', days: [6], fromMinute: 0, toMinute: 60 },
];

test.each([
  ['none', [], '2030-01-01T00:00:00Z', null],
  ['before', [once('2030-01-01T00:00:00Z', '2030-01-01T01:00:00Z')], '2029-12-31T23:59:59.999Z', null],
  [
    'from its first moment',
    [once('2030-01-01T00:00:00Z', '2030-01-01T01:00:00Z')],
    '2030-01-01T00:00:00Z',
    '2030-01-01T01:00:00Z',
  ],
  ['not at its end', [once('2030-01-01T00:00:00Z', '2030-01-01T01:00:00Z')], '2030-01-01T01:00:00Z', null],
  ['a Tuesday at 9:29:59', [WEEKLY], '2030-11-05T09:29:59.999Z', null],
  ['a Tuesday at 9:30', [WEEKLY], '2030-11-05T09:30:00Z', '2030-11-05T10:00:00Z'],
  ['a Wednesday at 9:45', [WEEKLY], '2030-11-06T09:45:00Z', null],
  ['a Thursday at 9:45', [WEEKLY], '2030-11-07T09:45:00Z', '2030-11-07T10:00:00Z'],
  ['over midnight, as two that follow each other', NIGHT, '2030-11-08T23:30:00Z', '2030-11-09T01:00:00Z'],
  [
    'of two that overlap the later end',
    [once('2030-01-01T00:00:00Z', '2030-01-01T01:00:00Z'), once('2030-01-01T00:30:00Z', '2030-01-01T02:00:00Z')],
    '2030-01-01T00:15:00Z',
    '2030-01-01T02:00:00Z',
  ],
])('%s', (_name, brownouts, now, end) => {
  expect(brownoutEndMs(brownouts, at(now))).toBe(end === null ? null : at(end));
});

test('one that never ends is an end all the same', () => {
  const always: Brownout = { kind: 'weekly', days: [0, 1, 2, 3, 4, 5, 6], fromMinute: 0, toMinute: 1440 };
  const endMs = brownoutEndMs([always], at('2030-01-01T00:00:00Z'))!;
  expect(endMs).toBeGreaterThan(at('2030-12-31T00:00:00Z'));
  expect(endMs).toBeLessThan(at('2031-01-05T00:00:00Z'));
});
