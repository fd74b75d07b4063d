import { type BanRule, type Plan, type Plans, WINDOWS, type WindowName } from '../admit/plan.ts';
import type { LiveKeys, LiveKeysByPlan } from './plans-live-keys.ts';

/** One thing that one file of plans says otherwise than another. */
export interface PlansChange {
  /** Null for what concerns no plan. */
  readonly plan: string | null;
  /** As in the file: `limits.minute`, `bans.first`, `enforce`; `plan` for the plan as a whole. */
  readonly what: string;
  readonly change: 'added' | 'removed' | 'raised' | 'lowered' | 'changed';
  /** Null where there was none, or will be none. */
  readonly from: number | string | null;
  readonly to: number | string | null;
  /** Live keys that it touches: not those that have a limit of their own in its place. Null where nobody has looked. */
  readonly keys: number | null;
  /** These keys could not be served any more. */
  readonly breaks: boolean;
}

type Value = number | string | null;

/** All that changes from one file of plans to another, plan by plan in the order of the old one. */
export function changesBetween(before: Plans, after: Plans, live: LiveKeysByPlan | null): readonly PlansChange[] {
  const names = new Set([...before.plans.keys(), ...after.plans.keys()]);
  const changes = [...names].flatMap((name) => {
    const [old, now] = [before.plans.get(name), after.plans.get(name)];
    const keys = live === null ? null : (live.get(name) ?? NONE);
    if (old !== undefined && now !== undefined) return changesOfPlan(old, now, keys);
    const whole = change(name, 'plan', old === undefined ? null : 'here', now === undefined ? null : 'here');
    return whole.map((it) => ({ ...it, from: null, to: null, keys: keys?.keys ?? null, breaks: now === undefined }));
  });
  const attempts = change(
    null,
    'failed-authentication.minute',
    before.failedAuthenticationPerMinute,
    after.failedAuthenticationPerMinute,
  );
  return [...changes, ...attempts];
}

const NONE: LiveKeys = { keys: 0, own: { second: 0, minute: 0, hour: 0, day: 0 } };

function changesOfPlan(old: Plan, now: Plan, live: LiveKeys | null): readonly PlansChange[] {
  const { name } = old;
  const followers = (window: WindowName) => (live === null ? null : live.keys - live.own[window]);
  const limits = WINDOWS.flatMap((window) =>
    change(name, `limits.${window}`, old.limits[window] ?? null, now.limits[window] ?? null).map((it) => ({
      ...it,
      keys: followers(window),
      breaks: it.to === 'custom',
    })),
  );
  const others = [
    ...changesOfBans(name, old.bans, now.bans),
    ...change(name, 'enforce', String(old.enforce), String(now.enforce)),
    ...WINDOWS.flatMap((it) => change(name, `shadow.${it}`, old.shadow[it] ?? null, now.shadow[it] ?? null)),
  ];
  return [...limits, ...others.map((it) => ({ ...it, keys: live?.keys ?? null }))];
}

function changesOfBans(plan: string, old: BanRule | null, now: BanRule | null): readonly PlansChange[] {
  if (old === null || now === null) return change(plan, 'bans', old && 'on', now && 'on');
  const durations = (['withinMs', 'firstMs', 'longestMs', 'forgetMs'] as const).flatMap((name) => {
    const changed = change(plan, `bans.${name.slice(0, -2)}`, old[name], now[name]);
    return changed.map((it) => ({ ...it, from: durationText(old[name]), to: durationText(now[name]) }));
  });
  return [
    ...change(plan, 'bans.after', old.after, now.after),
    ...durations,
    ...change(plan, 'bans.factor', old.factor, now.factor),
  ];
}

/** None where both are the same, else the one. */
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

/** Null for what is neither more nor less than a number. */
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

/** As the file would say it: `90s`, `1m`. */
function durationText(ms: number): string {
  const [unit, length] = UNITS.find(([, length]) => ms % length === 0) ?? ['ms', 1];
  return `${ms / length}${unit}`;
}
