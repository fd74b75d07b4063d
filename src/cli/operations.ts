import { type StoreContext, storeContext } from '../operations/catalogue/contexts.ts';
import type { Operations } from '../operations/operations.ts';
import type { OpenStore } from '../serve/open-store.ts';

/** What the operations of commands work on. */
export function contextOn(store: OpenStore): StoreContext {
  const { plans, plansVersion, settings } = store;
  const inForce = { plans: () => plans, plansVersion: () => plansVersion, settings: () => settings };
  return storeContext({ ...store, ...inForce, secretAdvice: '', nowMs: () => Date.now() });
}

/** The operations on the keys and bans of an open store, the same ones that the admin API offers. */
export function operationsOn(store: OpenStore): Operations {
  return contextOn(store).operations;
}
