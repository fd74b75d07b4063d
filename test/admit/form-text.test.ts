import { expect, test } from 'vitest';
import { formText, limitText } from '../../src/admit/form-text.ts';
import type { Limit } from '../../src/admit/plan.ts';
import type { WindowForm, WindowName } from '../../src/admit/windows.ts';

const calendar = (zone: string, anchor: number): WindowForm => ({ calendar: { unit: 'month', zone, anchor } });

test.each<[WindowName, Limit | 'custom' | undefined, WindowForm | undefined, string, string]>([
  ['minute', 60, undefined, 'fixed', '60'],
  ['minute', 60, { slices: 12 }, 'sliding, 12 slices', '60 (sliding, 12 slices)'],
  ['month', 0, undefined, 'calendar, UTC', '0 (calendar, UTC)'],
  [
    'month',
    'custom',
    calendar('Europe/Berlin', 15),
    'calendar, Europe/Berlin, from day 15',
    'custom (calendar, Europe/Berlin, from day 15)',
  ],
  ['month', 'unlimited', calendar('Asia/Tokyo', 1), 'calendar, Asia/Tokyo', 'unlimited'],
  ['day', undefined, { slices: 4 }, 'sliding, 4 slices', ''],
])('a %s of %s by %o is %s, and with its limit %j', (window, limit, form, text, withLimit) => {
  expect(formText(window, form)).toBe(text);
  expect(limitText(window, limit, form)).toBe(withLimit);
});
