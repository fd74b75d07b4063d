import { isDeepStrictEqual } from 'node:util';
import type { Configuration, Settings } from '../config/settings.ts';
import type { Steps } from '../io/steps.ts';
import type { Plans } from '../model/plan.ts';
import type { TakenFile } from './load-record.ts';
import { changesBetween, changeText } from './plans/plan-changes.ts';

/** The names in gateway.yaml of settings that have another one in the code. */
const NAMES_IN_FILE: Readonly<Record<string, string>> = {
  keyFormats: 'keys.formats',
  keysFrom: 'keys.from',
  usageHistory: 'usage.history',
  keepsTraffic: 'usage.traffic',
  keepsNetworks: 'usage.networks',
  descriptions: 'validate',
};

/**
 * The files that differ between two configurations, and how: one step for each plan, route, upstream and setting.
 * @param later the settings that take effect at the next start only
 */
export function* takenBetween(
  before: Configuration,
  after: Configuration,
  later: readonly string[],
): Steps<readonly TakenFile[]> {
  const taken: TakenFile[] = [];
  for (const file of ['settings', 'plans'] as const) {
    const [was, version] = [before.versions[file], after.versions[file]];
    if (was === version) continue;
    const steps = file === 'plans' ? plansChanges(before.plans, after.plans) : settingsChanges(before, after, later);
    taken.push({ file, before: was, version, changes: yield* steps });
  }
  return taken;
}

function* plansChanges(before: Plans, after: Plans): Steps<readonly string[]> {
  const changes: string[] = [];
  const without = { plans: new Map() };
  for (const name of new Set([...before.plans.keys(), ...after.plans.keys()])) {
    const [was, is] = [before.plans.get(name), after.plans.get(name)];
    if (!isDeepStrictEqual(was, is)) {
      const only = (plan: typeof was) => new Map(plan === undefined ? [] : [[name, plan]]);
      const of = changesBetween({ ...after, plans: only(was) }, { ...after, plans: only(is) }, null);
      changes.push(...of.map(changeText));
    }
    yield;
  }
  const others = changesBetween({ ...before, ...without }, { ...after, ...without }, null);
  return [...changes, ...others.map(changeText)];
}

function* settingsChanges(
  { settings: before }: Configuration,
  { settings: after }: Configuration,
  later: readonly string[],
): Steps<readonly string[]> {
  const changes: string[] = [];
  for (const name of Object.keys(after) as (keyof Settings)[]) {
    // It follows from the routes and targets.
    if (name === 'viaByDefault') continue;
    const text = yield* settingChange(name, before[name], after[name]);
    if (text !== null) changes.push(later.includes(name) ? `${text}, at the next start` : text);
  }
  return changes;
}

/** How a setting differs, in words; null if it does not. Of the members of a list or a map it gives numbers. */
function* settingChange(name: string, was: unknown, is: unknown): Steps<string | null> {
  const [old, now] = [membersOf(was), membersOf(is)];
  const title = NAMES_IN_FILE[name] ?? name;
  if (old === null || now === null) {
    yield;
    return isDeepStrictEqual(was, is) ? null : title;
  }
  const counts = { added: 0, removed: 0, changed: 0 };
  for (const [id, member] of now) {
    if (!old.has(id)) counts.added++;
    else if (!isDeepStrictEqual(old.get(id), member)) counts.changed++;
    yield;
  }
  for (const id of old.keys()) if (!now.has(id)) counts.removed++;
  const parts = Object.entries(counts).flatMap(([how, count]) => (count === 0 ? [] : [`${count} ${how}`]));
  return parts.length === 0 ? null : `${title}: ${parts.join(', ')}`;
}

/** The members of the long settings: routes by hosts, path, fields and methods, upstreams and descriptions by name. Null for another setting. */
function membersOf(value: unknown): ReadonlyMap<string, unknown> | null {
  if (value instanceof Map) return value;
  if (!Array.isArray(value) || !value.every((one) => typeof one?.path === 'string')) return null;
  return new Map(
    value.map((one) => [`${one.hosts ?? ''} ${one.path} ${one.methods} ${JSON.stringify(one.when)}`, one]),
  );
}
