import type { Plan } from '../model/plan.ts';
import { type StoreContext, storeContext } from '../operations/catalogue/contexts.ts';
import { goneElsewhere, goneElsewhereText } from '../operations/plans/history.ts';
import type { OpenKeys, OpenStore } from '../serve/open-store.ts';

/** What the operations of commands work on. */
export function contextOn(store: OpenStore): StoreContext {
  const { plans, plansVersion, settings } = store;
  const inForce = { plans: () => plans, plansVersion: () => plansVersion, settings: () => settings };
  return storeContext({ ...store, ...inForce, secretAdvice: '', nowMs: () => Date.now() });
}

/** The plans that a file of keys may name: those of the settings, without those that gateways have removed since. */
export async function plansToUse(
  { plans, plansHistory, plansVersion }: Pick<OpenKeys, 'plans' | 'plansHistory' | 'plansVersion'>,
  warn: (text: string) => void,
): Promise<ReadonlyMap<string, Plan>> {
  const gone = await goneElsewhere(plans, plansHistory, plansVersion);
  for (const plan of gone) warn(`warning: ${goneElsewhereText(plan)}. No key is given it.\n`);
  return new Map([...plans.plans].filter(([name]) => !gone.has(name)));
}
