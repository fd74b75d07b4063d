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
export interface InForce {
  readonly limits: PlanLimits;
  /** False: the lines tell of no limits, because the plan refused nobody. */
  readonly enforce: boolean;
  /** Read off the log, because no file was given that says it. */
  readonly isInferred: boolean;
  /** The share of its keys that had limits of their own, 0 to 1. */
  readonly ownShare: number;
}

/** What the keys of each shape may do under other plans. */
export interface CarriedOver {
  /** By the number of the shape; null where no request of such a key could be served. */
  readonly allowances: readonly (Allowance | null)[];
  /** By plan, of those that the log names. */
  readonly inForce: ReadonlyMap<string, InForce>;
}

/**
 * Works out which of the limits in the log's lines were the key's own: those that differ from the plan's. A window that
 * the key had replaced stays replaced under the new plan, all others follow it (contract section 2).
 *
 * A number of its own that equals its plan's cannot be told from it, and then follows the plan.
 * @param before the plans that were in force; null: read off the log, as what most keys of each plan had
 */
export function carryOver(shapes: readonly Shape[], plans: Plans, before: Plans | null): CarriedOver {
  const read = shapes.map((shape) => ({ ...shape, limits: limitsOf(shape.limits) }));
  const inForce = new Map<string, InForce>();
  for (const [plan, ofPlan] of Map.groupBy(read, (shape) => shape.plan)) {
    const told = before?.plans.get(plan);
    const had = { limits: told?.limits ?? commonLimits(ofPlan), enforce: told?.enforce ?? true };
    const own = sum(ofPlan.filter((shape) => Object.keys(ownLimits(shape.limits, had)).length > 0));
    inForce.set(plan, { ...had, isInferred: told === undefined, ownShare: own / sum(ofPlan) });
  }
  const allowances = read.map((shape) => {
    const plan = plans.plans.get(shape.plan);
    return plan === undefined ? null : allowanceUnder(plan, shape.limits, inForce.get(shape.plan)!);
  });
  return { allowances, inForce };
}

function allowanceUnder(plan: Plan, line: Windows<number>, had: InForce): Allowance | null {
  const own = ownLimits(line, had);
  if (had.isInferred) {
    // Whether the number was the key's own is not known; without one it could not be used at all.
    for (const window of WINDOWS) if (plan.limits[window] === 'custom') own[window] ??= line[window] ?? 'unlimited';
  }
  const allowance = allowanceOf(plan, own);
  return 'missing' in allowance ? null : allowance;
}

/** A window that no line tells of is either not in the plan or `unlimited`. */
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

/** Per window what more than half of the keys had; `custom` where there is no such number. */
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
