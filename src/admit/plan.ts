/** The quota windows there are, shortest first. The order is also the order in which headers list them. */
export const WINDOWS = ['second', 'minute', 'hour', 'day'] as const;

export type WindowName = (typeof WINDOWS)[number];

export const WINDOW_MS: Readonly<Record<WindowName, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
};

/** Requests a window admits: a whole number from 0, or no bound at all. */
export type Limit = number | 'unlimited';

export type Limits = Readonly<Partial<Record<WindowName, Limit>>>;

/** The largest finite limit: the largest integer of a structured field (RFC 9651 section 3.3.1). */
export const MAX_LIMIT = 999_999_999_999_999;

/** When hammering after a 429 becomes a ban, and how bans grow (contract section 3). */
export interface BanRule {
  /** Refusals that make a ban; the `after`-th one is already answered as banned. */
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
  /** Null where the plan says `bans: off`. */
  readonly bans: BanRule | null;
  /** False: its limits are counted and reported, and refuse nobody. */
  readonly enforce: boolean;
  /** Limits that are counted beside those above and refuse nobody; empty where there are none. */
  readonly shadow: Readonly<Partial<Record<WindowName, number>>>;
}

/** plans.yaml as a whole. Frozen; a reload makes a new one. */
export interface Plans {
  readonly plans: ReadonlyMap<string, Plan>;
  /** Names of plans that are gone on purpose, although live keys may have them. */
  readonly removed: readonly string[];
  /** Failed authentications that one client address may make per minute. */
  readonly failedAuthenticationPerMinute: number;
}

/** One window of an allowance that is counted. */
export interface WindowLimit {
  readonly window: WindowName;
  readonly lengthMs: number;
  readonly limit: number;
}

/** What one consumer may do: its plan with its own limits laid over it, ready for `decide`. */
export interface Allowance {
  readonly plan: string;
  /** The counted windows, shortest first. */
  readonly limits: readonly WindowLimit[];
  /** The windows without a bound, shortest first; they are told, not counted. */
  readonly unlimited: readonly { readonly window: WindowName; readonly lengthMs: number }[];
  readonly bans: BanRule | null;
  /** The windows whose limit is the key's own and not its plan's; left out where there are none. */
  readonly own?: readonly WindowName[];
  /** What is counted beside it, under `shadowIdOf`, and refuses nobody. */
  readonly shadow?: Allowance;
  /** Nothing of this consumer is decided: only its shadow is counted. */
  readonly isShadowOnly?: true;
}

/** What stands behind a consumer's id where its shadow is counted; no consumer's own id has it. */
const SHADOW = '~shadow';

export function shadowIdOf(consumerId: string): string {
  return `${consumerId}${SHADOW}`;
}

export function isShadowId(id: string): boolean {
  return id.endsWith(SHADOW);
}

/**
 * Lays a key's own limits over its plan's, one window at a time (contract section 2).
 * @returns the windows that are `custom` in the plan and missing in `own`, when there are any: such a key cannot be used.
 */
export function allowanceOf(plan: Plan, own: Limits): Allowance | { readonly missing: readonly WindowName[] } {
  const limits: WindowLimit[] = [];
  const unlimited: { window: WindowName; lengthMs: number }[] = [];
  const missing: WindowName[] = [];
  for (const window of WINDOWS) {
    const limit = own[window] ?? plan.limits[window];
    if (limit === undefined) continue;
    if (limit === 'custom') missing.push(window);
    else if (limit === 'unlimited') unlimited.push({ window, lengthMs: WINDOW_MS[window] });
    else limits.push({ window, lengthMs: WINDOW_MS[window], limit });
  }
  if (missing.length > 0) return { missing };
  const ownWindows = limits.map(({ window }) => window).filter((window) => own[window] !== undefined);
  const live: Allowance = {
    plan: plan.name,
    limits,
    unlimited,
    bans: plan.bans,
    ...(ownWindows.length === 0 ? {} : { own: ownWindows }),
  };
  if (!plan.enforce) return Object.freeze({ ...withoutBounds(live), shadow: Object.freeze(live), isShadowOnly: true });
  const watched = WINDOWS.flatMap((window) => {
    const limit = plan.shadow[window];
    return limit === undefined ? [] : [{ window, lengthMs: WINDOW_MS[window], limit }];
  });
  if (watched.length === 0) return Object.freeze(live);
  return Object.freeze({
    ...live,
    shadow: Object.freeze({ plan: plan.name, limits: watched, unlimited: [], bans: plan.bans }),
  });
}

/** What the caller is told of a plan that is not enforced: the same windows without a bound. */
function withoutBounds({ plan, limits, unlimited }: Allowance): Allowance {
  const all = [...limits, ...unlimited].map(({ window, lengthMs }) => ({ window, lengthMs }));
  const told = all.sort((a, b) => a.lengthMs - b.lengthMs);
  return { plan, limits: [], unlimited: told, bans: null };
}
