import { type Plan, type Plans, WINDOWS } from '../admit/plan.ts';
import type { Fault, Path } from '../config/fault.ts';
import type { Route } from '../gateway/route.ts';
import type { LiveKeysByPlan } from './plans-live-keys.ts';

/** A sound file of plans, and where each of its values stands. */
export interface PlacedPlans {
  readonly value: Plans;
  locate(path: Path): Fault;
}

/** What surrounds the plans where a gateway runs. */
export interface Surroundings {
  readonly routes: readonly Route[];
  readonly live: LiveKeysByPlan;
  /** Tokens name plans too, and no store knows which. */
  readonly hasTokens: boolean;
}

type Warn = (path: Path, message: string) => void;

/** What is probably wrong in the file for itself, beyond what a gateway warns of at its start. */
export function warningsOf(plans: PlacedPlans): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) warnOfUselessWindows(plan, warn);
  });
}

/** What is probably wrong with these plans for the routes and keys that there are. */
export function warningsAgainst(plans: PlacedPlans, { routes, live, hasTokens }: Surroundings): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const [plan, { keys }] of live) {
      if (plans.value.plans.has(plan) || plans.value.removed.includes(plan)) continue;
      warn(['plans'], `has no plan \`${plan}\`, which ${some(keys)}; keep it, or move them to another plan first.`);
    }
    for (const plan of plans.value.plans.values()) {
      const keys = live.get(plan.name)?.keys ?? 0;
      if (keys === 0 && !hasTokens) warn(['plans', plan.name], 'is used by no live key.');
      warnOfMissingLimits(plan, live, warn);
      warnOfCosts(plan, routes, warn);
    }
  });
}

/** A limit below a shorter window's is warned of when the file is read. */
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

function warnOfCosts({ name, limits }: Plan, routes: readonly Route[], warn: Warn): void {
  for (const window of WINDOWS) {
    const limit = limits[window];
    if (typeof limit !== 'number' || limit === 0) continue;
    for (const { path, cost } of routes.filter((route) => route.perAddress === null && route.cost > limit)) {
      const message = `is below the cost of ${path}, ${cost}: keys of this plan can never call it.`;
      warn(['plans', name, 'limits', window], message);
    }
  }
}

function placed({ locate }: PlacedPlans, look: (warn: Warn) => void): readonly Fault[] {
  const warnings: Fault[] = [];
  look((path, message) => warnings.push({ ...locate(path), message }));
  return warnings;
}

function some(keys: number): string {
  return keys === 1 ? '1 live key uses' : `${keys} live keys use`;
}
