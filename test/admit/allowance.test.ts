import { describe, expect, test } from 'vitest';
import { isShadowId, shadowIdOf, withoutShadow } from '../../src/admit/account-id.ts';
import { type Allowance, allowanceOf, bitOfUnit, withBudgets } from '../../src/admit/allowance.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { IN_ONE_READING, type Limits, type Plan } from '../../src/model/plan.ts';
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
/** The budget of the key itself. */
const ownOf = (plan: Partial<Plan>, own: Limits = {}) => (of(plan, own) as Allowance).budgets[0];
const OWN = { name: '', prefix: '', scope: 'key', group: null, isWhole: true } as const;
const UNLIMITED = {
  minute: { window: 'minute', lengthMs: 60_000 },
  day: { window: 'day', lengthMs: 86_400_000 },
  month: { window: 'month', lengthMs: 2_678_400_000 },
} as const;

describe('the allowance of a key', () => {
  test('is that of its plan', () => {
    expect(of({})).toEqual({
      plan: 'pro',
      budgets: [
        { ...OWN, limits: [windowLimit('minute', 60), windowLimit('day', 1_000)], unlimited: [UNLIMITED.month] },
      ],
      limits: [windowLimit('minute', 60), windowLimit('day', 1_000)],
      boundsInFlight: false,
      bans: BANS,
      bansIn: 0,
    });
  });

  test('has the key’s own limits in place of its plan’s, and says which, and what the plan has', () => {
    expect(ownOf({}, { minute: 5, day: 1_000, hour: 7, month: 9 })).toEqual({
      ...OWN,
      limits: [windowLimit('minute', 5), windowLimit('hour', 7), windowLimit('day', 1_000), windowLimit('month', 9)],
      unlimited: [],
      own: ['minute', 'hour', 'day', 'month'],
      planLimits: { minute: 60 },
    });
    expect(ownOf({}, { minute: 'unlimited' })).toMatchObject({
      unlimited: [{ window: 'minute', lengthMs: 60_000 }, UNLIMITED.month],
    });
    expect(ownOf({}, { minute: 'unlimited' })).not.toHaveProperty('own');
  });

  test('is missing while the plan asks for numbers that the key has not', () => {
    const limits = { minute: 'custom', hour: 'custom', day: 'custom' } as const;
    expect(of({ limits }, { hour: 5 })).toEqual({ missing: ['minute', 'day'] });
    expect(ownOf({ limits }, { minute: 1, hour: 2, day: 3 })).toMatchObject({ own: ['minute', 'hour', 'day'] });
  });

  test('has the windows in the form of the plan', () => {
    const forms = { minute: { slices: 4 } };
    expect(ownOf({ forms })).toMatchObject({
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
      budgets: [{ ...OWN, limits: [], unlimited: [UNLIMITED.minute, UNLIMITED.day, UNLIMITED.month] }],
      limits: [],
      boundsInFlight: false,
      bans: null,
      bansIn: 0,
      isShadowOnly: true,
      shadow: {
        plan: 'pro',
        budgets: [{ ...OWN, limits: [windowLimit('minute', 60), month], unlimited: [UNLIMITED.day] }],
        limits: [windowLimit('minute', 60), month],
        boundsInFlight: false,
        bans: BANS,
        bansIn: 0,
        isWatched: true,
      },
    });
  });

  test('has the shadow limits beside its own', () => {
    expect(of({ shadow: { minute: 1, day: 2 }, shadowForms: { day: { slices: 3 } } })).toMatchObject({
      budgets: [{ limits: [{ limit: 60 }, { limit: 1_000 }] }],
      shadow: {
        plan: 'pro',
        budgets: [{ ...OWN, limits: [windowLimit('minute', 1), windowLimit('day', 2, { slices: 3 })], unlimited: [] }],
        bans: BANS,
      },
    });
    expect(of({ shadow: { minute: 1 } })).toMatchObject({
      shadow: { budgets: [{ limits: [windowLimit('minute', 1)] }] },
    });
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

describe('a request charges the budgets of its groups and units', () => {
  const charging: Plan = {
    ...PLAN,
    groups: [
      {
        ...{ name: 'search', routes: [], limits: { minute: 10 }, instead: false },
        units: [{ name: 'rows', limits: { day: 9 } }],
      },
      { name: 'export', routes: [], limits: { minute: 2 }, instead: true },
    ],
    units: [{ name: 'tokens', limits: { month: 100 } }],
    eachKey: { limits: {}, forms: {}, units: [{ name: 'tokens', limits: { day: 9 } }] },
  };
  const [search, instead, tokens, rows] = [1, 2, bitOfUnit(0), bitOfUnit(1)] as const;
  const charged = (bits: number, customer?: { readonly limits: Limits }) => {
    const allowance = allowanceOf(charging, {}, false, customer) as Allowance;
    const { budgets, inUnits = [] } = withBudgets(allowance, bits);
    return [...budgets.map(({ name, limits }) => `${name} ${limits.length}`.trim()), ...inUnits];
  };

  test.each<[string, number, readonly unknown[]]>([
    ['no group and no unit', 0, ['2']],
    ['a group', search, ['2', 'search 1']],
    ['a group that is there instead of the plan', instead, ['0', 'export 1']],
    ['such a group by one reading of the path', instead | IN_ONE_READING, ['2', 'export 1']],
    ['two groups', search | instead, ['0', 'search 1', 'export 1']],
    ['a unit of the plan', tokens, ['2', 'tokens 1', 'tokens']],
    ['a unit of a group', search | rows, ['2', 'search 1', 'search-rows 1', 'rows']],
    ['a unit of a group that it is not in', rows, ['2']],
    ['all of them', search | tokens | rows, ['2', 'search 1', 'tokens 1', 'search-rows 1', 'tokens', 'rows']],
  ])('of a key: %s', (_what, bits, expected) => {
    expect(charged(bits)).toEqual(expected);
  });

  test('of a customer, beside those that each of its keys has', () => {
    const customer = { limits: {} };
    expect(charged(0, customer)).toEqual(['0', 'customer 2']);
    expect(charged(tokens, customer)).toEqual(['0', 'customer 2', 'customer-tokens 1', 'tokens 1', 'tokens']);
    expect(charged(instead, customer)).toEqual(['0', 'customer 0', 'customer-export 1']);
  });
});

describe('the allowance of a key of a customer', () => {
  const bounds = { limits: { hour: 7 }, forms: {} };
  const shared = (plan: Partial<Plan>, own: Limits = {}) =>
    allowanceOf({ ...PLAN, ...plan }, own, false, { limits: { day: 500 } }) as Allowance;
  const [own, customer] = shared({}).budgets;

  test('shares the limits of the plan, with those of the customer in their place, and has those of each key', () => {
    expect(customer).toEqual({
      ...{ name: 'customer', prefix: 'customer-', scope: 'customer', group: null, isWhole: true },
      ...{ unlimited: [UNLIMITED.month], own: ['day'], planLimits: { day: 1_000 } },
      limits: [
        { ...windowLimit('minute', 60), name: 'customer-minute' },
        { ...windowLimit('day', 500), name: 'customer-day' },
      ],
    });
    expect(own).toEqual({ ...OWN, limits: [], unlimited: [] });
    expect(shared({ eachKey: bounds })).toEqual({
      ...{ plan: 'pro', limits: [windowLimit('hour', 7), ...customer!.limits], boundsInFlight: false },
      ...{ bans: BANS, bansIn: 0, budgets: [{ ...own, limits: [windowLimit('hour', 7)] }, customer] },
    });
    expect(shared({ eachKey: bounds }, { hour: 5 })).toMatchObject({
      budgets: [{ limits: [windowLimit('hour', 5)], own: ['hour'] }, customer],
    });
    expect(shared({ bansOfCustomer: true })).toMatchObject({ budgets: [own, customer], bansIn: 1 });
  });

  test('bounds the requests in flight of the customer, of each key, or of both', () => {
    const inFlight = (plan: Partial<Plan>) => {
      const { boundsInFlight, budgets } = shared(plan);
      return [boundsInFlight, ...budgets.map((budget) => budget.inFlight)];
    };
    expect(inFlight({})).toEqual([false, undefined, undefined]);
    expect(inFlight({ inFlight: 9 })).toEqual([true, undefined, 9]);
    expect(inFlight({ eachKey: { ...bounds, inFlight: 3 } })).toEqual([true, 3, undefined]);
    expect(inFlight({ inFlight: 9, eachKey: { ...bounds, inFlight: 3 } })).toEqual([true, 3, 9]);
    expect(of({ inFlight: 9 })).toMatchObject({ budgets: [{ inFlight: 9 }], boundsInFlight: true });
  });

  test('of a plan that is not enforced is unlimited, and the shadow has its budgets without what may be in flight', () => {
    const groups = [{ name: 'search', routes: [], limits: { minute: 10 }, instead: false }];
    const units = [{ name: 'tokens', limits: { day: 9 } }];
    const { shadow, ...live } = shared({ enforce: false, inFlight: 9, groups, units });
    const named = { names: ['tokens'], shared: units, eachKey: [] };
    const windows = (['minute', 'day'] as const).map((window) => ({
      window,
      lengthMs: windowLimit(window, 1).lengthMs,
    }));
    expect(live).toEqual({
      ...{ plan: 'pro', limits: [], boundsInFlight: false, bans: null, bansIn: 0, groups, units: named },
      budgets: [{ ...own, unlimited: [...windows, UNLIMITED.month] }],
      isShadowOnly: true,
    });
    expect(shadow).toEqual({
      ...{ plan: 'pro', limits: customer!.limits, boundsInFlight: false, bans: BANS, bansIn: 0, groups, units: named },
      ...{ budgets: [own, customer], isWatched: true },
    });
  });
});
