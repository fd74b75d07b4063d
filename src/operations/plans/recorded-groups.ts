import type { Plans } from '../../admit/plan.ts';
import { groupRouteOf, PathGroups } from '../../routing/path-groups.ts';
import type { GroupsOf } from '../../simulate/recording.ts';

/**
 * Finds the groups of recorded requests.
 * @param tried the plans that are tried
 * @param before those in force; null if they are not known
 * @returns null if no plan has groups
 */
export function groupsOfRecorded(tried: Plans, before: Plans | null): GroupsOf | null {
  const [ofTried, ofBefore] = [matchersOf(tried), before === null ? new Map<string, PathGroups>() : matchersOf(before)];
  if (ofTried.size + ofBefore.size === 0) return null;
  return (plan, path, method) => {
    const [low, high] = [ofTried.get(plan), ofBefore.get(plan)];
    if (low === undefined && high === undefined) return 0;
    if (path === null) return null;
    return (((high?.matching(path, method) ?? 0) << 16) | (low?.matching(path, method) ?? 0)) >>> 0;
  };
}

function matchersOf({ plans }: Plans): ReadonlyMap<string, PathGroups> {
  const matchers = new Map<string, PathGroups>();
  for (const [name, { groups }] of plans) {
    if (groups !== undefined) matchers.set(name, new PathGroups(groups.map(({ routes }) => routes.map(groupRouteOf))));
  }
  return matchers;
}
