import { expect, test } from 'vitest';
import {
  formText,
  groupText,
  type Limit,
  limitsText,
  limitText,
  partText,
  type WindowForm,
} from '../../src/model/plan.ts';
import type { WindowName } from '../../src/model/values.ts';

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
  expect(limitText(window, { limits: { [window]: limit }, forms: form && { [window]: form } })).toBe(withLimit);
});

const FORMS = { minute: { slices: 12 } };
const UNITS = [
  { name: 'tokens', limits: { month: 'unlimited', minute: 100 }, forms: FORMS },
  { name: 'rows', limits: { day: 7 }, forms: {} },
] as const;
const UNITS_TEXT = 'tokens-minute 100 (sliding, 12 slices), tokens-month unlimited, rows-day 7';

test('limits in words are those that there are, the shortest window first', () => {
  expect(limitsText({ limits: { day: 1000, minute: 60 }, forms: FORMS })).toBe(
    'minute 60 (sliding, 12 slices), day 1000',
  );
  expect(limitsText({ limits: { minute: 60 } })).toBe('minute 60');
  expect(limitsText({ limits: {}, forms: FORMS })).toBe('');
});

test('a part of a plan in words is its limits, what may be in flight, and each of its units, as far as there are any', () => {
  expect(partText({ limits: {} })).toBe('');
  expect(partText({ limits: {}, forms: {}, inFlight: 5 })).toBe('5 in flight');
  expect(partText({ limits: { minute: 300 }, forms: {}, inFlight: 5, units: UNITS })).toBe(
    `minute 300, 5 in flight, ${UNITS_TEXT}`,
  );
});

test('a group of routes is its limits and units, whether they replace those of the plan, and its routes', () => {
  const group = { name: 'search', limits: { minute: 10 }, forms: {}, units: UNITS, instead: false };
  expect(groupText({ ...group, routes: ['/v1/search/**'] })).toBe(`minute 10, ${UNITS_TEXT} on /v1/search/**`);
  expect(groupText({ ...group, units: [], instead: true, routes: ['/a', 'POST /b'] })).toBe(
    'minute 10 instead, on /a, POST /b',
  );
});
