import { Failure } from '../failure.ts';
import {
  bySpecificity,
  type ComparedFields,
  contestedBy,
  FieldComparison,
  isContested,
  namedConditions,
} from '../http1/field-conditions.ts';
import { atOnce, type Steps } from '../io/steps.ts';
import { isLooser } from './bounds.ts';
import { faultOfParts, type OddParts, readableAs } from './odd-path.ts';
import { decode, faultOfPattern, mayBeReadOtherwise, plainSegment } from './pattern.ts';
import { type Branch, isLiteral, newBranch, plainSegmentsOf, plant, type Segment, segmentsOf } from './pattern-tree.ts';
import { type Route, USAGE } from './route.ts';

export interface Match {
  readonly route: Route;
  /**
   * How the route is called in the log, the metrics and the console: its pattern, behind the first of its hosts if it has any, and before
   * what the fields of its requests must be: `api.example.com/v1/** (x-version: v2)`.
   */
  readonly name: string;
  /**
   * Value of the `Allow` field for a 405 (RFC 9110 section 10.2.1): `GET, HEAD, POST`. It has the methods of all routes
   * that match the same paths.
   */
  readonly allow: string;
  /** Whether the path is that of a pattern `/x/**` without the slash, `/x`. */
  readonly isBare: boolean;
  /** The matches among which the fields of the request choose (`when`), in the order in which they are tried; null if there is no choice. */
  readonly byFields: readonly Match[] | null;
}

/** The match of a pattern. */
interface PatternMatch extends Match {
  /** The matches of several routes with this pattern, by method. Null for one route, which is the match of every method. */
  readonly byMethod: ReadonlyMap<string, Match> | null;
}

/** The path matches different routes as it was sent and when it is decoded, or only one of the two. It must be refused. */
export interface AmbiguousPath {
  readonly route: null;
  /** The field by which routes are chosen, if it is that whose values are of different routes. */
  readonly field?: string;
  /** Whether neither reading matches a route without keys. A caller without a key must then not learn that they differ. */
  readonly asksForKey: boolean;
}

/** The routes of one host. */
export interface PathRouter {
  /**
   * The route for a path and a method. The path alone decides which pattern matches; the method decides among the routes
   * with that pattern, and the fields of the request among those with the method (`byFields`). If none of them has the method, the match has the
   * route whose rules hold for the 405: the first that needs a key and is not deprecated. So the caller checks `route.methods`. If no route matches
   * `/x`, `/x/**` does.
   * @param path the raw request path without its query and not decoded. The caller must have refused dot segments and
   *   encoded slashes.
   */
  match(path: string, method: string): Match | AmbiguousPath | null;
  /** The same without that last rule, for a path that a route elsewhere may match. */
  matchSlashed(path: string, method: string): Match | AmbiguousPath | null;
  /** That rule alone. */
  matchBare(path: string, method: string): Match | AmbiguousPath | null;
  /**
   * Why a route that matches an odd path as it was sent does not pass it, as a sentence; null if it does, and no narrower one can match
   * another reading. @param oddity the sentence on a route that passes no odd path
   */
  faultOfOdd(route: Route, parts: OddParts, oddity: string): string | null;
  /** Whether a route here can match another reading of an odd path. */
  mayServe(parts: OddParts): boolean;
  /**
   * Whether another spelling of a path that matches no route here matches one whose rules are stricter than those of a route elsewhere
   * that serves it.
   */
  servesStricter(path: string, method: string, elsewhere: Match): boolean;
}

/**
 * Makes a router of the routes (contract section 2, gateway.yaml). It yields after each route, because ten thousand routes
 * at once would delay requests. Routes with the same pattern share one place in the trees.
 *
 * `{name}` matches one segment that is not empty. A last `/**` matches everything after that slash, so `/x/**` matches
 * `/x/`, `/x/a` and `/x/a/b`, and `/x` only if no route does. If several patterns match, the first segment in which they differ decides: a
 * literal wins over `{name}`, `{name}` over `**`. Comparison is raw and case-sensitive.
 *
 * Attack: `/v1/%61dmin` as it was sent matches `/v1/**`. The service behind the gateway decodes it and serves `/v1/admin`
 * without its key, for a lower cost, or after its sunset. So the path is also decoded once and compared with the decoded
 * patterns, and a path with two different results is ambiguous. This also covers a service that decodes only some
 * characters (other than `%25`): two texts that are equal when partly decoded are equal when wholly decoded.
 *
 * Attack: so do `/v1/Admin`, `/v1/admin;x` and `/v1/admin%20` for services that read them as `/v1/admin`. A client may mean such a path,
 * as in `/v1/users/Me` beside `/v1/users/me`, so it is ambiguous only if the route of one of its readings has stricter rules. That route is
 * more specific than the one that matches the path as it was sent, which matches it in every reading.
 *
 * A match visits every branch at most three times, splits off no more segments than the longest pattern has, and decodes no
 * segment that is too long for every literal, unless the route surrounds stricter ones. So the routes bound its cost, and the
 * client's path does not.
 * @throws Failure `bad_settings` for a malformed pattern or two routes that match the same requests. The configuration
 *   check has reported both, with their positions, before.
 */
export function* pathRouterOf(routes: readonly Route[]): Generator<void, PathRouter, void> {
  const exact = new Map<string, PatternMatch>();
  const asSent = newBranch<PatternMatch>();
  const decoded = newBranch<PatternMatch>();
  const plain = new PlainRoutes();
  let depth = 0;
  let longest = 0;
  // If a pattern encodes a character needlessly, a path without any encoding can have two readings as well.
  let mustDecodeAll = false;
  for (const group of yield* groupsOf(routes)) {
    const match = matchOf(group);
    for (const { path } of group) {
      const segments = segmentsOf(path);
      const literals = segments.filter(isLiteral);
      if (literals.length === segments.length) exact.set(path, match);
      longest = Math.max(longest, ...literals.map(({ literal }) => literal.length));
      depth = Math.max(depth, plant(asSent, segments, match));
      plant(decoded, decodedSegmentsOf(path), match);
      // No service gets `/usage`, so another spelling of it is a path like any other.
      if (match.route !== USAGE) plain.add(path, match);
      mustDecodeAll ||= ENCODED_NEEDLESSLY.test(path);
    }
    yield;
  }
  yield* plain.compare();
  const matchSegments = (path: string, method: string, isBare: boolean) => {
    const sent = cut(path, depth, isBare);
    const found = search(asSent, sent, 0);
    if (found !== null && plain.surroundsStricter(found, method) && plain.mayMeanOther(path)) {
      const stricter = plain.stricterThan(found, sent, method);
      if (stricter !== null) return ambiguous(forMethod(found, method), forMethod(stricter, method));
    }
    if (!mustDecodeAll && !path.includes('%')) return forMethod(found, method);
    // A character of a literal takes at most three characters of the path, `%61`.
    const segments = sent.segments.map((segment) => (segment.length > 3 * longest ? segment : decode(segment)));
    const other = search(decoded, { ...sent, segments }, 0);
    if (other === found) return forMethod(found, method);
    return ambiguous(forMethod(found, method), forMethod(other, method));
  };
  const matchSlashed = (path: string, method: string) => {
    // A literal pattern that equals the path is the most specific match under both readings.
    const found = exact.get(path);
    if (found !== undefined) return forMethod(found, method);
    return path.startsWith('/') ? matchSegments(path, method, false) : null;
  };
  const matchBare = (path: string, method: string) => {
    const found = path.startsWith('/') ? matchSegments(path, method, true) : null;
    return found === null || found.route === null ? found : asBare(found);
  };
  return {
    match: (path, method) => matchSlashed(path, method) ?? matchBare(path, method),
    matchSlashed,
    matchBare,
    faultOfOdd: (route, parts, oddity) => plain.faultOfOdd(route, parts, oddity),
    mayServe: (parts) => plain.mayServe(parts),
    servesStricter: (path, method, elsewhere) =>
      plain.mayMeanOther(path) &&
      plain.stricterThan({ ...elsewhere, byMethod: null }, cut(path, depth, false), method) !== null,
  };
}

/**
 * The route that the fields of a request choose among those that match its path and method: the first whose conditions hold.
 * @returns null if none holds, and an ambiguous match if a field has values of which only some are of that route
 */
export function chosenBy(found: Match | AmbiguousPath | null, fields: ComparedFields): Match | AmbiguousPath | null {
  if (found === null || found.route === null || found.byFields === null) return found;
  const comparison = new FieldComparison(fields);
  for (const match of found.byFields) {
    const outcome = comparison.check(match.route.when ?? []);
    if (outcome.kind === 'holds') return match;
    if (outcome.kind === 'unclear') return { ...ambiguous(found, null), field: outcome.header };
  }
  return null;
}

/** Why an odd path is refused that a service may take to another route than the gateway. */
export const READABLE =
  'A service may read the path, which has encoded slashes, dot segments or empty segments, as one of another route.';

/** @returns the path as ambiguous between two matches; null stands for no match */
export function ambiguous(one: Match | null, other: Match | null): AmbiguousPath {
  const routes = [one, other].flatMap((match) => (match === null ? [] : choiceOf(match)));
  const isWithoutKey = routes.some(({ route }) => route.perAddress !== null);
  return isWithoutKey ? AMBIGUOUS_WITHOUT_KEY : AMBIGUOUS_WITH_KEY;
}

/** The routes by the plainest form of their patterns (pattern.ts), in which several patterns may be the same. */
class PlainRoutes {
  readonly #root = newBranch<PatternMatch[]>();
  readonly #lists = new Map<string, { readonly segments: readonly Segment[]; readonly matches: PatternMatch[] }>();
  /** The methods for which a route surrounds stricter ones. Left out: none. */
  readonly #surrounding = new Map<PatternMatch, Set<string>>();
  /** The patterns that are more specific than that of a route which passes odd paths, or the same in this form. */
  readonly #narrower = new Map<Route, Branch<true>>();
  /** The results of `servesLooser` by the first route of each pattern, and the method. */
  readonly #compared = new Map<Route, Map<Route, Map<string, boolean>>>();
  /** Whether a pattern is not in its plainest form itself, so that a path that is has two readings as well. */
  #comparesAll = false;

  add(path: string, match: PatternMatch): void {
    const segments = plainSegmentsOf(path);
    const shape = JSON.stringify(segments);
    this.#comparesAll ||= shape !== JSON.stringify(segmentsOf(path));
    const list = this.#lists.get(shape);
    if (list !== undefined) {
      // Routes with one pattern have one match.
      if (!list.matches.includes(match)) list.matches.push(match);
      return;
    }
    const matches = [match];
    this.#lists.set(shape, { segments, matches });
    plant(this.#root, segments, matches);
  }

  /** Finds the routes that surround stricter ones. Called once, when all are added. */
  *compare(): Generator<void> {
    for (const { segments, matches } of this.#lists.values()) {
      if (matches.length > 1) for (const match of matches) this.#addNarrower(match, segments);
      for (const outers of surrounding(this.#root, segments, true)) {
        for (const outer of outers) {
          this.#addNarrower(outer, segments);
          for (const method of new Set(routesOf(outer).flatMap((route) => route.methods))) {
            for (const inner of matches) {
              if (yield* this.#comparing(outer, inner, method)) {
                this.#surrounding.getOrInsertComputed(outer, () => new Set()).add(method);
              }
            }
          }
        }
      }
      yield;
    }
  }

  #addNarrower(outer: PatternMatch, segments: readonly Segment[]): void {
    for (const route of routesOf(outer)) {
      if (route.passes === null) continue;
      const root = this.#narrower.get(route) ?? newBranch<true>();
      this.#narrower.set(route, root);
      plant(root, segments, true);
    }
  }

  faultOfOdd(route: Route, parts: OddParts, oddity: string): string | null {
    if (route.passes === null) return oddity;
    const fault = faultOfParts(route.passes, segmentsOf(route.path).length - 1, parts, oddity);
    if (fault !== null) return fault;
    const narrower = this.#narrower.get(route);
    return narrower !== undefined && readableAs(narrower, parts).some(() => true) ? READABLE : null;
  }

  mayServe(parts: OddParts): boolean {
    return readableAs(this.#root, parts).some(() => true);
  }

  surroundsStricter(match: PatternMatch, method: string): boolean {
    return this.#surrounding.get(match)?.has(method) === true;
  }

  mayMeanOther(path: string): boolean {
    return this.#comparesAll || mayBeReadOtherwise(path);
  }

  /** The most specific route that a reading of a path matches, and that is stricter than the one that matches it as it was sent; null if there is none. */
  stricterThan(found: PatternMatch, path: Cut, method: string): PatternMatch | null {
    for (const matches of matching(this.#root, { ...path, segments: path.segments.map(plainSegment) }, 0)) {
      // Those that follow are less specific.
      if (matches.includes(found)) return null;
      for (const match of matches) if (atOnce(this.#comparing(found, match, method))) return match;
    }
    return null;
  }

  /** As `servesLooser`, of which the result is kept where it took many comparisons. */
  *#comparing(outer: PatternMatch, inner: PatternMatch, method: string): Steps<boolean> {
    const [ones, others] = [choiceOf(forMethod(outer, method)!), choiceOf(forMethod(inner, method)!)];
    if (ones.length * others.length === 1) return yield* servesLooser(ones, others, method);
    // The routes of one pattern and method have a first one that those of no other have.
    const compared = this.#compared
      .getOrInsertComputed(ones[0]!.route, () => new Map())
      .getOrInsertComputed(others[0]!.route, () => new Map<string, boolean>());
    const known = compared.get(method);
    if (known !== undefined) return known;
    const isLooser = yield* servesLooser(ones, others, method);
    compared.set(method, isLooser);
    return isLooser;
  }
}

function asBare(match: Match): Match {
  return { ...match, isBare: true, byFields: match.byFields?.map(asBare) ?? null };
}

function choiceOf(match: Match): readonly Match[] {
  return match.byFields ?? [match];
}

function routesOf(match: PatternMatch): readonly Route[] {
  const matches = match.byMethod === null ? [match] : [...match.byMethod.values()];
  return matches.flatMap(choiceOf).map(({ route }) => route);
}

/**
 * Whether the routes of one pattern forward requests of a method that those of another pattern refuse, or bound or charge less, for some
 * fields of the request.
 */
function* servesLooser(outer: readonly Match[], inner: readonly Match[], method: string): Steps<boolean> {
  const [ones, others] = [outer, inner].map((matches) => matches.map(({ route }) => route)) as [Route[], Route[]];
  // Attack: `DELETE /v1/admin` is 405, and `DELETE /v1/Admin` matches `/v1/**`. So is a request 404 that no `when` of `/v1/admin` holds for.
  if (others.every(({ when, methods }) => when !== null || !methods.includes(method))) {
    return ones.some(({ reply }) => reply === null);
  }
  for (const one of ones) {
    if (one.reply === null && others.some((other) => isLooser(one, other))) return true;
    // Thousands of routes may be chosen by a field, under each of two patterns.
    if (others.length > 1) yield;
  }
  return false;
}

/** The routes by pattern. @throws Failure as `routerOf` */
function* groupsOf(routes: readonly Route[]): Generator<void, Iterable<readonly Route[]>> {
  const collisions = new Collisions();
  const groups = new Map<string, Route[]>();
  for (const route of routes) {
    const { path } = route;
    const fault = faultOfPattern(path);
    if (fault !== null) throw new Failure('bad_settings', `The route ${JSON.stringify(path)} ${fault}.`);
    const collision = collisions.add(route);
    if (collision !== null) {
      const { path: other } = routes[collision.with]!;
      throw new Failure('bad_settings', `The routes ${other} and ${path} match the same requests. Remove one of them.`);
    }
    const shape = shapeOf(path);
    const group = groups.get(shape);
    if (group === undefined) groups.set(shape, [route]);
    else group.push(route);
    yield;
  }
  return groups.values();
}

/** The match of routes with one pattern. */
function matchOf(group: readonly Route[]): PatternMatch {
  const routes = group.map((route) => {
    const methods = withHead(route.methods);
    return methods.length === route.methods.length ? route : Object.freeze({ ...route, methods });
  });
  const allow = [...new Set(routes.flatMap(({ methods }) => methods))].join(', ');
  // Attack: a caller without a key sends methods that no route has, to learn which methods the routes with a key have.
  const rankOf = ({ perAddress, deprecated }: Route) => (perAddress === null ? 0 : 2) + (deprecated === null ? 0 : 1);
  const route = routes.toSorted((a, b) => rankOf(a) - rankOf(b))[0]!;
  const shared = { allow, isBare: false, byFields: null };
  const refusing = { ...shared, route, name: routeName(route) };
  if (routes.length === 1 && route.when === null) return Object.freeze({ ...refusing, byMethod: null });
  const matches = routes.map((route): Match => Object.freeze({ ...shared, route, name: routeName(route) }));
  const byMethod = new Map<string, Match>();
  for (const method of new Set(routes.flatMap(({ methods }) => methods))) {
    byMethod.set(method, choosing(matches.filter((match) => match.route.methods.includes(method))));
  }
  return Object.freeze({ ...refusing, byMethod });
}

/** The match of routes with one pattern and a method in common. */
function choosing(matches: readonly Match[]): Match {
  const [first] = matches as readonly [Match];
  if (matches.length === 1 && first.route.when === null) return first;
  return Object.freeze({ ...first, byFields: matches.toSorted((a, b) => bySpecificity(a.route.when, b.route.when)) });
}

/** @see Match.name */
export function routeName({ hosts, path, when }: Pick<Route, 'hosts' | 'path' | 'when'>): string {
  const named = hosts === null ? path : `${hosts[0]}${path}`;
  return when === null ? named : `${named} (${namedConditions(when)})`;
}

function forMethod(match: PatternMatch | null, method: string): Match | null {
  if (match === null || match.byMethod === null) return match;
  return match.byMethod.get(method) ?? match;
}

const AMBIGUOUS_WITHOUT_KEY: AmbiguousPath = Object.freeze({ route: null, asksForKey: false });
const AMBIGUOUS_WITH_KEY: AmbiguousPath = Object.freeze({ route: null, asksForKey: true });

/** The methods, with HEAD after GET (contract section 2: GET brings HEAD). */
export function withHead(methods: readonly string[]): readonly string[] {
  if (methods.includes('HEAD')) return methods;
  return Object.freeze(methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])));
}

/** Two routes that match the same requests, by index: `index` is the later one. */
export interface Collision {
  readonly index: number;
  readonly with: number;
  /** A host that both have; null if both serve the hosts that no route names. */
  readonly host: string | null;
  /** A method that both have; null if the same paths are written with different percent-encoding. */
  readonly method: string | null;
}

/** The routes that match the same requests as an earlier one. */
export function findCollisions(routes: readonly Colliding[]): readonly Collision[] {
  const collisions = new Collisions();
  return routes.map((route) => collisions.add(route)).filter((collision) => collision !== null);
}

type Colliding = Pick<Route, 'hosts' | 'path' | 'when' | 'methods'>;

/** Finds the first collision of each route with those before it. */
class Collisions {
  #count = 0;
  /** By host and shape, the first route's index and pattern without names, and the routes with each method and value. */
  readonly #seen = new Map<string, { first: number; written: string; byValue: Map<string, Seen[]> }>();

  add({ hosts, path, when, methods }: Colliding): Collision | null {
    const index = this.#count++;
    const [shape, written, all] = [shapeOf(path), JSON.stringify(segmentsOf(path)), withHead(methods)];
    for (const host of hosts ?? [null]) {
      const place = host === null ? shape : `${host} ${shape}`;
      const seen = this.#seen.get(place) ?? { first: index, written, byValue: new Map<string, Seen[]>() };
      this.#seen.set(place, seen);
      if (seen.written !== written) return { index, with: seen.first, host, method: null };
      const keys = all.flatMap((method) => contestedBy(when).map((value) => ({ method, key: `${method} ${value}` })));
      for (const { method, key } of keys) {
        const other = seen.byValue.get(key)?.find((one) => isContested(one.when, when));
        if (other !== undefined) return { index, with: other.index, host, method };
      }
      for (const { key } of keys) seen.byValue.getOrInsertComputed(key, () => []).push({ index, when });
    }
    return null;
  }
}

/** A route that was compared before. */
type Seen = Pick<Route, 'when'> & { readonly index: number };

/** Whether two patterns are equally specific and match the same paths. */
export function areAlike(one: string, other: string): boolean {
  return shapeOf(one) === shapeOf(other);
}

/**
 * A text that is the same for equally specific patterns: those that differ only in the names of their segments and in
 * percent-encoding.
 */
export function shapeOf(pattern: string): string {
  return JSON.stringify(decodedSegmentsOf(pattern));
}

/**
 * The pairs of a pattern and one that surrounds it, by index: `within` is less specific and matches some of the paths of
 * `index`, as they are or with a trailing slash. The pairs of one pattern are adjacent. A pattern may be there several times.
 */
export function findSurrounding(
  paths: readonly string[],
): readonly { readonly index: number; readonly within: number }[] {
  const root = newBranch<readonly number[]>();
  const alike = Map.groupBy(paths.keys(), (index) => shapeOf(paths[index]!));
  for (const indices of alike.values()) plant(root, decodedSegmentsOf(paths[indices[0]!]!), indices);
  return paths.flatMap((path, index) =>
    surrounding(root, decodedSegmentsOf(path), true)
      .flatMap((indices) => indices.map((within) => ({ index, within })))
      .toArray(),
  );
}

/** The first of the routes with a path and method of a host, by index, that leave requests to no route, because all of them have `when`. */
export function findUnserved(routes: readonly Colliding[]): readonly number[] {
  if (routes.every(({ when }) => when === null)) return [];
  const places = new Map<string, { readonly first: number; isServed: boolean }>();
  for (const [index, { hosts, path, when, methods }] of routes.entries()) {
    const shape = shapeOf(path);
    for (const host of hosts ?? ['']) {
      for (const method of withHead(methods)) {
        const place = places.getOrInsertComputed(`${host} ${method} ${shape}`, () => ({
          first: index,
          isServed: false,
        }));
        place.isServed ||= when === null;
      }
    }
  }
  return [...new Set([...places.values()].filter(({ isServed }) => !isServed).map(({ first }) => first))];
}

/** The patterns `/x/**` that also match `/x`, by index: no other route of one of their hosts matches that. */
export function findBare(routes: readonly Pick<Route, 'hosts' | 'path'>[]): readonly number[] {
  const roots = new Map<string | null, Branch<true>>();
  for (const { hosts, path } of routes) {
    for (const host of hosts ?? [null]) {
      const root = roots.get(host) ?? newBranch<true>();
      roots.set(host, root);
      plant(root, decodedSegmentsOf(path), true);
    }
  }
  // No literal has braces, so a name of this pattern is matched by a name of another.
  const isTaken = (host: string | null, segments: readonly string[]) => {
    const root = roots.get(host);
    return root !== undefined && matching(root, { segments, whole: true, isBare: false }, 0).some(() => true);
  };
  return [...routes.keys()].filter((index) => {
    const { hosts, path } = routes[index]!;
    if (!path.endsWith('/**') || path === '/**') return false;
    const segments = path.split('/').slice(1, -1).map(decode);
    return (hosts ?? [null]).some((host) => ![host, null].some((of) => isTaken(of, segments)));
  });
}

/** @param isSame whether the pattern itself lies below this branch, so that no less specific segment has been seen yet */
function* surrounding<T>(branch: Branch<T>, segments: readonly Segment[], isSame: boolean): Generator<T> {
  const [segment, ...others] = segments;
  if (segment === 'rest') {
    if (!isSame) yield* allBelow(branch);
    return;
  }
  if (branch.rest !== null) yield branch.rest;
  if (segment === undefined) {
    const slash = branch.literals.get('');
    if (!isSame && branch.here !== null) yield branch.here;
    if (!isSame && slash !== undefined && slash.here !== null) yield slash.here;
  } else if (segment === 'name') {
    // While both patterns are the same so far, one with a literal here is more specific and does not surround this one.
    for (const [literal, next] of isSame ? [] : branch.literals) {
      if (literal !== '') yield* surrounding(next, others, false);
    }
    if (branch.name !== null) yield* surrounding(branch.name, others, isSame);
  } else {
    const next = branch.literals.get(segment.literal);
    if (next !== undefined) yield* surrounding(next, others, isSame);
    if (branch.name !== null && segment.literal !== '') yield* surrounding(branch.name, others, false);
  }
}

function* allBelow<T>(branch: Branch<T>): Generator<T> {
  if (branch.rest !== null) yield branch.rest;
  for (const next of [...branch.literals.values(), branch.name]) {
    if (next === null) continue;
    if (next.here !== null) yield next.here;
    yield* allBelow(next);
  }
}

/** Encodings of visible ASCII characters such as %61 and %40, which a path may also contain unencoded. */
const ENCODED_NEEDLESSLY = /%(?:2[1-9a-f]|[3-6][0-9a-f]|7[0-9a-e])/i;

function decodedSegmentsOf(pattern: string): readonly Segment[] {
  return segmentsOf(pattern).map((segment) => (isLiteral(segment) ? { literal: decode(segment.literal) } : segment));
}

interface Cut {
  readonly segments: readonly string[];
  /** False if more segments follow. */
  readonly whole: boolean;
  /** Whether a path that ends before a `/**` matches it. */
  readonly isBare: boolean;
}

/** Splits off the first `most` segments of a path. The rest is never read. */
function cut(path: string, most: number, isBare: boolean): Cut {
  const segments: string[] = [];
  let from = 1;
  while (segments.length < most) {
    const end = path.indexOf('/', from);
    segments.push(end === -1 ? path.slice(from) : path.slice(from, end));
    if (end === -1) return { segments, whole: true, isBare };
    from = end + 1;
  }
  return { segments, whole: false, isBare };
}

function search(branch: Branch<PatternMatch>, path: Cut, at: number): PatternMatch | null {
  const segment = path.segments[at];
  if (segment === undefined) return path.whole ? (branch.here ?? (path.isBare ? branch.rest : null)) : branch.rest;
  const literal = branch.literals.get(segment);
  const found = literal === undefined ? null : search(literal, path, at + 1);
  if (found !== null) return found;
  const named = branch.name === null || segment === '' ? null : search(branch.name, path, at + 1);
  return named ?? branch.rest;
}

/** The values of all patterns that match, the more specific first. */
function* matching<T>(branch: Branch<T>, path: Cut, at: number): Generator<T> {
  const segment = path.segments[at];
  if (segment === undefined) {
    const value = path.whole ? branch.here : branch.rest;
    if (value !== null) yield value;
    return;
  }
  const literal = branch.literals.get(segment);
  if (literal !== undefined) yield* matching(literal, path, at + 1);
  if (branch.name !== null && segment !== '') yield* matching(branch.name, path, at + 1);
  if (branch.rest !== null) yield branch.rest;
}
