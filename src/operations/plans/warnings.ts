import type { Plan, Plans } from '../../admit/plan.ts';
import { WINDOWS } from '../../admit/windows.ts';
import type { Fault, Path } from '../../config/fault.ts';
import type { Route } from '../../routing/router.ts';
import type { LiveKeysByPlan } from '../plans-in-use.ts';

// What is probably wrong with a file of plans, beyond what a gateway's start warns of.

/** The plans of a file without faults, and the position of each of their values in it. */
export interface PlacedPlans {
  readonly value: Plans;
  locate(path: Path): Fault;
}

/** The routes and callers that will use the plans. */
interface PlanUsers {
  readonly routes: readonly PricedRoute[];
  /** Null: the keys were not counted, and what depends on them is not warned of. */
  readonly live: LiveKeysByPlan | null;
  /** True if gateway.yaml accepts tokens. They name plans too, and no store records which. */
  readonly hasTokens: boolean;
}

/** What a route costs a key. */
export type PricedRoute = Pick<Route, 'path' | 'cost'> & { readonly perAddress: object | null };

type Warn = (path: Path, message: string) => void;

/** Warnings about the file by itself, beyond those of a gateway's start. */
export function warningsOf(plans: PlacedPlans): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) warnOfUselessWindows(plan, warn);
  });
}

/** Warnings about these plans together with the routes and the live keys that will use them. */
export function warningsAgainst(plans: PlacedPlans, { routes, live, hasTokens }: PlanUsers): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const [plan, { keys }] of live ?? []) {
      if (plans.value.plans.has(plan) || plans.value.removed.includes(plan)) continue;
      warn(
        ['plans'],
        `has no plan \`${plan}\`, which ${countedKeys(keys)}; keep it, or move them to another plan first.`,
      );
    }
    for (const plan of plans.value.plans.values()) {
      if (live !== null) {
        const keys = live.get(plan.name)?.keys ?? 0;
        if (keys === 0 && !hasTokens) warn(['plans', plan.name], 'is used by no live key.');
        warnOfMissingLimits(plan, live, warn);
      }
      warnOfCosts(plan, routes, warn);
    }
  });
}

/** Warns of a limit that equals a shorter window's. `parsePlans` warns of one that is lower. */
function warnOfUselessWindows({ name, limits }: Plan, warn: Warn): void {
  const counted = WINDOWS.filter((window) => typeof limits[window] === 'number');
  for (const [i, window] of counted.entries()) {
    const limit = limits[window]!;
    const shorter = counted.slice(0, i).find((other) => limits[other] === limit);
    if (limit === 0 || shorter === undefined) continue;
    warn(['plans', name, 'limits', window], `is no more than the ${shorter} limit, which then makes no difference.`);
  }
}

function warnOfMissingLimits({ name, limits }: Plan, live: LiveKeysByPlan, warn: Warn): void {
  const ofPlan = live.get(name);
  for (const window of WINDOWS) {
    const without = (ofPlan?.keys ?? 0) - (ofPlan?.own[window] ?? 0);
    if (limits[window] !== 'custom' || without === 0) continue;
    const message = `is \`custom\`, and ${without} live ${without === 1 ? 'key brings' : 'keys bring'} no limit of their own: they could not be served.`;
    warn(['plans', name, 'limits', window], message);
  }
}

function warnOfCosts({ name, limits }: Plan, routes: readonly PricedRoute[], warn: Warn): void {
  for (const window of WINDOWS) {
    const limit = limits[window];
    if (typeof limit !== 'number' || limit === 0) continue;
    for (const { path, cost } of routes.filter((route) => route.perAddress === null && route.cost > limit)) {
      const message = `is below the cost of ${path}, ${cost}: keys of this plan can never call it.`;
      warn(['plans', name, 'limits', window], message);
    }
  }
}

function placed({ locate }: PlacedPlans, check: (warn: Warn) => void): readonly Fault[] {
  const warnings: Fault[] = [];
  check((path, message) => warnings.push({ ...locate(path), message }));
  return warnings;
}

function countedKeys(keys: number): string {
  return keys === 1 ? '1 live key uses' : `${keys} live keys use`;
}
