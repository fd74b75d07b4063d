import { randomBytes } from 'node:crypto';
import type { Settings } from '../../config/settings.ts';
import type { PepperHistory } from '../../identify/pepper-record.ts';
import type { Plans } from '../../model/plan.ts';
import type { AuditStore } from '../audit-store.ts';
import {
  type AskedPage,
  type DeprecatedRouteCalls,
  type DeprecationPage,
  deprecatedCallsOfConsumer,
  deprecationPage,
} from '../deprecations.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { OperatorStore } from '../operator-store.ts';
import type { PlanDrafts } from '../plans/drafts.ts';
import type { PlansFile } from '../plans/plans-file.ts';
import type { PlansHistory } from '../plans/plans-history-store.ts';
import { goneElsewhere } from '../plans/versions.ts';
import type { PlansInForce } from '../plans/write.ts';
import type { PlanUserStores } from '../plans-in-use.ts';
import type { Stores } from '../stores.ts';

// What operations work on. Each face builds these from what it has open.

/** An open store, with the settings that decide how operators may use it. */
export interface StoreContext extends OperatorStore, Stores {
  /** The peppers that the store has had, and its own secret. @throws Failure */
  readonly pepperHistory: () => Promise<PepperHistory>;
  /** Lists the callers of deprecated routes, in the order of the settings, for this many days back, today included. */
  readonly deprecations: (days: number, page: AskedPage) => Promise<DeprecationPage>;
  /** Lists the deprecated routes that a consumer has called, for this many days back, today included. */
  readonly deprecatedCallsOf: (id: string, days: number) => Promise<readonly DeprecatedRouteCalls[]>;
  /** The routes of the settings, by pattern, each with whether it has `cache`. */
  readonly cachedPatterns: () => ReadonlyMap<string, boolean>;
  /** Whether the gateway keeps the usage history. */
  readonly keepsHistory: () => boolean;
  /** Whether the gateway keeps traffic over time. */
  readonly keepsTraffic: () => boolean;
  /** Whether the gateway keeps from where keys are called. */
  readonly keepsNetworks: () => boolean;
  /** What an operator is to do with a secret instead of searching for it. */
  readonly secretAdvice: string;
}

/** What a store context is made of. */
interface StoreParts extends Stores, Pick<OperatorStore, 'peppers' | 'plans' | 'nowMs'> {
  /** Returns the version of plans.yaml that is in force. */
  readonly plansVersion: () => string;
  readonly pepperHistory: StoreContext['pepperHistory'];
  /** Returns the settings in force. */
  readonly settings: () => Pick<Settings, 'routes' | 'keyFormats' | 'usageHistory' | 'keepsTraffic' | 'keepsNetworks'>;
  readonly secretAdvice: string;
}

export function storeContext({ plansVersion, settings, ...parts }: StoreParts): StoreContext {
  const { plansHistory, deprecatedCalls, nowMs } = parts;
  return {
    ...parts,
    goneElsewhere: () => goneElsewhere(parts.plans(), plansHistory, plansVersion()),
    random: randomBytes,
    deprecations: (days, page) => deprecationPage(settings().routes, parts, { days, nowMs: nowMs() }, page),
    deprecatedCallsOf: (id, days) =>
      deprecatedCallsOfConsumer(id, settings().routes, deprecatedCalls, { days, nowMs: nowMs() }),
    cachedPatterns: () => {
      const byPath = Map.groupBy(settings().routes, ({ path }) => path);
      return new Map([...byPath].map(([path, routes]) => [path, routes.some(({ cache }) => cache !== null)]));
    },
    keyFormats: () => settings().keyFormats,
    keepsHistory: () => settings().usageHistory,
    keepsTraffic: () => settings().keepsTraffic,
    keepsNetworks: () => settings().keepsNetworks,
  };
}

/** The files of settings: those in force, or those that a gateway would put in force. */
export interface SettingsContext {
  readonly plans: () => Plans;
  /** Returns the versions of gateway.yaml and plans.yaml. */
  readonly versions: () => { readonly settings: string; readonly plans: string };
  readonly routes: () => Settings['routes'];
}

/** The plans of a gateway, and its plans.yaml; or those that a command on the store knows of. */
export interface PlansContext {
  readonly drafts: PlanDrafts;
  readonly file: PlansFile;
  /**
   * Returns the plans in whose place a new file comes.
   * @throws Failure `conflict`, `store_corrupt`, `store_unavailable` if they cannot be read
   */
  readonly replaced: () => Promise<Plans>;
  /** What the gateway has in force. Null for a command, which waits for no gateway. */
  readonly inForce: PlansInForce | null;
  /** True if `admin.editPlans` is set. */
  readonly mayWrite: boolean;
  /** The keys and customers of the store, to count those that a change of plans affects. */
  readonly users: PlanUserStores;
  readonly audit: AuditStore;
  readonly plansHistory: PlansHistory;
}

/** The gateways on one store, as one of them sees them. */
export interface LiveContext {
  readonly fleet: Fleet;
  /** Rejects with Failure while the store is away. */
  readonly store: () => Promise<OperatorStore>;
}

export interface Contexts {
  readonly store: StoreContext;
  readonly settings: SettingsContext;
  readonly plans: PlansContext;
  readonly live: LiveContext;
}
