import type { Plan, Plans } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import { PathGroups } from '../../routing/path-groups.ts';
import type { GroupsOf } from '../../simulate/recording.ts';

/**
 * Finds the groups of recorded requests: those of its path, and those to which a policy counted it besides, which are in
 * its limits and not in its path.
 * @param tried the plans that are tried
 * @param before those in force; null if they are not known, and then no groups of policies are found
 * @returns null if no plan has groups
 */
export function groupsOfRecorded(tried: Plans, before: Plans | null): GroupsOf | null {
  const [ofTried, ofBefore] = [matchersOf(tried), before === null ? new Map<string, PlanGroups>() : matchersOf(before)];
  if (ofTried.size + ofBefore.size === 0) return null;
  return ({ plan, path, method, limits }) => {
    const [low, high] = [ofTried.get(plan), ofBefore.get(plan)];
    if (low === undefined && high === undefined) return 0;
    if (path === null) return null;
    const request = { path, method };
    let [groups, groupsBefore] = [low?.matching(request) ?? 0, high?.matching(request) ?? 0];
    for (const { name, bit } of high?.chargedIn(limits) ?? []) {
      if ((groupsBefore & bit) !== 0) continue;
      groupsBefore |= bit;
      groups |= low?.bitOf(name) ?? 0;
    }
    return ((groupsBefore << 16) | groups) >>> 0;
  };
}

/** The groups of one plan. */
class PlanGroups extends PathGroups {
  readonly #groups: readonly { readonly name: string; readonly bit: number; readonly limits: readonly string[] }[];

  constructor(groups: NonNullable<Plan['groups']>) {
    super(groups);
    this.#groups = groups.map(({ name }, i) => {
      const limits = WINDOWS.flatMap((window) => [`"${name}-${window}":`, `"customer-${name}-${window}":`]);
      return { name, bit: 1 << i, limits };
    });
  }

  /** The groups that limits, as a line of the log has them, are of. */
  chargedIn(limits: string) {
    return this.#groups.filter((group) => group.limits.some((name) => limits.includes(name)));
  }

  /** The bit of a group; 0 if the plan does not have it. */
  bitOf(name: string): number {
    return this.#groups.find((group) => group.name === name)?.bit ?? 0;
  }
}

function matchersOf({ plans }: Plans): ReadonlyMap<string, PlanGroups> {
  const matchers = new Map<string, PlanGroups>();
  for (const [name, { groups }] of plans) if (groups !== undefined) matchers.set(name, new PlanGroups(groups));
  return matchers;
}
