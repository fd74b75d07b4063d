import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Calendar } from '../../src/admit/calendar.ts';
import { decide } from '../../src/admit/decision.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { CalendarForm } from '../../src/model/plan.ts';
import { allowance } from '../support/allowance.ts';

const HOUR = 3_600_000;
const period = (unit: CalendarForm['unit'], zone: string, at: string, anchor = 1) => {
  const { startsAtMs, endsAtMs } = new Calendar({ unit, zone, anchor }).periodAt(Date.parse(at));
  return [new Date(startsAtMs).toISOString().slice(0, 16), new Date(endsAtMs).toISOString().slice(0, 16)];
};

describe('a day', () => {
  test.each([
    ['Europe/Berlin', '2026-03-29T10:00Z', '2026-03-28T23:00', '2026-03-29T22:00'],
    ['Europe/Berlin', '2026-10-25T00:30Z', '2026-10-24T22:00', '2026-10-25T23:00'],
    ['America/New_York', '2026-03-08T12:00Z', '2026-03-08T05:00', '2026-03-09T04:00'],
    ['America/New_York', '2026-11-01T05:30Z', '2026-11-01T04:00', '2026-11-02T05:00'],
    // The clocks change at midnight: the day begins at 01:00.
    ['Africa/Cairo', '2026-04-24T12:00Z', '2026-04-23T22:00', '2026-04-24T21:00'],
    // Lord Howe Island changes them by half an hour.
    ['Australia/Lord_Howe', '2026-04-05T00:00Z', '2026-04-04T13:00', '2026-04-05T13:30'],
    // Samoa left out 30 December 2011.
    ['Pacific/Apia', '2011-12-30T10:01Z', '2011-12-30T10:00', '2011-12-31T10:00'],
    ['Asia/Kathmandu', '2026-06-01T00:00Z', '2026-05-31T18:15', '2026-06-01T18:15'],
    ['UTC', '2026-06-01T23:59Z', '2026-06-01T00:00', '2026-06-02T00:00'],
  ])('in %s at %s is one period, of 23, 24 or 25 hours', (zone, at, from, to) => {
    expect(period('day', zone, at)).toEqual([from, to]);
  });
});

describe('a month', () => {
  test.each([
    ['2026-02-10T00:00Z', 1, '2026-02-01T00:00', '2026-03-01T00:00'],
    ['2026-02-10T00:00Z', 15, '2026-01-15T00:00', '2026-02-15T00:00'],
    ['2026-02-15T00:00Z', 15, '2026-02-15T00:00', '2026-03-15T00:00'],
    // A month begins on its last day if it has no 29th, 30th or 31st.
    ['2026-02-27T23:59Z', 29, '2026-01-29T00:00', '2026-02-28T00:00'],
    ['2028-02-28T00:00Z', 29, '2028-01-29T00:00', '2028-02-29T00:00'],
    ['2028-02-29T00:00Z', 30, '2028-02-29T00:00', '2028-03-30T00:00'],
    ['2026-04-30T12:00Z', 31, '2026-04-30T00:00', '2026-05-31T00:00'],
    ['2025-12-31T12:00Z', 31, '2025-12-31T00:00', '2026-01-31T00:00'],
  ])('at %s with anchor %i', (at, anchor, from, to) => {
    expect(period('month', 'UTC', at, anchor)).toEqual([from, to]);
  });

  test('begins at midnight of its zone', () => {
    expect(period('month', 'America/Sao_Paulo', '2026-02-15T02:59Z', 15)).toEqual([
      '2026-01-15T03:00',
      '2026-02-15T03:00',
    ]);
  });
});

test('a week begins on Monday, and with a change of the clocks it has an hour more or less', () => {
  expect(period('week', 'America/New_York', '2026-03-08T12:00Z')).toEqual(['2026-03-02T05:00', '2026-03-09T04:00']);
  expect(period('week', 'UTC', '2026-11-22T23:59Z')).toEqual(['2026-11-16T00:00', '2026-11-23T00:00']);
});

test('an hour is one on the clock, also where clocks differ by half an hour or change by it', () => {
  expect(period('hour', 'Asia/Kolkata', '2026-10-25T10:10Z')).toEqual(['2026-10-25T09:30', '2026-10-25T10:30']);
  expect(period('hour', 'Australia/Lord_Howe', '2026-04-04T15:10Z')).toEqual(['2026-04-04T15:00', '2026-04-04T15:30']);
});

test('periods follow each other without a gap, and contain what they are asked for', () => {
  const zones = [
    'UTC',
    'Europe/Berlin',
    'America/St_Johns',
    'Australia/Lord_Howe',
    'Africa/Cairo',
    'Pacific/Apia',
    'Asia/Gaza',
  ];
  fc.assert(
    fc.property(
      fc.constantFrom<CalendarForm['unit']>('hour', 'day', 'week', 'month'),
      fc.constantFrom(...zones),
      fc.integer({ min: 1, max: 31 }),
      fc.integer({ min: Date.parse('2000-01-01'), max: Date.parse('2040-01-01') }),
      (unit, zone, anchor, ms) => {
        const calendar = new Calendar({ unit, zone, anchor });
        const now = calendar.periodAt(ms);
        expect(now.startsAtMs).toBeLessThanOrEqual(ms);
        expect(now.endsAtMs).toBeGreaterThan(ms);
        expect(calendar.periodAt(now.endsAtMs).startsAtMs).toBe(now.endsAtMs);
        expect(calendar.periodAt(now.startsAtMs - 1).endsAtMs).toBe(now.startsAtMs);
        expect(calendar.periodAt(now.startsAtMs)).toEqual(now);
        expect(calendar.periodAt(now.endsAtMs - 1)).toEqual(now);
      },
    ),
    { seed: 20261122, numRuns: 3_000 },
  );
});

describe('a calendar window', () => {
  const day = allowance({ day: 10 }, {}, { day: { calendar: { unit: 'day', zone: 'Europe/Berlin', anchor: 1 } } });
  const noon = Date.parse('2026-10-25T11:00Z');

  test('ends with its period, however late it opened, and the next one has the whole limit', () => {
    const [state] = decide([UNSEEN], day, noon, 1, 10).accounts;
    expect(state.windows.day).toEqual({ used: 10, endsAtMs: noon + 12 * HOUR });
    expect(decide([state], day, noon + 12 * HOUR - 1, 1, 1).admitted).toBe(0);
    expect(decide([state], day, noon + 12 * HOUR, 1, 11).admitted).toBe(10);
  });

  test('holds until its end whatever another gateway knows of time zones, and moves no later', () => {
    const other = allowance({ day: 10 }, {}, { day: { calendar: { unit: 'day', zone: 'Europe/London', anchor: 1 } } });
    const [state] = decide([UNSEEN], day, noon, 1, 10).accounts;
    expect(decide([state], other, noon + HOUR, 1, 1)).toMatchObject({
      admitted: 0,
      accounts: [{ windows: state.windows }],
    });
  });

  test('takes over what a fixed window has counted, and is taken over by one', () => {
    const fixed = allowance({ day: 10 });
    const [state] = decide([UNSEEN], fixed, noon, 1, 6).accounts;
    const inDay = decide([state], day, noon + HOUR, 1, 1).accounts[0];
    expect(inDay.windows.day).toEqual({ used: 7, endsAtMs: noon + 12 * HOUR });
    expect(decide([inDay], fixed, noon + 2 * HOUR, 1, 1).accounts[0].windows.day).toEqual({
      used: 8,
      endsAtMs: noon + 12 * HOUR,
    });
  });
});
