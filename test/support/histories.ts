import fc from 'fast-check';
import { type Allowance, budgetOf, charging } from '../../src/admit/allowance.ts';
import type { Amounts } from '../../src/engine/types.ts';
import type { CalendarForm, WindowForm } from '../../src/model/plan.ts';
import { WINDOWS, type WindowName } from '../../src/model/values.ts';
import { allowance, alsoCharging, withOwn } from './allowance.ts';

/** One step of a history: the clock moves, then `n` requests of `cost` come under `plan`. */
export interface Step {
  readonly afterMs: number;
  readonly plan: Allowance;
  readonly cost: number;
  readonly n: number;
}

const limit = fc.integer({ min: 0, max: 12 });
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });

const sliding = fc.record({ slices: fc.constantFrom(4, 5, 7, 12, 30) });
const calendar = (unit: CalendarForm['unit']) =>
  fc
    .record({
      zone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'Asia/Kathmandu'),
      anchor: unit === 'month' ? fc.constantFrom(1, 15, 29, 31) : fc.constant(1),
    })
    .map(({ zone, anchor }): WindowForm => ({ calendar: { unit, zone, anchor } }));

/** One limit in two is of a fixed window. */
const form = (...others: fc.Arbitrary<WindowForm>[]) => fc.option(fc.oneof(...others), { nil: undefined, freq: 2 });

const plan: fc.Arbitrary<Allowance> = fc
  .record({
    limits: fc.record({
      second: optional(limit),
      minute: optional(limit),
      hour: optional(limit),
      day: optional(limit),
      week: optional(limit),
      month: optional(limit),
    }),
    forms: fc.record({
      second: form(sliding),
      minute: form(sliding),
      hour: form(sliding, calendar('hour')),
      day: form(sliding, calendar('day')),
      week: form(sliding, calendar('week')),
      month: calendar('month'),
    }),
    bans: fc.option(
      fc.record({
        after: fc.integer({ min: 1, max: 6 }),
        withinMs: fc.constantFrom(1_000, 60_000, 600_000),
        firstMs: fc.constantFrom(1_000, 1_500, 60_000),
        factor: fc.constantFrom(1, 1.1, 1.5, 2, 3.3),
        longestMs: fc.constantFrom(60_000, 3_600_000),
        forgetMs: fc.constantFrom(1_000, 60_000, 86_400_000),
      }),
      { nil: null },
    ),
  })
  .map(({ bans, limits, forms }) => allowance(sound(limits), bans, sound(forms)));

function sound<V>(all: Partial<Record<WindowName, V | undefined>>): Partial<Record<WindowName, V>> {
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** How far somebody sets a clock, and back by as much again. */
const set = fc.constantFrom(1, 30_000, 61_000, 7_200_000, 43_200_000, 90_000_000, 2_800_000_000);

const afterMs = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 2_000 }) },
  { weight: 3, arbitrary: fc.constantFrom(999, 1_000, 59_999, 60_000, 60_001, 3_600_000, 86_400_000) },
  { weight: 1, arbitrary: fc.integer({ min: -4_000_000, max: 0 }) },
  { weight: 1, arbitrary: set.map((ms) => -ms) },
);

const steps = (plans: readonly Allowance[]): fc.Arbitrary<Step> =>
  fc.record({
    afterMs,
    plan: fc.constantFrom(...plans),
    cost: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 13 }) }),
    n: fc.integer({ min: 0, max: 9 }),
  });

/** The clock is set, forth or back, and after some steps it is set right again. */
const setAndSetRight = (step: fc.Arbitrary<Step>): fc.Arbitrary<readonly Step[]> =>
  fc.tuple(set, fc.constantFrom(1, -1), fc.array(step, { minLength: 2, maxLength: 5 })).map(([ms, sign, run]) =>
    run.map((one, i) => {
      const by = i === 0 ? sign * ms : i === run.length - 1 ? -sign * ms : 0;
      return { ...one, afterMs: one.afterMs + by };
    }),
  );

/** Random histories of one consumer: bursts, pauses of every length, clocks set back and forth, plans that change on the way. */
export const histories: fc.Arbitrary<readonly Step[]> = fc
  .array(plan, { minLength: 1, maxLength: 3 })
  .chain((plans) => historiesUnder(plans));

/** The same under one plan, which does not change. */
export const historiesOfOnePlan: fc.Arbitrary<readonly Step[]> = plan.chain((one) => historiesUnder([one]));

function historiesUnder(plans: readonly Allowance[]): fc.Arbitrary<readonly Step[]> {
  const step = steps(plans);
  const some = fc.oneof(
    { weight: 9, arbitrary: step.map((one) => [one]) },
    { weight: 1, arbitrary: setAndSetRight(step) },
  );
  return fc.array(some, { minLength: 1, maxLength: 25 }).map((parts) => parts.flat());
}

/** What an operator does before the requests of a step: tops up the shortest two windows of the plan, takes that back, or resets some. */
export type OperatorChange =
  /** Until the next whole multiple of `gridMs`; null: with the window. */
  | { readonly kind: 'top-up'; readonly amount: number; readonly gridMs: number | null }
  /** `at`: the number of the top-up, of those in force; null for all of each window. */
  | { readonly kind: 'undo-top-up'; readonly at: number | null }
  | { readonly kind: 'reset'; readonly windows: readonly WindowName[] };

const change: fc.Arbitrary<OperatorChange> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('top-up' as const),
      amount: fc.integer({ min: 1, max: 9 }),
      gridMs: fc.constantFrom(null, null, 400, 60_000, 86_400_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('undo-top-up' as const),
      at: fc.option(fc.nat({ max: 3 }), { nil: null, freq: 2 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('reset' as const),
      windows: fc.shuffledSubarray([...WINDOWS], { minLength: 1 }),
    }),
  },
);

/** The same histories with top-ups, their undoing, and resets on the way. */
export const historiesWithChanges: fc.Arbitrary<readonly (Step & { readonly change: OperatorChange | undefined })[]> =
  histories.chain((steps) =>
    fc
      .array(fc.option(change, { nil: undefined, freq: 2 }), { minLength: steps.length, maxLength: steps.length })
      .map((changes) => steps.map((step, i) => ({ ...step, change: changes[i] }))),
  );

/** A customer with an allowance of its own for each consumer, and up to six groups: at most eight budgets in two scopes. */
const budgets: fc.Arbitrary<Allowance> = fc
  .record({
    own: plan,
    customer: fc.option(plan, { nil: null, freq: 4 }),
    groups: fc.array(fc.tuple(plan, fc.constantFrom(undefined, undefined, 'tokens', 'rows')), { maxLength: 6 }),
    bansOfCustomer: fc.boolean(),
    inFlight: fc.tuple(bound(), bound()),
  })
  .map(({ own, customer, groups, bansOfCustomer, inFlight: [ofKey, ofCustomer] }): Allowance => {
    const scope = customer === null ? 'key' : 'customer';
    const others = customer === null ? [] : [budgetOf({ ...customer.budgets[0], scope, inFlight: ofCustomer })];
    for (const [i, [{ budgets }, unit]] of groups.entries()) {
      others.push(budgetOf({ ...budgets[0], scope, group: `g${i}`, unit }));
    }
    const inUnits = [...new Set(others.flatMap(({ unit }) => unit ?? []))];
    return {
      ...alsoCharging(ofKey === undefined ? own : withOwn(own, { inFlight: ofKey }), others),
      ...(inUnits.length === 0 ? {} : { inUnits }),
      bansIn: customer !== null && bansOfCustomer ? 1 : 0,
    };
  });

function bound(): fc.Arbitrary<number | undefined> {
  return fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined, freq: 2 });
}

/**
 * One step of a history of a customer: one of its consumers sends requests to one of two processes, which has some in flight.
 * Before that, an operator may top up a window of each account.
 */
export interface SharedStep extends Step {
  readonly consumer: number;
  readonly process: number;
  readonly inFlight: readonly [number, number];
  readonly topUp: number | undefined;
  /** What each request takes of the budgets in units. */
  readonly amounts: Amounts;
}

/** Random histories of two consumers whose requests charge one to eight budgets in two scopes. */
export const sharedHistories: fc.Arbitrary<readonly SharedStep[]> = fc
  .array(fc.oneof(plan, budgets), { minLength: 1, maxLength: 3 })
  .chain((plans) =>
    fc.array(
      fc
        .record({
          step: steps(plans),
          consumer: fc.integer({ min: 0, max: 1 }),
          process: fc.integer({ min: 0, max: 1 }),
          topUp: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined, freq: 3 }),
          inFlight: fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 9 })),
          amounts: fc.record({ tokens: fc.integer({ min: 0, max: 5 }), rows: fc.integer({ min: 0, max: 2 }) }),
        })
        .map(({ step, ...rest }) => ({ ...step, ...rest })),
      { minLength: 1, maxLength: 25 },
    ),
  );

/** One step of a history in which gateways borrow and return units. */
export interface LendingStep extends Step {
  readonly consumer: number;
  /** How many units the gateway would like to borrow, and for how long; undefined for none. */
  readonly borrows: { readonly units: number; readonly forMs: number } | undefined;
  /** Which of the earlier leases it returns, counted from the last, and how many units of it, which may be more than were lent. */
  readonly returned: { readonly lease: number; readonly unused: number } | undefined;
  readonly isFinal: boolean;
  readonly topUp: number | undefined;
}

const lending = (one: Allowance): Allowance => {
  const enlarged = one.budgets.map((budget) => {
    return { ...budget, limits: budget.limits.map((of) => ({ ...of, limit: of.limit * 90 })) };
  });
  return charging({ ...one, history: 'admitted' }, enlarged);
};

/** Random histories of two consumers with limits that are large enough to lend some of them. */
export const lendingHistories: fc.Arbitrary<readonly LendingStep[]> = fc
  .array(
    fc.record({ own: plan, customer: fc.option(plan, { nil: null }), bansOfCustomer: fc.boolean() }).map((chosen) => {
      const { own, customer, bansOfCustomer } = chosen;
      if (customer === null) return lending(own);
      const shared = budgetOf({ ...customer.budgets[0], scope: 'customer' });
      return lending({ ...alsoCharging(own, [shared]), bansIn: bansOfCustomer ? 1 : 0 });
    }),
    { minLength: 1, maxLength: 2 },
  )
  .chain((plans) =>
    fc.array(
      fc
        .record({
          step: steps(plans),
          shortMs: fc.option(fc.integer({ min: 0, max: 200 }), { nil: undefined, freq: 15 }),
          factor: fc.constantFrom(1, 1, 8, 60),
          consumer: fc.integer({ min: 0, max: 1 }),
          borrows: fc.option(
            fc.record({ units: fc.integer({ min: 1, max: 60 }), forMs: fc.integer({ min: 250, max: 2_000 }) }),
            { nil: undefined, freq: 3 },
          ),
          returned: fc.option(
            fc.record({ lease: fc.integer({ min: 0, max: 2 }), unused: fc.integer({ min: 0, max: 40 }) }),
            { nil: undefined, freq: 2 },
          ),
          isFinal: fc.integer({ min: 0, max: 4 }).map((one) => one === 0),
          topUp: fc.option(fc.integer({ min: 1, max: 300 }), { nil: undefined, freq: 1 }),
        })
        .map(({ step, shortMs, factor, ...rest }) => {
          return { ...step, ...rest, n: step.n * factor, afterMs: shortMs ?? step.afterMs };
        }),
      { minLength: 1, maxLength: 30 },
    ),
  );
