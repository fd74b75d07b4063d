import { plainSegment } from './pattern.ts';
import type { Branch } from './pattern-tree.ts';
import type { PassedForm } from './route.ts';

/*
 * Odd paths: those with encoded slashes, dot segments or empty segments, which a route may pass as they were sent (`encodedSlashes`,
 * `dotSegments`, `emptySegments`).
 *
 * Attack: a route passes `/files/a%2F..%2F..%2Fadmin`, `/files//admin` or `/files/admin%2Fx`, and the service, or a proxy on the way, reads it as
 * a path of a route with other rules. Some decode `%2F` and some do not, some drop empty segments, and some resolve `..`
 * before they decode and some after. So the path has many readings, of which none may be a path of another route.
 */

/** What stands between two separators of an odd path. */
interface Part {
  /** In its plainest form (pattern.ts). */
  readonly plain: string;
  readonly kind: 'text' | 'empty' | 'dot' | 'up';
  /** Whether it has no character at all. */
  readonly isBlank: boolean;
  /** Whether an encoded slash or backslash follows, which only some services read as a separator. */
  readonly continues: boolean;
  /** Whether it has path parameters, which some services drop with all that follows before the next slash. */
  readonly hasParameters: boolean;
}

/** The parts of an odd path, by its segments as it was sent. */
export type OddParts = readonly (readonly Part[])[];

const ENCODED_SEPARATOR = /%2f|%5c/i;

/** @param path without its query, valid but for being odd */
export function oddPartsOf(path: string): OddParts {
  return path
    .slice(1)
    .split('/')
    .map((segment) => {
      const texts = segment.split(ENCODED_SEPARATOR);
      return texts.map((text, i) => partOf(text, i < texts.length - 1));
    });
}

function partOf(text: string, continues: boolean): Part {
  const plain = plainSegment(text);
  const name = plain.trim();
  const kind = name === '' ? 'empty' : name === '.' ? 'dot' : name === '..' ? 'up' : 'text';
  return { plain, kind, isBlank: text === '', continues, hasParameters: /;|%3b/i.test(text) };
}

const WHAT: Readonly<Record<PassedForm, string>> = {
  encodedSlashes: 'an encoded slash or backslash',
  dotSegments: 'a segment `.` or `..`',
  emptySegments: 'an empty segment, or one of nothing but blanks or path parameters (`;…`)',
};

/**
 * Why a route that passes some odd paths does not pass this one, as a sentence; null if it does.
 * @param passes the forms that the route passes @param depth how many segments of its pattern come before its `/**`, which
 *   alone may match what is odd @param unnamed the sentence for a path in which nothing odd is found
 */
export function faultOfParts(
  passes: readonly PassedForm[],
  depth: number,
  parts: OddParts,
  unnamed: string,
): string | null {
  const forms = new Set<PassedForm>();
  for (const [i, segment] of parts.entries()) {
    const found = formsOf(segment, i === parts.length - 1);
    if (i < depth && found.length > 0)
      return `The path must not have ${WHAT[found[0]!]} before the part that the \`/**\` of its route matches.`;
    for (const form of found) forms.add(form);
  }
  const refused = forms.values().find((form) => !passes.includes(form));
  if (refused !== undefined) return `The path has ${WHAT[refused]}, which its route does not pass (\`${refused}\`).`;
  if (climbs(parts.slice(depth))) return 'The path has a `..` that may lead out of its route.';
  return forms.size > 0 ? null : unnamed;
}

/** @param isLast whether nothing follows, so that an empty segment is a slash at the end */
function formsOf(segment: readonly Part[], isLast: boolean): readonly PassedForm[] {
  const forms: PassedForm[] = [];
  const [{ kind, isBlank }] = segment as [Part];
  if (segment.length > 1) forms.push('encodedSlashes');
  else if (kind === 'empty' && !(isBlank && isLast)) forms.push('emptySegments');
  if (segment.some(({ kind }) => kind === 'dot' || kind === 'up')) forms.push('dotSegments');
  return forms;
}

/** Whether `..` may lead out of these segments. Each reading goes at least as deep as `depth` says. */
function climbs(parts: OddParts): boolean {
  let depth = 0;
  for (const segment of parts) {
    const ups = segment.filter(({ kind }) => kind === 'up').length;
    if (ups > 0) depth -= ups;
    // A segment that begins with a name is at least that name, whether its slashes are decoded and its parameters dropped or not.
    else if (segment[0]!.kind === 'text') depth++;
    if (depth < 0) return true;
  }
  return false;
}

/**
 * The values of all patterns that match some reading of an odd path, and of some that do not. If it has `..`, those are all. The time
 * that this takes grows with the path, and not with the number of its readings.
 * @param root of patterns in their plainest form
 */
export function* readableAs<T>(root: Branch<T>, parts: OddParts): Generator<T> {
  const all = parts.flat();
  if (all.some(({ kind }) => kind === 'up')) {
    yield* valuesOf(root);
    return;
  }
  /** Where readings are after the parts so far. */
  let at = new Set([root]);
  /** Where readings are that take an encoded slash for a part of the segment. */
  let within = new Set<Branch<T>>();
  for (const part of all) {
    const [ended, open]: [Set<Branch<T>>, Set<Branch<T>>] = [new Set(), new Set()];
    for (const branch of at) {
      if (branch.rest !== null) yield branch.rest;
      const literal = branch.literals.get(part.plain);
      if (literal !== undefined) ended.add(literal);
      // A service drops it, or leaves a slash at the end: RFC 3986 section 5.2.4 makes `/x/` of `/x/.`.
      if (part.kind !== 'text') ended.add(branch).add(branch.literals.get('') ?? branch);
      if (branch.name !== null) open.add(branch.name);
      if (branch.name !== null && !part.isBlank) ended.add(branch.name);
    }
    const next = ended.union(within);
    within = part.continues ? (part.hasParameters ? next : open.union(within)) : new Set();
    if (next.size === 0 && within.size === 0) return;
    at = next;
  }
  for (const { here } of at) if (here !== null) yield here;
}

function* valuesOf<T>(branch: Branch<T>): Generator<T> {
  if (branch.here !== null) yield branch.here;
  if (branch.rest !== null) yield branch.rest;
  for (const next of branch.literals.values()) yield* valuesOf(next);
  if (branch.name !== null) yield* valuesOf(branch.name);
}
