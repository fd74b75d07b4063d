import { writtenDuration } from '../../config/setting-values.ts';
import {
  type BanRule,
  GROUP_MEMBERS,
  groupText,
  type LimitsPart,
  limitsText,
  type Plan,
  type Plans,
  type PlanUnit,
  type WindowForm,
  whenText,
  wholeForm,
  windowsIn,
} from '../../model/plan.ts';
import { eachWindow, WINDOWS, type WindowName } from '../../model/values.ts';
import type { LiveKeys, LiveKeysByPlan } from '../plans-in-use.ts';
import type { PlansChange } from './draft-report.ts';

/** The difference in words: `starter minute 10 → 6`, `plan pro added`. */
export function changeText({ plan, what, change, from, to }: PlansChange): string {
  if (what === 'plan') return `plan ${plan} ${change}`;
  const name = `${plan === null ? '' : `${plan} `}${what.replace(/^limits\./, '')}`;
  if (from === null) return `${name} ${to} added`;
  return to === null ? `${name} ${from} removed` : `${name} ${from} → ${to}`;
}

type Value = number | string | null;

/** Every difference between two files of plans: first the plans of the old file, in its order, then the new ones. */
export function changesBetween(before: Plans, after: Plans, live: LiveKeysByPlan | null): readonly PlansChange[] {
  const names = new Set([...before.plans.keys(), ...after.plans.keys()]);
  const changes = [...names].flatMap((name) => {
    const [old, now] = [before.plans.get(name), after.plans.get(name)];
    const users = live === null ? null : (live.get(name) ?? NO_LIVE_KEYS);
    if (old !== undefined && now !== undefined) return changesOfPlan(old, now, users);
    const whole = change(name, 'plan', old === undefined ? null : 'here', now === undefined ? null : 'here');
    return affecting(whole, users).map((one) => ({ ...one, from: null, to: null, breaks: now === undefined }));
  });
  const failedAuthentication = change(
    null,
    'failed-authentication.minute',
    before.failedAuthenticationPerMinute,
    after.failedAuthenticationPerMinute,
  );
  return [...changes, ...failedAuthentication];
}

const NO_LIVE_KEYS: LiveKeys = {
  ...{ keys: 0, own: eachWindow(() => 0), customers: 0, customersOwn: eachWindow(() => 0) },
  ...{ ofCustomers: 0, limitedByCustomer: eachWindow(() => 0), ownOfCustomers: eachWindow(() => 0) },
};

function changesOfPlan(old: Plan, now: Plan, live: LiveKeys | null): readonly PlansChange[] {
  const { name } = old;
  // A key with its own limit is not affected, nor is one whose customer has its own.
  const limits = WINDOWS.flatMap((window) =>
    change(name, `limits.${window}`, old.limits[window] ?? null, now.limits[window] ?? null).map((one) => ({
      ...one,
      ...(live === null
        ? {}
        : {
            keys: live.keys - live.own[window] - live.limitedByCustomer[window],
            keysOfCustomers: live.ofCustomers - live.limitedByCustomer[window],
            customers: live.customers - live.customersOwn[window],
          }),
      breaks: one.to === 'custom',
    })),
  );
  const others = [
    ...changesOfForms(name, 'limits', old, now),
    ...lostForms(name, old, now),
    ...changesOfBans(name, old.bans, now.bans),
    ...change(name, 'enforce', String(old.enforce), String(now.enforce)),
    ...changesOfLimits(name, 'shadow', shadowOf(old), shadowOf(now)),
    ...changesOfUnits(name, 'units', [old.units, now.units]),
    ...changesOfGroups(old, now),
    ...change(name, 'in-flight', old.inFlight ?? null, now.inFlight ?? null),
  ];
  return [...limits, ...affecting(others, live), ...changesForCustomers(old, now, live)];
}

function shadowOf({ shadow, shadowForms }: Plan): LimitsPart {
  return { limits: shadow, forms: shadowForms };
}

/** What differs for keys of customers alone. */
function changesForCustomers(old: Plan, now: Plan, live: LiveKeys | null): readonly PlansChange[] {
  const { name } = old;
  const [of, isOf] = [old, now].map(({ bansOfCustomer }) => (bansOfCustomer ? 'customer' : 'key'));
  const whole = [
    ...(now.bans === null ? [] : change(name, 'bans.of', of!, isOf!)),
    ...changesOfForms(name, 'each-key', old.eachKey ?? NO_LIMITS, now.eachKey ?? NO_LIMITS),
    ...changesOfUnits(name, 'each-key.units', [old.eachKey?.units, now.eachKey?.units]),
    ...change(name, 'each-key.in-flight', old.eachKey?.inFlight ?? null, now.eachKey?.inFlight ?? null),
  ];
  const limits = WINDOWS.flatMap((window) => {
    const [from, to] = [old, now].map(({ eachKey }) => eachKey?.limits[window] ?? null);
    const own = live?.ownOfCustomers[window] ?? 0;
    const keys = (live?.ofCustomers ?? 0) - own;
    return affecting(change(name, `each-key.${window}`, from!, to!), live && { ...live, keys, ofCustomers: keys });
  });
  return [...limits, ...affecting(whole, live && { ...live, keys: live.ofCustomers })];
}

function changesOfGroups(old: Plan, now: Plan): readonly PlansChange[] {
  const plan = old.name;
  return changesOfNamed(plan, 'groups', [old.groups, now.groups], groupText, (path, was, is) => {
    return [
      ...GROUP_MEMBERS.flatMap((kind) => [
        ...without(was[kind], is[kind]).flatMap((one) => change(plan, `${path}.${kind}`, one, null)),
        ...without(is[kind], was[kind]).flatMap((one) => change(plan, `${path}.${kind}`, null, one)),
      ]),
      ...change(plan, `${path}.when`, whenText(was), whenText(is)),
      ...changesOfLimits(plan, `${path}.limits`, was, is),
      ...changesOfUnits(plan, `${path}.units`, [was.units, is.units]),
      ...change(plan, `${path}.instead`, String(was.instead), String(is.instead)),
    ];
  });
}

function without(all: readonly string[], others: readonly string[]): readonly string[] {
  return all.filter((one) => !others.includes(one));
}

function changesOfUnits(plan: string, path: string, units: BeforeAndAfter<PlanUnit>): readonly PlansChange[] {
  return changesOfNamed(plan, path, units, limitsText, (at, was, is) => changesOfLimits(plan, at, was, is));
}

type BeforeAndAfter<T> = readonly [old: readonly T[] | undefined, now: readonly T[] | undefined];

/** What differs between parts with names: of one that both files have what `changesOf` finds, of any other the whole. */
function changesOfNamed<T extends { readonly name: string }>(
  plan: string,
  path: string,
  parts: BeforeAndAfter<T>,
  textOf: (part: T) => string,
  changesOf: (path: string, was: T, is: T) => readonly PlansChange[],
): readonly PlansChange[] {
  const names = new Set(parts.flatMap((all = []) => all.map(({ name }) => name)));
  return [...names].flatMap((name) => {
    const [was, is] = parts.map((all) => all?.find((part) => part.name === name));
    const at = `${path}.${name}`;
    if (was !== undefined && is !== undefined) return changesOf(at, was, is);
    return change(plan, at, was === undefined ? null : textOf(was), is === undefined ? null : textOf(is));
  });
}

/** With how many live keys and customers the changes affect: all of the plan. */
function affecting(
  changes: readonly PlansChange[],
  users: Pick<LiveKeys, 'keys' | 'ofCustomers' | 'customers'> | null,
): readonly PlansChange[] {
  const { keys = null, ofCustomers: keysOfCustomers = null, customers = null } = users ?? {};
  return changes.map((one) => ({ ...one, keys, keysOfCustomers, customers }));
}

const NO_LIMITS: LimitsPart = { limits: {} };

function changesOfLimits(plan: string, path: string, old: LimitsPart, now: LimitsPart): readonly PlansChange[] {
  return [
    ...WINDOWS.flatMap((window) =>
      change(plan, `${path}.${window}`, old.limits[window] ?? null, now.limits[window] ?? null),
    ),
    ...changesOfForms(plan, path, old, now),
  ];
}

/** What differs in the kinds of windows that NEW limits. A key's own limit has the kind of its plan. */
function changesOfForms(plan: string, path: string, old: LimitsPart, now: LimitsPart): readonly PlansChange[] {
  return windowsIn(now.limits).flatMap((window) => {
    const isNew = old.limits[window] === undefined;
    const to = settingsOf(window, now.forms?.[window]);
    // A new window is a fixed one unless NEW says otherwise.
    const from = isNew
      ? { ...NO_SETTINGS, window: to.window === 'fixed' ? 'fixed' : null }
      : settingsOf(window, old.forms?.[window]);
    return changesOfSettings(`${path}.${window}`, plan, from, to);
  });
}

function changesOfSettings(
  path: string,
  plan: string,
  from: WindowSettings,
  to: WindowSettings,
): readonly PlansChange[] {
  const settings = ['window', 'slices', 'align', 'zone', 'anchor'] as const;
  return settings.flatMap((setting) => change(plan, `${path}.${setting}`, from[setting], to[setting]));
}

type WindowSettings = Readonly<Record<'window' | 'slices' | 'align' | 'zone' | 'anchor', Value>>;

/** What differs for keys with their own limit of a window that NEW lacks: it loses the kind that the plan gave it. */
function lostForms(plan: string, old: LimitsPart, now: LimitsPart): readonly PlansChange[] {
  return windowsIn(old.limits)
    .filter((window) => now.limits[window] === undefined)
    .flatMap((window) => {
      const had = settingsOf(window, old.forms?.[window]);
      return changesOfSettings(`limits.${window}`, plan, had, settingsOf(window, undefined));
    });
}

const NO_SETTINGS = { window: null, slices: null, align: null, zone: null, anchor: null } as const;

/** The settings of plans.yaml that give a window this kind, with their defaults; null for those that it does not have. */
function settingsOf(window: WindowName, form: WindowForm | undefined) {
  const { slices, calendar } = wholeForm(window, form);
  if (calendar === undefined) {
    return { ...NO_SETTINGS, window: slices === undefined ? 'fixed' : 'sliding', slices: slices ?? null };
  }
  // As text: a later day is not a larger limit.
  const anchor = window === 'month' ? String(calendar.anchor) : null;
  return { ...NO_SETTINGS, align: 'calendar', zone: calendar.zone, anchor };
}

function changesOfBans(plan: string, old: BanRule | null, now: BanRule | null): readonly PlansChange[] {
  if (old === null || now === null) return change(plan, 'bans', old && 'on', now && 'on');
  const durations = (['withinMs', 'firstMs', 'longestMs', 'forgetMs'] as const).flatMap((name) => {
    const changed = change(plan, `bans.${name.slice(0, -2)}`, old[name], now[name]);
    return changed.map((one) => ({ ...one, from: writtenDuration(old[name]), to: writtenDuration(now[name]) }));
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
  const uncounted = { keys: null, keysOfCustomers: null, customers: null };
  return [{ plan, what, change: kindOf(from, to), from, to, ...uncounted, breaks: false }];
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
