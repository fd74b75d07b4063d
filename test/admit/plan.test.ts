import { describe, expect, test } from 'vitest';
import { isShadowId, shadowIdOf, withoutShadow } from '../../src/admit/account-id.ts';
import { allowanceOf, type Limits, type Plan } from '../../src/admit/plan.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { BANS } from '../support/allowance.ts';

const PLAN: Plan = {
  name: 'pro',
  limits: { minute: 60, day: 1_000, month: 'unlimited' },
  bans: BANS,
  enforce: true,
  shadow: {},
};
const of = (plan: Partial<Plan>, own: Limits = {}, keepsHistory?: boolean) =>
  allowanceOf({ ...PLAN, ...plan }, own, keepsHistory);
const UNLIMITED = { month: { window: 'month', lengthMs: 2_678_400_000 } } as const;

describe('the allowance of a key', () => {
  test('is that of its plan', () => {
    expect(of({})).toEqual({
      plan: 'pro',
      limits: [windowLimit('minute', 60), windowLimit('day', 1_000)],
      unlimited: [UNLIMITED.month],
      bans: BANS,
    });
  });

  test('has the key’s own limits in place of its plan’s, and says which, and what the plan has', () => {
    expect(of({}, { minute: 5, day: 1_000, hour: 7, month: 9 })).toEqual({
      plan: 'pro',
      limits: [windowLimit('minute', 5), windowLimit('hour', 7), windowLimit('day', 1_000), windowLimit('month', 9)],
      unlimited: [],
      bans: BANS,
      own: ['minute', 'hour', 'day', 'month'],
      planLimits: { minute: 60 },
    });
    expect(of({}, { minute: 'unlimited' })).toMatchObject({
      unlimited: [{ window: 'minute', lengthMs: 60_000 }, UNLIMITED.month],
    });
    expect(of({}, { minute: 'unlimited' })).not.toHaveProperty('own');
  });

  test('is missing while the plan asks for numbers that the key has not', () => {
    const limits = { minute: 'custom', hour: 'custom', day: 'custom' } as const;
    expect(of({ limits }, { hour: 5 })).toEqual({ missing: ['minute', 'day'] });
    expect(of({ limits }, { minute: 1, hour: 2, day: 3 })).toMatchObject({ own: ['minute', 'hour', 'day'] });
  });

  test('has the windows in the form of the plan', () => {
    const forms = { minute: { slices: 4 } };
    expect(of({ forms })).toMatchObject({
      limits: [windowLimit('minute', 60, { slices: 4 }), windowLimit('day', 1_000)],
    });
  });

  test('says that a history is kept, if one is', () => {
    expect(of({}, {}, true)).toMatchObject({ history: 'admitted' });
    expect(of({ enforce: false }, {}, true)).toMatchObject({ shadow: { history: 'all' } });
  });

  test('of a plan that is not enforced is unlimited in the same windows, and the limits are its shadow', () => {
    const limits = { month: 5, day: 'unlimited', minute: 60 } as const;
    const month = windowLimit('month', 5);
    expect(of({ limits, enforce: false, shadow: { hour: 1 } })).toEqual({
      plan: 'pro',
      limits: [],
      unlimited: [{ window: 'minute', lengthMs: 60_000 }, { window: 'day', lengthMs: 86_400_000 }, UNLIMITED.month],
      bans: null,
      isShadowOnly: true,
      shadow: {
        plan: 'pro',
        limits: [windowLimit('minute', 60), month],
        unlimited: [{ window: 'day', lengthMs: 86_400_000 }],
        bans: BANS,
        isWatched: true,
      },
    });
  });

  test('has the shadow limits beside its own', () => {
    expect(of({ shadow: { minute: 1, day: 2 }, shadowForms: { day: { slices: 3 } } })).toMatchObject({
      limits: [{ limit: 60 }, { limit: 1_000 }],
      shadow: {
        plan: 'pro',
        limits: [windowLimit('minute', 1), windowLimit('day', 2, { slices: 3 })],
        unlimited: [],
        bans: BANS,
      },
    });
    expect(of({ shadow: { minute: 1 } })).toMatchObject({ shadow: { limits: [windowLimit('minute', 1)] } });
  });
});

test('the id of a shadow is told apart and leads back', () => {
  expect([shadowIdOf('a'), isShadowId('a~shadow'), isShadowId('a'), isShadowId('~shadow-a')]).toEqual([
    'a~shadow',
    true,
    false,
    false,
  ]);
  expect([withoutShadow('a~shadow'), withoutShadow('a')]).toEqual(['a', 'a']);
});
