import { type ComparedFields, FieldComparison, foldedFields } from '../http1/field-conditions.ts';
import type { Head } from '../http1/request-head.ts';
import { faultOfPath } from '../http1/request-line.ts';
import { IN_ONE_READING, type PlanGroup } from '../model/plan.ts';
import { oddPartsOf, readableAs } from './odd-path.ts';
import { mayBeReadOtherwise, plainPath, plainSegment } from './pattern.ts';
import { type Branch, newBranch, plainSegmentsOf, plant } from './pattern-tree.ts';

/*
 * Which groups of routes a request belongs to (`groups` in plans.yaml). A group is a list of patterns, as those of routes;
 * several groups may match one request.
 */

/** One entry of a group: `/v1/search/**`, or with methods in front, `POST,PUT /v1/orders`. */
interface GroupRoute {
  /** Null: every method. */
  readonly methods: readonly string[] | null;
  readonly path: string;
}

const METHODS = /^([A-Z]+(?:,[A-Z]+)*) (.*)$/s;

/** Parses an entry. Its path may be malformed (`faultOfPattern`). GET brings HEAD, as in routes. */
export function groupRouteOf(text: string): GroupRoute {
  const [, methods, path] = METHODS.exec(text) ?? [];
  if (methods === undefined) return { methods: null, path: text };
  const all = methods.split(',');
  return { methods: all.includes('GET') ? [...all, 'HEAD'] : all, path: path! };
}

/**
 * A pattern, perhaps with methods, as two of them are compared: its segments as they are sent, and in their plainest form. A name is
 * `{}`, and a literal segment begins with `=`.
 */
interface Readings {
  readonly methods: readonly string[] | null;
  readonly asSent: readonly string[];
  readonly plain: readonly string[];
}

/** @param text an entry of a group, or a route as one */
export function readingsOf(text: string): Readings {
  const { methods, path } = groupRouteOf(text);
  const segments = path.split('/');
  const readBy = (read: Reading) =>
    segments.map((segment) => (segment === '**' ? segment : isName(segment) ? '{}' : `=${read(segment)}`));
  return { methods, asSent: readBy(asSent), plain: readBy(plainSegment) };
}

/** Whether some request of a route belongs to a group. @param text as of `readingsOf` */
export function mayHold({ routes }: GroupMembers, text: string): boolean {
  const read = readingsOf(text);
  return routes.some((route) => isCommon(readingsOf(route), read));
}

/** Whether some request belongs to both. */
export function isCommon(one: Readings, other: Readings): boolean {
  const { methods } = one;
  if (methods !== null && !(other.methods ?? methods).some((method) => methods.includes(method))) return false;
  return isCommonPath(one.asSent, other.asSent) || isCommonPath(one.plain, other.plain);
}

function isCommonPath(a: readonly string[], b: readonly string[]): boolean {
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i]!, b[i]];
    if (y === undefined) return false;
    if (x === '**' || y === '**') return true;
    if (!(x === '{}' && y !== '=') && !(y === '{}' && x !== '=') && x !== y) return false;
  }
  return a.length === b.length;
}

function isName(segment: string): boolean {
  return segment.startsWith('{');
}

type GroupMembers = Pick<PlanGroup, 'routes' | 'when'>;
/** A request, as far as it decides to which groups it belongs. Without header fields, as a recorded one is, it is in no group with `when`. */
export type GroupedRequest = Pick<Head, 'method' | 'path'> &
  Partial<ComparedFields> & {
    /** Whether `/x/**` has matched the path as `/x`: it is then in the groups of that pattern as well. */
    readonly isBare?: boolean;
  };

/** `when` of each group. */
type Conditions = readonly PlanGroup['when'][];

/** How the literal segments of a pattern are read. Its names and its `**` are those of its own text. */
type Reading = (segment: string) => string;
const asSent: Reading = (segment) => segment;

interface CompiledRoute {
  readonly methods: ReadonlySet<string> | null;
  readonly asSent: RegExp;
  readonly plain: RegExp;
  /** The pattern in its plainest form. */
  readonly tree: Branch<true>;
}

/**
 * Finds the groups of a request.
 *
 * Attack: `/v1/%73earch/x`, `/v1/search;a=1/x` or `/v1/Search/x` is `/v1/search/x` for many services. So a path that may be read
 * otherwise is compared twice, as it was sent, and in its plainest form (pattern.ts). It belongs to the groups of both readings,
 * and where the two differ, no group replaces the limits of the plan: a client can only add budgets to its request. An odd path
 * (odd-path.ts) has more readings, and belongs to the groups of all.
 */
export class PathGroups {
  readonly #groups: readonly (readonly CompiledRoute[])[];
  /** Whether a pattern is not in its plainest form itself, so that a path that is has two readings as well. */
  readonly #comparesAllTwice: boolean;
  /** What fields must be, by group; null if no group has `when`. */
  readonly #conditions: Conditions | null;

  /** @param groups at most `MAX_GROUPS` */
  constructor(groups: readonly GroupMembers[]) {
    const routes = groups.map((group) => group.routes.map(groupRouteOf));
    this.#conditions = groups.some(({ when }) => when !== undefined) ? groups.map(({ when }) => when) : null;
    this.#groups = routes.map((ofGroup) => ofGroup.map(compiled));
    const segments = routes.flat().flatMap(({ path }) => path.split('/'));
    this.#comparesAllTwice = segments.some((segment) => !isName(segment) && plainSegment(segment) !== segment);
  }

  /** The groups of a request: bit `i` is set for the group at index `i`, and `IN_ONE_READING` where two readings differ. */
  matching(request: GroupedRequest): number {
    const { path, method, isBare } = request;
    const asSent = this.#inReadings(path, method);
    const found = isBare === true ? asSent | this.#inReadings(`${path}/`, method) : asSent;
    return this.#conditions === null || found === 0 ? found : this.#withFields(found, this.#conditions, request);
  }

  /**
   * Attack: a field has two values, one of which is that of a group, and the service takes either. Such a request is in the group, and no
   * group replaces the limits of the plan. So is one with `Mcp_Name`, which a service may read as the Mcp-Name of a group.
   */
  #withFields(found: number, conditions: Conditions, { fields, connectionNames }: GroupedRequest): number {
    const isKnown = fields !== undefined && connectionNames !== undefined;
    const readings = isKnown ? [{ fields, connectionNames }, foldedFields({ fields, connectionNames })] : [];
    const comparisons = readings.filter((one) => one !== null).map((one) => new FieldComparison(one));
    let left = found;
    for (const [i, when] of conditions.entries()) {
      if (when === undefined || (found & (1 << i)) === 0) continue;
      const outcomes = comparisons.map((comparison) => comparison.check(when).kind);
      if (outcomes.every((outcome) => outcome === 'fails')) left &= ~(1 << i);
      else if (outcomes.some((outcome) => outcome !== 'holds')) left |= IN_ONE_READING;
    }
    return left;
  }

  #inReadings(path: string, method: string): number {
    const found = this.#matching('asSent', path, method);
    if (!this.#comparesAllTwice && !mayBeReadOtherwise(path)) return found;
    const foundPlain =
      faultOfPath(path) === null ? this.#matching('plain', plainPath(path), method) : this.#readableAs(path, method);
    return found === foundPlain ? found : found | foundPlain | IN_ONE_READING;
  }

  #matching(reading: 'asSent' | 'plain', path: string, method: string): number {
    return this.#having(method, (route) => route[reading].test(path));
  }

  #readableAs(path: string, method: string): number {
    const parts = oddPartsOf(path);
    return this.#having(method, ({ tree }) => readableAs(tree, parts).some(() => true));
  }

  #having(method: string, matches: (route: CompiledRoute) => boolean): number {
    let found = 0;
    for (let i = 0; i < this.#groups.length; i++) {
      const isIn = (route: CompiledRoute) => (route.methods === null || route.methods.has(method)) && matches(route);
      if (this.#groups[i]!.some(isIn)) found |= 1 << i;
    }
    return found;
  }
}

function compiled({ methods, path }: GroupRoute): CompiledRoute {
  return {
    methods: methods === null ? null : new Set(methods),
    asSent: expressionOf(path, asSent),
    plain: expressionOf(path, plainSegment),
    tree: treeOf(path),
  };
}

function treeOf(path: string): Branch<true> {
  const root = newBranch<true>();
  plant(root, plainSegmentsOf(path), true);
  return root;
}

/** No expression can backtrack: a slash, which no segment contains, ends each part. */
function expressionOf(path: string, read: Reading): RegExp {
  const parts = path.split('/').map((segment) => {
    if (segment === '**') return '.*';
    return isName(segment) ? '[^/]+' : RegExp.escape(read(segment));
  });
  return new RegExp(`^${parts.join('/')}$`, 's');
}
