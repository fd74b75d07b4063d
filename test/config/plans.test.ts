import { describe, expect, test } from 'vitest';
import { DEFAULT_BANS, parsePlans } from '../../src/config/plans-schema.ts';
import type { Plans } from '../../src/model/plan.ts';

function plansOf(text: string): Plans {
  const parsed = parsePlans(text, 'plans.yaml');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.value;
}

const FREE = 'plans: { free: { limits: { minute: 60 } } }\n';

describe('plans.yaml', () => {
  test('bans and failed authentications that are left out are those of the contract', () => {
    const plans = plansOf(FREE);
    expect(plans.failedAuthenticationPerMinute).toBe(30);
    expect(plans.plans.get('free')?.bans).toEqual({
      after: 10,
      withinMs: 60_000,
      firstMs: 60_000,
      factor: 2,
      longestMs: 86_400_000,
      forgetMs: 86_400_000,
    });
  });

  test('a plan takes from the bans of all plans what it does not set itself', () => {
    const { plans } = plansOf(
      'plans:\n  a: { limits: { day: 1 } }\n  b: { limits: { day: 1 }, bans: { after: 3 } }\n' +
        '  c: { limits: { day: 1 }, bans: off }\nbans: { after: 5, first: 2m }\n',
    );
    expect(plans.get('a')?.bans).toEqual({ ...DEFAULT_BANS, after: 5, firstMs: 120_000 });
    expect(plans.get('b')?.bans).toEqual({ ...DEFAULT_BANS, after: 3, firstMs: 120_000 });
    expect(plans.get('c')?.bans).toBeNull();
  });

  test('bans can be off for all plans and on for one', () => {
    const { plans } = plansOf(
      'plans: { a: { limits: { day: 1 } }, b: { limits: { day: 1 }, bans: { after: 3 } } }\nbans: off\n',
    );
    expect(plans.get('a')?.bans).toBeNull();
    expect(plans.get('b')?.bans).toEqual({ ...DEFAULT_BANS, after: 3 });
  });

  test('off means off whichever YAML version reads it', () => {
    for (const word of ['off', 'false', "'off'"])
      expect(plansOf(`${FREE}bans: ${word}\n`).plans.get('free')?.bans).toBeNull();
    expect(plansOf(`%YAML 1.1\n---\n${FREE}bans: off\n`).plans.get('free')?.bans).toBeNull();
  });

  test('units have limits as requests have, in a plan, for each key and in groups', () => {
    const { plans } = plansOf(
      'plans: { p: { limits: { day: 1 }, units: { tokens: { minute: 9, day: { limit: 99, window: sliding } } }, ' +
        'each-key: { units: { tokens: { month: 5 } } }, groups: { search: { routes: [/s], limits: { day: 1 }, units: { rows: { hour: unlimited } } } } } }',
    );
    const { units, eachKey, groups } = plans.get('p')!;
    expect(units).toEqual([{ name: 'tokens', limits: { minute: 9, day: 99 }, forms: { day: { slices: 12 } } }]);
    expect(eachKey?.units?.[0]).toMatchObject({ name: 'tokens', limits: { month: 5 } });
    expect(groups?.[0]?.units?.[0]).toMatchObject({ name: 'rows', limits: { hour: 'unlimited' } });
  });

  test('a limit is a number, unlimited or custom, in any of the windows', () => {
    const { plans } = plansOf(
      'plans: { p: { limits: { day: custom, hour: unlimited, second: 0, minute: 999999999999999 } } }',
    );
    expect(plans.get('p')?.limits).toEqual({
      second: 0,
      minute: 999_999_999_999_999,
      hour: 'unlimited',
      day: 'custom',
    });
    expect(Object.keys(plans.get('p')!.limits)).toEqual(['second', 'minute', 'hour', 'day']);
  });

  test('a mapping of a limit says the kind of its window', () => {
    const { plans } = plansOf(`
plans:
  p:
    limits:
      second: { limit: 5, window: fixed }
      minute: { limit: custom, window: sliding, slices: 30 }
      hour: { limit: 100, window: sliding }
      day: { limit: 200, align: calendar, zone: Europe/Berlin }
      week: { limit: 300, align: calendar }
      month: { limit: 400, zone: America/New_York, anchor: 15 }
    shadow: { day: { limit: 100, window: sliding } , month: 7 }
`);
    const { limits, forms, shadow, shadowForms } = plans.get('p')!;
    expect(limits).toEqual({ second: 5, minute: 'custom', hour: 100, day: 200, week: 300, month: 400 });
    expect(forms).toEqual({
      minute: { slices: 30 },
      hour: { slices: 12 },
      day: { calendar: { unit: 'day', zone: 'Europe/Berlin', anchor: 1 } },
      week: { calendar: { unit: 'week', zone: 'UTC', anchor: 1 } },
      month: { calendar: { unit: 'month', zone: 'America/New_York', anchor: 15 } },
    });
    expect(shadow).toEqual({ day: 100, month: 7 });
    expect(shadowForms).toEqual({ day: { slices: 12 } });
  });

  test('plans cannot be changed once they are read', () => {
    const { plans } = plansOf(FREE);
    expect(() => (plans as Map<string, unknown>).set('free', {})).toThrow(TypeError);
    expect(() => (plans as Map<string, unknown>).delete('free')).toThrow(TypeError);
    expect(() => Object.assign(plans.get('free')!.limits, { minute: 1 })).toThrow(TypeError);
    expect(() => Object.assign(plans.get('free')!.bans!, { after: 1 })).toThrow(TypeError);
  });

  test('what is probably wrong is a warning with its position', () => {
    const parsed = parsePlans(
      'plans:\n  a: { limits: { minute: 60, hour: 59, day: 30 } }\n  b: { limits: { minute: 0 } }\n  c: { limits: { minute: 5, day: 5 } }\n' +
        '  d: { limits: { day: { limit: 9, window: sliding }, week: 8, month: { limit: 7 } } }\n',
      'plans.yaml',
    );
    expect(parsed.warnings.map(({ line, column, path, message }) => `${line}:${column} ${path} ${message}`)).toEqual([
      '2:36 plans.a.limits.hour is below the minute limit of 60, which can then never be used up.',
      '2:45 plans.a.limits.day is below the minute limit of 60, which can then never be used up.',
      '3:26 plans.b.limits.minute is 0 and refuses every request of this plan.',
      '4:34 plans.c.limits.day is no more than the minute limit, which then makes no difference.',
      '5:60 plans.d.limits.week is below the day limit of 9, which can then never be used up.',
      '5:70 plans.d.limits.month is below the day limit of 9, which can then never be used up.',
    ]);
  });
});
