import type { Limit, Limits, Plan, Plans } from '../../model/plan.ts';
import { WINDOWS, type WindowName } from '../../model/values.ts';
import type { PlanUser } from '../plans-in-use.ts';
import type { AffectedPlan, PlansChange } from './draft-report.ts';

// Which keys and customers a change of plans affects. Keys of customers are not named: their customer stands for them.

/** Callers that are named of one plan, and of all plans together. The others are counted. */
export const MAX_NAMED = { ofPlan: 50, inAll: 1_000 };

type CallerName = Pick<PlanUser, 'id' | 'name' | 'owner'>;

/** Whom the change of a plan affects. */
interface Reach {
  /** All who have no limit of their own in one of these windows. */
  readonly windows: readonly WindowName[];
  readonly customers: boolean;
  readonly all: boolean;
}

/** Whom each changed plan affects. A thread can be sent it. */
export type Reaches = ReadonlyMap<string, Reach>;

export function reachesOf(changes: readonly PlansChange[]): Reaches {
  const ofPlans = Map.groupBy(
    changes.filter(({ plan }) => plan !== null),
    ({ plan }) => plan!,
  );
  return new Map([...ofPlans].map(([plan, ofPlan]) => [plan, reachOf(ofPlan.map(({ what }) => what))]));
}

function reachOf(paths: readonly string[]): Reach {
  const windows = WINDOWS.filter((window) => paths.includes(`limits.${window}`));
  const isForCustomers = (path: string) => path.startsWith('each-key.') || path === 'bans.of';
  return {
    windows,
    customers: paths.some(isForCustomers),
    all: paths.some((path) => !isForCustomers(path) && !windows.some((window) => path === `limits.${window}`)),
  };
}

/** The affected callers of a plan, before their limits are known. A thread can be sent it. */
export interface ReachedPlan extends Pick<AffectedPlan, 'keys' | 'customers'> {
  readonly named: readonly (CallerName & { readonly own: Limits })[];
}

/** Collects whom changes affect, from all live users of plans. */
export class ReachedCallers {
  readonly #reaches: Reaches;
  readonly #byPlan = new Map<string, { keys: number; customers: number; named: ReachedPlan['named'][number][] }>();
  #named = 0;

  constructor(reaches: Reaches) {
    this.#reaches = reaches;
  }

  get byPlan(): ReadonlyMap<string, ReachedPlan> {
    return this.#byPlan;
  }

  add({ id, name, owner, plan, limits: own }: PlanUser, kind: 'keys' | 'customers'): void {
    const reach = this.#reaches.get(plan);
    if (reach === undefined) return;
    const isReached =
      reach.all ||
      (reach.customers && kind === 'customers') ||
      reach.windows.some((window) => own[window] === undefined);
    if (!isReached) return;
    const reached = this.#byPlan.get(plan) ?? { keys: 0, customers: 0, named: [] };
    this.#byPlan.set(plan, reached);
    reached[kind]++;
    if (reached.named.length === MAX_NAMED.ofPlan || this.#named === MAX_NAMED.inAll) return;
    this.#named++;
    reached.named.push({ id, name, owner, own });
  }
}

/** The affected plans in the order of the changes, and what changes for each caller that is named. */
export function affectedBy(
  reached: ReadonlyMap<string, ReachedPlan>,
  reaches: Reaches,
  {
    before,
    after,
    changes,
  }: { readonly before: Plans; readonly after: Plans; readonly changes: readonly PlansChange[] },
): readonly AffectedPlan[] {
  return [...reaches.keys()].flatMap((plan) => {
    const ofPlan = reached.get(plan);
    if (ofPlan === undefined) return [];
    const { named, keys, customers } = ofPlan;
    const [old, now] = [before.plans.get(plan), after.plans.get(plan)];
    const callers = named.map(({ own, ...caller }) => ({
      ...caller,
      breaks: isBroken(now, own),
      limits: changedLimits(old, now, own),
    }));
    const widest = changes.filter((one) => one.plan === plan).map(({ keysOfCustomers }) => keysOfCustomers ?? 0);
    return [{ plan, keys, customers, keysOfCustomers: Math.max(0, ...widest), callers }];
  });
}

function changedLimits(
  old: Plan | undefined,
  now: Plan | undefined,
  own: Limits,
): AffectedPlan['callers'][number]['limits'] {
  return WINDOWS.flatMap((window) => {
    const [from, to] = [old, now].map((plan) => limitIn(plan, own, window));
    return from === to ? [] : [{ window, from: from!, to: to! }];
  });
}

function isBroken(now: Plan | undefined, own: Limits): boolean {
  return now === undefined || WINDOWS.some((window) => (own[window] ?? now.limits[window]) === 'custom');
}

/** The limit of a caller of the plan; null if it has none, or can no longer be served. */
function limitIn(plan: Plan | undefined, own: Limits, window: WindowName): Limit | null {
  if (plan === undefined) return null;
  const limit = own[window] ?? plan.limits[window] ?? null;
  return limit === 'custom' ? null : limit;
}
