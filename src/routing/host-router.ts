import type { ComparedFields } from '../http1/field-conditions.ts';
import { hostNameOf } from '../http1/fields.ts';
import { oddPartsOf } from './odd-path.ts';
import { type Route, USAGE } from './route.ts';
import {
  type AmbiguousPath,
  ambiguous,
  chosenBy,
  type Match,
  type PathRouter,
  pathRouterOf,
  READABLE,
} from './router.ts';

export interface Router {
  /**
   * As `PathRouter.match`, and of several routes the one that the fields choose.
   * @param host the Host field as it was sent, or null @param fields of the request; none if left out
   */
  match(path: string, method: string, host: string | null, fields?: ComparedFields): Match | AmbiguousPath | null;
  /**
   * Why an odd path is refused, as a sentence; null if the route that matches it passes it, and no other route can match another reading of
   * it. @param oddity the sentence on a route that passes no odd path, and without a route
   */
  faultOfOdd(path: string, oddity: string, method: string, host: string | null, fields?: ComparedFields): string | null;
}

const NO_FIELDS: ComparedFields = { fields: { rawHeaders: [] }, connectionNames: new Set() };

/** The length of the longest name (RFC 1035 section 2.3.4). */
const MAX_NAME = 253;

/**
 * Makes a router of the routes of gateway.yaml, to which it adds `GET /usage` for each host.
 *
 * A request goes to the routes of its host, then to those of a wildcard that covers the host (`*.example.com` covers all names
 * below example.com; the longer wildcard first), then to the routes without hosts. The first of these tables in which its path matches a
 * route serves it, or answers 405.
 *
 * Attack: `/Admin` matches no route of its host, and matches `/**` without a host. A service that ignores capitals serves `/admin`, for which the
 * routes of the host have stricter rules. So a path that another spelling takes to such a route is ambiguous.
 * @throws Failure as `pathRouterOf`
 */
export function* routerOf(routes: readonly Route[]): Generator<void, Router, void> {
  const byHost = routesByHost(routes);
  const elsewhere = yield* pathRouterOf([USAGE, ...routes.filter(({ hosts }) => hosts === null)]);
  const isChosen = routes.some(({ when }) => when !== null);
  if (byHost.size === 0) {
    return {
      match: isChosen
        ? (path, method, _, fields = NO_FIELDS) => chosenBy(elsewhere.match(path, method), fields)
        : elsewhere.match,
      faultOfOdd: (path, oddity, method, _, fields = NO_FIELDS) => faultIn([elsewhere], path, oddity, method, fields),
    };
  }
  const tables = yield* tablesOf(byHost);
  const wildcardsOf = function* (name: string): Generator<PathRouter> {
    for (let dot = name.indexOf('.'); dot !== -1; dot = name.indexOf('.', dot + 1)) {
      const table = tables.get(`*${name.slice(dot)}`);
      if (table !== undefined) yield table;
    }
  };
  const tablesFor = (name: string): readonly PathRouter[] => {
    const own = tables.get(name);
    return [...(own === undefined ? [] : [own]), ...wildcardsOf(name), elsewhere];
  };
  // A client chooses the host of its request, so only names of the settings are kept.
  const known = new Map([...byHost.keys()].map((name) => [name, tablesFor(name)]));
  const tablesAt = (host: string | null) => {
    const name = host === null ? '' : hostNameOf(host);
    return known.get(name) ?? (name.length > MAX_NAME ? [elsewhere] : tablesFor(name));
  };
  return {
    match: (path, method, host, fields = NO_FIELDS) => {
      const tables = tablesAt(host);
      const found = matchIn(tables, 'matchSlashed', path, method) ?? matchIn(tables, 'matchBare', path, method);
      return chosenBy(found, fields);
    },
    faultOfOdd: (path, oddity, method, host, fields = NO_FIELDS) =>
      faultIn(tablesAt(host), path, oddity, method, fields),
  };
}

function faultIn(
  tables: readonly PathRouter[],
  path: string,
  oddity: string,
  method: string,
  fields: ComparedFields,
): string | null {
  const parts = oddPartsOf(path);
  for (const table of tables) {
    const found = table.matchSlashed(path, method);
    if (found !== null) {
      const route = chosenBy(found, fields)?.route ?? null;
      return route === null ? oddity : table.faultOfOdd(route, parts, oddity);
    }
    if (table.mayServe(parts)) return READABLE;
  }
  return oddity;
}

function matchIn(
  tables: readonly PathRouter[],
  how: 'matchSlashed' | 'matchBare',
  path: string,
  method: string,
): Match | AmbiguousPath | null {
  for (const [i, table] of tables.entries()) {
    const found = table[how](path, method);
    if (found === null) continue;
    const isAmbiguous =
      found.route !== null && tables.slice(0, i).some((before) => before.servesStricter(path, method, found));
    return isAmbiguous ? ambiguous(found, null) : found;
  }
  return null;
}

function routesByHost(routes: readonly Route[]): ReadonlyMap<string, readonly Route[]> {
  const byHost = new Map<string, Route[]>();
  for (const route of routes) {
    for (const host of route.hosts ?? []) {
      const ofHost = byHost.get(host);
      if (ofHost === undefined) byHost.set(host, [route]);
      else ofHost.push(route);
    }
  }
  return byHost;
}

/** The tables by host. Hosts with the same routes have the same table. */
function* tablesOf(byHost: ReadonlyMap<string, readonly Route[]>): Generator<void, ReadonlyMap<string, PathRouter>> {
  const places = new Map<Route, number>();
  const placeOf = (route: Route) => places.get(route) ?? places.set(route, places.size).size - 1;
  const byRoutes = new Map<string, PathRouter>();
  const tables = new Map<string, PathRouter>();
  for (const [host, routes] of byHost) {
    const same = routes.map(placeOf).join(' ');
    const table = byRoutes.get(same) ?? (yield* pathRouterOf([USAGE, ...routes]));
    byRoutes.set(same, table);
    tables.set(host, table);
  }
  return tables;
}
