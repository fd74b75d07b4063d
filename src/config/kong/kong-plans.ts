import { MAX_GROUPS } from '../../model/plan.ts';
import { WINDOWS, type WindowName } from '../../model/values.ts';
import { limitName } from '../setting-values.ts';
import type { Kong, KongConsumer, KongPlugin } from './kong-file.ts';
import { isWithin, mayTake, type RouteHere } from './kong-routes.ts';
import { isCountedApart, limitOf, pluginFor } from './kong-rules.ts';

// Kong chooses one rate limit for each request. Here a plan has the limit that counts all requests, and a group for each that counts apart.

export interface LimitsHere {
  readonly limits: Readonly<Partial<Record<WindowName, number>>>;
  readonly plugin: KongPlugin;
}

interface GroupHere extends LimitsHere {
  readonly name: string;
  readonly routes: readonly RouteHere[];
  /** Those of the routes, with methods unless they have all. */
  readonly patterns: readonly string[];
}

export interface PlanHere {
  /** Null: no limit. */
  readonly base: LimitsHere | null;
  readonly groups: readonly GroupHere[];
  /** Whether the limits count each key by itself. */
  readonly isOfKey: boolean;
}

type Leave = (plugin: KongPlugin, why: string) => void;

/**
 * The plan of a consumer.
 * @param consumer null for one without plugins of its own
 * @param routes those that need a key
 * @param keys how many keys the consumer has
 * @param leave called with what is not moved
 */
export function planOf(
  kong: Kong,
  consumer: KongConsumer | null,
  { routes, keys }: { readonly routes: readonly RouteHere[]; readonly keys: number },
  leave: Leave,
): PlanHere {
  const counted = new Map<KongPlugin, RouteHere[]>();
  for (const route of routes) {
    const plugin = pluginFor(kong, 'rate-limiting', route.kong, consumer);
    if (plugin !== null) counted.getOrInsertComputed(plugin, () => []).push(route);
  }
  for (const plugin of [...counted.keys()]) if (!isMoved(plugin, leave)) counted.delete(plugin);
  const all = [...counted.keys()];
  const ofKey = all.filter((plugin) => limitOf(plugin).by === 'credential');
  if (keys > 1 && ofKey.length > 0 && ofKey.length < all.length) {
    const why = `counts each key, and other limits of ${consumer?.name ?? 'a consumer'} count the consumer: here all of them count the consumer`;
    for (const plugin of ofKey) leave(plugin, why);
  }
  const baseOf = all.find((plugin) => !isCountedApart(plugin)) ?? null;
  const apart = all.filter(isCountedApart);
  // A route of the base whose paths a group contains would be counted by that alone: then the base is a group too, unless it contains others.
  const isHidden =
    baseOf !== null &&
    apart.some((plugin) => isReached(counted.get(baseOf)!, counted.get(plugin)!, isWithin)) &&
    !apart.some((plugin) => isReached(counted.get(plugin)!, counted.get(baseOf)!, mayTake));
  const inGroups = isHidden ? [...apart, baseOf] : apart;
  const names = new Set<string>();
  const groups = inGroups.map((plugin): GroupHere => {
    const { limits } = limitOf(plugin);
    const of = counted.get(plugin)!;
    return { name: groupName(plugin, names), plugin, limits, routes: of, patterns: of.map(patternOf) };
  });
  for (const { plugin } of groups.slice(MAX_GROUPS))
    leave(plugin, `is one of more than ${MAX_GROUPS}: a plan has no more groups`);
  return {
    base: baseOf === null || isHidden ? null : { limits: limitOf(baseOf).limits, plugin: baseOf },
    groups: groups.slice(0, MAX_GROUPS),
    isOfKey: ofKey.length > 0 && ofKey.length === all.length,
  };
}

/** The groups, beside their own, whose limits count requests of a route as well. */
export function othersCounting(route: RouteHere, { groups }: PlanHere): readonly string[] {
  return groups.flatMap(({ name, routes }) => {
    if (routes.includes(route)) return [];
    return routes.some((outer) => outer.kong !== route.kong && mayTake(route, outer)) ? [name] : [];
  });
}

function isReached(some: readonly RouteHere[], others: readonly RouteHere[], reaches: typeof mayTake): boolean {
  return some.some((inner) => others.some((outer) => reaches(inner, outer)));
}

const MOVED = ['consumer', 'credential'];

function isMoved(plugin: KongPlugin, leave: Leave): boolean {
  const { by, limits, year } = limitOf(plugin);
  if (!MOVED.includes(by))
    leave(plugin, `${NOT_BY.get(by) ?? `counts by ${by}`}, and a plan counts keys and customers`);
  if (year !== null) leave(plugin, `has a limit of ${year} a year; the longest window here is the month`);
  return MOVED.includes(by) && WINDOWS.some((window) => limits[window] !== undefined);
}

const NOT_BY: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ip: 'counts addresses on routes that need a key',
    service: 'counts all callers of a service together (`maxConnections` of the upstream bounds a load)',
    header: 'counts the values of a header field',
    path: 'counts one path',
  }),
);

/** As plans.yaml has it. */
export function patternOf({ path, methods, kong }: RouteHere): string {
  return kong.methods.length === 0 && methods.length === 6 ? path : `${methods.join(',')} ${path}`;
}

function groupName({ route, service }: KongPlugin, taken: Set<string>): string {
  const wanted = (route?.name ?? service?.name ?? 'others')
    .toLowerCase()
    .split(/[^a-z0-9]/)
    .filter((word) => word !== '')
    .join('-')
    .replace(/^[^a-z]+/, '')
    .slice(0, 28);
  const plain = limitName('group').safeParse(wanted).success ? wanted : `of-${wanted}`.replace(/-$/, '');
  let name = plain;
  for (let i = 2; taken.has(name); i++) name = `${plain}-${i}`;
  taken.add(name);
  return name;
}
