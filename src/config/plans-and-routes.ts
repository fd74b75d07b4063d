import { unitNamesIn } from '../admit/allowance.ts';
import { leastOf, unsaidOf } from '../meter/charge.ts';
import type { Plan, Plans, PlanUnit } from '../model/plan.ts';
import { WINDOWS } from '../model/values.ts';
import { isCommon, mayHold, readingsOf } from '../routing/path-groups.ts';
import type { Route } from '../routing/route.ts';
import type { Fault, Path } from './fault.ts';
import { nearest } from './yaml.ts';

// What is probably wrong with the plans together with the routes that count for them, although each file is sound alone.

/** The plans of a file without faults, and the position of each of their values in it. */
export interface PlacedPlans {
  readonly value: Plans;
  locate(path: Path): Fault;
}

/** What plans are compared with: the routes that count for them. */
export interface PlanRoutes {
  /** Those that cost more than 1, or that charge a unit. */
  readonly priced: readonly PricedRoute[];
  /** All of them, each as one text, because a thread gets ten thousand of them: `GET,HEAD /v1/pets`. */
  readonly patterns: readonly string[];
  /** Whether some have policies, which may put a request into any group. */
  readonly hasPolicies: boolean;
}

/** What a route costs a key. */
type PricedRoute = Pick<Route, 'path' | 'methods' | 'cost' | 'charges'>;

/** A route without a key counts for no plan. */
export function planRoutesOf(
  routes: readonly Pick<Route, 'path' | 'methods' | 'cost' | 'charges' | 'policies' | 'perAddress'>[],
): PlanRoutes {
  const counting = routes.filter(({ perAddress }) => perAddress === null);
  return {
    priced: counting
      .filter(({ cost, charges }) => cost > 1 || charges !== null)
      .map(({ path, methods, cost, charges }) => ({ path, methods, cost, charges })),
    patterns: counting.map(patternOf),
    hasPolicies: counting.some(({ policies }) => policies !== null),
  };
}

function patternOf({ path, methods }: Pick<Route, 'path' | 'methods'>): string {
  return `${methods.join(',')} ${path}`;
}

type Warn = (path: Path, message: string) => void;

/** The warnings about the plans together with these routes. */
export function warningsWithRoutes(plans: PlacedPlans, routes: PlanRoutes): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) {
      warnOfCosts(plan, routes.priced, warn);
      if (routes.patterns.length > 0) warnOfIdleUnits(plan, routes.priced, warn);
    }
    if (routes.patterns.length > 0) warnOfIdleGroups(plans.value, routes, warn);
    warnOfUnlimitedUnits(plans.value, routes.priced, warn);
  });
}

/** Notes warnings at their places in the plans. */
export function placed({ locate }: PlacedPlans, check: (warn: Warn) => void): readonly Fault[] {
  const warnings: Fault[] = [];
  check((path, message) => warnings.push({ ...locate(path), message }));
  return warnings;
}

function warnOfCosts(plan: Plan, routes: readonly PricedRoute[], warn: Warn): void {
  for (const { part, path, charging } of partsOf(plan, routes)) {
    warnOfCostsAbove(part.limits, [...path, 'limits'], charging, warn);
    for (const { name, limits } of part.units ?? []) {
      warnOfReservesAbove(limits, [...path, 'units', name], reservesOf(name, charging), warn);
    }
  }
}

/** The parts of a plan that limit requests and units, each with the routes that charge it. */
function partsOf({ name, limits, units, eachKey, groups = [] }: Plan, routes: readonly PricedRoute[]) {
  const path = ['plans', name];
  const ofGroups = groups.map((part) => {
    return {
      part,
      path: [...path, 'groups', part.name],
      charging: routes.filter((one) => mayHold(part, patternOf(one))),
    };
  });
  const ofKey = { limits: {}, units: eachKey?.units };
  return [
    { part: { limits, units }, path, charging: routes },
    { part: ofKey, path: [...path, 'each-key'], charging: routes },
    ...ofGroups,
  ];
}

/** What each route takes of a unit in advance, of all requests or of those that say nothing of it. */
function reservesOf(unit: string, routes: readonly PricedRoute[]) {
  return routes.flatMap(({ path, charges }) => {
    const reserve = charges?.find((charge) => charge.unit === unit)?.reserve;
    if (reserve === undefined) return [];
    const [least, unsaid] = [leastOf(reserve), unsaidOf(reserve)];
    const always = { path, amount: least, isDefault: false };
    return unsaid === least ? [always] : [always, { path, amount: unsaid, isDefault: true }];
  });
}

function warnOfReservesAbove(
  limits: PlanUnit['limits'],
  path: Path,
  reserves: ReturnType<typeof reservesOf>,
  warn: Warn,
): void {
  for (const window of WINDOWS) {
    const limit = limits[window];
    if (typeof limit !== 'number' || limit === 0) continue;
    for (const one of reserves.filter(({ amount }) => amount > limit)) {
      const never = one.isDefault
        ? `of requests that do not say it, ${one.amount}: those of keys of this plan are all refused.`
        : `${one.amount}: keys of this plan can never call it.`;
      const taken = one.isDefault ? 'takes in advance' : 'takes in advance,';
      warn([...path, window], `is below what ${one.path} ${taken} ${never}`);
    }
  }
}

/** Warns of units that no route charges. */
function warnOfIdleUnits(plan: Plan, routes: readonly PricedRoute[], warn: Warn): void {
  for (const { part, path, charging } of partsOf(plan, routes)) {
    const charged = [...new Set(charging.flatMap(({ charges }) => (charges ?? []).map(({ unit }) => unit)))];
    for (const { name } of part.units ?? []) {
      if (charged.includes(name)) continue;
      warn([...path, 'units', name], `is charged by no route for which these limits are.${meant(name, charged)}`);
    }
  }
}

/** Warns of units of routes that no plan limits. */
function warnOfUnlimitedUnits(plans: Plans, routes: readonly PricedRoute[], warn: Warn): void {
  const limited = unitNamesIn(plans);
  const charging = routes.flatMap(({ path, charges }) => (charges ?? []).map(({ unit }) => ({ unit, path })));
  for (const [unit, of] of Map.groupBy(charging, (one) => one.unit)) {
    if (limited.includes(unit)) continue;
    const what = `has no plan that limits \`${unit}\`, which ${of[0]!.path} charges: it is not counted.`;
    warn(['plans'], what + meant(unit, limited));
  }
}

function meant(name: string, others: readonly string[]): string {
  const near = nearest(name, others);
  return near === null ? '' : ` Did you mean \`${near}\`?`;
}

function warnOfCostsAbove(limits: Plan['limits'], path: Path, routes: readonly PricedRoute[], warn: Warn): void {
  for (const window of WINDOWS) {
    const limit = limits[window];
    if (typeof limit !== 'number' || limit === 0) continue;
    for (const route of routes.filter(({ cost }) => cost > limit)) {
      warn(
        [...path, window],
        `is below the cost of ${route.path}, ${route.cost}: keys of this plan can never call it.`,
      );
    }
  }
}

/** Warns of patterns of groups that match no request that any route serves. */
function warnOfIdleGroups(plans: Plans, { patterns, hasPolicies }: PlanRoutes, warn: Warn): void {
  const routes = patterns.map(readingsOf);
  // Plans often have the same groups.
  const idle = new Map<string, boolean>();
  const isIdle = (pattern: string) => {
    const known = idle.get(pattern);
    if (known !== undefined) return known;
    const read = readingsOf(pattern);
    const found = !routes.some((route) => isCommon(read, route));
    idle.set(pattern, found);
    return found;
  };
  for (const { name, groups = [] } of plans.plans.values()) {
    for (const group of groups) {
      // A group that policies alone put requests into has a pattern that matches none.
      if (hasPolicies && group.routes.every(isIdle)) continue;
      if (group.routes.length === 0) {
        warn(
          ['plans', name, 'groups', group.name],
          'has no `routes`, and no route of gateway.yaml has policies: it counts nothing.',
        );
      }
      for (const [i, pattern] of group.routes.entries()) {
        if (!isIdle(pattern)) continue;
        warn(['plans', name, 'groups', group.name, 'routes', i], 'matches no route of gateway.yaml that needs a key.');
      }
    }
  }
}
