import type { Fault, Path } from '../../config/fault.ts';
import { type PlacedPlans, placed } from '../../config/plans-and-routes.ts';
import type { Plan } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import { type LiveKeysByPlan, usersText } from '../plans-in-use.ts';

// What is probably wrong with a file of plans, as far as only the store knows it: the callers that use the plans.

type Warn = (path: Path, message: string) => void;

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

/**
 * Warnings about these plans together with the live keys that will use them.
 * @param hasTokens whether gateway.yaml accepts tokens. They name plans too, and no store records which
 */
export function warningsOfUsers(plans: PlacedPlans, live: LiveKeysByPlan, hasTokens: boolean): readonly Fault[] {
  return placed(plans, (warn) => {
    for (const plan of plans.value.plans.values()) {
      const { keys = 0, customers = 0 } = live.get(plan.name) ?? {};
      if (keys + customers === 0 && !hasTokens) warn(['plans', plan.name], 'is used by no live key.');
      warnOfMissingLimits(plan, live, warn);
    }
  });
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
