import { type Allowance, allowanceOf, plainAllowance } from '../../../src/admit/allowance.ts';
import { type WindowLimit, windowLimit } from '../../../src/admit/windows.ts';
import type { BanRule, CalendarForm, Plan, WindowForm, WindowForms } from '../../../src/model/plan.ts';
import type { WindowName } from '../../../src/model/values.ts';
import type { Chance } from '../../kit/chance.ts';
import { ZONES } from './store-judge.ts';

const DAY_MS = 86_400_000;
const WEEK_LIMIT = 10_000;
/** What requests charge besides, in half of the plans with several budgets. */
export const UNIT = 'tokens';

/** Small limits, so that short histories reach them. Each plan has a week that no history reaches or outlasts. */
export function planOf(chance: Chance): Allowance {
  const limits = [];
  for (const window of ['second', 'minute', 'hour', 'day'] as const) {
    if (chance.share() < 0.5)
      limits.push(windowLimit(window, chance.below(12) + (chance.share() < 0.9 ? 1 : 0), formOf(window, chance)));
  }
  limits.push(windowLimit('week', WEEK_LIMIT));
  return { ...plainAllowance('simulated', limits), bans: chance.share() < 0.4 ? null : bansOf(chance) };
}

function formOf(window: WindowName, chance: Chance): WindowForm {
  const kind = chance.below(3);
  if (kind === 0) return {};
  if (kind === 1 || window === 'second' || window === 'minute') return { slices: chance.of([4, 5, 12, 30]) };
  return { calendar: { unit: window as CalendarForm['unit'], zone: chance.of(Object.keys(ZONES)), anchor: 1 } };
}

function bansOf(chance: Chance): BanRule {
  return {
    after: 1 + chance.below(5),
    withinMs: chance.of([1_000, 10_000, 600_000]),
    firstMs: chance.of([500, 1_500, 60_000]),
    factor: chance.of([1, 1.5, 2]),
    longestMs: chance.of([60_000, 3_600_000]),
    forgetMs: chance.of([1_000, 60_000, DAY_MS]),
  };
}

/** Limits that are so large that the store lends, and that bursts of requests reach. */
export function planThatLends(chance: Chance, isOfCustomer: boolean): Allowance {
  const own = largeBudgetOf(chance);
  const eachKey = isOfCustomer && chance.share() < 0.6 ? { eachKey: largeBudgetOf(chance) } : {};
  const bans = { ...bansOf(chance), after: chance.of([1, 2, 5, 20, 200, 200]) };
  const plan: Plan = {
    name: 'simulated',
    ...own,
    bans: chance.share() < 0.3 ? null : bans,
    enforce: true,
    shadow: {},
    ...eachKey,
    ...(isOfCustomer && chance.share() < 0.4 ? { bansOfCustomer: true } : {}),
  };
  return allowanceOf(plan, {}, true, isOfCustomer ? { limits: {} } : null) as Allowance;
}

/** One to three windows, each with a larger limit than the one before, and the week. */
function largeBudgetOf(chance: Chance): { limits: Partial<Record<WindowName, number>>; forms: WindowForms } {
  const limits: Partial<Record<WindowName, number>> = {};
  const forms: Partial<Record<WindowName, WindowForm>> = {};
  let limit = chance.of([64, 70, 80, 100, 128, 150, 200, 320, 500, 700, 900, 1_200]);
  for (const window of ['second', 'minute', 'hour', 'day'] as const) {
    if (chance.share() < (window === 'second' ? 0.25 : 0.6)) continue;
    limits[window] = limit;
    forms[window] = chance.share() < 0.4 ? {} : formOf(window, chance);
    limit = Math.min(limit + chance.of([0, 30, 100, 400, 900]), 3_000);
  }
  return { limits: { ...limits, week: WEEK_LIMIT }, forms };
}

/** The same with groups of routes, usage histories, bounds of requests in flight and, of a customer, what each key may take. */
export function planOfSeveralBudgets(chance: Chance, isOfCustomer: boolean): Allowance {
  const { limits, forms } = budgetOf(chance);
  const hasUnits = chance.share() < 0.5;
  const unitsOf = (share: number) =>
    hasUnits && chance.share() < share ? { units: [{ name: UNIT, ...budgetOf(chance) }] } : {};
  const eachKey = chance.share() < 0.7 ? { ...budgetOf(chance), ...inFlightOf(chance), ...unitsOf(0.3) } : null;
  const groups = Array.from({ length: chance.below(3) }, (_, i) => {
    return { name: `g${i}`, routes: [], ...budgetOf(chance), instead: chance.share() < 0.3, ...unitsOf(0.3) };
  });
  const plan: Plan = {
    name: 'simulated',
    limits,
    forms,
    bans: chance.share() < 0.4 ? null : bansOf(chance),
    enforce: true,
    shadow: {},
    ...(isOfCustomer && eachKey !== null ? { eachKey } : {}),
    ...(groups.length === 0 ? {} : { groups }),
    ...inFlightOf(chance),
    ...unitsOf(0.9),
    ...(isOfCustomer && chance.share() < 0.4 ? { bansOfCustomer: true } : {}),
  };
  return allowanceOf(plan, {}, true, isOfCustomer ? { limits: {} } : null) as Allowance;
}

/** One to four windows with small limits, and the week. */
function budgetOf(chance: Chance): { limits: Partial<Record<WindowName, number>>; forms: WindowForms } {
  const limits: Partial<Record<WindowName, number>> = {};
  const forms: Partial<Record<WindowName, WindowForm>> = {};
  for (const window of ['second', 'minute', 'hour', 'day'] as const) {
    if (chance.share() < 0.6) continue;
    limits[window] = chance.below(15) + (chance.share() < 0.9 ? 1 : 0);
    forms[window] = formOf(window, chance);
  }
  return { limits: { ...limits, week: WEEK_LIMIT }, forms };
}

function inFlightOf(chance: Chance): { readonly inFlight?: number } {
  return chance.share() < 0.5 ? {} : { inFlight: 1 + chance.below(5) };
}

export function planText(plan: Allowance): string {
  const { bans, bansIn, groups = [], units } = plan;
  const windowsOf = ({ limits: of, forms }: NonNullable<Plan['units']>[number]) =>
    Object.entries(of).map(([window, limit]) => {
      return windowLimit(window as WindowName, limit as number, forms?.[window as WindowName]);
    });
  const budgets = [
    ...plan.budgets.map(({ name, limits, inFlight }) => budgetText(name === '' ? '' : `${name}: `, limits, inFlight)),
    ...groups.flatMap((group) => [
      budgetText(`group ${group.name}${group.instead ? ' instead' : ''}: `, windowsOf(group)),
      ...(group.units ?? []).map((unit) => budgetText(`${unit.name} of group ${group.name}: `, windowsOf(unit))),
    ]),
    ...(units?.shared ?? []).map((unit) => budgetText(`${unit.name}: `, windowsOf(unit))),
    ...(units?.eachKey ?? []).map((unit) => budgetText(`${unit.name} of each key: `, windowsOf(unit))),
  ];
  const rule = bans === null ? 'off' : `${bansIn === 1 ? 'of customer ' : ''}${JSON.stringify(bans)}`;
  return `${budgets.join('; ')}; bans ${rule}`;
}

function budgetText(name: string, limits: readonly WindowLimit[], inFlight?: number): string {
  const windows = limits.map(({ window, limit, slices, calendar }) => {
    if (slices !== undefined) return `${window} ${limit} in ${slices} slices`;
    return `${window} ${limit}${calendar === undefined ? '' : ` by the calendar of ${calendar.form.zone}`}`;
  });
  if (inFlight !== undefined) windows.push(`${inFlight} in flight`);
  return `${name}${windows.join(', ')}`;
}
