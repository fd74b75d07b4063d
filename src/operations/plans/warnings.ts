import { unitNamesIn } from '../../admit/allowance.ts';
import type { Fault, Path } from '../../config/fault.ts';
import type { Plan, Plans, PlanUnit } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import { type GroupRoute, isCommon, mayHold } from '../../routing/path-groups.ts';
import type { Route } from '../../routing/route.ts';
import { type LiveKeysByPlan, usersText } from '../plans-in-use.ts';

// What is probably wrong with a file of plans, beyond what a gateway's start warns of.

/** The plans of a file without faults, and the position of each of their values in it. */
export interface PlacedPlans {
  readonly value: Plans;
  locate(path: Path): Fault;
}

/** The routes and callers that will use the plans. */
interface PlanUsers {
  /** Those that may cost more than 1, or that charge a unit, at least. */
  readonly routes: readonly PricedRoute[];
  /** Every route that counts for plans, as `patternsOf` gives it. */
  readonly patterns: readonly string[];
  /** Null: the keys were not counted, and what depends on them is not warned of. */
  readonly live: LiveKeysByPlan | null;
  /** True if gateway.yaml accepts tokens. They name plans too, and no store records which. */
  readonly hasTokens: boolean;
}

/** What a route costs a key. */
export type PricedRoute = Pick<Route, 'path' | 'cost' | 'charges'> & { readonly perAddress: object | null };

/** The routes that count for plans, each as one text, because a thread gets ten thousand of them: `GET,HEAD /v1/pets`. */
export function patternsOf(routes: readonly (Pick<Route, 'path' | 'methods'> & PricedRoute)[]): readonly string[] {
  return routes
    .filter(({ perAddress }) => perAddress === null)
    .map(({ path, methods }) => `${methods.join(',')} ${path}`);
}

type Warn = (path: Path, message: string) => void;

/** Warnings about the file by itself, beyond those of a gateway's start. */
export function warningsOf(plans: PlacedPlans): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) warnOfUselessWindows(plan, warn);
  });
}

/** A sentence for each plan that live keys or customers use, and that the file neither has nor names in `removed`. */
export function lostPlansOf(plans: PlacedPlans, live: LiveKeysByPlan): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const [plan, users] of live) {
      if (users.keys + users.customers === 0) continue;
      if (plans.value.plans.has(plan) || plans.value.removed.includes(plan)) continue;
      warn(
        ['plans'],
        `has no plan \`${plan}\`, which ${usersText(users)}; keep it, or move them to another plan first.`,
      );
    }
  });
}

/** Warnings about these plans together with the routes and the live keys that will use them. */
export function warningsAgainst(
  plans: PlacedPlans,
  { routes, patterns, live, hasTokens }: PlanUsers,
): readonly Fault[] {
  const parsed = patterns.map((text) => {
    const at = text.indexOf(' ');
    return { methods: text.slice(0, at).split(','), path: text.slice(at + 1) };
  });
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) {
      if (live !== null) {
        const { keys = 0, customers = 0 } = live.get(plan.name) ?? {};
        if (keys + customers === 0 && !hasTokens) warn(['plans', plan.name], 'is used by no live key.');
        warnOfMissingLimits(plan, live, warn);
      }
      warnOfCosts(plan, routes, warn);
      if (patterns.length > 0) warnOfIdleUnits(plan, routes, warn);
      if (patterns.length > 0) warnOfIdleGroups(plan, parsed, warn);
    }
    warnOfUnlimitedUnits(plans.value, routes, warn);
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
  const { keys = 0, own, ofCustomers = 0, customers = 0, customersOwn } = live.get(name) ?? {};
  for (const window of WINDOWS) {
    if (limits[window] !== 'custom') continue;
    const path = ['plans', name, 'limits', window];
    const without = keys - ofCustomers - (own?.[window] ?? 0);
    if (without > 0) {
      const bring = without === 1 ? 'key brings' : 'keys bring';
      warn(path, `is \`custom\`, and ${without} live ${bring} no limit of their own: they could not be served.`);
    }
    const bare = customers - (customersOwn?.[window] ?? 0);
    if (bare > 0) {
      const bring = bare === 1 ? 'customer brings' : 'customers bring';
      warn(path, `is \`custom\`, and ${bare} ${bring} no limit of their own: their keys could not be served.`);
    }
  }
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
  const counted = routes.filter(({ perAddress }) => perAddress === null);
  const ofGroups = groups.map((part) => {
    return { part, path: [...path, 'groups', part.name], charging: counted.filter((one) => mayHold(part, one.path)) };
  });
  const ofKey = { limits: {}, units: eachKey?.units };
  return [
    { part: { limits, units }, path, charging: counted },
    { part: ofKey, path: [...path, 'each-key'], charging: counted },
    ...ofGroups,
  ];
}

/** What each route takes of a unit in advance, of all requests or of those that say nothing of it. */
function reservesOf(unit: string, routes: readonly PricedRoute[]) {
  return routes.flatMap(({ path, charges }) => {
    const reserve = charges?.find((charge) => charge.unit === unit)?.reserve;
    if (reserve === undefined) return [];
    if (reserve.kind === 'fixed') return [{ path, amount: reserve.amount, isDefault: false }];
    const least = Math.min(reserve.least, reserve.most);
    const unsaid = Math.min(Math.max(reserve.otherwise, least), reserve.most);
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
    const charged = new Set(charging.flatMap(({ charges }) => (charges ?? []).map(({ unit }) => unit)));
    for (const { name } of part.units ?? []) {
      if (!charged.has(name)) warn([...path, 'units', name], 'is charged by no route that it is for.');
    }
  }
}

/** Warns of units of routes that no plan limits. */
function warnOfUnlimitedUnits(plans: Plans, routes: readonly PricedRoute[], warn: Warn): void {
  const limited = new Set(unitNamesIn(plans));
  const charging = routes.flatMap(({ path, charges, perAddress }) =>
    perAddress === null ? (charges ?? []).map(({ unit }) => ({ unit, path })) : [],
  );
  for (const [unit, of] of Map.groupBy(charging, (one) => one.unit)) {
    if (!limited.has(unit))
      warn(['plans'], `has no plan that limits \`${unit}\`, which ${of[0]!.path} charges: it is not counted.`);
  }
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
function warnOfIdleGroups({ name, groups = [] }: Plan, routes: readonly GroupRoute[], warn: Warn) {
  for (const group of groups) {
    for (const [i, pattern] of group.routes.entries()) {
      if (routes.some((route) => isCommon(pattern, route))) continue;
      warn(['plans', name, 'groups', group.name, 'routes', i], `matches no route of gateway.yaml that needs a key.`);
    }
  }
}

function placed({ locate }: PlacedPlans, check: (warn: Warn) => void): readonly Fault[] {
  const warnings: Fault[] = [];
  check((path, message) => warnings.push({ ...locate(path), message }));
  return warnings;
}
