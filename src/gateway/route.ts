import type { Allowance } from '../admit/plan.ts';
import type { Brownout } from '../annotate/brownout.ts';
import { Failure } from '../failure.ts';

/** One entry of `routes` in gateway.yaml. */
export interface Route {
  /** The pattern: `/v1/pets/{petId}`, `/static/**`. */
  readonly path: string;
  /** Upper-case methods; HEAD is among them wherever GET is. */
  readonly methods: readonly string[];
  /** Name of the upstream that serves it. */
  readonly upstream: string;
  /** Requests that one call counts for, at least 1. */
  readonly cost: number;
  /** Whether methods that usually carry no body (GET, HEAD, DELETE, OPTIONS) may carry one here. */
  readonly allowsBody: boolean;
  /** Whether a client may leave HTTP for WebSocket, or another protocol, on its connection. */
  readonly allowsUpgrade: boolean;
  /** What one client address may do without a key; null where a key is asked for. */
  readonly perAddress: { readonly id: string; readonly allowance: Allowance } | null;
  readonly deprecated: Deprecation | null;
}

/** When a route was deprecated and what follows it (RFC 9745, RFC 8594). Times are Unix milliseconds. */
export interface Deprecation {
  readonly sinceMs: number;
  readonly sunsetMs: number | null;
  /** URI reference of what replaces the route. */
  readonly successor: string | null;
  /** URI reference of a page about the deprecation. */
  readonly link: string | null;
  /** Announced short refusals before the sunset. */
  readonly brownouts: readonly Brownout[];
}

export interface Match {
  readonly route: Route;
  /** Value of the `Allow` field for a 405 (RFC 9110 section 10.2.1): `GET, HEAD, POST`. */
  readonly allow: string;
}

/** A path that matches one route as it was sent and another one, or one at all, when it is decoded. It must be refused. */
export interface AmbiguousPath {
  readonly route: null;
  /** Whether a key is asked for under both readings: then a caller without one must not learn that they differ. */
  readonly asksForKey: boolean;
}

export interface Router {
  /**
   * The most specific route for a path, whatever the method: the caller checks `route.methods`.
   * @param path the raw request path without its query, nothing decoded; dot segments and encoded slashes must have been
   * refused before
   */
  match(path: string): Match | AmbiguousPath | null;
}

/** A segment of a pattern: text, `{name}`, or a last `**`. */
type Segment = { readonly literal: string } | 'name' | 'rest';

interface Branch<T> {
  readonly literals: Map<string, Branch<T>>;
  name: Branch<T> | null;
  here: T | null;
  rest: T | null;
}

/**
 * Makes a router of the routes (contract section 2, gateway.yaml), with a pause for each: ten thousand of them at once would
 * hold up requests.
 *
 * `{name}` is one segment that is not empty. A last `/**` is everything behind that slash, so `/x/**` matches `/x/`,
 * `/x/a` and `/x/a/b` but not `/x`. Of several patterns that match, the first segment in which they differ decides:
 * a literal wins over `{name}`, `{name}` over `**`. Comparison is raw and case-sensitive.
 *
 * Attack: `/v1/%61dmin` matches `/v1/**` as it was sent, and the service behind it, which decodes it, serves `/v1/admin`:
 * without its key, for a lower cost, after its sunset. So path and patterns are also compared with every percent-encoding
 * decoded once, and a path whose two readings are not of the same route is ambiguous. A service that decodes only some
 * characters, `%25` not among them, then agrees with the gateway as well: what is equal once a part has been decoded is
 * equal once all has been.
 *
 * A match visits every branch at most twice, cuts no more segments than the longest pattern has, and decodes none that is
 * too long for every literal, so its cost is bounded by the routes and not by what the client puts into the path.
 * @throws Failure `bad_settings` for a malformed pattern or two equally specific ones; the configuration check reports
 * both with their position before it comes to this.
 */
export function* routerOf(routes: readonly Route[]): Generator<void, Router, void> {
  const shapes = new Map<string, string>();
  const exact = new Map<string, Match>();
  const asSent = newBranch<Match>();
  const decoded = newBranch<Match>();
  let depth = 0;
  let longest = 0;
  // Where a pattern encodes what a path may have as it is, a path without any encoding can have two readings as well.
  let looksAtAll = false;
  for (const route of routes) {
    assertSound(route.path, shapes);
    const methods = withHead(route.methods);
    const match = Object.freeze({
      route: methods.length === route.methods.length ? route : Object.freeze({ ...route, methods }),
      allow: methods.join(', '),
    });
    const segments = segmentsOf(route.path);
    const literals = segments.filter(isLiteral);
    if (literals.length === segments.length) exact.set(route.path, match);
    longest = Math.max(longest, ...literals.map(({ literal }) => literal.length));
    depth = Math.max(depth, plant(asSent, segments, match));
    plant(decoded, decodedSegmentsOf(route.path), match);
    looksAtAll ||= ENCODED_NEEDLESSLY.test(route.path);
    yield;
  }
  const match = (path: string) => {
    const sent = cut(path, depth);
    const found = search(asSent, sent, 0);
    if (!looksAtAll && !path.includes('%')) return found;
    // Each character of a literal is at most three of the path.
    const segments = sent.segments.map((segment) => (segment.length > 3 * longest ? segment : decode(segment)));
    const other = search(decoded, { ...sent, segments }, 0);
    if (other === found) return found;
    return isWithoutKey(found) || isWithoutKey(other) ? AMBIGUOUS_TO_ALL : AMBIGUOUS_TO_KEYS;
  };
  return {
    // A literal pattern that is the path itself is the most specific there can be, under both readings.
    match: (path) => exact.get(path) ?? (path.startsWith('/') ? match(path) : null),
  };
}

const AMBIGUOUS_TO_ALL: AmbiguousPath = Object.freeze({ route: null, asksForKey: false });
const AMBIGUOUS_TO_KEYS: AmbiguousPath = Object.freeze({ route: null, asksForKey: true });

function isWithoutKey(match: Match | null): boolean {
  return match !== null && match.route.perAddress !== null;
}

/** The methods with HEAD behind GET (contract section 2: GET brings HEAD). Frozen. */
export function withHead(methods: readonly string[]): readonly string[] {
  if (methods.includes('HEAD')) return methods;
  return Object.freeze(methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])));
}

/** Which pattern each pattern collides with: pairs of indices, the later one as `index`. */
export function findCollisions(paths: readonly string[]): readonly { readonly index: number; readonly with: number }[] {
  const seen = new Map<string, number>();
  const collisions: { index: number; with: number }[] = [];
  for (const [index, path] of paths.entries()) {
    const shape = shapeOf(path);
    const first = seen.get(shape);
    if (first === undefined) seen.set(shape, index);
    else collisions.push({ index, with: first });
  }
  return collisions;
}

/**
 * What equally specific patterns have in common. Segments are compared from the left, so these are the same but for names
 * and for what is percent-encoded.
 */
function shapeOf(pattern: string): string {
  return JSON.stringify(decodedSegmentsOf(pattern));
}

/**
 * Within which patterns each pattern lies: those that are less specific and match some of its paths, as they are or with
 * a slash behind them. Pairs of indices, those of one pattern together.
 */
export function findSurrounding(
  paths: readonly string[],
): readonly { readonly index: number; readonly within: number }[] {
  const root = newBranch<number>();
  const patterns = paths.map((path) => decodedSegmentsOf(path));
  for (const [index, segments] of patterns.entries()) plant(root, segments, index);
  return patterns.flatMap((segments, index) =>
    surrounding(root, segments, true)
      .map((within) => ({ index, within }))
      .toArray(),
  );
}

/** @param isSame whether the pattern itself lies below this branch: then what is as specific here is not yet decided */
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
    // Until they differ, what has a literal here is more specific.
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

/** What is wrong with a pattern, as the end of a sentence that starts with its name; null when it is sound. */
export function faultOfPattern(path: string): string | null {
  if (!path.startsWith('/')) return 'must start with `/`';
  if (path.length > 1024) return 'must not be longer than 1024 characters';
  const segments = path.slice(1).split('/');
  const names = new Set<string>();
  for (const [i, segment] of segments.entries()) {
    const last = i === segments.length - 1;
    const fault = faultOfSegment(segment, last);
    if (fault !== null) return fault;
    if (segment.startsWith('{') && names.has(segment))
      return `uses the name ${segment} twice; each name must be used once`;
    names.add(segment);
  }
  return null;
}

// Braces must be whole segments: `/a{b}` would look like a pattern and match nothing but itself.
const NAME = /^\{[A-Za-z_][A-Za-z0-9_]{0,63}\}$/;
// One segment as many routers and frameworks write it.
const COLON = /^:[A-Za-z_][A-Za-z0-9_]{0,63}/;
// pchar of RFC 3986 section 3.3 without `*`, which is kept for `/**`.
const LITERAL = /^(?:[A-Za-z0-9._~!$&'()+,;=:@-]|%[0-9A-Fa-f]{2})*$/;
/** Encodings of characters that the path of a request may also have as they are: all that are visible, such as %61 and %40. */
const ENCODED_NEEDLESSLY = /%(?:2[1-9a-f]|[3-6][0-9a-f]|7[0-9a-e])/i;
const DOTS = /^(?:\.|%2e){1,2}$/i;

function faultOfSegment(segment: string, last: boolean): string | null {
  if (segment === '**')
    return last ? null : 'has `**` in the middle; it may only be the last segment, as in `/files/**`';
  if (segment.includes('*')) return 'has a `*` that is not a last segment `/**`; one segment is written `{name}`';
  if (NAME.test(segment)) return null;
  const colon = COLON.exec(segment)?.[0].slice(1);
  if (colon !== undefined) return `has \`:${colon}\`, which matches only itself; one segment is written \`{${colon}}\``;
  if (/[{}]/.test(segment)) return 'has braces that are not a whole segment `{name}` of letters, digits and `_`';
  if (segment === '' && !last) return 'has an empty segment `//`';
  if (DOTS.test(segment)) return 'has a `.` or `..` segment, which no request can have when it is routed';
  if (!LITERAL.test(segment)) return 'has a character that no path can have; percent-encode it as the client sends it';
  return null;
}

/** @param shapes the patterns before it by their shape; it is added to them */
function assertSound(path: string, shapes: Map<string, string>): void {
  const fault = faultOfPattern(path);
  if (fault !== null) throw new Failure('bad_settings', `The route ${JSON.stringify(path)} ${fault}.`);
  const shape = shapeOf(path);
  const other = shapes.get(shape);
  if (other !== undefined) {
    throw new Failure('bad_settings', `The routes ${other} and ${path} match the same paths. Remove one of them.`);
  }
  shapes.set(shape, path);
}

function segmentsOf(pattern: string): readonly Segment[] {
  return pattern
    .slice(1)
    .split('/')
    .map((text) => (text === '**' ? 'rest' : text.startsWith('{') ? 'name' : { literal: text }));
}

function decodedSegmentsOf(pattern: string): readonly Segment[] {
  return segmentsOf(pattern).map((segment) => (isLiteral(segment) ? { literal: decode(segment.literal) } : segment));
}

function isLiteral(segment: Segment): segment is { readonly literal: string } {
  return typeof segment === 'object';
}

/** Decodes every percent-encoding once, byte by byte: whether the bytes are UTF-8 is not for the router to say. */
function decode(segment: string): string {
  if (!segment.includes('%')) return segment;
  return segment.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function newBranch<T>(): Branch<T> {
  return { literals: new Map(), name: null, here: null, rest: null };
}

/** Adds a pattern below `root`. @returns how many segments a path needs to be cut into for it */
function plant<T>(root: Branch<T>, segments: readonly Segment[], value: T): number {
  let branch = root;
  for (const [i, segment] of segments.entries()) {
    if (segment === 'rest') {
      branch.rest = value;
      return i;
    }
    let next = isLiteral(segment) ? branch.literals.get(segment.literal) : branch.name;
    if (!next) {
      next = newBranch();
      if (isLiteral(segment)) branch.literals.set(segment.literal, next);
      else branch.name = next;
    }
    branch = next;
  }
  branch.here = value;
  return segments.length;
}

interface Cut {
  readonly segments: readonly string[];
  /** False when more segments follow. */
  readonly whole: boolean;
}

/** The first `most` segments of a path. What lies behind them is never looked at. */
function cut(path: string, most: number): Cut {
  const segments: string[] = [];
  let from = 1;
  while (segments.length < most) {
    const end = path.indexOf('/', from);
    segments.push(end === -1 ? path.slice(from) : path.slice(from, end));
    if (end === -1) return { segments, whole: true };
    from = end + 1;
  }
  return { segments, whole: false };
}

function search(branch: Branch<Match>, path: Cut, at: number): Match | null {
  const segment = path.segments[at];
  if (segment === undefined) return path.whole ? branch.here : branch.rest;
  const literal = branch.literals.get(segment);
  const found = literal === undefined ? null : search(literal, path, at + 1);
  if (found !== null) return found;
  const named = branch.name === null || segment === '' ? null : search(branch.name, path, at + 1);
  return named ?? branch.rest;
}
