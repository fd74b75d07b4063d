import { MAX_INTEGER } from '../http1/fields.ts';
import { WINDOW_MS, WINDOWS, type WindowForm, type WindowLimit, type WindowName, windowLimit } from './windows.ts';

/** How many requests a window admits: a whole number from 0, or `unlimited`. */
export type Limit = number | 'unlimited';

export type Limits = Readonly<Partial<Record<WindowName, Limit>>>;

/** The largest finite limit: a larger one could not be written into a RateLimit field. */
export const UNBOUNDED = MAX_INTEGER;

/** When refusals lead to a ban, and how long each further ban lasts (contract section 3). */
export interface BanRule {
  /** Strikes that lead to a ban. The request with the `after`-th strike already gets the ban answer. */
  readonly after: number;
  /** Strikes start from 0 again when this has passed since the first of them. */
  readonly withinMs: number;
  readonly firstMs: number;
  /** The n-th ban lasts `firstMs * factor ** (n - 1)`, at most `longestMs`. */
  readonly factor: number;
  readonly longestMs: number;
  /** The ladder starts at the bottom again when this has passed since the end of the last ban. */
  readonly forgetMs: number;
}

/** One plan of plans.yaml. `custom`: each key brings its own number. */
export interface Plan {
  readonly name: string;
  readonly limits: Readonly<Partial<Record<WindowName, Limit | 'custom'>>>;
  /** The windows of `limits` that are not fixed windows; left out if there are none. */
  readonly forms?: WindowForms;
  /** Null: `bans: off`. */
  readonly bans: BanRule | null;
  /** False: its limits are counted and reported, but refuse no request. */
  readonly enforce: boolean;
  /** Shadow limits, which are counted beside `limits` and refuse no request; empty if the plan has no such limits. */
  readonly shadow: Readonly<Partial<Record<WindowName, number>>>;
  readonly shadowForms?: WindowForms;
}

export type WindowForms = Readonly<Partial<Record<WindowName, WindowForm>>>;

/** The content of plans.yaml. Frozen; a reload makes a new object. */
export interface Plans {
  readonly plans: ReadonlyMap<string, Plan>;
  /** Names of plans that the operator has removed on purpose, although live keys may have them. */
  readonly removed: readonly string[];
  /** Failed authentications that one client address may make per minute. */
  readonly failedAuthenticationPerMinute: number;
}

/**
 * A budget that a request charges beside the consumer's own. Each budget has an account of its own (account-id.ts), and one
 * decision charges all of them or none.
 */
export interface Budget {
  /** What precedes the name of a window in header fields: `customer`, `search`, `customer-search`. */
  readonly name: string;
  /** Whose requests it counts: those of one consumer, or those of all consumers of its customer. */
  readonly scope: 'key' | 'customer';
  /** The group of routes whose requests it counts; null for all requests. */
  readonly group: string | null;
  readonly limits: readonly WindowLimit[];
  readonly unlimited: Allowance['unlimited'];
  /** How many requests may be in flight at a time; left out if any number may. */
  readonly inFlight?: number;
  /** The windows whose limit is the customer's own and not its plan's; left out if there are none. */
  readonly own?: readonly WindowName[];
}

/** The limits and bans that apply to one consumer: those of its plan, with its own in their place. Input of `decide`. */
export interface Allowance {
  readonly plan: string;
  /** Budgets beside the consumer's own; left out if there are none. That of a customer itself is the first. */
  readonly further?: readonly Budget[];
  /** How many requests of the consumer may be in flight at a time; left out if any number may. */
  readonly inFlight?: number;
  /** Set if some budget bounds the requests in flight. */
  readonly boundsInFlight?: true;
  /** Strikes and bans belong to the customer, not to the consumer: they are kept in the account of the first further budget. */
  readonly bansOfCustomer?: true;
  /** The counted windows, shortest first. */
  readonly limits: readonly WindowLimit[];
  /** The windows without a limit, shortest first. They are reported, not counted. */
  readonly unlimited: readonly { readonly window: WindowName; readonly lengthMs: number }[];
  readonly bans: BanRule | null;
  /** The windows whose limit is the key's own and not its plan's; left out if there are none. */
  readonly own?: readonly WindowName[];
  /** What the plan gives in those windows, if that is another number; left out if there are none. */
  readonly planLimits?: Readonly<Partial<Record<WindowName, number>>>;
  /** The shadow limits, counted under `shadowIdOf(consumerId)`. They refuse no request. */
  readonly shadow?: Allowance;
  /** The plan is not enforced: only the shadow is counted. */
  readonly isShadowOnly?: true;
  /**
   * Whether the store keeps a history of what is admitted; left out if it keeps none. `all`: of every request, because
   * these limits refuse no request.
   */
  readonly history?: 'admitted' | 'all';
}

const chargedLimits = new WeakMap<readonly Budget[], readonly WindowLimit[]>();

/** The counted windows of all budgets of an allowance, in the order of a verdict's standings. Always the same array. */
export function limitsOf({ limits, further }: Allowance): readonly WindowLimit[] {
  if (further === undefined) return limits;
  const known = chargedLimits.get(further);
  if (known !== undefined) return known;
  const all = [...limits, ...further.flatMap((budget) => budget.limits)];
  chargedLimits.set(further, all);
  return all;
}

/**
 * Replaces the limits of a plan by a key's own, one window at a time (contract section 2).
 * @returns the allowance; or, if there are any, the windows that are `custom` in the plan and missing in `own`: such a key
 *   cannot be used
 * @param keepsHistory whether the store keeps a history of what the consumer uses
 */
export function allowanceOf(
  plan: Plan,
  own: Limits,
  keepsHistory = false,
): Allowance | { readonly missing: readonly WindowName[] } {
  const limits: WindowLimit[] = [];
  const unlimited: { window: WindowName; lengthMs: number }[] = [];
  const missing: WindowName[] = [];
  for (const window of WINDOWS) {
    const limit = own[window] ?? plan.limits[window];
    if (limit === undefined) continue;
    if (limit === 'custom') missing.push(window);
    else if (limit === 'unlimited') unlimited.push({ window, lengthMs: WINDOW_MS[window] });
    else limits.push(windowLimit(window, limit, plan.forms?.[window]));
  }
  if (missing.length > 0) return { missing };
  const ownWindows = limits.map(({ window }) => window).filter((window) => own[window] !== undefined);
  const history = keepsHistory ? ({ history: plan.enforce ? 'admitted' : 'all' } as const) : {};
  const live: Allowance = {
    ...history,
    plan: plan.name,
    limits,
    unlimited,
    bans: plan.bans,
    ...(ownWindows.length === 0 ? {} : { own: ownWindows }),
    ...planLimitsOf(plan, limits),
  };
  if (!plan.enforce) return Object.freeze({ ...withoutBounds(live), shadow: Object.freeze(live), isShadowOnly: true });
  const shadowLimits = WINDOWS.flatMap((window) => {
    const limit = plan.shadow[window];
    return limit === undefined ? [] : [windowLimit(window, limit, plan.shadowForms?.[window])];
  });
  if (shadowLimits.length === 0) return Object.freeze(live);
  return Object.freeze({
    ...live,
    shadow: Object.freeze({ plan: plan.name, limits: shadowLimits, unlimited: [], bans: plan.bans }),
  });
}

function planLimitsOf({ limits: given }: Plan, limits: readonly WindowLimit[]): Pick<Allowance, 'planLimits'> {
  const others = limits.filter(({ window, limit }) => typeof given[window] === 'number' && given[window] !== limit);
  if (others.length === 0) return {};
  return { planLimits: Object.fromEntries(others.map(({ window }) => [window, given[window] as number])) };
}

/** The allowance that callers see of a plan that is not enforced: the same windows, unlimited. */
function withoutBounds({ plan, limits, unlimited }: Allowance): Allowance {
  const all = [...limits, ...unlimited].map(({ window, lengthMs }) => ({ window, lengthMs }));
  return { plan, limits: [], unlimited: all.sort((a, b) => a.lengthMs - b.lengthMs), bans: null };
}
