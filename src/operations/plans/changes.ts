import type { BanRule, Plan, Plans } from '../../admit/plan.ts';
import { eachWindow, WINDOWS, type WindowForm, type WindowName, windowLimit } from '../../admit/windows.ts';
import type { LiveKeys, LiveKeysByPlan } from '../plans-in-use.ts';

/** One difference between two files of plans. */
export interface PlansChange {
  /** Null for a setting outside the plans. */
  readonly plan: string | null;
  /** The path below the plan, such as `limits.minute`, `limits.minute.window` or `enforce`; `plan` for the whole plan. */
  readonly what: string;
  readonly change: 'added' | 'removed' | 'raised' | 'lowered' | 'changed';
  /** Null if the old file has no value. */
  readonly from: number | string | null;
  /** Null if the new file has no value. */
  readonly to: number | string | null;
  /** How many live keys the change affects. A key with its own limit is not affected. Null if the keys were not counted. */
  readonly keys: number | null;
  /** True if the gateway could no longer serve these keys. */
  readonly breaks: boolean;
}

/** The difference in words: `starter minute 10 → 6`, `plan pro added`. */
export function changeText({ plan, what, change, from, to }: PlansChange): string {
  if (what === 'plan') return `plan ${plan} ${change}`;
  const name = `${plan === null ? '' : `${plan} `}${what.replace(/^limits\./, '')}`;
  if (from === null) return `${name} ${to} added`;
  return to === null ? `${name} ${from} removed` : `${name} ${from} → ${to}`;
}

/** True if a running gateway would refuse the change: live keys use a plan that is removed and not named in `removed`. */
export function isRefused({ plan, what, change, keys }: PlansChange, { removed }: Plans): boolean {
  return what === 'plan' && change === 'removed' && keys !== null && keys > 0 && !removed.includes(plan!);
}

type Value = number | string | null;

/** Every difference between two files of plans: first the plans of the old file, in its order, then the new ones. */
export function changesBetween(before: Plans, after: Plans, live: LiveKeysByPlan | null): readonly PlansChange[] {
  const names = new Set([...before.plans.keys(), ...after.plans.keys()]);
  const changes = [...names].flatMap((name) => {
    const [old, now] = [before.plans.get(name), after.plans.get(name)];
    const keys = live === null ? null : (live.get(name) ?? NO_LIVE_KEYS);
    if (old !== undefined && now !== undefined) return changesOfPlan(old, now, keys);
    const whole = change(name, 'plan', old === undefined ? null : 'here', now === undefined ? null : 'here');
    return whole.map((one) => ({ ...one, from: null, to: null, keys: keys?.keys ?? null, breaks: now === undefined }));
  });
  const failedAuthentication = change(
    null,
    'failed-authentication.minute',
    before.failedAuthenticationPerMinute,
    after.failedAuthenticationPerMinute,
  );
  return [...changes, ...failedAuthentication];
}

const NO_LIVE_KEYS: LiveKeys = { keys: 0, own: eachWindow(() => 0) };

function changesOfPlan(old: Plan, now: Plan, live: LiveKeys | null): readonly PlansChange[] {
  const { name } = old;
  const keysWithoutOwnLimit = (window: WindowName) => (live === null ? null : live.keys - live.own[window]);
  const limits = WINDOWS.flatMap((window) =>
    change(name, `limits.${window}`, old.limits[window] ?? null, now.limits[window] ?? null).map((one) => ({
      ...one,
      keys: keysWithoutOwnLimit(window),
      breaks: one.to === 'custom',
    })),
  );
  const others = [
    ...changesOfForms(name, 'limits', old, now),
    ...changesOfBans(name, old.bans, now.bans),
    ...change(name, 'enforce', String(old.enforce), String(now.enforce)),
    ...WINDOWS.flatMap((window) =>
      change(name, `shadow.${window}`, old.shadow[window] ?? null, now.shadow[window] ?? null),
    ),
    ...changesOfForms(name, 'shadow', old, now),
  ];
  return [...limits, ...others.map((one) => ({ ...one, keys: live?.keys ?? null }))];
}

/** What differs in the kinds of windows that NEW limits. A key's own limit has the kind of its plan. */
function changesOfForms(plan: string, part: 'limits' | 'shadow', old: Plan, now: Plan): readonly PlansChange[] {
  const forms = part === 'limits' ? 'forms' : 'shadowForms';
  return WINDOWS.filter((window) => now[part][window] !== undefined).flatMap((window) => {
    const isNew = old[part][window] === undefined;
    const to = settingsOf(window, now[forms]?.[window]);
    // A new window is a fixed one unless NEW says otherwise.
    const from = isNew
      ? { ...NO_SETTINGS, window: to.window === 'fixed' ? 'fixed' : null }
      : settingsOf(window, old[forms]?.[window]);
    const settings = ['window', 'slices', 'align', 'zone', 'anchor'] as const;
    return settings.flatMap((setting) => change(plan, `${part}.${window}.${setting}`, from[setting], to[setting]));
  });
}

const NO_SETTINGS = { window: null, slices: null, align: null, zone: null, anchor: null } as const;

/** The settings of plans.yaml that give a window this kind, with their defaults; null for those that it does not have. */
function settingsOf(window: WindowName, form: WindowForm | undefined) {
  const { slices, calendar } = windowLimit(window, 0, form);
  if (calendar === undefined) {
    return {
      ...NO_SETTINGS,
      window: slices === undefined ? 'fixed' : 'sliding',
      slices: slices ?? null,
    };
  }
  // As text: a later day is not a larger limit.
  const anchor = window === 'month' ? String(calendar.form.anchor) : null;
  return { ...NO_SETTINGS, align: 'calendar', zone: calendar.form.zone, anchor };
}

function changesOfBans(plan: string, old: BanRule | null, now: BanRule | null): readonly PlansChange[] {
  if (old === null || now === null) return change(plan, 'bans', old && 'on', now && 'on');
  const durations = (['withinMs', 'firstMs', 'longestMs', 'forgetMs'] as const).flatMap((name) => {
    const changed = change(plan, `bans.${name.slice(0, -2)}`, old[name], now[name]);
    return changed.map((one) => ({ ...one, from: durationText(old[name]), to: durationText(now[name]) }));
  });
  return [
    ...change(plan, 'bans.after', old.after, now.after),
    ...durations,
    ...change(plan, 'bans.factor', old.factor, now.factor),
  ];
}

/** Empty if both values are the same, else the one difference. */
function change(plan: string | null, what: string, from: Value, to: Value): readonly PlansChange[] {
  if (from === to) return [];
  return [{ plan, what, change: kindOf(from, to), from, to, keys: null, breaks: false }];
}

function kindOf(from: Value, to: Value): PlansChange['change'] {
  if (from === null) return 'added';
  if (to === null) return 'removed';
  const [low, high] = [sizeOf(from), sizeOf(to)];
  if (low === null || high === null) return 'changed';
  return low < high ? 'raised' : 'lowered';
}

/** The value as a number for comparison; null if it is not comparable (`custom`, `on`). */
function sizeOf(value: number | string): number | null {
  if (typeof value === 'number') return value;
  return value === 'unlimited' ? Number.POSITIVE_INFINITY : null;
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const;

/** The duration as plans.yaml writes it: `90s`, `1m`. */
function durationText(ms: number): string {
  const [unit, length] = UNITS.find(([, length]) => ms % length === 0) ?? ['ms', 1];
  return `${ms / length}${unit}`;
}
