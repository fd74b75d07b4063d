import { WINDOW_MS } from '../engine/counting.ts';
import {
  type BanRule,
  IN_ONE_READING,
  type Limits,
  MAX_GROUPS,
  type Plan,
  type PlanGroup,
  type Plans,
  type PlanUnit,
  type WindowForms,
} from '../model/plan.ts';
import { WINDOWS, type WindowName } from '../model/values.ts';
import { type WindowLimit, windowLimit } from './windows.ts';

/** The bit that stands for a unit in a set of groups and units, behind the bits of groups. @param index in `UnitBudgets.names` */
export function bitOfUnit(index: number): number {
  return 1 << (MAX_GROUPS + 1 + index);
}

/**
 * A budget that a request charges. Each budget has an account of its own (account-id.ts), and one decision charges all of them or
 * none.
 */
export interface Budget {
  /** `customer`, `search`, `customer-search-tokens`; empty for the consumer's own. */
  readonly name: string;
  /** The prefix of its limits' names: its name with a hyphen. */
  readonly prefix: string;
  /** Whose requests it counts: those of one consumer, or those of all consumers of its customer. */
  readonly scope: 'key' | 'customer';
  /** The group of routes whose requests it counts; null for all requests. */
  readonly group: string | null;
  /** The unit that it counts, such as `tokens`; absent for the cost of requests. */
  readonly unit?: string;
  /** True if it counts all requests of a consumer or of a customer: such an account has a history. */
  readonly isWhole: boolean;
  /** The counted windows, shortest first. */
  readonly limits: readonly WindowLimit[];
  /** The windows without a limit, shortest first. Reports contain them, but no account counts them. */
  readonly unlimited: readonly { readonly window: WindowName; readonly lengthMs: number }[];
  /** Maximum requests in flight at a time; left out if the plan has no such limit. */
  readonly inFlight?: number;
  /** The windows with a limit of the key's or the customer's own in place of the plan's; left out if there are none. */
  readonly own?: readonly WindowName[];
  /** The plan's limits of those windows, where they differ; left out if there are none. */
  readonly planLimits?: Readonly<Partial<Record<WindowName, number>>>;
}

/** The consumer's own budget, and behind it that of its customer, if it has one, and those of groups of routes and of units. */
export type Budgets = readonly [Budget, ...Budget[]];

/** The limits and bans that apply to one consumer: those of its plan, with its own in their place. Input of `decide`. */
export interface Allowance {
  readonly plan: string;
  readonly budgets: Budgets;
  /** The counted windows of all budgets, in the order of the windows of a verdict. */
  readonly limits: readonly WindowLimit[];
  /** True if some budget has a limit on requests in flight. */
  readonly boundsInFlight: boolean;
  readonly bans: BanRule | null;
  /** The budget whose account has the strikes and bans: 1 if they belong to the customer, else 0, the consumer's own. */
  readonly bansIn: 0 | 1;
  /** The shadow limits, counted under `shadowIdOf(consumerId)`. They refuse no request. */
  readonly shadow?: Allowance;
  /** Set for a shadow: its limits only watch. */
  readonly isWatched?: true;
  /** Set if the plan is not enforced: the gateway counts the shadow alone. */
  readonly isShadowOnly?: true;
  /**
   * `admitted`: the store keeps a history of admitted requests; left out if it keeps none. `all`: of every request, because these
   * limits refuse no request.
   */
  readonly history?: 'admitted' | 'all';
  /** The plan's groups of routes, whose budgets `withBudgets` adds; left out if it has none. */
  readonly groups?: readonly PlanGroup[];
  /** The plan's limits in units of their own, whose budgets `withBudgets` adds; left out if it has none. */
  readonly units?: UnitBudgets;
  /** The units that its budgets count; left out if they count requests alone. */
  readonly inUnits?: readonly string[];
  /** The allowance of requests that belong to no group and charge no unit; left out if it is this one. */
  readonly base?: Allowance;
}

/** A plan's limits in units of their own. */
interface UnitBudgets {
  /** The units of the plan and of its groups. */
  readonly names: readonly string[];
  readonly shared: readonly PlanUnit[];
  /** The limits of each key of a customer. */
  readonly eachKey: readonly PlanUnit[];
}

/** The names of the groups of routes of all plans. */
export function groupNamesIn({ plans }: Plans): readonly string[] {
  return [...new Set([...plans.values()].flatMap(({ groups = [] }) => groups.map(({ name }) => name)))];
}

/** The names of the units of all plans. */
export function unitNamesIn({ plans }: Plans): readonly string[] {
  return [...new Set([...plans.values()].flatMap(unitNamesOf))];
}

/** The units of a plan, of its groups and of each key. */
export function unitNamesOf({ units = [], groups = [], eachKey }: Plan): readonly string[] {
  const all = [...units, ...groups.flatMap((group) => group.units ?? []), ...(eachKey?.units ?? [])];
  return [...new Set(all.map(({ name }) => name))];
}

/** The allowance of requests that charge these budgets. @param all at least one */
export function charging(
  of: Omit<Allowance, 'budgets' | 'limits' | 'boundsInFlight'>,
  all: readonly Budget[],
): Allowance {
  const budgets = all as Budgets;
  const limits = budgets.flatMap((budget) => budget.limits);
  const boundsInFlight = budgets.some(({ inFlight }) => inFlight !== undefined);
  return Object.freeze({ ...of, budgets, limits, boundsInFlight });
}

/** An allowance without bans that counts some windows in one account. With no window, a ledger only reports the ban of the account. */
export function plainAllowance(plan: string, limits: readonly WindowLimit[] = []): Allowance {
  return charging({ plan, bans: null, bansIn: 0 }, [budgetOf({ limits })]);
}

/** A budget with a name made of its parts. */
export function budgetOf(parts: {
  readonly scope?: Budget['scope'];
  readonly group?: string | null;
  readonly unit?: string | undefined;
  readonly limits: readonly WindowLimit[];
  readonly unlimited?: Budget['unlimited'];
  readonly inFlight?: number | undefined;
}): Budget {
  const { scope = 'key', group = null, unit, limits, unlimited = [], inFlight } = parts;
  const names = [scope === 'customer' ? scope : null, group, unit];
  const name = names.filter((part) => typeof part === 'string').join('-');
  const prefix = name === '' ? '' : `${name}-`;
  return {
    ...{ name, prefix, scope, group, unlimited, isWhole: group === null && unit === undefined },
    limits: name === '' ? limits : limits.map((limit) => ({ ...limit, name: `${name}-${limit.window}` as const })),
    ...(unit === undefined ? {} : { unit }),
    ...(inFlight === undefined ? {} : { inFlight }),
  };
}

/** The limits of a consumer's customer. */
interface LimitedCustomer {
  /** The customer's own limits, each of which replaces the plan's limit of that window. */
  readonly limits: Limits;
}

/**
 * The limits and bans of a consumer: those of its plan, with its own in their place, one window at a time (contract section 2). A
 * customer's key has the plan of the customer: all keys of the customer share its limits, and the key's own, or those of
 * `each-key`, bound the part of this key.
 * @returns the allowance, without the budgets of groups; or, if there are any, the windows that are `custom` in the plan and
 *   missing in the own limits of the key, or of its customer: such a key cannot be used
 * @param keepsHistory true if the store keeps a history of the consumer's usage
 * @param customer null for a consumer without one
 */
export function allowanceOf(
  plan: Plan,
  own: Limits,
  keepsHistory = false,
  customer: LimitedCustomer | null = null,
): Allowance | { readonly missing: readonly WindowName[] } {
  const ofOwner = customer?.limits ?? own;
  const { missing, ...planned } = windowsOf(plan.limits, plan.forms, ofOwner);
  if (missing.length > 0) return { missing };
  const scope = customer === null ? 'key' : 'customer';
  const whole: Budget = {
    ...budgetOf({ scope, ...planned, inFlight: plan.inFlight }),
    ...ownIn(planned, ofOwner),
    ...planLimitsOf(plan, planned),
  };
  const budgets = customer === null ? [whole] : [budgetOfEachKey(plan, own), whole];
  const bansIn = customer !== null && plan.bansOfCustomer ? 1 : 0;
  const rules = { plan: plan.name, bans: plan.bans, bansIn } as const;
  const parts = { ...(plan.groups === undefined ? {} : { groups: plan.groups }), ...unitsOf(plan) };
  const history = keepsHistory ? ({ history: plan.enforce ? 'admitted' : 'all' } as const) : {};
  if (!plan.enforce) {
    const shadow = charging({ ...rules, ...parts, ...history, isWatched: true }, withoutInFlight(budgets));
    const unbounded = { plan: plan.name, bans: null, bansIn: 0, ...parts, shadow, isShadowOnly: true } as const;
    return charging(unbounded, [withoutBounds(budgets)]);
  }
  const live = { ...rules, ...parts, ...history };
  const watched = windowsOf(plan.shadow, plan.shadowForms, NO_LIMITS);
  if (watched.limits.length === 0) return charging(live, budgets);
  const ofShadow = [...(customer === null ? [] : [budgetOf({ limits: [] })]), budgetOf({ scope, ...watched })];
  return charging({ ...live, shadow: charging({ ...rules, isWatched: true }, ofShadow) }, budgets);
}

function unitsOf(plan: Plan): Pick<Allowance, 'units'> {
  const names = unitNamesOf(plan);
  return names.length === 0 ? {} : { units: { names, shared: plan.units ?? [], eachKey: plan.eachKey?.units ?? [] } };
}

const NO_LIMITS: Limits = Object.freeze({});

type Windows = Pick<Budget, 'limits' | 'unlimited'>;

function windowsOf(
  planned: Plan['limits'],
  forms: WindowForms | undefined,
  own: Limits,
): Windows & { readonly missing: readonly WindowName[] } {
  const limits: WindowLimit[] = [];
  const unlimited: { window: WindowName; lengthMs: number }[] = [];
  const missing: WindowName[] = [];
  for (const window of WINDOWS) {
    const limit = own[window] ?? planned[window];
    if (limit === undefined) continue;
    if (limit === 'custom') missing.push(window);
    else if (limit === 'unlimited') unlimited.push({ window, lengthMs: WINDOW_MS[window] });
    else limits.push(windowLimit(window, limit, forms?.[window]));
  }
  return { limits, unlimited, missing };
}

/** The budget that bounds one key of a customer within the limits that all its keys share. */
function budgetOfEachKey({ eachKey, forms }: Plan, own: Limits): Budget {
  const each = windowsOf(eachKey?.limits ?? NO_LIMITS, { ...forms, ...eachKey?.forms }, own);
  return { ...budgetOf({ ...each, inFlight: eachKey?.inFlight }), ...ownIn(each, own) };
}

function ownIn({ limits }: Windows, own: Limits): Pick<Budget, 'own'> {
  const names = limits.map(({ window }) => window).filter((window) => own[window] !== undefined);
  return names.length === 0 ? {} : { own: names };
}

/** The budget of a key, or of a customer, in one unit. */
function unitBudgetOf(scope: Budget['scope'], group: string | null, { name: unit, limits, forms }: PlanUnit): Budget {
  return budgetOf({ scope, group, unit, ...windowsOf(limits, forms, NO_LIMITS) });
}

function planLimitsOf({ limits: given }: Plan, { limits }: Windows): Pick<Budget, 'planLimits'> {
  const others = limits.filter(({ window, limit }) => typeof given[window] === 'number' && given[window] !== limit);
  if (others.length === 0) return {};
  return { planLimits: Object.fromEntries(others.map(({ window }) => [window, given[window] as number])) };
}

/** The budget that callers see of a plan that is not enforced: the same windows, unlimited. */
function withoutBounds(budgets: readonly Budget[]): Budget {
  const all = budgets.flatMap(({ limits, unlimited }) => [...limits, ...unlimited].map(({ window }) => window));
  const windows = WINDOWS.filter((window) => all.includes(window));
  return budgetOf({ limits: [], unlimited: windows.map((window) => ({ window, lengthMs: WINDOW_MS[window] })) });
}

/** Watched limits do not count requests in flight. */
function withoutInFlight(budgets: readonly Budget[]): readonly Budget[] {
  return budgets.map(({ inFlight: _, ...budget }) => budget);
}

/**
 * The allowance of a request that belongs to some groups of routes and charges some units: with their budgets, and without the
 * plan's own limits if one of the groups replaces them.
 *
 * Attack: a client leaves the limits of the plan with a spelling of its path that only seems to be in a group which replaces them.
 * So with `IN_ONE_READING` they stay.
 * @param charged a bit for each group, and `IN_ONE_READING`, as `PathGroups.matching` makes them; and for each unit (`bitOfUnit`)
 */
export function withBudgets(allowance: Allowance, charged: number): Allowance {
  const { groups = [], units } = allowance;
  const found = groups.filter((_, i) => (charged & (1 << i)) !== 0);
  const chosen = (charged & IN_ONE_READING) === 0 ? found : besideThePlan(found);
  const inUnits = (units?.names ?? []).filter((_, i) => (charged & bitOfUnit(i)) !== 0);
  return chosen.length + inUnits.length === 0 ? allowance : chargedWith(allowance, chosen, inUnits);
}

/** The allowance with the budgets of all its groups and units, for reports. */
export function withAllBudgets(allowance: Allowance): Allowance {
  const { groups = [], units } = allowance;
  if (groups.length === 0 && units === undefined) return allowance;
  return chargedWith(allowance, besideThePlan(groups), units?.names ?? []);
}

function besideThePlan(groups: readonly PlanGroup[]): readonly PlanGroup[] {
  return groups.map((group) => ({ ...group, instead: false }));
}

function chargedWith(allowance: Allowance, groups: readonly PlanGroup[], inUnits: readonly string[]): Allowance {
  if (allowance.isShadowOnly) return { ...allowance, shadow: chargedWith(allowance.shadow!, groups, inUnits) };
  const whole = allowance.budgets.at(-1)!;
  const { scope } = whole;
  const ofGroups = groups.map(({ name: group, limits, forms }) => {
    return budgetOf({ scope, group, ...windowsOf(limits, forms, NO_LIMITS) });
  });
  const added = [...ofGroups, ...inUnits.flatMap((unit) => unitBudgetsOf(allowance, scope, groups, unit))];
  if (added.length === 0) return allowance;
  const charged = inUnits.filter((name) => added.some(({ unit }) => unit === name));
  const ofUnits = charged.length === 0 ? {} : { inUnits: charged };
  const isInstead = groups.some(({ instead }) => instead);
  const kept = isInstead ? { ...whole, limits: [], unlimited: [] } : whole;
  return charging({ ...allowance, ...ofUnits, base: allowance }, [...allowance.budgets.slice(0, -1), kept, ...added]);
}

/** The budgets of a unit. A group that replaces the plan's limits and also limits the unit replaces the plan's limits in that unit. */
function unitBudgetsOf(
  { units }: Allowance,
  scope: Budget['scope'],
  groups: readonly PlanGroup[],
  unit: string,
): readonly Budget[] {
  const named = (all: readonly PlanUnit[] | undefined) => all?.find(({ name }) => name === unit);
  const ofGroups = groups.flatMap((group) => {
    const limited = named(group.units);
    return limited === undefined ? [] : [{ group, limited }];
  });
  const shared = ofGroups.some(({ group }) => group.instead) ? undefined : named(units?.shared);
  const each = scope === 'customer' ? named(units?.eachKey) : undefined;
  return [
    ...(shared === undefined ? [] : [unitBudgetOf(scope, null, shared)]),
    ...(each === undefined ? [] : [unitBudgetOf('key', null, each)]),
    ...ofGroups.map(({ group, limited }) => unitBudgetOf(scope, group.name, limited)),
  ];
}
