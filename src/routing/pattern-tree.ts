import { plainSegment } from './pattern.ts';

// Patterns as a tree, in which each takes one branch for each of its segments.

/** A segment of a pattern: a literal, `{name}`, or a last `**`. */
export type Segment = { readonly literal: string } | 'name' | 'rest';

/** A node of the tree of patterns. A path takes one branch for each of its segments. */
export interface Branch<T> {
  readonly literals: Map<string, Branch<T>>;
  name: Branch<T> | null;
  /** The value of the pattern that ends here. */
  here: T | null;
  /** The value of the pattern that continues with `**`. */
  rest: T | null;
}

export function segmentsOf(pattern: string): readonly Segment[] {
  return pattern
    .slice(1)
    .split('/')
    .map((text) => (text === '**' ? 'rest' : text.startsWith('{') ? 'name' : { literal: text }));
}

/** The same with literals in their plainest form. */
export function plainSegmentsOf(pattern: string): readonly Segment[] {
  return segmentsOf(pattern).map((segment) =>
    isLiteral(segment) ? { literal: plainSegment(segment.literal) } : segment,
  );
}

export function isLiteral(segment: Segment): segment is { readonly literal: string } {
  return typeof segment === 'object';
}

export function newBranch<T>(): Branch<T> {
  return { literals: new Map(), name: null, here: null, rest: null };
}

/** Adds a pattern below `root`. @returns into how many segments a path must be split to match it */
export function plant<T>(root: Branch<T>, segments: readonly Segment[], value: T): number {
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
