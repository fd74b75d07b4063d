import { faultOfPath } from '../http1/request-line.ts';
import { faultOfPattern } from './pattern.ts';

/**
 * How the path of a request is rewritten, for the service (`rewrite`) or in a Location (`redirect`). It is made when
 * the settings are read. Plain data, because settings are read in another thread.
 */
export interface PathTemplate {
  /** As a pattern, with the names and the `**` of the route's pattern: `/shop/{shop}/**`. */
  readonly pattern: string;
  /** How many segments are split off the path. The remainder is its rest. */
  readonly depth: number;
  /** Texts, and the index of each segment that is copied. */
  readonly parts: readonly (string | number)[];
  /** Whether the rest of the path, which `**` matched, follows the parts. */
  readonly keepsRest: boolean;
}

/** `rewrite` in gateway.yaml: either a path, or prefixes to remove and to add. */
export interface PathChange {
  readonly stripPrefix?: string | undefined;
  readonly addPrefix?: string | undefined;
  readonly path?: string | undefined;
  /** Whether Location and the cookies of the service are rewritten. */
  readonly location?: boolean | undefined;
}

/** What is wrong with a change for this route, as the end of a sentence that starts with the name of its part; else null. */
export function faultOfChange(
  pattern: string,
  change: PathChange,
): { readonly part: keyof PathChange; readonly message: string } | null {
  const { stripPrefix, addPrefix, path, location } = change;
  if (path !== undefined && location === true) {
    return { part: 'location', message: 'cannot be beside `path`, only beside `stripPrefix` and `addPrefix`' };
  }
  if (path !== undefined) {
    if (stripPrefix !== undefined) return { part: 'stripPrefix', message: 'cannot be beside `path`; leave one out' };
    if (addPrefix !== undefined) return { part: 'addPrefix', message: 'cannot be beside `path`; leave one out' };
    const message = faultOfTemplate(pattern, path);
    return message === null ? null : { part: 'path', message };
  }
  if (stripPrefix !== undefined && !isPrefix(stripPrefix, pattern)) {
    const message = `must be the beginning of the route's path ${pattern}, in whole segments and without a slash at its end`;
    return { part: 'stripPrefix', message };
  }
  if (addPrefix === undefined) return null;
  if (/[*{}]/.test(addPrefix) || addPrefix.endsWith('/') || faultOfPattern(addPrefix) !== null) {
    return { part: 'addPrefix', message: 'must be a path such as /internal, without `{name}` and a slash at its end' };
  }
  const message = faultOfTemplate(pattern, patternAfter(pattern, change));
  return message === null ? null : { part: 'addPrefix', message };
}

/** Whether a text is the beginning of a pattern, in whole segments, without its `**`. */
function isPrefix(prefix: string, pattern: string): boolean {
  if (prefix.length < 2 || prefix.endsWith('/') || prefix.endsWith('/**')) return false;
  return pattern === prefix || pattern.startsWith(`${prefix}/`);
}

/**
 * What is wrong with a template for paths that match this pattern, as the end of a sentence; else null.
 *
 * Attack: a path that the gateway would have refused reaches the service, because the gateway itself wrote it: with
 * `..`, `//`, `%2f` or a control character. A path is made of nothing but the template's own text and whole segments
 * of the client's path, which were checked when they arrived and are copied as they were sent. So it is enough that
 * the text alone is a path that would be accepted; no segment can end up empty, and none can be joined with text.
 */
export function faultOfTemplate(pattern: string, template: string): string | null {
  const fault = faultOfPattern(template) ?? faultOfText(template);
  if (fault !== null) return fault;
  const known = segmentsOf(pattern);
  for (const segment of segmentsOf(template)) {
    if (segment === '**' && known.at(-1) !== '**') return `has \`**\`, which the route's path ${pattern} has not`;
    if (segment.startsWith('{') && !known.includes(segment)) {
      return `has ${segment}, which is no segment of the route's path ${pattern}`;
    }
  }
  return null;
}

function faultOfText(template: string): string | null {
  const fault = faultOfPath(template);
  return fault === null ? null : `can never be served: ${fault.replace(/\.$/, '')}`;
}

/** The pattern of the paths that a change makes. */
export function patternAfter(pattern: string, { stripPrefix = '', addPrefix = '', path }: PathChange): string {
  return path ?? (`${addPrefix}${pattern.slice(stripPrefix.length)}` || '/');
}

/** @param template without a fault (`faultOfTemplate`) */
export function pathTemplateOf(pattern: string, template: string): PathTemplate {
  const known = segmentsOf(pattern);
  const parts: (string | number)[] = [];
  let text = '';
  for (const segment of segmentsOf(template)) {
    text += '/';
    if (segment === '**') break;
    if (segment.startsWith('{')) {
      parts.push(text, known.indexOf(segment));
      text = '';
    } else text += segment;
  }
  parts.push(text);
  const depth = known.at(-1) === '**' ? known.length - 1 : known.length;
  return { pattern: template, depth, parts, keepsRest: template.endsWith('/**') };
}

/**
 * Writes a path by a template. Segments and rest are copied as the client sent them; nothing is decoded or encoded.
 * @param path without a query; it has matched the pattern that the template was made for
 */
export function writePath({ depth, parts, keepsRest }: PathTemplate, path: string): string {
  const segments: string[] = [];
  let from = 1;
  while (segments.length < depth) {
    const slash = path.indexOf('/', from);
    const end = slash === -1 ? path.length : slash;
    segments.push(path.slice(from, end));
    from = end + 1;
  }
  let written = '';
  for (const part of parts) written += typeof part === 'string' ? part : segments[part]!;
  if (!keepsRest) return written;
  // `/x` has matched `/x/**`, so nothing follows, not even a slash.
  if (from > path.length && written.length > 1) return written.slice(0, -1);
  return written + path.slice(from);
}

function segmentsOf(pattern: string): readonly string[] {
  return pattern.slice(1).split('/');
}
