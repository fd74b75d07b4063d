import { isCommon, readingsOf } from '../../routing/path-groups.ts';
import { faultOfPattern } from '../../routing/pattern.ts';
import { USAGE } from '../../routing/route.ts';
import { areAlike, findSurrounding, shapeOf } from '../../routing/router.ts';
import { method, routeHost } from '../setting-values.ts';
import { type KongRoute, withoutSlash } from './kong-file.ts';

/** A route of gateway.yaml that takes requests of a route of Kong. */
export interface RouteHere {
  readonly kong: KongRoute;
  readonly path: string;
  readonly hosts: readonly string[];
  readonly methods: readonly string[];
  /** Empty: the service gets the path as it was sent. */
  readonly stripPrefix: string;
  /** Its methods and path, as two patterns of groups are compared. */
  readonly readings: ReturnType<typeof readingsOf>;
  /** How its meaning differs from that in Kong, a sentence each. */
  readonly notes: readonly string[];
}

/** The methods that Kong forwards on a route without methods. */
const ANY_METHOD = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

type Leave = (route: KongRoute, why: string) => void;

/**
 * The routes of gateway.yaml for those of Kong, in the order of the file. Where two of them take the same requests, the one with methods
 * of its own has them, and of others the first one.
 * @param leave called with what is not moved
 */
export function routesHere(routes: readonly KongRoute[], leave: Leave): readonly RouteHere[] {
  const made = routes.flatMap((kong) => (whyNot(kong, leave) ? [] : patternsOf(kong, leave)));
  const byMethods = made.toSorted((a, b) => Math.sign(b.kong.methods.length) - Math.sign(a.kong.methods.length));
  const kept = new Map<RouteHere, readonly string[]>();
  // The methods that are taken on a host, or on all of them, by the form of the path.
  const takenAt = new Map<string, Set<string>>();
  for (const one of byMethods) {
    const places = (one.hosts.length === 0 ? [''] : one.hosts).map((host) => `${host} ${shapeOf(one.path)}`);
    const taken = new Set(places.flatMap((place) => [...(takenAt.get(place) ?? [])]));
    const free = one.methods.filter((name) => !taken.has(name) && !(name === 'HEAD' && taken.has('GET')));
    if (free.length > 0) kept.set(one, free);
    for (const place of places) for (const name of free) takenAt.getOrInsertComputed(place, () => new Set()).add(name);
    const lost = one.methods.length - free.length;
    if (lost > 0 && one.kong.methods.length > 0)
      leave(one.kong, `${one.path} is taken by another route with the same hosts and methods already`);
  }
  return made.flatMap((one) => (kept.has(one) ? [withMethods(one, kept.get(one)!)] : []));
}

function withMethods(route: Omit<RouteHere, 'methods' | 'readings'>, methods: readonly string[]): RouteHere {
  return { ...route, methods, readings: readingsOf(`${methods.join(',')} ${route.path}`) };
}

/** Tells why a route cannot be moved at all. @returns whether that is so */
function whyNot(kong: KongRoute, leave: Leave): boolean {
  const { service, protocols, isNarrowed } = kong;
  const why =
    service === null
      ? 'it has no service; `respond` or `redirect` of a route answers without one'
      : isNarrowed
        ? 'it is chosen by header fields or names of TLS (`headers`, `snis`); write the fields as `when` of a route'
        : !protocols.some((name) => name === 'http' || name === 'https') || !/^https?$/.test(service.protocol)
          ? `its protocol (${[...protocols, service.protocol].join(', ')}) is not HTTP`
          : null;
  if (why !== null) leave(kong, why);
  return why !== null;
}

function patternsOf(kong: KongRoute, leave: Leave): readonly RouteHere[] {
  const hosts = kong.hosts.flatMap((given) => {
    const host = routeHost().safeParse(given.replace(/:\d+$/, ''));
    if (!host.success) leave(kong, `its host ${given} is no name and no \`*.\` with a name`);
    return host.success ? [host.data] : [];
  });
  if (hosts.length === 0 && kong.hosts.length > 0) return [];
  const known = kong.methods.filter((name) => method().safeParse(name).success);
  const methods =
    kong.methods.length === 0 ? ANY_METHOD : known.filter((name) => name !== 'HEAD' || !known.includes('GET'));
  if (methods.length === 0) {
    leave(kong, `its methods (${kong.methods.join(', ')}) cannot be routed`);
    return [];
  }
  const paths = kong.paths.length === 0 ? ['/'] : kong.paths;
  return paths.flatMap((written) => {
    const found = patternOf(written);
    if (typeof found === 'string') {
      leave(kong, `its path ${written} ${found}`);
      return [];
    }
    const { prefix, isWhole, notes } = found;
    const patterns = isWhole ? [prefix] : prefix === '' ? ['/**'] : [prefix, `${prefix}/**`];
    const stripPrefix = kong.stripsPath && prefix !== '' && kong.paths.length > 0 ? prefix : '';
    return patterns.map((path) => withMethods({ kong, path, hosts, notes, stripPrefix }, methods));
  });
}

interface FoundPattern {
  /** Without a slash at its end; empty for `/`. */
  readonly prefix: string;
  /** Whether it takes nothing below the prefix. */
  readonly isWhole: boolean;
  readonly notes: readonly string[];
}

/** The pattern for a path of Kong, or why there is none, as the end of a sentence. A path with `~` is a regular expression. */
function patternOf(written: string): FoundPattern | string {
  if (!written.startsWith('~')) {
    const prefix = withoutSlash(written);
    const fault = prefix === '' ? null : faultOfPattern(prefix);
    if (fault !== null || /[{}*]/.test(prefix)) return fault ?? 'has braces or `*`, which mean something else here';
    if (areAlike(USAGE.path, prefix)) return 'is /usage, which belongs to the gateway itself';
    return { prefix, isWhole: false, notes: [] };
  }
  const names = new Set<string>();
  const segments = written
    .slice(1)
    .replace(/^\^/, '')
    .replace(/\$$/, '')
    .replaceAll('[^/]', '\\S')
    .split('/')
    .slice(1)
    .map((segment) => segmentOf(segment, names));
  if (!/^~\^?\//.test(written) || segments.length === 0 || segments.includes(null))
    return 'is a regular expression that is not of whole segments; write a route with `{name}` for it';
  const prefix = `/${segments.join('/')}`.replace(/\/$/, '');
  if (prefix === '' || faultOfPattern(prefix) !== null) return 'is a regular expression for which there is no pattern';
  const notes =
    names.size === 0 ? [] : [`Kong matches ${written} as a regular expression; here a name takes any text.`];
  return { prefix, isWhole: written.endsWith('$'), notes };
}

/** One segment of a regular expression: a text, or a name for an expression that matches a whole segment; null for any other. */
function segmentOf(segment: string, names: Set<string>): string | null {
  const text = segment.replaceAll(/\\([.\-_~])/g, '$1');
  if (/^[A-Za-z0-9._~-]*$/.test(text) && !/(?<!\\)\./.test(segment)) return text;
  const [, named, anything] =
    /^(?:\(\?<([A-Za-z_]\w{0,60})>)?\(?((?:\\[dwS]|\[[\w\\-]+\])(?:\+|\{\d+(?:,\d*)?\}))\)?\)?$/.exec(segment) ?? [];
  if (anything === undefined) return null;
  const name = named !== undefined && !names.has(named) ? named : `p${names.size + 1}`;
  names.add(name);
  return `{${name}}`;
}

/**
 * Whether requests that `inner` serves may match the path and methods of `outer`, by which a group of plans.yaml counts whatever the host. A
 * request that both match on one host is served by the more specific one.
 */
export function mayTake(inner: RouteHere, outer: RouteHere): boolean {
  return isWithin(inner, outer) || (!isSameHosts(inner.hosts, outer.hosts) && isWithin(outer, inner));
}

/** Whether all requests that `inner` serves match the path of `outer`, and some its methods. */
export function isWithin(inner: RouteHere, outer: RouteHere): boolean {
  if (!isCommon(inner.readings, outer.readings)) return false;
  if (areAlike(inner.path, outer.path)) return !isSameHosts(inner.hosts, outer.hosts);
  return findSurrounding([inner.path, outer.path]).some(({ index }) => index === 0);
}

function isSameHosts(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((host) => other.includes(host));
}
