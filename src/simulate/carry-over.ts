import {
  type Allowance,
  allowanceOf,
  type Limit,
  type Plan,
  type Plans,
  WINDOWS,
  type WindowName,
} from '../admit/plan.ts';
import type { Shape } from './recording.ts';

type PlanLimits = Plan['limits'];
type Windows<T> = Partial<Record<WindowName, T>>;

/** The limits that a plan had while the log was written. */
export interface BansInForce {
  readonly limits: PlanLimits;
  /** False: the plan was not enforced, so its lines have no limits. */
  readonly enforce: boolean;
  /** Whether the limits were inferred from the log, because no file says them. */
  readonly isInferred: boolean;
  /** The share of the plan's keys that had limits of their own, 0 to 1. */
  readonly ownShare: number;
}

/** The allowances of recorded keys under other plans. */
export interface CarriedOver {
  /** By the number of the shape; null if no request of such a key could be served. */
  readonly allowances: readonly (Allowance | null)[];
  /** The limits in force for each plan in the log. */
  readonly inForce: ReadonlyMap<string, BansInForce>;
}

/**
 * Separates the key's own limits in the log from the plan's: a limit that differs from the plan's is the key's own. The
 * key keeps its own limits under the new plan; all others follow the plan (contract section 2).
 *
 * A key's own limit that equals the plan's cannot be recognised, and follows the plan.
 * @param before the plans that were in force; null: inferred from the log as the limits of most keys of each plan
 */
export function carryOver(shapes: readonly Shape[], plans: Plans, before: Plans | null): CarriedOver {
  const read = shapes.map((shape) => ({ ...shape, limits: limitsOf(shape.limits) }));
  const inForce = new Map<string, BansInForce>();
  for (const [plan, ofPlan] of Map.groupBy(read, (shape) => shape.plan)) {
    const given = before?.plans.get(plan);
    const had = { limits: given?.limits ?? commonLimits(ofPlan), enforce: given?.enforce ?? true };
    const own = sum(ofPlan.filter((shape) => Object.keys(ownLimits(shape.limits, had)).length > 0));
    inForce.set(plan, { ...had, isInferred: given === undefined, ownShare: own / sum(ofPlan) });
  }
  const allowances = read.map((shape) => {
    const plan = plans.plans.get(shape.plan);
    return plan === undefined ? null : allowanceUnder(plan, shape.limits, inForce.get(shape.plan)!);
  });
  return { allowances, inForce };
}

function allowanceUnder(plan: Plan, line: Windows<number>, had: BansInForce): Allowance | null {
  const own = ownLimits(line, had);
  if (had.isInferred) {
    // The log does not show whether a limit was the key's own. A key without one could not be used under `custom`.
    for (const window of WINDOWS) if (plan.limits[window] === 'custom') own[window] ??= line[window] ?? 'unlimited';
  }
  const allowance = allowanceOf(plan, own);
  return 'missing' in allowance ? null : allowance;
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
    const [most, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (2 * count <= sum(shapes)) common[window] = 'custom';
    else if (most !== undefined) common[window] = most;
  }
  return common;
}

function limitsOf(text: string): Windows<number> {
  return JSON.parse(`{${text}}`) as Windows<number>;
}

function sum(shapes: readonly { readonly consumers: number }[]): number {
  return shapes.reduce((total, { consumers }) => total + consumers, 0);
}
