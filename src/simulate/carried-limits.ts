import { type Allowance, allowanceOf } from '../admit/allowance.ts';
import type { Limit, Limits, Plan, Plans } from '../model/plan.ts';
import { type LimitName, WINDOWS, type WindowName, windowOf } from '../model/values.ts';
import { isSharedName } from './ordering-limit.ts';
import type { Shape } from './recording.ts';

type PlanLimits = Plan['limits'];
type Windows<T> = Partial<Record<WindowName, T>>;

/** The limits that a plan had while the log was written. */
interface LimitsInForce {
  readonly limits: PlanLimits;
  /** What each key of a customer could take of them; left out if the log has no key of a customer. */
  readonly eachKey?: PlanLimits;
  /** False: the plan was not enforced, so its lines have no limits. */
  readonly enforce: boolean;
  /** Whether the limits were inferred from the log, because no file has them. */
  readonly isInferred: boolean;
  /** The share of the plan's keys that had limits of their own, 0 to 1. */
  readonly ownShare: number;
}

/** The allowances of recorded keys under other plans. */
export interface CarriedOver {
  /** By the number of the shape; null if no request of such a key could be served. */
  readonly allowances: readonly (Allowance | null)[];
  /** By the number of the shape; null if the plan's limits are not known, or were not enforced. */
  readonly ownLimits: readonly (Limits | null)[];
  /** The limits in force for each plan in the log. */
  readonly inForce: ReadonlyMap<string, LimitsInForce>;
}

/**
 * Separates the key's own limits in the log from the plan's: a limit that differs from the plan's is the key's own. The
 * key keeps its own limits under the new plan; all others follow the plan (contract section 2).
 *
 * A key's own limit that equals the plan's cannot be recognised, and follows the plan.
 * @param before the plans that were in force; null: inferred from the log as the limits of most keys of each plan
 */
export function carryOver(shapes: readonly Shape[], plans: Plans, before: Plans | null): CarriedOver {
  const read = shapes.map((shape) => ({ ...shape, ...partsOf(shape) }));
  const inForce = new Map<string, LimitsInForce>();
  for (const [plan, ofPlan] of Map.groupBy(read, (shape) => shape.plan)) {
    inForce.set(plan, limitsInForce(ofPlan, before?.plans.get(plan)));
  }
  const allowances = read.map((shape) => {
    const plan = plans.plans.get(shape.plan);
    return plan === undefined ? null : allowanceUnder(plan, shape, inForce.get(shape.plan)!);
  });
  const own = read.map((shape) => {
    const had = inForce.get(shape.plan)!;
    return had.isInferred || !had.enforce ? null : ownParts(shape, had).ofKey;
  });
  return { allowances, ownLimits: own, inForce };
}

/** A shape with its limits apart: those of the plan, and for a key of a customer those of the key itself. */
interface ReadShape extends Pick<Shape, 'consumers' | 'isOfCustomer' | 'isPartial'> {
  readonly shared: Windows<number>;
  readonly each: Windows<number>;
}

function partsOf({ limits, isOfCustomer }: Shape): Pick<ReadShape, 'shared' | 'each'> {
  const shared: Windows<number> = {};
  const each: Windows<number> = {};
  for (const [name, limit] of Object.entries(JSON.parse(`{${limits}}`) as Record<LimitName, number>)) {
    const part = isOfCustomer && !isSharedName(name) ? each : shared;
    part[windowOf(name as LimitName)] = limit;
  }
  return { shared, each };
}

function limitsInForce(all: readonly ReadShape[], given: Plan | undefined): LimitsInForce {
  const shapes = all.filter(({ isPartial }) => !isPartial);
  const customers = all.filter(({ isOfCustomer }) => isOfCustomer);
  const ofCustomers = shapes.filter(({ isOfCustomer }) => isOfCustomer);
  const had: Had = {
    limits: given?.limits ?? commonLimits(shapes.map(({ shared, consumers }) => ({ limits: shared, consumers }))),
    ...(customers.length === 0
      ? {}
      : {
          eachKey: given
            ? (given.eachKey?.limits ?? {})
            : commonLimits(ofCustomers.map(({ each, consumers }) => ({ limits: each, consumers }))),
        }),
    enforce: given?.enforce ?? true,
  };
  const own = shapes.filter((shape) => {
    const { ofKey, ofCustomer } = ownParts(shape, had);
    return Object.keys(ofKey).length + Object.keys(ofCustomer ?? {}).length > 0;
  });
  return { ...had, isInferred: given === undefined, ownShare: sum(own) / Math.max(sum(shapes), 1) };
}

type Had = Pick<LimitsInForce, 'limits' | 'eachKey' | 'enforce'>;

/** The own limits of a key, and those of its customer; null for a key without one. */
function ownParts(
  { shared, each, isOfCustomer, isPartial }: ReadShape,
  { limits, eachKey = {}, enforce }: Had,
): { readonly ofKey: Windows<Limit>; readonly ofCustomer: Windows<Limit> | null } {
  if (isPartial) return { ofKey: {}, ofCustomer: isOfCustomer ? {} : null };
  const own = ownLimits(shared, { limits, enforce });
  if (!isOfCustomer) return { ofKey: own, ofCustomer: null };
  return { ofKey: ownLimits(each, { limits: eachKey, enforce }), ofCustomer: own };
}

function allowanceUnder(plan: Plan, shape: ReadShape, had: LimitsInForce): Allowance | null {
  const { ofKey, ofCustomer } = ownParts(shape, had);
  const own = ofCustomer ?? ofKey;
  if (had.isInferred) {
    // The log does not show whether a limit was the key's own. A key without one could not be used under `custom`.
    for (const window of WINDOWS) {
      if (plan.limits[window] === 'custom') own[window] ??= shape.shared[window] ?? 'unlimited';
    }
  }
  const customer = ofCustomer === null ? null : { limits: ofCustomer };
  const allowance = allowanceOf(withoutInFlight(plan), ofKey, false, customer);
  return 'missing' in allowance ? null : allowance;
}

/** Requests in flight are not replayed: a line does not say which others were. */
function withoutInFlight({ inFlight: _, eachKey, ...rest }: Plan): Plan {
  if (eachKey === undefined) return rest;
  const { inFlight: __, ...bounds } = eachKey;
  return { ...rest, eachKey: bounds };
}

/** A window that is not in the line is either not in the plan or `unlimited`. */
function ownLimits(line: Windows<number>, { limits, enforce }: Pick<Plan, 'limits' | 'enforce'>): Windows<Limit> {
  const own: Windows<Limit> = {};
  if (!enforce) return own;
  for (const window of WINDOWS) {
    const [had, was] = [line[window], limits[window]];
    if (had === undefined) {
      if (was === 'custom' || typeof was === 'number') own[window] = 'unlimited';
    } else if (had !== was) own[window] = had;
  }
  return own;
}

/** For each window, the limit that more than half of the keys had; `custom` if there is none. */
function commonLimits(shapes: readonly { readonly limits: Windows<number>; readonly consumers: number }[]): PlanLimits {
  const common: Windows<number | 'custom'> = {};
  for (const window of WINDOWS) {
    const counts = new Map<number | undefined, number>();
    for (const { limits, consumers } of shapes) {
      counts.set(limits[window], (counts.get(limits[window]) ?? 0) + consumers);
    }
    const [most, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), [undefined, 0] as const);
    if (shapes.length === 0) continue;
    if (2 * count <= sum(shapes)) common[window] = 'custom';
    else if (most !== undefined) common[window] = most;
  }
  return common;
}

function sum(shapes: readonly { readonly consumers: number }[]): number {
  return shapes.reduce((total, { consumers }) => total + consumers, 0);
}
